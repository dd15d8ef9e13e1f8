/* bench_prefill.c - what prefill is made of beside attention on the processor: the products of
 * its row tiles, and the rows between them, cut and handed out as capture/prefill.c does.
 *
 * Matrices of another type than f32 are decoded once in a prefill, layer by layer into the same
 * room. That is a task of its own: a constant of a prefill, no part of the products' rate. */
#include "live/bench_priv.h"

#include <omp.h>
#include <string.h>

#include "capture/decoded.h"
#include "capture/forward_grid.h"
#include "capture/steps.h"
#include "kvt/arena.h"

enum { MOST_ROWS = 1024 }; /* between the lengths of prompts that are usual */
typedef struct product {
    const bench_prefill *p;
    const kvt_matrix *matrix[3];
    int n;
} product;

struct bench_prefill {
    bench_case c;
    kvt_weights_layer f32; /* of the first layer: data is f32 */
    float *decoded, *table, *own;
    double n_decoded;      /* floats of all layers */
    int64_t n_row, stride; /* of products; of a thread's memory */
    product product[4];
};

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

/* Of all layers, from memory: what is decoded twice in a row would lie in the caches. */
static kvt_code run_decoding(void *arg, kvt_err *err)
{
    const bench_prefill *p = arg;
    const kvt_matrix *m[7];
    const float *at[7];
    (void)err;
    for (int64_t l = 0; l < p->c.g->n_layer; l++) {
        list(&p->c.weights->layer[l], m);
        decoded_fill(at, p->decoded, m, 7, p->c.n_thread);
    }
    return KVT_OK;
}

/* Floats that are decoded in all layers, and the most of one. */
static double decoded_sum(const bench_prefill *p, int64_t *widest)
{
    const kvt_matrix *m[7];
    double sum = 0;
    *widest = 0;
    for (int64_t l = 0; l < p->c.g->n_layer; l++) {
        list(&p->c.weights->layer[l], m);
        int64_t n = decoded_floats(m, 7);
        sum += (double)n;
        *widest = n > *widest ? n : *widest;
    }
    return sum;
}

/* Decodes the first layer, whose products stand for all. */
static kvt_code decode_layer(bench_prefill *p, kvt_err *err)
{
    const kvt_weights_layer *w = &p->c.weights->layer[0];
    const kvt_matrix *m[7];
    const float *at[7];
    int64_t n;
    p->n_decoded = decoded_sum(p, &n);
    p->decoded = kvt_alloc(n, sizeof *p->decoded);
    if (!p->decoded)
        return kvt_fail_memory(err, (size_t)n * sizeof *p->decoded);
    list(w, m);
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
    if (p->n_decoded > 0)
        bench_add(task, n, &times->decoding, "weights as f32, for products of many rows", "1/s",
                  p->n_decoded, run_decoding, p);
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
    b->rope(k, gd, p->table, m, g->n_kv_head, d);
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
}

/* ---- all of it ---- */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void size_products(bench_prefill *p)
{
    const kvt_matrix *m[7];
    double weights = 0, room = BENCH_RATE * p->c.n_thread * p->c.seconds;
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
    int64_t e = g->n_hidden, f = g->n_ff, hd = g->n_head * g->head_dim,
            gd = g->n_kv_head * g->head_dim;
    int64_t layer = FORWARD_LONG * most(2 * e + 2 * hd + 2 * gd, 2 * e + gd + hd + 2 * f);
    p->stride = (layer + 15) / 16 * 16;
    p->own = kvt_alloc(p->c.n_thread * p->stride, sizeof(float));
    p->table = kvt_alloc(FORWARD_LONG * g->head_dim, sizeof(float));
    if (p->own && p->table)
        return KVT_OK;
    return kvt_fail_memory(err, (size_t)(p->c.n_thread * p->stride) * sizeof(float));
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
    if (take(p, err) || decode_layer(p, err))
        return err->code;
    gemm_one_thread();
    times->layer_rows = p->n_row;
    add_products(p, task, n, times);
    add_rows(p, task, n, times);
    return KVT_OK;
}

void bench_prefill_free(bench_prefill *p)
{
    if (!p)
        return;
    kvt_free(p->decoded);
    kvt_free(p->table);
    kvt_free(p->own);
    kvt_free(p);
}
