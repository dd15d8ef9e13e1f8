/* layout.h - how a dataset lies in a file: extents of a trace to be written, chunks, slabs,
 * dimension scales. On the thread of io.h, but for spec_extents(). */
#ifndef TRACES_LAYOUT_H
#define TRACES_LAYOUT_H

#include "traces/dataset.h"
#include "traces/h5.h"

#define KVT_BLOCK_SCALE                                                  \
    1024.0 /* of attn/block_sum: half floats near 1e-5 would be denormal \
            */

void spec_extents(trace_extents *e, const kvt_writer_spec *spec);

/* Chunk of a dataset: one lane (layer and head) of at most about 1 MiB, never larger than the
 * dataset, never 0. False: empty or small, so contiguous. */
bool layout_chunk(int64_t chunk[KVT_RANK_MAX], const kvt_dataset *d, int rank,
                  const int64_t *dim);

/* A new dataset with axes, unit and help; contiguous, or chunked where `compress`. */
KVT_CHECKED kvt_code layout_create(hid_t *out, hid_t file, const kvt_dataset *d, int rank,
                                   const int64_t *dim, bool compress, kvt_err *err);
/* One slab: layer `layer` of a dataset with layers, else all of it; the file's own type. */
KVT_CHECKED kvt_code layout_write(hid_t set, const kvt_dataset *d, int rank, const int64_t *dim,
                                  int layer, const void *bytes, kvt_err *err);
KVT_CHECKED kvt_code layout_read(hid_t set, const kvt_dataset *d, int rank, const int64_t *dim,
                                 int layer, void *bytes, kvt_err *err);

/* Dimension scales /axis_NAME, one for each axis letter, made when first used. Their extent is
 * what they say: netCDF, xarray and h5py show names of axes by it. */
typedef struct scales {
    hid_t file, scale[26];
} scales;

void scales_init(scales *s);
KVT_CHECKED kvt_code scales_attach_one(scales *s, hid_t set, unsigned at, char letter,
                                       int64_t n, kvt_err *err);
KVT_CHECKED kvt_code scales_attach(scales *s, hid_t set, const char *axes, const int64_t *dim,
                                   kvt_err *err);
KVT_CHECKED kvt_code scales_close(scales *s, kvt_err *err); /* writes what is left of them */

#endif
