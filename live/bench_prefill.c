/* bench_prefill.c - what prefill is made of on the processor: the products of its row tiles,
 * attention tile by tile, and the rows between them, cut and handed out as capture/prefill.c
 * does.
 *
 * Matrices of another type than f32 are decoded once for each layer of a prefill. That is a
 * task of its own here, and becomes part of the rate of the products (bench_fields.c). */
#include "live/bench_priv.h"

#include <omp.h>
#include <string.h>

#include "capture/decoded.h"
#include "capture/forward_priv.h"
#include "kvt/arena.h"

enum { MOST_ROWS = 2048, MOST_TOKENS = 4096, LEAST_TOKENS = 512, NEAR = 8, WINDOW = 512 };
static const double RATE = 3e10; /* FLOP/s of a thread, to choose sizes by */

typedef struct product {
    const bench_prefill *p;
    const kvt_matrix *matrix[3];
    int n;
} product;

typedef struct attention {
    const bench_prefill *p;
    int64_t n, head_dim, window;
} attention;

struct bench_prefill {
    bench_case c;
    kvt_weights_layer f32; /* of the first layer: data is f32 */
    float *decoded, *rows, *keys, *own;
    int64_t n_row, stride;             /* of products; of a thread's memory */
    int64_t n_token, n_kv_head, group; /* of attention, at most */
    product product[4];
    attention attention[4];
};

double bench_pairs(double n, double window)
{
    return window > 0 && window < n ? window * (window + 1) / 2 + (n - window) * window
                                    : n * (n + 1) / 2;
}

static float *own(const bench_prefill *p)
{
    return p->own + omp_get_thread_num() * p->stride;
}

/* ---- products ---- */

static int64_t n_tile(const bench_prefill *p)
{
    return forward_tile_of(p->n_row, p->n_row - 1) + 1;
}

static kvt_code run_product(void *arg, kvt_err *err)
{
    const product *t = arg;
    const bench_prefill *p = t->p;
    (void)err;
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->c.n_thread)
    for (int64_t i = 0; i < n_tile(p); i++) {
        int64_t m = forward_tile_begin(p->n_row, i + 1) - forward_tile_begin(p->n_row, i);
        float *a = own(p), *c = a + m * t->matrix[0]->n_col;
        for (int k = 0; k < t->n; k++) {
            const kvt_matrix *w = t->matrix[k];
            p->c.backend->gemm(GEMM_NT, &(gemm_args){.c = c,
                                                     .a = a,
                                                     .b = w->data,
                                                     .m = m,
                                                     .n = w->n_row,
                                                     .k = w->n_col,
                                                     .lda = w->n_col,
                                                     .ldb = w->n_col,
                                                     .ldc = w->n_row,
                                                     .alpha = 1.0f});
            c += m * w->n_row;
        }
    }
    return KVT_OK;
}

static void list(const kvt_weights_layer *w, const kvt_matrix *out[7])
{
    const kvt_matrix *m[7] = {&w->wq, &w->wk, &w->wv, &w->wo, &w->gate, &w->up, &w->down};
    memcpy(out, m, sizeof m);
}

static kvt_code run_decoding(void *arg, kvt_err *err)
{
    const bench_prefill *p = arg;
    const kvt_matrix *m[7];
    const float *at[7];
    (void)err;
    list(&p->c.weights->layer[0], m);
    decoded_fill(at, p->decoded, m, 7, p->c.n_thread);
    return KVT_OK;
}

/* Decodes the first layer, whose products stand for all. */
static kvt_code decode_layer(bench_prefill *p, kvt_err *err)
{
    const kvt_weights_layer *w = &p->c.weights->layer[0];
    const kvt_matrix *m[7];
    const float *at[7];
    list(w, m);
    int64_t n = decoded_floats(m, 7);
    p->decoded = kvt_alloc(n, sizeof *p->decoded);
    if (!p->decoded)
        return kvt_fail_memory(err, (size_t)n * sizeof *p->decoded);
    decoded_fill(at, p->decoded, m, 7, p->c.n_thread);
    p->f32 = *w;
    kvt_matrix *to[7] = {&p->f32.wq,   &p->f32.wk, &p->f32.wv,  &p->f32.wo,
                         &p->f32.gate, &p->f32.up, &p->f32.down};
    for (int i = 0; i < 7; i++)
        *to[i] = matrix_of_floats(at[i], m[i]->n_row, m[i]->n_col);
    return KVT_OK;
}

