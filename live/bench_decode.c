/* bench_decode.c - what a decode step is made of on the processor: weights times a vector, keys
 * and values, both cut and handed out as capture/decode.c does, and steps of models that are
 * too narrow for either. */
#include "live/bench_priv.h"

#include <omp.h>

#include "capture/crew.h"
#include "capture/forward_grid.h"
#include "kvt/arena.h"

enum { WEIGHT_ROUNDS = 4, KV_ROUNDS = 3, MOST_TOKENS = 2048 };
static const int64_t KV_BYTES = 128 << 20; /* at most: beyond the caches of a processor */

struct bench_decode {
    bench_case c;
    bench_narrow *shallow, *deep;
    float *kv, *x, *y, *score, *part;
    int64_t n_token, n_layer, n_chunk; /* of keys and values */
    /* Of the round that runs. */
    const kvt_weights_layer *layer;
    const kvt_matrix *matrix;
    int64_t at;
};

/* ---- weights ---- */

static void head_item(const void *arg, int64_t i)
{
    const bench_decode *t = arg;
    const kvt_geometry *g = t->c.g;
    int64_t h = i < g->n_head ? i : (i - g->n_head) % g->n_kv_head, d = g->head_dim;
    const kvt_matrix *w = i < g->n_head                  ? &t->layer->wq
                          : i < g->n_head + g->n_kv_head ? &t->layer->wk
                                                         : &t->layer->wv;
    t->c.backend->matvec(t->y + i * d, w, h * d, d, t->x);
}

static void block_item(const void *arg, int64_t i)
{
    const bench_decode *t = arg;
    int64_t row = i * DECODE_ROWS, n = t->matrix->n_row - row;
    t->c.backend->matvec(t->y + row, t->matrix, row, n < DECODE_ROWS ? n : DECODE_ROWS, t->x);
}

static void gate_item(const void *arg, int64_t i)
{
    const bench_decode *t = arg;
    float up[DECODE_ROWS];
    int64_t row = i * DECODE_ROWS, n = t->c.g->n_ff - row;
    n = n < DECODE_ROWS ? n : DECODE_ROWS;
    t->c.backend->matvec(t->y + row, &t->layer->gate, row, n, t->x);
    t->c.backend->matvec(up, &t->layer->up, row, n, t->x);
}

static void blocks(bench_decode *t, crew *c, const kvt_matrix *m, crew_fn *fn)
{
    t->matrix = m;
    crew_round(c, (m->n_row + DECODE_ROWS - 1) / DECODE_ROWS, fn, t);
}

static void drive_weights(bench_decode *t, crew *c)
{
    const kvt_geometry *g = t->c.g;
    for (int64_t l = 0; l < g->n_layer; l++) {
        t->layer = &t->c.weights->layer[l];
        crew_round(c, g->n_head + 2 * g->n_kv_head, head_item, t);
        blocks(t, c, &t->layer->wo, block_item);
        blocks(t, c, &t->layer->gate, gate_item);
        blocks(t, c, &t->layer->down, block_item);
    }
    blocks(t, c, &t->c.weights->lm_head, block_item);
}

/* ---- keys and values ---- */

static float *keys(const bench_decode *t, int64_t kv_head, int64_t chunk)
{
    const kvt_geometry *g = t->c.g;
    return t->kv + ((t->at * g->n_kv_head + kv_head) * 2 * t->n_token + chunk * DECODE_KEYS) *
                       g->head_dim;
}

static void score_item(const void *arg, int64_t i)
{
    const bench_decode *t = arg;
    const kvt_geometry *g = t->c.g;
    int64_t kv_head = i / t->n_chunk, chunk = i % t->n_chunk, group = g->n_head / g->n_kv_head;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++)
        t->c.backend->gemv(t->score + h * t->n_token + chunk * DECODE_KEYS,
                           keys(t, kv_head, chunk), t->x, DECODE_KEYS, g->head_dim);
}

static void softmax_item(const void *arg, int64_t h)
{
    const bench_decode *t = arg;
    float *z = t->score + h * t->n_token;
    for (int64_t i = 0; i < t->n_token; i++)
        z[i] *= 0.125f;
    t->c.backend->softmax(z, t->n_token, 0, t->n_token);
}

static void mix_item(const void *arg, int64_t i)
{
    const bench_decode *t = arg;
    const kvt_geometry *g = t->c.g;
    int64_t kv_head = i / t->n_chunk, chunk = i % t->n_chunk, group = g->n_head / g->n_kv_head,
            d = g->head_dim;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++)
        t->c.backend->mix(t->part + (h * t->n_chunk + chunk) * d,
                          t->score + h * t->n_token + chunk * DECODE_KEYS,
                          keys(t, kv_head, chunk) + t->n_token * d, DECODE_KEYS, d);
}

