/* prefill.c - many rows at once: projections over row tiles, attention over tiles of queries.
 *
 * A layer is three rounds with a barrier behind each: (1) norm, projections, rotation of keys,
 * row tile by row tile; (2) attention, one item for each head and tile, the longest first; (3)
 * output projection, norm, feed-forward, row tile by row tile. A tile's rows stay in the cache
 * of the thread that works on them. */
#include "capture/forward_priv.h"

#include <omp.h>
#include <string.h>

#include "capture/decoded.h"
#include "kvt/arena.h"

typedef struct pass {
    forward *f;
    int layer;
    const kvt_weights_layer *w;
    const float *wq, *wk, *wv, *wo, *gate, *up, *down; /* its matrices, those of this round */
    int64_t n;          /* rows of the pass; row r is position f->length + r */
    int64_t n_tile;     /* of attention */
    int64_t n_row_tile; /* of products (forward_tile_begin) */
    int64_t out_from;   /* rows before this one end at the last layer's keys */
} pass;

/* c [m n] = a [m k] w[n k]^T */
static void project(const pass *p, float *c, const float *a, const float *w, int64_t m,
                    int64_t n, int64_t k)
{
    p->f->b->gemm(GEMM_NT, &(gemm_args){.c = c,
                                        .a = a,
                                        .b = w,
                                        .m = m,
                                        .n = n,
                                        .k = k,
                                        .lda = k,
                                        .ldb = k,
                                        .ldc = n,
                                        .alpha = 1.0f});
}

/* Rows [m G D] of a tile to their places in the cache of one layer, [G cap D]. */
static void store(const pass *p, float *cache, const float *rows, int64_t pos, int64_t m)
{
    const kvt_geometry *g = p->f->g;
    int64_t d = g->head_dim;
    for (int64_t h = 0; h < g->n_kv_head; h++)
        for (int64_t r = 0; r < m; r++)
            memcpy(cache + (h * p->f->cap + pos + r) * d, rows + (r * g->n_kv_head + h) * d,
                   (size_t)d * sizeof *rows);
}

static void project_in(const pass *p, int64_t tile)
{
    forward *f = p->f;
    const kvt_geometry *g = f->g;
    int64_t row = forward_tile_begin(p->n, tile), pos = f->length + row;
    int64_t m = forward_tile_begin(p->n, tile + 1) - row;
    int64_t hd = g->n_head * g->head_dim, gd = g->n_kv_head * g->head_dim, e = g->n_hidden;
    float *y = forward_own(f, omp_get_thread_num()), *k = y + m * e, *v = k + m * gd;
    f->b->rmsnorm(y, f->x + row * e, p->w->attn_norm, m, e, g->norm_eps);
    if (f->tap->hidden)
        f->tap->hidden(f->tap->user, p->layer, pos, m, f->x + row * e, y);
    float *q = f->q + row * hd;
    project(p, q, y, p->wq, m, hd, e);
    project(p, k, y, p->wk, m, gd, e);
    project(p, v, y, p->wv, m, gd, e);
    steps_bias(f->b, q, p->w->bq, m, hd);
    steps_bias(f->b, k, p->w->bk, m, gd);
    steps_bias(f->b, v, p->w->bv, m, gd);
    steps_head_norm(f->b, q, p->w->q_norm, m * g->n_head, g);
    steps_head_norm(f->b, k, p->w->k_norm, m * g->n_kv_head, g);
    f->b->rope(k, gd, forward_table(f, p->layer, pos), m, g->n_kv_head, g->head_dim);
    store(p, forward_k(f, p->layer, 0), k, pos, m);
    store(p, forward_v(f, p->layer, 0), v, pos, m);
}

