/* npy.h - arrays that another program wrote, as sources of an import: a .npy file, or a dataset
 * of an HDF5 file ("dump.h5:/group/name"). */
#ifndef TRACES_NPY_H
#define TRACES_NPY_H

#include "base/file.h"
#include "kvt/view.h"

/* Strict reader of .npy versions 1 to 3: little-endian, C order, f2 f4 f8 i4 i8 u1. */
typedef struct npy {
    file_map map;
    kvt_dtype dtype;
    int rank;
    int64_t dim[KVT_RANK_MAX];
    const void *data;
} npy;

KVT_CHECKED kvt_code npy_open(npy *out, const char *path, kvt_err *err);
void npy_close(npy *a);
/* Dtype, rank, extents and offset of the values, from the first bytes of a file; for tests and
 * fuzzing, too. */
KVT_CHECKED kvt_code npy_parse(npy *out, size_t *offset, const uint8_t *bytes, size_t n,
                               kvt_err *err);

typedef struct source source;

/* `text` as the manifest has it, relative to `folder`. */
KVT_CHECKED kvt_code source_open(source **out, const char *folder, const char *text,
                                 kvt_err *err);
void source_close(source *s); /* NULL is fine */
int source_shape(const source *s, kvt_dtype *dtype, int64_t dim[KVT_RANK_MAX]); /* its rank */

/* Part `index` of the outermost axis (by_part), or all of it, as `dtype`: reals to halves and
 * floats by our own code, whole numbers with their range checked. `out` has `count` elements.
 */
KVT_CHECKED kvt_code source_read(source *s, void *out, kvt_dtype dtype, bool by_part,
                                 int64_t index, int64_t count, kvt_err *err);

#endif