static void add_products(bench_prefill *p, bench_task *task, int *n, bench_times *times)
{
    static const char *const name[] = {
        "sgemm of queries, keys and values", "sgemm of attention's output",
        "sgemm of the feed-forward, gate and up", "sgemm of the feed-forward, down"};
    const kvt_weights_layer *w = &p->f32;
    const product all[4] = {{p, {&w->wq, &w->wk, &w->wv}, 3},
                            {p, {&w->wo}, 1},
                            {p, {&w->gate, &w->up}, 2},
                            {p, {&w->down}, 1}};
    memcpy(p->product, all, sizeof all);
    for (int i = 0; i < 4; i++) {
        double weights = 0;
        for (int k = 0; k < all[i].n; k++)
            weights += (double)(all[i].matrix[k]->n_row * all[i].matrix[k]->n_col);
        bench_add(task, n, &times->product[i], name[i], "FLOP/s",
                  2 * (double)p->n_row * weights, run_product, &p->product[i]);
    }
    const kvt_matrix *m[7];
    list(&p->c.weights->layer[0], m);
    if (decoded_floats(m, 7) > 0)
        bench_add(task, n, &times->decoding, "weights as f32, for products of many rows", "1/s",
                  (double)decoded_floats(m, 7), run_decoding, p);
}

/* ---- attention ---- */

static void attend(const attention *t, int64_t tile, int64_t head)
{
    const bench_prefill *p = t->p;
    int64_t d = t->head_dim, n_head = p->n_kv_head * p->group, row = tile * FORWARD_TILE,
            m = t->n - row < FORWARD_TILE ? t->n - row : FORWARD_TILE;
    float *q = own(p), *lse = q + m * d;
    const float *k = p->keys + head / p->group * 2 * t->n * d, *from = p->rows + head * d;
    for (int64_t r = 0; r < m; r++)
        memcpy(q + r * d, from + (row + r) * n_head * d, (size_t)d * sizeof *q);
    p->c.backend->rope(q, d, p->keys, m, 1, d); /* any table */
    p->c.backend->attend(&(attend_args){.q = q,
                                        .k = k,
                                        .v = k + t->n * d,
                                        .p = lse + m,
                                        .lse = lse,
                                        .out = p->rows + (row * n_head + head) * d,
                                        .ld_out = n_head * d,
                                        .n_row = m,
                                        .pos = row,
                                        .head_dim = d,
                                        .window = t->window,
                                        .scale = 0.125f});
}

static kvt_code run_attention(void *arg, kvt_err *err)
{
    const attention *t = arg;
    const bench_prefill *p = t->p;
    int64_t n_head = p->n_kv_head * p->group, tiles = (t->n + FORWARD_TILE - 1) / FORWARD_TILE;
    (void)err;
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->c.n_thread)
    for (int64_t i = tiles * n_head - 1; i >= 0; i--)
        attend(t, i / n_head, i % n_head);
    return KVT_OK;
}

/* As many heads and tokens as a sample has time for; every group of heads has a thread's work,
 * so that heads go first. */
static void size_attention(bench_prefill *p)
{
    const kvt_geometry *g = p->c.g;
    double room = RATE * p->c.n_thread * p->c.seconds;
    p->group = g->n_head / g->n_kv_head;
    p->n_kv_head = g->n_kv_head;
    p->n_token = MOST_TOKENS;
    for (;;) {
        double flop = 4 * (double)(p->n_kv_head * p->group * g->head_dim) *
                      bench_pairs((double)p->n_token, 0);
        if (flop <= room || (p->n_kv_head == 1 && p->n_token == LEAST_TOKENS))
            return;
        if (p->n_kv_head > 1)
            p->n_kv_head = (p->n_kv_head + 1) / 2;
        else
            p->n_token /= 2;
    }
}

static int64_t window_of(const kvt_geometry *g)
{
    for (int64_t l = 0; l < g->n_layer; l++)
        if (g->window[l] > 0)
            return g->window[l];
    return WINDOW;
}

static void add_attention(bench_prefill *p, bench_task *task, int *n, bench_times *times)
{
    static const char *const name[] = {"attention, short", "attention, long",
                                       "attention, heads of another size",
                                       "attention within a window"};
    int64_t d = p->c.g->head_dim, far = p->n_token, window = window_of(p->c.g);
    times->near_tokens = far / NEAR;
    times->far_tokens = far;
    times->other_dim = d > 64 ? 64 : 128;
    times->window = window < far / 2 ? window : far / 2;
    times->tile = FORWARD_TILE;
    const attention all[4] = {{p, times->near_tokens, d, 0},
                              {p, far, d, 0},
                              {p, far / 2, times->other_dim, 0},
                              {p, far, d, times->window}};
    const bench_task **slot[] = {&times->near, &times->far, &times->other, &times->windowed};
    memcpy(p->attention, all, sizeof all);
    for (int i = 0; i < 4; i++) {
        const attention *a = &p->attention[i];
        bench_add(task, n, slot[i], name[i], "FLOP/s",
                  4 * (double)(p->n_kv_head * p->group * a->head_dim) *
                      bench_pairs((double)a->n, (double)a->window),
                  run_attention, &p->attention[i]);
    }
}

static kvt_code run_softmax(void *arg, kvt_err *err)
{
    const bench_prefill *p = arg;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(p->c.n_thread)
    for (int64_t r = 0; r < (int64_t)FORWARD_TILE * p->c.n_thread; r++)
        p->c.backend->softmax(own(p) + r % FORWARD_TILE * p->n_token, p->n_token, 0,
                              p->n_token);
    return KVT_OK;
}

/* ---- rows ---- */