static void attend_tile(const pass *p, int64_t tile, int64_t head)
{
    forward *f = p->f;
    const kvt_geometry *g = f->g;
    int64_t row = tile * f->tile, m = p->n - row < f->tile ? p->n - row : f->tile,
            d = g->head_dim, hd = g->n_head * d;
    int64_t kv_head = head / (g->n_head / g->n_kv_head);
    float *q = forward_own(f, omp_get_thread_num()), *lse = q + f->tile * d;
    attend_args a = {.q = q,
                     .k = forward_k(f, p->layer, kv_head),
                     .v = forward_v(f, p->layer, kv_head),
                     .p = lse + f->tile,
                     .lse = lse,
                     .out = f->o + row * hd + head * d,
                     .ld_out = hd,
                     .n_row = m,
                     .pos = f->length + row,
                     .head_dim = d,
                     .window = g->window[p->layer],
                     .scale = (float)g->attn_scale};
    for (int64_t r = 0; r < m; r++)
        memcpy(q + r * d, f->q + (row + r) * hd + head * d, (size_t)d * sizeof *q);
    f->b->rope(q, d, forward_table(f, p->layer, a.pos), m, 1, d);
    f->b->attend(&a);
    if (f->tap->tile) {
        int64_t first = attend_first(a.pos, a.window);
        f->tap->tile(f->tap->user, &(tap_tile){.layer = p->layer,
                                               .head = (int)head,
                                               .pos = a.pos,
                                               .n_row = m,
                                               .first = first,
                                               .n_key = a.pos + m - first,
                                               .q = q,
                                               .p = a.p,
                                               .lse = lse});
    }
}

static void project_out(const pass *p, int64_t tile)
{
    forward *f = p->f;
    const kvt_geometry *g = f->g;
    int64_t row = forward_tile_begin(p->n, tile), m = forward_tile_begin(p->n, tile + 1) - row,
            e = g->n_hidden, n_ff = g->n_ff;
    int64_t hd = g->n_head * g->head_dim;
    float *x = f->x + row * e, *y = forward_own(f, omp_get_thread_num());
    float *t = y + m * e, *gate = t + m * e, *up = gate + m * n_ff;
    project(p, t, f->o + row * hd, p->wo, m, e, hd);
    steps_residual(f->b, x, t, p->w->post_attn_norm, m, g);
    f->b->rmsnorm(y, x, p->w->ffn_norm, m, e, g->norm_eps);
    project(p, gate, y, p->gate, m, n_ff, e);
    project(p, up, y, p->up, m, n_ff, e);
    steps_gate(f->b, f->w, gate, up, m * n_ff);
    project(p, t, gate, p->down, m, e, n_ff);
    steps_residual(f->b, x, t, p->w->post_ffn_norm, m, g);
}

static void attend_all(const pass *p)
{
    forward *f = p->f;
    int64_t n_head = f->g->n_head, wave = p->n_tile;
    if (f->tap->wave_rows && f->tap->wave_rows / f->tile < wave)
        wave = f->tap->wave_rows < f->tile ? 1 : f->tap->wave_rows / f->tile;
    for (int64_t from = 0; from < p->n_tile; from += wave) {
        int64_t to = from + wave < p->n_tile ? from + wave : p->n_tile;
#pragma omp parallel for schedule(dynamic, 1) num_threads(f->n_thread)
        for (int64_t i = (to - from) * n_head - 1; i >= 0; i--)
            if (!forward_poll(f))
                attend_tile(p, from + i / n_head, i % n_head);
        if (f->tap->wave && !atomic_load(&f->stopped)) {
            int64_t begin = from * f->tile, end = to * f->tile < p->n ? to * f->tile : p->n;
            f->tap->wave(f->tap->user, p->layer, f->length + begin, end - begin);
        }
    }
}

/* What comes in front of attention, or what comes behind it: the two share the room. */
static void decode_round(pass *p, bool behind)
{
    const kvt_weights_layer *w = p->w;
    const kvt_matrix *in[] = {&w->wq, &w->wk, &w->wv};
    const kvt_matrix *out[] = {&w->wo, &w->gate, &w->up, &w->down};
    const float *at[4];
    decoded_fill(at, p->f->decoded, behind ? out : in, behind ? 4 : 3, p->f->n_thread);
    if (behind)
        p->wo = at[0], p->gate = at[1], p->up = at[2], p->down = at[3];
    else
        p->wq = at[0], p->wk = at[1], p->wv = at[2];
}

static kvt_code layer(pass *p, kvt_err *err)
{
    forward *f = p->f;
    f->done = p->layer;
    decode_round(p, false);
#pragma omp parallel for schedule(dynamic, 1) num_threads(f->n_thread)
    for (int64_t i = 0; i < p->n_row_tile; i++)
        if (!forward_poll(f))
            project_in(p, i);
    if (f->tap->qk && !atomic_load(&f->stopped))
        f->tap->qk(f->tap->user, p->layer, f->length, p->n, f->q);
    attend_all(p);
    if (!atomic_load(&f->stopped))
        decode_round(p, true);
    int64_t begin = p->layer == f->g->n_layer - 1 ? forward_tile_of(p->n, p->out_from) : 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(f->n_thread)
    for (int64_t i = begin; i < p->n_row_tile; i++)
        if (!forward_poll(f))
            project_out(p, i);
    return forward_check(f, err);
}

