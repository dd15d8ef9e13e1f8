/* trace_priv.h - an open trace: what open.c finds, and the cache that reader.c keeps. */
#ifndef TRACES_TRACE_PRIV_H
#define TRACES_TRACE_PRIV_H

#include <pthread.h>

#include "traces/dataset.h"
#include "traces/h5.h"
#include "traces/probe_priv.h"

/* One decoded slab; its values lie behind it, so that a view leads back to it. */
typedef struct slab {
    uint64_t mark;
    int index, pins;
    bool loading, kept; /* kept: until close */
    size_t bytes;
    struct slab *older, *newer; /* by last use, of those in the cache */
} slab;

enum { SLAB_HEAD = 64 };
#define SLAB_MARK UINT64_C(0x6b76742d736c6162)

typedef struct trace_set {
    hid_t id;
    int rank;
    int64_t dim[KVT_RANK_MAX], n_slab, n_element; /* elements of a slab */
    uint64_t *sum;                                /* XXH64 [n_slab] */
    bool chunked;
} trace_set;

struct kvt_trace {
    kvt_trace_info info;
    hid_t file;
    bool held;
    trace_set set[KVT_DS_COUNT];
    kvt_probe_info probe[TRACE_PROBES_MAX];
    trace_set probe_set[TRACE_PROBES_MAX][KVT_PROBE_SETS]; /* id unused: opened when read */
    int n_probe;

    /* The cache: slot [2 KVT_DS_COUNT slots_per_set], of (dataset, layer, raw or decoded). */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t loaded;
    slab **slot;
    int n_slot, per_set;
    slab *oldest, *newest;
    size_t used, limit;
    const int64_t *offset; /* of token/offset, once asked for; kept */
    const uint8_t *text;
    int64_t n_text;
};

/* On the thread of io.h: opens the file and checks all that can be checked without reading the
 * large datasets. */
KVT_CHECKED kvt_code trace_open_job(void *trace, kvt_err *err);
/* The checks of values that are used as indices: layer ids, offsets, positions, blocks. */
KVT_CHECKED kvt_code trace_check_index(kvt_trace *t, kvt_err *err);
/* One slab as stored, its checksum compared. */
KVT_CHECKED kvt_code trace_load(kvt_trace *t, kvt_ds ds, int layer, void *bytes, kvt_err *err);
KVT_CHECKED kvt_code probes_read(kvt_trace *t, kvt_err *err);
/* The values of its probes that are used as indices. */
KVT_CHECKED kvt_code probes_check_index(kvt_trace *t, kvt_err *err);
/* One slab of a probe's dataset as stored, its checksum compared. */
KVT_CHECKED kvt_code probe_load(kvt_trace *t, int probe, kvt_probe_set set, int layer,
                                void *bytes, kvt_err *err);

#endif
