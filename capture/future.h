/* future.h - what queries, past and future, look at: sums of attention by key, from tiles and
 * rows.
 */
/* clang-format off */
/*   col_sum, col_max        over the prompt's queries              attn/col_sum, attn/col_max
 *   future_sum, future_max  over the response's queries            future/mean, future/max
 *   late                    over all queries at distance >= delay  future/delayed
 *   block_sum, block_max    over each block of queries             attn/block_sum, attn/block_max
 */
/* clang-format on */
/* The future targets need no pass of their own over the response's queries: each response row
 * is in hand, normalised, when it is computed, so that adding it is O(T), where a pass over key
 * tiles that reuses lse would compute all of them a second time.
 *
 * Threads: tiles of a wave are summed by column into buffers of their own; future_wave() adds
 * them in the order of the rows, head by head. Sums are kept in double. */
#ifndef CAPTURE_FUTURE_H
#define CAPTURE_FUTURE_H

#include "capture/tap.h"
#include "kvt/backend.h"
#include "kvt/geometry.h"

typedef struct future_spec {
    const kvt_backend *backend;
    int n_layer, n_head;            /* layers that are recorded */
    int32_t window[KVT_LAYERS_MAX]; /* of the recorded layers, 0: none */
    int64_t n_prompt, n_token;      /* n_token: at most */
    int64_t tile, block, delay;     /* block: a power of two >= 64 */
    bool blocks, block_max;         /* whether block_sum is kept; with it, block_max */
    int n_thread;
    bool on_device; /* the sums come from there: nothing is told */
} future_spec;

typedef struct future {
    future_spec spec;
    int64_t sub, wave_rows, n_sub;   /* rows summed together; rows and subs of a wave */
    int64_t n_block, prompt_blocks;  /* n_block: at most */
    double *col_sum, *future_sum;    /* f64 [L H N] */
    double *late;                    /* f64 [L H T] */
    float *col_max, *future_max;     /* f32 [L H N] */
    float *open_sum, *open_max;      /* f32 [L H T] of the block that is not full yet */
    uint16_t *block_sum, *block_max; /* f16 [L H J T], T = n_token of the spec */
    float *sub_sum, *sub_max;        /* f32 [H n_sub T] of one layer's wave */
    float *band;                     /* f32 [H n_sub sub]: partly late keys */
} future;

enum { FUTURE_SCALE = 1024 }; /* of the stored block means: halves below 6e-5 lose digits */

KVT_CHECKED kvt_code future_new(future **out, const future_spec *spec, kvt_err *err);
void future_free(future *f); /* NULL is fine */
int64_t future_bytes(const future_spec *spec);

/* The smallest power of two >= 64 that keeps attn/block_sum of a whole trace at most at `limit`
 * bytes; the whole sequence in one block where none does. */
int64_t future_block(int64_t n_layer, int64_t n_head, int64_t n_prompt, int64_t n_token,
                     int64_t limit);
/* Blocks of n_prompt + n_response queries. */
int64_t future_blocks(int64_t block, int64_t n_prompt, int64_t n_response);

/* Any thread: one head's tile; `layer` counts those that are recorded. */
void future_tile(future *f, int layer, const tap_tile *t);
/* One thread, when all tiles of these rows are in. */
void future_wave(future *f, int layer, int64_t pos, int64_t n);
/* The end, at n_token tokens: closes the last block. */
void future_close(future *f, int64_t n_token);

/* Results of one layer, for n_token tokens in all. mean, max [H N]; delayed [H T]. */
void future_mean(const future *f, int layer, int64_t n_token, float *out);
void future_delayed(const future *f, int layer, int64_t n_token, float *out);
/* which 0: sums, 1: maxima; out f16 [H J T]. */
void future_block_rows(const future *f, int which, int layer, int64_t n_token, uint16_t *out);

#endif
