/* device_record.h - what a trace keeps of a pass on a device, and its way to the host.
 *
 *   device_record *r;
 *   device_record_new(&r, &spec, &err);             spec.to: arrays of the host
 *   device_forward_spec f = {.record = r, ...};     calls what is below, layer by layer
 *   ... prefill, steps ...
 *   device_record_finish(r, n_token, &err);         all of it is in the host's arrays
 *   device_record_free(r);
 *
 * In a prefill each layer has one of two stages on the device: what is kept of the layer is
 * gathered there, goes to pinned memory beside the kernels of the next layer, and from there to
 * the caller's arrays once the layer behind has been enqueued. What the response adds to stays
 * on the device to the end. Attention rows themselves are not kept: they have their one origin
 * in the stored halves (compute/rows.h). All memory is taken in device_record_new().
 *
 * Needs of ours: base/, compute/, capture/device_weights.c. */
#ifndef CAPTURE_DEVICE_RECORD_H
#define CAPTURE_DEVICE_RECORD_H

#include "capture/device_weights.h"

enum { DEVICE_RECORD_SKIP = 4 }; /* prompt rows that moments leave out, where there are more */

/* Arrays of the host, all layers that are recorded; NULL with what is not wanted. T, N, M: the
 * spec's n_token, n_prompt and their difference; J: block_prompt + block_response. */
typedef struct device_record_arrays {
    float *lse;                      /* f32 [L H T] */
    double *col_sum, *future_sum;    /* f64 [L H N] */
    float *col_max, *future_max;     /* f32 [L H N] */
    double *late;                    /* f64 [L H T] */
    float *open_sum, *open_max;      /* f32 [L H T] */
    uint16_t *block_sum, *block_max; /* f16 [L H J T] */
    uint16_t *k, *v;                 /* f16 [L G T D] */
    uint16_t *q;                     /* f16 [L H Q D], Q: n_query + M */
    float *mean, *cov, *freq;        /* f32 [L H D], [L H D D], [L H D/2] */
    float *norm;                     /* f32 [L T] */
    uint16_t *x;                     /* f16 [L T E] */
    float *l1, *l2;                  /* f32 [L H T] */
} device_record_arrays;

typedef struct device_record_spec {
    const device_weights *weights;
    int n_layer;             /* that are recorded */
    const int32_t *layer_id; /* [n_layer], rising */
    int64_t n_prompt, n_token;
    int64_t n_query; /* last rows of the prompt whose queries are kept */
    int64_t block, block_prompt, block_response, delay; /* capture/future.h */
    float scale;                                        /* of block_sum */
    int n_thread; /* of the host, that put what comes into the arrays; 0: one */
    /* What is kept besides lse, sums by column and what is late. */
    bool blocks, block_max, kv, queries, norms, hidden;
    device_record_arrays to;
} device_record_spec;

typedef struct device_record device_record;

KVT_CHECKED kvt_code device_record_new(device_record **out, const device_record_spec *spec,
                                       kvt_err *err);
void device_record_free(device_record *r); /* NULL is fine */
/* Of device memory, and of pinned memory of the host, that device_record_new() takes. */
int64_t device_record_bytes(const device_record_spec *spec, int64_t *pinned);

/* ---- for the forward pass: rows pos .. pos + n of a layer, all of the prompt or all behind
 * it. Each does nothing for a layer that is not recorded.
 */

bool device_record_wants(const device_record *r, int layer);
/* Before a layer of a pass, and when all of its rows are enqueued; device_record_flush() when
 * the last layer's are. k, v: the layer's cache [G cap D]. */
KVT_CHECKED kvt_code device_record_begin(device_record *r, int layer, int64_t pos,
                                         kvt_err *err);
KVT_CHECKED kvt_code device_record_end(device_record *r, int layer, int64_t pos, const void *k,
                                       const void *v, int64_t cap, kvt_err *err);
KVT_CHECKED kvt_code device_record_flush(device_record *r, kvt_err *err);
/* Where rmsnorm puts the lengths, f32 [n], and softmax the lse, row r of head h at h * *ld + r;
 * NULL: nowhere. */
float *device_record_lengths(device_record *r, int layer, int64_t pos);
float *device_record_lse(device_record *r, int layer, int64_t pos, int64_t *ld);
/* y typed [n E], what the projections read. */
KVT_CHECKED kvt_code device_record_hidden(device_record *r, int layer, int64_t pos, int64_t n,
                                          const void *y, kvt_err *err);
/* q f32 [n H D] before the rotation; table: its row pos. */
KVT_CHECKED kvt_code device_record_queries(device_record *r, int layer, int64_t pos, int64_t n,
                                           float *q, const float *table, kvt_err *err);
/* Rows as softmax left them; only p, ld, n_row, pos, first and n_key of `rows` are read. */
KVT_CHECKED kvt_code device_record_rows(device_record *r, int layer,
                                        const dev_record_args *rows, kvt_err *err);

/* The end: what is still on the device goes to the host, and value norms are made. k, v: caches
 * [L G cap D] of all layers of the model; n_token: tokens that ran; copy: room of `widest`
 * values for matrices of another type. */
KVT_CHECKED kvt_code device_record_finish(device_record *r, const void *k, const void *v,
                                          int64_t cap, int64_t n_token, void *copy,
                                          kvt_err *err);

#endif
