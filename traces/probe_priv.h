/* probe_priv.h - the datasets of a probe as a table, and what its reader, its writer and the
 * checker share. */
#ifndef TRACES_PROBE_PRIV_H
#define TRACES_PROBE_PRIV_H

#include "traces/dataset.h"
#include "traces/h5.h"

enum { TRACE_PROBES_MAX = 64 };

#define PROBE_LIST "kvt-probe 1" /* what the digest begins with */

const kvt_dataset *probe_dataset_of(kvt_probe_set set);
bool probe_has_layers(kvt_probe_set set);

/* Extents of a dataset for a trace of n_layer layers; returns the rank. */
int probe_dims(const kvt_trace_facts *f, int n_layer, const kvt_probe_info *p,
               kvt_probe_set set, int64_t dim[KVT_RANK_MAX]);
/* Elements of one slab; -1 where that overflows. */
int64_t probe_slab(kvt_probe_set set, int rank, const int64_t *dim);

/* Name, sizes and which sets are there: what holds for every probe, read or to be written. */
KVT_CHECKED kvt_code probe_check(const kvt_trace_facts *f, const kvt_probe_info *p,
                                 kvt_err *err);
/* Values that are used as indices: pos, id, segment, chunk ranges (NULL: not there). */
KVT_CHECKED kvt_code probe_check_index(const kvt_trace_facts *f, const kvt_probe_info *p,
                                       const int32_t *const value[KVT_PROBE_SETS],
                                       kvt_err *err);
bool probe_is_index(kvt_probe_set set);

/* XXH128 over PROBE_LIST, kind, args, source_digest, budget, then for each dataset that is
 * there, in the order of probe_sets.def, its name, type, axes, extents and the XXH128 of each
 * of its slabs (slab [set][n_slab]). The name of the probe is not counted. */
KVT_CHECKED kvt_code probe_digest(char out[KVT_DIGEST_TEXT], const kvt_trace_facts *f,
                                  int n_layer, const kvt_probe_info *p,
                                  char (*const slab[KVT_PROBE_SETS])[KVT_DIGEST_TEXT],
                                  kvt_err *err);

/* On the thread of io.h: the group /probe/NAME with all that it has, into a file that is open
 * for writing. `layer_id` says which layers of the data are stored. */
typedef struct probe_put {
    hid_t file;
    const kvt_trace_facts *facts;
    int n_layer;
    const int32_t *layer_id;
    bool compress;
    bool own_layers; /* the data hold the layers of the trace, not those of the model */
    const kvt_probe_data *data;
} probe_put;
KVT_CHECKED kvt_code probe_put_job(void *put, kvt_err *err);
/* kvt_writer_put_probe() of arrays that hold the layers of the trace. */
KVT_CHECKED kvt_code writer_put_own_probe(kvt_writer *w, const kvt_probe_data *probe,
                                          kvt_err *err);

#endif
