/* forward_priv.h - the state that prefill.c and decode.c share. */
#ifndef CAPTURE_FORWARD_PRIV_H
#define CAPTURE_FORWARD_PRIV_H

#include <stdatomic.h>

#include "capture/forward.h"
#include "capture/forward_grid.h"
#include "capture/steps.h"
#include "compute/backend.h"

struct forward {
    const kvt_weights *w;
    const kvt_geometry *g;
    const kvt_backend *b;
    const tap *tap; /* never NULL */
    const kvt_ctx *ctx;
    int64_t cap, rows, length, tile;
    int n_thread;
    float *k, *v;   /* f32 [L G cap D] */
    float *x;       /* f32 [rows E] the residual */
    float *q, *o;   /* f32 [rows H D]; q before RoPE */
    float *table;   /* f32 [cap D] cosines and sines */
    float *local;   /* the same of layers with the local base; NULL: there are none */
    float *decoded; /* f32: the matrices of a round of prefill, where they are not f32 */
    float *logit;   /* f32 [V] */
    float *many;    /* f32 [FORWARD_LOGIT_ROWS V] of forward_force, taken when needed */
    float *part;    /* f32 [H chunks D] of decode */
    float *scratch; /* f32 [n_thread stride] */
    int64_t stride;
    atomic_bool stopped;
    device_forward *device; /* runs everything; NULL: the processor does */
    bool top_only;
    const char *doing; /* for progress */
    int64_t done, total;
};

static inline float *forward_own(const forward *f, int thread)
{
    return f->scratch + thread * f->stride;
}

/* Row `pos` of the rotation of a layer, f32 [D]. */
static inline const float *forward_table(const forward *f, int layer, int64_t pos)
{
    return (kvt_geometry_is_local(f->g, layer) ? f->local : f->table) + pos * f->g->head_dim;
}

static inline float *forward_k(const forward *f, int layer, int64_t kv_head)
{
    return f->k + ((int64_t)layer * f->g->n_kv_head + kv_head) * f->cap * f->g->head_dim;
}

static inline float *forward_v(const forward *f, int layer, int64_t kv_head)
{
    return f->v + ((int64_t)layer * f->g->n_kv_head + kv_head) * f->cap * f->g->head_dim;
}

/* Between tiles, on any thread: thread 0 asks the caller, the others look. True: stop. */
bool forward_poll(forward *f);
/* Of a model on a device: memory of the host, what stands behind forward_new(), the passes. */
int64_t forward_device_bytes(const forward_spec *spec);
KVT_CHECKED kvt_code forward_device_new(forward *f, const forward_spec *spec, kvt_err *err);
KVT_CHECKED kvt_code forward_device_pass(forward *f, const int32_t *id, int64_t n, bool forced,
                                         kvt_err *err);
/* Turns a stop into the error. */
KVT_CHECKED kvt_code forward_check(forward *f, kvt_err *err);
/* Looks ids up and writes the residual. USAGE: id or room. */
KVT_CHECKED kvt_code forward_embed(forward *f, const int32_t *id, int64_t n, kvt_err *err);

#endif
