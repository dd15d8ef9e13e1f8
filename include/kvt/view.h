/* view.h - arrays with named axes.
 *
 * One letter names each axis, outermost first, the same letters in code, comments, messages and
 * in the trace file's "axes" attribute; traces/axes.def is the list. */
#ifndef KVT_VIEW_H
#define KVT_VIEW_H

#include "kvt/err.h"

enum { KVT_RANK_MAX = 5 };

typedef enum kvt_dtype {
    KVT_F32,
    KVT_F16,
    KVT_BF16,
    KVT_I64,
    KVT_I32,
    KVT_U8,
    KVT_F64
} kvt_dtype;
typedef enum kvt_place { KVT_HOST, KVT_CUDA } kvt_place;

/* A borrowed, read-only, strided array. It never owns `data`. */
typedef struct kvt_view {
    const void *data;
    kvt_dtype dtype;
    kvt_place place;
    int rank;
    int64_t dim[KVT_RANK_MAX];
    int64_t stride[KVT_RANK_MAX]; /* in elements, not bytes */
    char axes[KVT_RANK_MAX + 1];
} kvt_view;

/* Axis names and extents as one argument: KVT_SHAPE("QT", n_query, n_token). */
/* clang-format off */
#define KVT_SHAPE(axes, ...)                                    \
    (axes), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
        (const int64_t[]){__VA_ARGS__}
/* clang-format on */

/* A contiguous view of host memory. */
KVT_API kvt_view kvt_view_of(const void *data, kvt_dtype dtype, const char *axes, size_t rank,
                             const int64_t *dim);

/* The shape contract of a public function, checked where it is entered. An extent of -1 matches
 * any. Fails with FORMAT and a text such as
 *   "attn: expected f32 [Q=64 T=4096], got f16 [Q=64 T=4095]". */
KVT_API KVT_CHECKED kvt_code kvt_view_expect(const kvt_view *v, const char *name,
                                             kvt_dtype dtype, const char *axes, size_t rank,
                                             const int64_t *dim, kvt_err *err);

/* "f32 [Q=64 T=4096]" into `out`, always terminated; returns `out`. */
KVT_API const char *kvt_view_print(const kvt_view *v, char *out, size_t cap);

/* The part at `index` of the outermost axis, that axis gone. */
KVT_API kvt_view kvt_view_at(const kvt_view *v, int64_t index);

KVT_API int64_t kvt_view_count(const kvt_view *v);   /* elements */
KVT_API size_t kvt_dtype_size(kvt_dtype dtype);      /* bytes */
KVT_API const char *kvt_dtype_name(kvt_dtype dtype); /* "f16" */

#endif
