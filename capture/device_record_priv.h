/* device_record_priv.h - the memory of what is recorded on a device, shared by device_record.c
 * and device_receive.c. */
#ifndef CAPTURE_DEVICE_RECORD_PRIV_H
#define CAPTURE_DEVICE_RECORD_PRIV_H

#include "capture/device_forward.h"
#include "capture/device_record.h"

/* NORM_VALUES: of W_O v at a time, 16 MiB of f32, which a GPU holds in its second cache. */
enum { RECORD_SLOTS = DEV_SLOTS, NORM_VALUES = 4 << 20 };

/* Of one layer's prompt, on the device and in pinned memory at the same places: X(member, type,
 * number of values). What begins at zero stands in front of lse. */
/* clang-format off */
#define RECORD_STAGE(X)                                                               \
    X(col_sum,   double,   r->H * r->N)                                               \
    X(sum,       double,   s->queries ? r->H * r->D : 0)                              \
    X(magnitude, double,   s->queries ? r->H * r->D / 2 : 0)                          \
    X(col_max,   float,    r->H * r->N)                                               \
    X(lse,       float,    r->H * r->N)                                               \
    X(pivot,     float,    s->queries ? r->H * r->D : 0)                              \
    X(cov,       float,    s->queries ? r->H * r->D * r->D : 0)                       \
    X(norm,      float,    s->norms ? r->N : 0)                                       \
    X(block_sum, uint16_t, s->blocks ? r->H * s->block_prompt * r->T : 0)             \
    X(block_max, uint16_t, s->block_max ? r->H * s->block_prompt * r->T : 0)          \
    X(q,         uint16_t, s->queries ? r->H * s->n_query * r->D : 0)                 \
    X(x,         uint16_t, s->hidden ? r->N * r->E : 0)
#define RECORD_STAGE_KV(X)                                                            \
    X(k,         uint16_t, s->kv ? r->G * r->N * r->D : 0)                            \
    X(v,         uint16_t, s->kv ? r->G * r->N * r->D : 0)

/* What stays on the device: X(member, its name when there is no room, number of values). */
#define RECORD_RESIDENT(X)                                                            \
    X(future_sum, "sums over the response",       lanes * r->N)                       \
    X(future_max, "maxima over the response",     lanes * r->N)                       \
    X(late,       "sums of late queries",         lanes * r->T)                       \
    X(open_sum,   "sums of the open block",       r->spec.blocks ? lanes * r->T : 0)  \
    X(open_max,   "maxima of the open block",     r->spec.block_max ? lanes * r->T : 0) \
    X(late_sum,   "blocks of the response",                                           \
      r->spec.blocks ? lanes * r->spec.block_response * r->T : 0)                     \
    X(late_max,   "maxima of the response's blocks",                                  \
      r->spec.block_max ? lanes * r->spec.block_response * r->T : 0)                  \
    X(late_lse,   "lse of the response",          lanes * r->M)                       \
    X(late_q,     "queries of the response",      r->spec.queries ? lanes * r->M * r->D : 0) \
    X(late_norm,  "norms of the response",        r->spec.norms ? r->spec.n_layer * r->M : 0) \
    X(late_x,     "hidden states of the response",                                    \
      r->spec.hidden ? r->spec.n_layer * r->M * r->E : 0)                             \
    X(ones,       "a row of ones",                r->spec.queries ? r->chunk : 0)     \
    X(centred,    "centred queries",              r->spec.queries ? r->chunk * r->H * r->D : 0) \
    X(product,    "values times W_O",                                                 \
      r->spec.norms ? r->norm_rows * r->E : 0)                        \
    X(l1,         "value norms",                  r->spec.norms ? RECORD_SLOTS * r->H * r->T : 0) \
    X(l2,         "value norms",                  r->spec.norms ? RECORD_SLOTS * r->H * r->T : 0) \
    X(halves,     "halves of keys and values",                                        \
      r->spec.kv && !r->is_half ? RECORD_SLOTS * r->M * r->D : 0)
/* clang-format on */

typedef struct record_slot {
    void *stage, *pinned;
    int layer; /* among those recorded, whose stage is on its way; -1: none */
} record_slot;

struct device_record {
    device_record_spec spec;
    const device_weights *w;
    kvt_device *d;
    const kvt_geometry *g;
    int64_t H, G, D, E, N, T, M;
    int64_t chunk, norm_rows; /* rows of a pass and of W_O v at a time */
    bool is_half;             /* keys and values lie as halves */
    int n_thread;
    int index[KVT_LAYERS_MAX];
#define X(member, type, n) int64_t at_##member;
    RECORD_STAGE(X)
    RECORD_STAGE_KV(X)
#undef X
    int64_t stage_bytes, pinned_bytes;
    record_slot slot[RECORD_SLOTS];
    double *future_sum, *late;
    float *future_max, *open_sum, *open_max, *late_lse, *late_norm;
    uint16_t *late_sum, *late_max, *late_q, *late_x, *halves;
    float *ones, *centred, *product, *l1, *l2;
};

/* Waits for a slot, and puts what came into the host's arrays. */
KVT_CHECKED kvt_code record_receive(device_record *r, record_slot *s, kvt_err *err);

#endif
