/* scorer.h - files of learned weights and tables (HDF5, docs/scorer-format.md): what `kvt
 * train` writes, what a policy with weights=FILE reads, and what another program may hand in.
 *
 *   kvt_scorer *s;
 *   kvt_scorer_open(&s, "pop.h5", &err);        whole, checksums compared, NaN refused
 *   kvt_view w;
 *   kvt_scorer_tensor(s, "in/weight", &w, &err);  f32 [L G K W]
 *   kvt_scorer_close(s);
 *
 * One form for all: the root has format `kvt-scorer`, version, complete, digest, kind, the
 * model it belongs to and how it was made; /layer/id says which layers of the model its axis L
 * counts; every other dataset is a tensor with axes, help and xxh64. */
#ifndef KVT_SCORER_H
#define KVT_SCORER_H

#include "kvt/trace.h"

typedef struct kvt_scorer_info {
    char path[1024];
    char kind[32];                        /* "kvpop", "kvpop-mlp", "kvzap", "qfilters", ... */
    char digest[KVT_DIGEST_TEXT];         /* of the content; set by the writer */
    char weights_digest[KVT_DIGEST_TEXT]; /* of the model, as in its traces: kvt_model_id */
    char model[64];
    int64_t n_head, n_kv_head, head_dim, n_hidden, model_layers;
    int n_layer;
    int32_t layer_id[KVT_LAYERS_MAX];
    char recipe[4096]; /* how it was made, JSON: trainer, parameters, seed, sources, losses */
    char writer[64], created[32]; /* outside the digest */
} kvt_scorer_info;

KVT_API kvt_model_id kvt_scorer_model(const kvt_scorer_info *s);

/* One tensor. axes: letters of traces/axes.def, outermost first; "" is one number. */
typedef struct kvt_scorer_tensor {
    char name[64]; /* "in/weight" */
    char help[128];
    kvt_view view; /* f32 */
    bool half;     /* stored as f16 */
} kvt_scorer_tensor;

typedef struct kvt_scorer kvt_scorer;

/* NOTFOUND, FORMAT. */
KVT_API KVT_CHECKED kvt_code kvt_scorer_open(kvt_scorer **out, const char *path, kvt_err *err);
KVT_API void kvt_scorer_close(kvt_scorer *s); /* NULL is fine */
KVT_API const kvt_scorer_info *kvt_scorer_info_of(const kvt_scorer *s);
KVT_API int kvt_scorer_count(const kvt_scorer *s);
KVT_API const kvt_scorer_tensor *kvt_scorer_at(const kvt_scorer *s, int i);
/* By name; the view is borrowed until close. NOTFOUND names the file, the kind and the tensor.
 */
KVT_API KVT_CHECKED kvt_code kvt_scorer_find(const kvt_scorer *s, const char *name,
                                             kvt_view *out, kvt_err *err);
/* Index of a layer of the model on the axis L, or -1. */
KVT_API int kvt_scorer_layer(const kvt_scorer *s, int model_layer);

/* Under a temporary name, read back, renamed. FORMAT: NaN, a shape that contradicts info. */
KVT_API KVT_CHECKED kvt_code kvt_scorer_write(const char *path, const kvt_scorer_info *info,
                                              const kvt_scorer_tensor *tensor, int n,
                                              bool force, kvt_err *err);
/* Builds a scorer file from a manifest (JSON: info, and tensor name -> .npy or HDF5 file:/path
 * with axes). */
KVT_API KVT_CHECKED kvt_code kvt_scorer_import(const char *manifest, const char *out,
                                               bool force, kvt_err *err);
/* Whether a file begins like one, without reading it whole. */
KVT_API bool kvt_is_scorer(const char *path);

#endif
