/* forward.h - a model running on one sequence: prefill in tiles, decode row by row.
 *
 *   forward *f;
 *   forward_spec spec = {.weights = w, .backend = b, .tap = &tap, .ctx = ctx, .n_token = 2304};
 *   if (forward_new(&f, &spec, &err) || forward_prefill(f, id, n_prompt, &err)) ...
 *   for (...) {
 *       pick a token from forward_logit(f)
 *       forward_step(f, token, &err)
 *   }
 *   forward_free(f);
 *
 * One pass for all architectures: what a layer has follows from the vectors of its weights
 * (capture/steps.h). Everything is f32; matrices of another type are decoded for prefill, those
 * of a round at a time, and read as they lie by forward_step(). Products are cut by a grid of
 * row tiles that is anchored where the pass begins (position 0 for a prompt), OpenMP hands out
 * the tiles: the same bytes for any number of threads. Memory is weights + keys and values +
 * O(n_row E) + O(tile T) for each thread + the matrices of a round, where they are not f32.
 *
 * With weights on a device the same calls run there (capture/device_forward.h); what they tell
 * is then recorded by `record`, and of the tap only `best` is called. */
#ifndef CAPTURE_FORWARD_H
#define CAPTURE_FORWARD_H

#include "capture/device_forward.h"
#include "capture/tap.h"
#include "capture/weights.h"
#include "kvt/backend.h"

enum {
    FORWARD_TILE = 128,     /* query rows of an attention tile */
    FORWARD_LOGIT_ROWS = 32 /* whose logits forward_force has at a time */
};

typedef struct forward_spec {
    const kvt_weights *weights;
    const kvt_backend *backend;
    const tap *tap;     /* NULL: nobody listens */
    const kvt_ctx *ctx; /* progress, threads */
    int64_t n_token;    /* longest sequence */
    int64_t n_row;      /* most rows of one pass */
    int64_t tile;       /* a power of two >= 16; 0: FORWARD_TILE; device_tile() on a device */
    /* On a device; the rest of it is read where there is one. */
    const device_weights *device; /* NULL: the processor runs it */
    device_record *record;        /* NULL: nothing is recorded */
    int64_t n_vocab;              /* ids that forward_top() looks at; 0: every row */
    bool top_only;                /* forward_logit() is not filled, forward_top() is enough */
} forward_spec;

typedef struct forward forward;

/* All memory is taken here. NOMEM says how much: the caller may try a smaller tile. */
KVT_CHECKED kvt_code forward_new(forward **out, const forward_spec *spec, kvt_err *err);
void forward_free(forward *f); /* NULL is fine */

/* Bytes of the host that forward_new takes, weights not included. */
int64_t forward_bytes(const forward_spec *spec);

/* Runs n ids behind what has run, in tiles; forward_logit() is then the last row's. STOPPED
 * where the caller's progress says so. USAGE: an id outside the vocabulary, or no room. */
KVT_CHECKED kvt_code forward_prefill(forward *f, const int32_t *id, int64_t n, kvt_err *err);
/* The same, but `logits` of the tap is called for every row. */
KVT_CHECKED kvt_code forward_force(forward *f, const int32_t *id, int64_t n, kvt_err *err);
/* Runs one id by products of one row. */
KVT_CHECKED kvt_code forward_step(forward *f, int32_t id, kvt_err *err);

const float *forward_logit(const forward *f); /* f32 [V] behind the last row; borrowed */
int64_t forward_length(const forward *f);     /* rows that have run */
/* Rows first .. first + n of a kv head's keys (after RoPE) or values, rounded to halves [n D]:
 * what a trace stores. On the processor it cannot fail. */
KVT_CHECKED kvt_code forward_halves(const forward *f, bool keys, int layer, int64_t kv_head,
                                    int64_t first, int64_t n, uint16_t *out, kvt_err *err);

/* On a device: the best ids behind the last row, one logit of it (also of the row that `best`
 * of the tap is told of), and the end of a recording: all of it is with the host. */
bool forward_on_device(const forward *f);
KVT_CHECKED kvt_code forward_top(const forward *f, device_top *out, kvt_err *err);
KVT_CHECKED kvt_code forward_logit_of(const forward *f, int32_t id, float *out, kvt_err *err);
KVT_CHECKED kvt_code forward_finish(const forward *f, kvt_err *err);

/* On the processor: f32 [n_token D] of a kv head, rows 0 .. forward_length() are set. Borrowed.
 */
const float *forward_keys(const forward *f, int layer, int64_t kv_head);
const float *forward_values(const forward *f, int layer, int64_t kv_head);

/* f32 [n_row n_col] of a matrix of a layer: where it lies, or decoded by all threads into the
 * one workspace that prefill uses. Valid until the next call or pass; not inside a parallel
 * region. */
const float *forward_matrix(const forward *f, const kvt_matrix *m);

/* Floating-point operations of the matrix products of a prefill of n rows, as this engine runs
 * them (the last layer only where its last row needs them). */
double forward_flops(const kvt_geometry *g, int64_t n, int64_t tile);

#endif
