/* tap.h - what the forward pass tells whoever listens: a table of functions, each may be NULL.
 *
 * The recorder is a tap; no tap is the engine without recording; a trainer and a closed loop
 * are taps of their own. A tap only looks: the engine's results are the same with and without.
 *
 * For one pass over rows pos .. pos + n of the sequence the calls come, layer by layer, as
 *
 *   hidden  (several threads, tile by tile)
 *   qk      (once)
 *   tile    (several threads, each head and tile once), wave after some of them (once)
 *
 * and `logits` behind the last layer. A step of decode has no qk and no wave. What a tap wants
 * of values it reads when all has run (forward_values()): one product over all rows is cheaper
 * than one a step.
 *
 * Attention on a device does not pass by the host: there capture/device_record.h keeps what a
 * trace needs, and a tap is told of the best ids behind each row only. */
#ifndef CAPTURE_TAP_H
#define CAPTURE_TAP_H

#include "kvt/err.h"

struct forward;
struct device_top;

/* Attention of one head, rows pos .. pos + n_row. Borrowed for the call. */
typedef struct tap_tile {
    int layer, head;
    bool step; /* a pass of one row by forward_step: `wave` is not called for it */
    int64_t pos, n_row;
    int64_t first, n_key; /* keys first .. first + n_key: all that some row sees */
    const float *q;       /* f32 [n_row D] after RoPE */
    const float *p;       /* f32 [n_row n_key], the normalised attention */
    const float *lse;     /* f32 [n_row] */
} tap_tile;

typedef struct tap {
    void *user;
    /* Most rows whose tiles may be outstanding before `wave`: a multiple of the tile; 0: all.
     */
    int64_t wave_rows;
    /* x f32 [n E] the residual, y f32 [n E] after the input norm, its gain included. */
    void (*hidden)(void *user, int layer, int64_t pos, int64_t n, const float *x,
                   const float *y);
    /* q f32 [n H D] before RoPE. */
    void (*qk)(void *user, int layer, int64_t pos, int64_t n, const float *q);
    void (*tile)(void *user, const tap_tile *t);
    /* All tiles of rows pos .. pos + n of that layer have been told. */
    void (*wave)(void *user, int layer, int64_t pos, int64_t n);
    /* logit f32 [V]: what the model says behind position pos. */
    void (*logits)(void *user, int64_t pos, const float *logit);
    /* On a device, in place of all above: the best ids behind position pos; other logits of
     * that row by forward_logit_of(f, ...). */
    kvt_code (*best)(void *user, const struct forward *f, int64_t pos,
                     const struct device_top *top, kvt_err *err);
} tap;

#endif
