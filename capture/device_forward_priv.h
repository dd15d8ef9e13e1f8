/* device_forward_priv.h - the memory of a model that runs on a device, shared by
 * device_forward.c and device_layer.c. */
#ifndef CAPTURE_DEVICE_FORWARD_PRIV_H
#define CAPTURE_DEVICE_FORWARD_PRIV_H

#include "capture/device_forward.h"

enum { DEVICE_HALVES = 1024 }; /* rows of keys or values that come to the host at a time */

/* X(member, its name when there is no room, bytes). "typed": of the activations' type. */
/* clang-format off */
#define FORWARD_DEVICE_MEMORY(X)                                                       \
    X(kc,      "keys",                          f->L * f->G * f->cap * f->D * f->size) \
    X(vc,      "values",                        f->L * f->G * f->cap * f->D * f->size) \
    X(x,       "the residual",                  f->rows * f->E * 4)                    \
    X(id,      "token ids",                     f->rows * 4)                           \
    X(y,       "rows behind a norm",            f->chunk * f->E * f->size)             \
    X(q,       "queries",                       f->chunk * f->H * f->D * 4)            \
    X(k,       "keys of a chunk",               f->chunk * f->G * f->D * 4)            \
    X(v,       "values of a chunk",             f->chunk * f->G * f->D * 4)            \
    X(turned,  "turned queries",                f->tile * f->H * f->D * f->size)       \
    X(p,       "attention of a tile",           f->tile * f->H * f->padded * 4)        \
    X(cast,    "attention of a tile, 16 bits",                                         \
      f->size == 4 ? 0 : f->tile * f->H * f->padded * f->size)                         \
    X(lse,     "lse of a tile",                 f->tile * f->H * 4)                    \
    X(o,       "mixed values of a tile",        f->tile * f->H * f->D * 4)             \
    X(merged,  "mixed values",                  f->chunk * f->H * f->D * f->size)      \
    X(gate,    "gates of the feed-forward",     f->chunk * f->F * 4)                   \
    X(up,      "feed-forward",                  f->chunk * f->F * 4)                   \
    X(act,     "activations",                   f->chunk * f->F * f->size)             \
    X(out,     "rows of a projection",          f->chunk * f->E * 4)                   \
    X(copy,    "a matrix in the activations' type", f->w->widest * f->size)            \
    X(table,   "the rotation",                  f->cap * f->D * 4)                     \
    X(local,   "the local rotation",            f->has_local ? f->cap * f->D * 4 : 0)  \
    X(logit,   "logits",                        f->logits * f->V * 4)                  \
    X(top_id,  "the best ids",                  f->logits * DEV_TOP * 4)               \
    X(top,     "the best logits",               f->logits * DEV_TOP * 4)               \
    X(top_lse, "lse of logits",                 f->logits * 4)                         \
    X(entropy, "entropy of logits",             f->logits * 4)                         \
    X(halves,  "halves of keys or values",      f->size == 2 && f->w->type == DEV_F16  \
                                                    ? 0 : DEVICE_HALVES * f->D * 2)
/* clang-format on */

struct device_forward {
    const device_weights *w;
    const kvt_geometry *g;
    kvt_device *d;
    device_record *record; /* or NULL */
    const kvt_ctx *ctx;
    int64_t L, H, G, D, E, F, V;
    int64_t cap, rows, chunk, tile, padded, logits, n_vocab;
    int64_t size; /* bytes of an activation */
    bool has_local;
    int64_t length, row; /* row: of logit, that forward_logit() reads */
    bool has_top;        /* of the last row, in `best` */
    device_top best;
    char *pinned;
    int64_t pinned_bytes;
#define X(member, name, bytes) void *member;
    FORWARD_DEVICE_MEMORY(X)
#undef X
};

/* c f32 [m n_row] = a typed [m n_col] w^T. */
KVT_CHECKED kvt_code device_product(device_forward *f, float *c, const void *a,
                                    const kvt_matrix *w, int64_t m, kvt_err *err);
/* All layers over rows length .. length + n, whose residual is in x. In the last one only rows
 * from out_from on go further than their keys. */
KVT_CHECKED kvt_code device_layers(device_forward *f, int64_t n, int64_t out_from,
                                   kvt_err *err);

#endif