static void rows_of_tile(const bench_prefill *p, int64_t m)
{
    const kvt_backend *b = p->c.backend;
    const kvt_geometry *g = p->c.g;
    const kvt_weights_layer *w = &p->c.weights->layer[0];
    int64_t e = g->n_hidden, d = g->head_dim, gd = g->n_kv_head * d, hd = g->n_head * d;
    float *x = own(p), *y = x + m * e, *k = y + m * e, *q = k + m * gd;
    float *up = q; /* the feed-forward comes later: both lie where the heads were */
    b->rmsnorm(y, x, w->attn_norm, m, e, g->norm_eps);
    steps_bias(b, q, w->bq, m, hd);
    steps_bias(b, k, w->bk, m, gd);
    steps_head_norm(b, q, w->q_norm, m * g->n_head, g);
    steps_head_norm(b, k, w->k_norm, m * g->n_kv_head, g);
    b->rope(k, gd, p->keys, m, g->n_kv_head, d);
    steps_residual(b, x, y, w->post_attn_norm, m, g);
    b->rmsnorm(y, x, w->ffn_norm, m, e, g->norm_eps);
    steps_gate(b, p->c.weights, up, up + m * g->n_ff, m * g->n_ff);
    steps_residual(b, x, y, w->post_ffn_norm, m, g);
}

static kvt_code run_rows(void *arg, kvt_err *err)
{
    const bench_prefill *p = arg;
    (void)err;
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->c.n_thread)
    for (int64_t i = 0; i < n_tile(p); i++)
        rows_of_tile(p, forward_tile_begin(p->n_row, i + 1) - forward_tile_begin(p->n_row, i));
    return KVT_OK;
}

/* What the cost model counts of a row of a layer (replay/cost/prefill.c). */
static double row_bytes(const kvt_geometry *g)
{
    return 4.0 * (double)(8 * g->n_hidden + 2 * (g->n_head + g->n_kv_head) * g->head_dim +
                          3 * g->n_ff);
}

static void add_rows(bench_prefill *p, bench_task *task, int *n, bench_times *times)
{
    bench_add(task, n, &times->rows, "norms, activations and residuals", "B/s",
              (double)p->n_row * row_bytes(p->c.g), run_rows, p);
    bench_add(task, n, &times->softmax, "rows of a softmax", "1/s",
              (double)(FORWARD_TILE * p->c.n_thread * p->n_token), run_softmax, p);
}

/* ---- all of it ---- */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void size_products(bench_prefill *p)
{
    const kvt_matrix *m[7];
    double weights = 0, room = RATE * p->c.n_thread * p->c.seconds;
    list(&p->c.weights->layer[0], m);
    for (int i = 0; i < 7; i++)
        weights += (double)(m[i]->n_row * m[i]->n_col);
    p->n_row = MOST_ROWS;
    while (p->n_row > (int64_t)FORWARD_SHORT * p->c.n_thread &&
           2 * weights * (double)p->n_row > room)
        p->n_row /= 2;
}

static kvt_code take(bench_prefill *p, kvt_err *err)
{
    const kvt_geometry *g = p->c.g;
    int64_t d = most(g->head_dim, 128), e = g->n_hidden, f = g->n_ff,
            hd = g->n_head * g->head_dim, gd = g->n_kv_head * g->head_dim;
    int64_t layer = FORWARD_LONG * most(2 * e + 2 * hd + 2 * gd, 2 * e + gd + hd + 2 * f);
    int64_t tile = FORWARD_TILE * (2 * d + 1 + p->n_token);
    p->stride = (most(layer, tile) + 15) / 16 * 16;
    int64_t keys = p->n_kv_head * 2 * p->n_token * d, rows = p->group * keys / 2;
    p->own = kvt_alloc(p->c.n_thread * p->stride, sizeof(float));
    p->keys = kvt_alloc(most(keys, MOST_ROWS * g->head_dim), sizeof(float));
    p->rows = kvt_alloc(rows, sizeof(float));
    if (p->own && p->keys && p->rows)
        return KVT_OK;
    return kvt_fail_memory(err, (size_t)(p->c.n_thread * p->stride + keys + rows) * 4);
}

kvt_code bench_prefill_new(bench_prefill **out, const bench_case *c, bench_task *task, int *n,
                           bench_times *times, kvt_err *err)
{
    bench_prefill *p = kvt_alloc(1, sizeof *p);
    *out = p;
    if (!p)
        return kvt_fail_memory(err, sizeof *p);
    p->c = *c;
    size_products(p);
    size_attention(p);
    if (take(p, err) || decode_layer(p, err))
        return err->code;
    gemm_one_thread();
    times->layer_rows = p->n_row;
    add_products(p, task, n, times);
    add_attention(p, task, n, times);
    add_rows(p, task, n, times);
    return KVT_OK;
}

void bench_prefill_free(bench_prefill *p)
{
    if (!p)
        return;
    kvt_free(p->decoded);
    kvt_free(p->rows);
    kvt_free(p->keys);
    kvt_free(p->own);
    kvt_free(p);
}