/* Behind rows x [n E]: out [n m], columns v .. v + m of the vocabulary. */
static void logit_tile(const forward *f, float *out, const float *x, int64_t n, int64_t v,
                       int64_t m)
{
    int64_t e = f->g->n_hidden;
    if (n == 1) {
        f->b->matvec(out + v, &f->w->lm_head, v, m, x);
        return;
    }
    float *room = forward_own(f, omp_get_thread_num());
    f->b->gemm(GEMM_NT, &(gemm_args){.c = out + v,
                                     .a = x,
                                     .b = matrix_rows(&f->w->lm_head, v, m, room),
                                     .m = n,
                                     .n = m,
                                     .k = e,
                                     .lda = e,
                                     .ldb = e,
                                     .ldc = f->g->n_vocab,
                                     .alpha = 1.0f});
}

/* out [n V] = norm(x rows) lm_head^T, in tiles of vocabulary. */
static void logits(forward *f, float *out, float *x, int64_t n)
{
    const kvt_geometry *g = f->g;
    int64_t n_vocab = g->n_vocab;
    f->b->rmsnorm(x, x, f->w->out_norm, n, g->n_hidden, g->norm_eps);
#pragma omp parallel for schedule(dynamic, 1) num_threads(f->n_thread)
    for (int64_t v = 0; v < n_vocab; v += FORWARD_VOCAB)
        logit_tile(f, out, x, n, v, n_vocab - v < FORWARD_VOCAB ? n_vocab - v : FORWARD_VOCAB);
}

static kvt_code run(forward *f, const int32_t *id, int64_t n, int64_t out_from, kvt_err *err)
{
    kvt_code code = forward_embed(f, id, n, err);
    if (code)
        return code;
    gemm_one_thread(); /* the host program may have set it since */
    f->doing = "prefill";
    f->total = f->g->n_layer;
    pass p = {.f = f,
              .n = n,
              .n_tile = (n + f->tile - 1) / f->tile,
              .n_row_tile = forward_tile_of(n, n - 1) + 1,
              .out_from = out_from};
    for (p.layer = 0; p.layer < f->g->n_layer; p.layer++) {
        p.w = &f->w->layer[p.layer];
        code = layer(&p, err);
        if (code)
            return code;
    }
    return KVT_OK;
}

kvt_code forward_prefill(forward *f, const int32_t *id, int64_t n, kvt_err *err)
{
    if (f->device)
        return forward_device_pass(f, id, n, false, err);
    kvt_code code = run(f, id, n, n - 1, err);
    if (code)
        return code;
    f->length += n;
    logits(f, f->logit, f->x + (n - 1) * f->g->n_hidden, 1);
    if (f->tap->logits)
        f->tap->logits(f->tap->user, f->length - 1, f->logit);
    return KVT_OK;
}

kvt_code forward_force(forward *f, const int32_t *id, int64_t n, kvt_err *err)
{
    if (f->device)
        return forward_device_pass(f, id, n, true, err);
    int64_t n_vocab = f->g->n_vocab, begin = f->length;
    if (!f->many)
        f->many = kvt_alloc(FORWARD_LOGIT_ROWS * n_vocab, sizeof(float));
    if (!f->many)
        return kvt_fail_memory(err, FORWARD_LOGIT_ROWS * n_vocab * (int64_t)sizeof(float));
    kvt_code code = run(f, id, n, 0, err);
    if (code)
        return code;
    f->length += n;
    for (int64_t r = 0; r < n; r += FORWARD_LOGIT_ROWS) {
        int64_t m = n - r < FORWARD_LOGIT_ROWS ? n - r : FORWARD_LOGIT_ROWS;
        logits(f, f->many, f->x + r * f->g->n_hidden, m);
        for (int64_t i = 0; f->tap->logits && i < m; i++)
            f->tap->logits(f->tap->user, begin + r + i, f->many + i * n_vocab);
        memcpy(f->logit, f->many + (m - 1) * n_vocab, (size_t)n_vocab * sizeof *f->logit);
        code = forward_check(f, err);
        if (code)
            return code;
    }
    return KVT_OK;
}
