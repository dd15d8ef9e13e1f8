/* bench_device_priv.h - what bench_device.c measures with, and bench_device_new.c makes. */
#ifndef LIVE_BENCH_DEVICE_PRIV_H
#define LIVE_BENCH_DEVICE_PRIV_H

#include "live/bench_priv.h"

enum { BENCH_LAUNCHES = 256, BENCH_KV_TOKENS = 2048 };

typedef struct device_product_task {
    bench_device *b;
    const kvt_matrix *matrix[3];
    int n;
} device_product_task;

typedef struct device_attention {
    bench_device *b;
    int64_t n, m, head_dim, window, n_layer; /* m: rows of a tile; 1: a decode step */
} device_attention;

/* X(member, name, bytes): device memory. H query heads, G kv heads, D channels of the larger of
 * the two heads that are measured. */
/* clang-format off */
#define BENCH_DEVICE_MEMORY(X)                                                        \
    X(a,      "rows of a product",          b->n_row * b->widest * b->size)           \
    X(sums,   "what a product gives",       b->n_row * b->widest * 4)                 \
    X(up,     "feed-forward",               b->n_row * b->widest * 4)                 \
    X(gain,   "gains",                      b->widest * 4)                            \
    X(copy,   "a matrix in the rows' type", (b->w->widest + 1) * b->size)             \
    X(q,      "queries",                    b->tile * b->H * b->D * 4)                \
    X(table,  "the rotation",               b->tile * b->D * 4)                       \
    X(turned, "turned queries",             b->tile * b->H * b->D * b->size)          \
    X(kv,     "keys and values",            b->kv_bytes)                              \
    X(p,      "attention of a tile",        b->tile * b->H * b->far * 4)              \
    X(cast,   "attention of a tile, typed", b->tile * b->H * b->far * b->size)        \
    X(lse,    "lse of a tile",              b->tile * b->H * 4)                       \
    X(o,      "mixed values",               b->tile * b->H * b->D * 4)                \
    X(square, "square matrices",            b->side * b->side * 12)                   \
    X(from,   "memory to copy",             b->bytes)                                 \
    X(to,     "memory to copy to",          b->bytes)
/* clang-format on */

struct bench_device {
    bench_case c;
    kvt_device *d;
    const device_weights *w;
    device_weights *own; /* of c.weights, where the caller has none */
    dev_type type;
    int64_t size; /* of an activation, bytes */
    int64_t n_row, widest, H, G, D, tile, far, n_layer, kv_bytes, side, bytes;
#define X(member, name, bytes) void *member;
    BENCH_DEVICE_MEMORY(X)
#undef X
    bench_narrow *shallow, *deep;
    device_product_task product[4];
    device_attention attention[5];
};

/* Tasks. Of a device_product_task, a device_attention, and of the bench_device itself. */
kvt_code bench_device_product(void *arg, kvt_err *err);
kvt_code bench_device_attention(void *arg, kvt_err *err);
kvt_code bench_device_square(void *arg, kvt_err *err);
kvt_code bench_device_square_32(void *arg, kvt_err *err);
kvt_code bench_device_rows(void *arg, kvt_err *err);
kvt_code bench_device_weights(void *arg, kvt_err *err);
kvt_code bench_device_copy(void *arg, kvt_err *err);
kvt_code bench_device_launch(void *arg, kvt_err *err);

#endif
