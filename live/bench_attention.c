/* bench_attention.c - attention of a prefill on the processor: a head's tiles of queries, the
 * longest first, as capture/prefill.c hands them out; and the softmax inside of it. */
#include "live/bench_priv.h"

#include <omp.h>
#include <string.h>

#include "kvt/arena.h"

enum { MOST_TOKENS = 4096, LEAST_TOKENS = 512, NEAR = 8, WINDOW = 512 };

typedef struct head_tiles {
    const bench_attention *p;
    int64_t n, head_dim, window;
} head_tiles;

struct bench_attention {
    bench_case c;
    float *rows, *keys, *table, *own;
    int64_t stride;                    /* of a thread's memory */
    int64_t n_token, n_kv_head, group; /* at most */
    head_tiles tiles[4];
};

double bench_pairs(double n, double window)
{
    return window > 0 && window < n ? window * (window + 1) / 2 + (n - window) * window
                                    : n * (n + 1) / 2;
}

static float *own(const bench_attention *p)
{
    return p->own + omp_get_thread_num() * p->stride;
}

static void attend(const head_tiles *t, int64_t tile, int64_t head)
{
    const bench_attention *p = t->p;
    int64_t d = t->head_dim, n_head = p->n_kv_head * p->group, row = tile * FORWARD_TILE,
            m = t->n - row < FORWARD_TILE ? t->n - row : FORWARD_TILE;
    float *q = own(p), *lse = q + m * d;
    const float *k = p->keys + head / p->group * 2 * t->n * d, *from = p->rows + head * d;
    for (int64_t r = 0; r < m; r++)
        memcpy(q + r * d, from + (row + r) * n_head * d, (size_t)d * sizeof *q);
    p->c.backend->rope(q, d, p->table, m, 1, d); /* any rotation */
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
    const head_tiles *t = arg;
    const bench_attention *p = t->p;
    int64_t n_head = p->n_kv_head * p->group, n_tile = (t->n + FORWARD_TILE - 1) / FORWARD_TILE;
    (void)err;
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->c.n_thread)
    for (int64_t i = n_tile * n_head - 1; i >= 0; i--)
        attend(t, i / n_head, i % n_head);
    return KVT_OK;
}

/* As many heads and tokens as a sample has time for; every group of heads has a thread's work,
 * so that heads go first. */
static void size_attention(bench_attention *p)
{
    const kvt_geometry *g = p->c.g;
    double room = BENCH_RATE * p->c.n_thread * p->c.seconds;
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

static void add_attention(bench_attention *p, bench_task *task, int *n, bench_times *times)
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
    const head_tiles all[4] = {{p, times->near_tokens, d, 0},
                               {p, far, d, 0},
                               {p, far / 2, times->other_dim, 0},
                               {p, far, d, times->window}};
    const bench_task **slot[] = {&times->near, &times->far, &times->other, &times->windowed};
    memcpy(p->tiles, all, sizeof all);
    for (int i = 0; i < 4; i++) {
        const head_tiles *a = &p->tiles[i];
        bench_add(task, n, slot[i], name[i], "FLOP/s",
                  4 * (double)(p->n_kv_head * p->group * a->head_dim) *
                      bench_pairs((double)a->n, (double)a->window),
                  run_attention, &p->tiles[i]);
    }
}

static kvt_code run_softmax(void *arg, kvt_err *err)
{
    const bench_attention *p = arg;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(p->c.n_thread)
    for (int64_t r = 0; r < (int64_t)FORWARD_TILE * p->c.n_thread; r++)
        p->c.backend->softmax(own(p) + r % FORWARD_TILE * p->n_token, p->n_token, 0,
                              p->n_token);
    return KVT_OK;
}

/* ---- all of it ---- */

static kvt_code take(bench_attention *p, kvt_err *err)
{
    int64_t d = p->c.g->head_dim > 128 ? p->c.g->head_dim : 128;
    int64_t keys = p->n_kv_head * 2 * p->n_token * d, rows = p->group * keys / 2;
    p->stride = (FORWARD_TILE * (2 * d + 1 + p->n_token) + 15) / 16 * 16;
    p->own = kvt_alloc(p->c.n_thread * p->stride, sizeof(float));
    p->table = kvt_alloc(FORWARD_TILE * d, sizeof(float));
    p->keys = kvt_alloc(keys, sizeof(float));
    p->rows = kvt_alloc(rows, sizeof(float));
    if (p->own && p->table && p->keys && p->rows)
        return KVT_OK;
    return kvt_fail_memory(err, (size_t)(p->c.n_thread * p->stride + keys + rows) * 4);
}

kvt_code bench_attention_new(bench_attention **out, const bench_case *c, bench_task *task,
                             int *n, bench_times *times, kvt_err *err)
{
    bench_attention *p = kvt_alloc(1, sizeof *p);
    *out = p;
    if (!p)
        return kvt_fail_memory(err, sizeof *p);
    p->c = *c;
    size_attention(p);
    if (take(p, err))
        return err->code;
    add_attention(p, task, n, times);
    bench_add(task, n, &times->softmax, "rows of a softmax", "1/s",
              (double)(FORWARD_TILE * p->c.n_thread * p->n_token), run_softmax, p);
    return KVT_OK;
}

void bench_attention_free(bench_attention *p)
{
    if (!p)
        return;
    kvt_free(p->rows);
    kvt_free(p->keys);
    kvt_free(p->table);
    kvt_free(p->own);
    kvt_free(p);
}
