/* decode.c - one row: products of a matrix with a vector, limited by memory.
 *
 * All threads go through the layer together; between two steps of it is a barrier. Matrix rows
 * are handed out in blocks of DECODE_ROWS: each result is one dot product, so that the cut
 * changes no bits. Attention is cut by kv head and chunks of DECODE_KEYS keys, anchored at key
 * 0: all query heads of a kv head read its chunk while it is in the cache, and the chunks'
 * partial sums are added in their order. Small steps (norms) are done by every thread for
 * itself. */
#include "capture/forward_priv.h"

#include <omp.h>
#include <string.h>

typedef struct step {
    forward *f;
    int layer;
    const kvt_weights_layer *w;
    int64_t pos, n_chunk, stride; /* stride: scores of a head */
    float *q;                     /* f32 [H D] after RoPE */
    float *o;                     /* f32 [H D] */
    float *ff;                    /* f32 [F] */
    float *score, *lse, *part;    /* f32 [H cap], [H], [H chunks D] */
} step;

static int64_t blocks(int64_t n)
{
    return (n + DECODE_ROWS - 1) / DECODE_ROWS;
}

static int64_t block_rows(int64_t n, int64_t i)
{
    return n - i * DECODE_ROWS < DECODE_ROWS ? n - i * DECODE_ROWS : DECODE_ROWS;
}

/* Head i of q, then of k, then of v. */
static void project_head(const step *s, const float *y, int64_t i)
{
    forward *f = s->f;
    const kvt_geometry *g = f->g;
    int64_t d = g->head_dim, e = g->n_hidden, h = i;
    const float *w = s->w->wq, *table = f->table + s->pos * d;
    float *to = s->q + h * d;
    bool turn = true;
    if (i >= g->n_head) {
        turn = i < g->n_head + g->n_kv_head;
        h = (i - g->n_head) % g->n_kv_head;
        w = turn ? s->w->wk : s->w->wv;
        to = (turn ? forward_k(f, s->layer, h) : forward_v(f, s->layer, h)) + s->pos * d;
    }
    f->b->gemv(to, w + h * d * e, y, d, e);
    if (turn)
        f->b->rope(to, d, table, 1, 1, d);
}

/* First key that this row sees, down to its chunk's begin. */
static int64_t first_chunk(const step *s)
{
    return attend_first(s->pos, s->f->g->window[s->layer]) / DECODE_KEYS;
}

static void score_chunk(const step *s, int64_t kv_head, int64_t chunk)
{
    const kvt_geometry *g = s->f->g;
    int64_t group = g->n_head / g->n_kv_head, t = chunk * DECODE_KEYS;
    int64_t n = s->pos + 1 - t < DECODE_KEYS ? s->pos + 1 - t : DECODE_KEYS;
    const float *k = forward_k(s->f, s->layer, kv_head) + t * g->head_dim;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++)
        s->f->b->gemv(s->score + h * s->stride + t, k, s->q + h * g->head_dim, n, g->head_dim);
}

static void softmax_head(const step *s, int64_t head)
{
    forward *f = s->f;
    int64_t begin = first_chunk(s) * DECODE_KEYS, n = s->pos + 1 - begin;
    int64_t first = attend_first(s->pos, f->g->window[s->layer]);
    float *z = s->score + head * s->stride + begin, scale = (float)f->g->attn_scale;
    for (int64_t t = 0; t < n; t++)
        z[t] *= scale;
    s->lse[head] = f->b->softmax(z, n, first - begin, n);
    if (f->tap->tile)
        f->tap->tile(f->tap->user, &(tap_tile){.layer = s->layer,
                                               .head = (int)head,
                                               .step = true,
                                               .pos = s->pos,
                                               .n_row = 1,
                                               .first = first,
                                               .n_key = s->pos + 1 - first,
                                               .q = s->q + head * f->g->head_dim,
                                               .p = z + first - begin,
                                               .lse = s->lse + head});
}

static void mix_chunk(const step *s, int64_t kv_head, int64_t chunk)
{
    const kvt_geometry *g = s->f->g;
    int64_t group = g->n_head / g->n_kv_head, t = chunk * DECODE_KEYS, d = g->head_dim;
    int64_t n = s->pos + 1 - t < DECODE_KEYS ? s->pos + 1 - t : DECODE_KEYS;
    const float *v = forward_v(s->f, s->layer, kv_head) + t * d;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
        float *part = s->part + (h * s->n_chunk + chunk) * d;
        memset(part, 0, (size_t)d * sizeof *part);
        s->f->b->mix(part, s->score + h * s->stride + t, v, n, d);
    }
}

