/* decode.c - one row: products of a matrix with a vector, limited by memory.
 *
 * The first thread goes through the layer, the others help (capture/crew.h). Matrix rows are
 * handed out in blocks of DECODE_ROWS: each result is one dot product, so that the cut changes
 * no bits. Attention is cut by kv head and chunks of DECODE_KEYS keys, anchored at key 0: all
 * query heads of a kv head read its chunk while it is in the cache, and the chunks' partial
 * sums are added in their order. */
#include "capture/crew.h"
#include "capture/forward_priv.h"

#include <omp.h>
#include <string.h>

typedef struct step {
    forward *f;
    int layer;
    const kvt_weights_layer *w;
    int64_t pos, n_chunk, stride; /* stride: scores of a head */
    int64_t from;                 /* first chunk that this row sees */
    float *y;                     /* f32 [E] after a norm */
    float *t;                     /* f32 [E] on its way to the residual */
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
    int64_t d = g->head_dim, h = i;
    const kvt_matrix *w = &s->w->wq;
    const float *bias = s->w->bq, *gain = s->w->q_norm;
    float *to = s->q + h * d;
    bool turn = true;
    if (i >= g->n_head) {
        turn = i < g->n_head + g->n_kv_head;
        h = (i - g->n_head) % g->n_kv_head;
        w = turn ? &s->w->wk : &s->w->wv;
        bias = turn ? s->w->bk : s->w->bv;
        gain = turn ? s->w->k_norm : NULL;
        to = (turn ? forward_k(f, s->layer, h) : forward_v(f, s->layer, h)) + s->pos * d;
    }
    f->b->matvec(to, w, h * d, d, y);
    steps_bias(f->b, to, bias ? bias + h * d : NULL, 1, d);
    steps_head_norm(f->b, to, gain, 1, g);
    if (turn)
        f->b->rope(to, d, forward_table(f, s->layer, s->pos), 1, 1, d);
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
    int64_t begin = s->from * DECODE_KEYS, n = s->pos + 1 - begin;
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

static void add_chunks(const step *s, int64_t head)
{
    int64_t d = s->f->g->head_dim;
    float *o = s->o + head * d;
    memset(o, 0, (size_t)d * sizeof *o);
    for (int64_t c = s->from; c < s->n_chunk; c++)
        s->f->b->add(o, s->part + (head * s->n_chunk + c) * d, d);
}

/* Block i of out = rows of w times y. */
static void project_block(const step *s, float *out, const kvt_matrix *w, const float *y,
                          int64_t i)
{
    int64_t row = i * DECODE_ROWS;
    s->f->b->matvec(out + row, w, row, block_rows(w->n_row, i), y);
}

static void gate_block(const step *s, const float *y, int64_t i)
{
    const kvt_geometry *g = s->f->g;
    float up[DECODE_ROWS];
    int64_t m = block_rows(g->n_ff, i), row = i * DECODE_ROWS;
    s->f->b->matvec(s->ff + row, &s->w->gate, row, m, y);
    s->f->b->matvec(up, &s->w->up, row, m, y);
    steps_gate(s->f->b, s->f->w, s->ff + row, up, m);
}

static void project_item(const void *arg, int64_t i)
{
    project_head(arg, ((const step *)arg)->y, i);
}

static void score_item(const void *arg, int64_t i)
{
    const step *s = arg;
    score_chunk(s, i / (s->n_chunk - s->from), s->from + i % (s->n_chunk - s->from));
}

static void softmax_item(const void *arg, int64_t i)
{
    softmax_head(arg, i);
}

static void mix_item(const void *arg, int64_t i)
{
    const step *s = arg;
    mix_chunk(s, i / (s->n_chunk - s->from), s->from + i % (s->n_chunk - s->from));
}

static void out_item(const void *arg, int64_t i)
{
    const step *s = arg;
    project_block(s, s->t, &s->w->wo, s->o, i);
}

static void gate_item(const void *arg, int64_t i)
{
    gate_block(arg, ((const step *)arg)->y, i);
}

static void down_item(const void *arg, int64_t i)
{
    const step *s = arg;
    project_block(s, s->t, &s->w->down, s->ff, i);
}

static void logit_item(const void *arg, int64_t i)
{
    const step *s = arg;
    project_block(s, s->f->logit, &s->f->w->lm_head, s->y, i);
}

/* The first thread, which also does the steps that are too short to share. */
static void drive(step *s, crew *c)
{
    forward *f = s->f;
    const kvt_geometry *g = f->g;
    for (s->layer = 0; s->layer < g->n_layer; s->layer++) {
        s->w = &f->w->layer[s->layer];
        s->from = attend_first(s->pos, g->window[s->layer]) / DECODE_KEYS;
        int64_t items = g->n_kv_head * (s->n_chunk - s->from);
        f->b->rmsnorm(s->y, f->x, s->w->attn_norm, 1, g->n_hidden, g->norm_eps);
        if (f->tap->hidden)
            f->tap->hidden(f->tap->user, s->layer, s->pos, 1, f->x, s->y);
        crew_round(c, g->n_head + 2 * g->n_kv_head, project_item, s);
        crew_round(c, items, score_item, s);
        crew_round(c, g->n_head, softmax_item, s);
        crew_round(c, items, mix_item, s);
        for (int64_t h = 0; h < g->n_head; h++)
            add_chunks(s, h);
        crew_round(c, blocks(g->n_hidden), out_item, s);
        steps_residual(f->b, f->x, s->t, s->w->post_attn_norm, 1, g);
        f->b->rmsnorm(s->y, f->x, s->w->ffn_norm, 1, g->n_hidden, g->norm_eps);
        crew_round(c, blocks(g->n_ff), gate_item, s);
        crew_round(c, blocks(g->n_hidden), down_item, s);
        steps_residual(f->b, f->x, s->t, s->w->post_ffn_norm, 1, g);
    }
    f->b->rmsnorm(s->y, f->x, f->w->out_norm, 1, g->n_hidden, g->norm_eps);
    crew_round(c, blocks(g->n_vocab), logit_item, s);
}

kvt_code forward_step(forward *f, int32_t id, kvt_err *err)
{
    if (f->device)
        return forward_device_pass(f, &id, 1, false, err);
    const kvt_geometry *g = f->g;
    kvt_code code = forward_embed(f, &id, 1, err);
    if (code)
        return code;
    step s = {.f = f,
              .pos = f->length,
              .stride = f->cap,
              .q = f->q,
              .o = f->o,
              .n_chunk = f->length / DECODE_KEYS + 1,
              .score = f->part,
              .y = forward_own(f, 0)};
    s.lse = s.score + g->n_head * f->cap;
    s.part = s.lse + g->n_head;
    s.t = s.y + g->n_hidden;
    s.ff = s.t + g->n_hidden;
    crew c;
    crew_init(&c);
#pragma omp parallel num_threads(f->n_thread)
    {
        if (omp_get_thread_num() != 0) {
            crew_help(&c);
        } else {
            drive(&s, &c);
            crew_dismiss(&c);
        }
    }
    f->length++;
    if (f->tap->logits)
        f->tap->logits(f->tap->user, f->length - 1, f->logit);
    return KVT_OK;
}