static void drive_kv(bench_decode *t, crew *c)
{
    const kvt_geometry *g = t->c.g;
    for (t->at = 0; t->at < t->n_layer; t->at++) {
        crew_round(c, g->n_kv_head * t->n_chunk, score_item, t);
        crew_round(c, g->n_head, softmax_item, t);
        crew_round(c, g->n_kv_head * t->n_chunk, mix_item, t);
    }
}

/* ---- runs ---- */

static void with_crew(bench_decode *t, void (*drive)(bench_decode *t, crew *c))
{
    crew c;
    crew_init(&c);
#pragma omp parallel num_threads(t->c.n_thread)
    {
        if (omp_get_thread_num() != 0) {
            crew_help(&c);
        } else {
            drive(t, &c);
            crew_dismiss(&c);
        }
    }
}

static kvt_code run_weights(void *arg, kvt_err *err)
{
    (void)err;
    with_crew(arg, drive_weights);
    return KVT_OK;
}

static kvt_code run_kv(void *arg, kvt_err *err)
{
    (void)err;
    with_crew(arg, drive_kv);
    return KVT_OK;
}

/* ---- all of it ---- */

static double weight_bytes(const kvt_weights *w)
{
    double sum = (double)(w->lm_head.n_row * w->lm_head.row_bytes);
    for (int64_t l = 0; l < w->geometry.n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
        const kvt_matrix *m[] = {&y->wq, &y->wk, &y->wv, &y->wo, &y->gate, &y->up, &y->down};
        for (int i = 0; i < 7; i++)
            sum += (double)(m[i]->n_row * m[i]->row_bytes);
    }
    return sum;
}

static int64_t kv_floats(const bench_decode *t)
{
    return t->n_layer * t->c.g->n_kv_head * 2 * t->n_token * t->c.g->head_dim;
}

static kvt_code take(bench_decode *t, kvt_err *err)
{
    const kvt_geometry *g = t->c.g;
    int64_t widest = g->n_vocab, hd = (g->n_head + 2 * g->n_kv_head) * g->head_dim;
    widest = widest > g->n_ff ? widest : g->n_ff;
    widest = widest > hd ? widest : hd;
    t->n_token = MOST_TOKENS;
    t->n_layer = g->n_layer;
    while (t->n_layer > 1 && kv_floats(t) * 4 > KV_BYTES)
        t->n_layer--;
    while (t->n_token > DECODE_KEYS && kv_floats(t) * 4 > KV_BYTES)
        t->n_token /= 2;
    t->n_chunk = t->n_token / DECODE_KEYS;
    t->kv = kvt_alloc(kv_floats(t), sizeof(float));
    t->x = kvt_alloc(widest, sizeof(float));
    t->y = kvt_alloc(widest, sizeof(float));
    t->score = kvt_alloc(g->n_head * t->n_token, sizeof(float));
    t->part = kvt_alloc(g->n_head * t->n_chunk * g->head_dim, sizeof(float));
    if (!t->kv || !t->x || !t->y || !t->score || !t->part)
        return kvt_fail_memory(err, (size_t)(kv_floats(t) + 2 * widest) * sizeof(float));
    for (int64_t i = 0; i < kv_floats(t); i++) /* pages that were never written are one page */
        t->kv[i] = 0.01f;
    return KVT_OK;
}

kvt_code bench_decode_new(bench_decode **out, const bench_case *c, bench_task *task, int *n,
                          bench_times *times, kvt_err *err)
{
    bench_decode *t = kvt_alloc(1, sizeof *t);
    *out = t;
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    t->c = *c;
    if (take(t, err) || bench_narrow_new(&t->shallow, c, NULL, BENCH_SHALLOW, err) ||
        bench_narrow_new(&t->deep, c, NULL, BENCH_DEEP, err))
        return err->code;
    bench_add(task, n, &times->weights, "weights of a decode step", "B/s",
              weight_bytes(c->weights), run_weights, t);
    bench_add(task, n, &times->kv, "keys and values of a decode step", "B/s",
              4 * (double)kv_floats(t), run_kv, t);
    bench_narrow_add(t->shallow, task, n, &times->shallow, "a step of 2 narrow layers");
    bench_narrow_add(t->deep, task, n, &times->deep, "a step of 10 narrow layers");
    times->weight_rounds = WEIGHT_ROUNDS * c->g->n_layer + 1;
    times->kv_rounds = KV_ROUNDS * t->n_layer;
    times->shallow_layers = BENCH_SHALLOW;
    times->deep_layers = BENCH_DEEP;
    return KVT_OK;
}

void bench_decode_free(bench_decode *t)
{
    if (!t)
        return;
    bench_narrow_free(t->shallow);
    bench_narrow_free(t->deep);
    kvt_free(t->kv);
    kvt_free(t->x);
    kvt_free(t->y);
    kvt_free(t->score);
    kvt_free(t->part);
    kvt_free(t);
}