static void add_chunks(const step *s, int64_t head, int64_t from)
{
    int64_t d = s->f->g->head_dim;
    float *o = s->o + head * d;
    memset(o, 0, (size_t)d * sizeof *o);
    for (int64_t c = from; c < s->n_chunk; c++)
        s->f->b->add(o, s->part + (head * s->n_chunk + c) * d, d);
}

/* x rows of block i += rows of w times y. */
static void project_block(const step *s, const float *w, const float *y, int64_t n, int64_t k,
                          int64_t i)
{
    float t[DECODE_ROWS];
    int64_t m = block_rows(n, i), row = i * DECODE_ROWS;
    s->f->b->gemv(t, w + row * k, y, m, k);
    s->f->b->add(s->f->x + row, t, m);
}

static void gate_block(const step *s, const float *y, int64_t i)
{
    const kvt_geometry *g = s->f->g;
    float up[DECODE_ROWS];
    int64_t m = block_rows(g->n_ff, i), row = i * DECODE_ROWS, e = g->n_hidden;
    s->f->b->gemv(s->ff + row, s->w->gate + row * e, y, m, e);
    s->f->b->gemv(up, s->w->up + row * e, y, m, e);
    s->f->b->silu_mul(s->ff + row, up, m);
}

/* Inside a parallel region, by all threads. y: this thread's own, f32 [E]. */
static void attend(const step *s, float *y)
{
    forward *f = s->f;
    const kvt_geometry *g = f->g;
    f->b->rmsnorm(y, f->x, s->w->attn_norm, 1, g->n_hidden, g->norm_eps);
#pragma omp master
    if (f->tap->hidden)
        f->tap->hidden(f->tap->user, s->layer, s->pos, 1, f->x, y);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < g->n_head + 2 * g->n_kv_head; i++)
        project_head(s, y, i);
    int64_t from = first_chunk(s), n = s->n_chunk - from;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < g->n_kv_head * n; i++)
        score_chunk(s, i / n, from + i % n);
#pragma omp for schedule(static)
    for (int64_t h = 0; h < g->n_head; h++)
        softmax_head(s, h);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < g->n_kv_head * n; i++)
        mix_chunk(s, i / n, from + i % n);
#pragma omp for schedule(static)
    for (int64_t h = 0; h < g->n_head; h++)
        add_chunks(s, h, from);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < blocks(g->n_hidden); i++)
        project_block(s, s->w->wo, s->o, g->n_hidden, g->n_head * g->head_dim, i);
}

static void feed(const step *s, float *y)
{
    forward *f = s->f;
    const kvt_geometry *g = f->g;
    f->b->rmsnorm(y, f->x, s->w->ffn_norm, 1, g->n_hidden, g->norm_eps);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < blocks(g->n_ff); i++)
        gate_block(s, y, i);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < blocks(g->n_hidden); i++)
        project_block(s, s->w->down, s->ff, g->n_hidden, g->n_ff, i);
}

kvt_code forward_step(forward *f, int32_t id, kvt_err *err)
{
    const kvt_geometry *g = f->g;
    kvt_code code = forward_embed(f, &id, 1, err);
    if (code)
        return code;
    int64_t e = g->n_hidden;
    step base = {.f = f,
                 .pos = f->length,
                 .stride = f->cap,
                 .q = f->q,
                 .o = f->o,
                 .n_chunk = f->length / DECODE_KEYS + 1,
                 .score = f->part};
    base.lse = base.score + g->n_head * f->cap;
    base.part = base.lse + g->n_head;
    base.ff = forward_own(f, 0) + e; /* behind thread 0's y */
#pragma omp parallel num_threads(f->n_thread)
    {
        float *y = forward_own(f, omp_get_thread_num());
        step s = base;
        for (s.layer = 0; s.layer < g->n_layer; s.layer++) {
            s.w = &f->w->layer[s.layer];
            attend(&s, y);
            feed(&s, y);
        }
        f->b->rmsnorm(y, f->x, f->w->out_norm, 1, e, g->norm_eps);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < blocks(g->n_vocab); i++)
            f->b->gemv(f->logit + i * DECODE_ROWS, f->w->lm_head + i * DECODE_ROWS * e, y,
                       block_rows(g->n_vocab, i), e);
    }
    f->length++;
    if (f->tap->logits)
        f->tap->logits(f->tap->user, f->length - 1, f->logit);
    return KVT_OK;
}
