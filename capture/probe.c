/* probe.c - extra rows behind a stored prompt, layer by layer.
 *
 * Products are cut by a grid of rows and columns that depends on shapes only, attention by head
 * and tile of rows (probe_attend.c): the same bytes for any number of threads. A LoRA is added
 * to each piece of its product, so that one whose B is 0 changes no bit. */
#include "capture/probe_priv.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "capture/decoded.h"
#include "capture/steps.h"
#include "kvt/arena.h"

void probe_out_free(probe_out *o)
{
    kvt_free(o->q);
    kvt_free(o->k);
    kvt_free(o->lse);
    kvt_free(o->norm);
    kvt_free(o->pos);
    kvt_free(o->id);
    kvt_free(o->logit);
    *o = (probe_out){0};
}

/* ---- memory --------------------------------------------------------------------------------
 */

static bool take_out(probe_out *o, const probe_state *s)
{
    const kvt_geometry *g = s->g;
    int64_t layers = g->n_layer * s->cap;
    o->q = kvt_alloc(layers * g->n_head * g->head_dim, sizeof *o->q);
    o->k = kvt_alloc(layers * g->n_kv_head * g->head_dim, sizeof *o->k);
    o->lse = kvt_alloc(layers * g->n_head, sizeof *o->lse);
    o->norm = kvt_alloc(layers, sizeof *o->norm);
    o->pos = kvt_alloc(s->cap, sizeof *o->pos);
    if (s->id)
        o->id = kvt_alloc(s->cap, sizeof *o->id);
    return o->q && o->k && o->lse && o->norm && o->pos && (o->id || !s->id);
}

/* The largest matrix of a layer; a row by itself reads matrices as they lie. */
static int64_t decoded_most(const kvt_weights *w, int64_t cap, bool one_by_one)
{
    int64_t most = 0;
    for (int64_t l = 0; !one_by_one && cap > 1 && l < w->geometry.n_layer; l++) {
        const kvt_weights_layer *y = &w->layer[l];
        const kvt_matrix *all[] = {&y->wq, &y->wk, &y->wv, &y->wo, &y->gate, &y->up, &y->down};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            int64_t n = decoded_floats(&all[i], 1);
            most = n > most ? n : most;
        }
    }
    return most;
}

static bool take_state(probe_state *s)
{
    const kvt_geometry *g = s->g;
    int64_t hd = g->n_head * g->head_dim, gd = g->n_kv_head * g->head_dim, n = s->cap;
    int64_t own = (s->one_by_one ? g->n_layer : 1) * gd * n;
    int64_t rank = s->p->adapter ? s->p->adapter->rank : 0;
    s->stride = (probe_attend_floats(s) + 15) / 16 * 16;
    s->pos = kvt_alloc(n, sizeof *s->pos);
    s->first = kvt_alloc(n, sizeof *s->first);
    s->x = kvt_alloc(n * g->n_hidden, sizeof(float));
    s->y = kvt_alloc(n * g->n_hidden, sizeof(float));
    s->q = kvt_alloc(n * hd, sizeof(float));
    s->o = kvt_alloc(n * hd, sizeof(float));
    s->kv = kvt_alloc(n * gd, sizeof(float));
    s->gate = kvt_alloc(n * g->n_ff, sizeof(float));
    s->up = kvt_alloc(n * g->n_ff, sizeof(float));
    s->low = kvt_alloc(n * rank, sizeof(float));
    s->table = kvt_alloc(n * g->head_dim, sizeof(float));
    s->local = kvt_alloc(n * g->head_dim, sizeof(float));
    s->decoded = kvt_alloc(decoded_most(s->p->weights, s->cap, s->one_by_one), sizeof(float));
    s->k = kvt_alloc(own, sizeof(float));
    s->v = kvt_alloc(own, sizeof(float));
    s->logit = kvt_alloc(g->n_vocab, sizeof(float));
    s->scratch = kvt_alloc(s->n_thread * s->stride, sizeof(float));
    return s->pos && s->first && s->x && s->y && s->q && s->o && s->kv && s->gate && s->up &&
           s->low && s->table && s->local && s->decoded && s->k && s->v && s->logit &&
           s->scratch;
}

int64_t probe_state_bytes(const kvt_weights *w, int64_t n_prompt, int64_t n, bool one_by_one,
                          int64_t rank, int n_thread)
{
    const kvt_geometry *g = &w->geometry;
    int64_t hd = g->n_head * g->head_dim, gd = g->n_kv_head * g->head_dim;
    probe_state s = {.g = g, .n_prompt = n_prompt, .cap = n, .one_by_one = one_by_one};
    int64_t row = 2 + 2 * g->n_hidden + 2 * hd + gd + 2 * g->n_ff + rank + 2 * g->head_dim;
    int64_t own = 2 * (one_by_one ? g->n_layer : 1) * gd;
    return (int64_t)sizeof(float) *
           (n * (row + own) + g->n_vocab + decoded_most(w, n, one_by_one) +
            n_thread * (probe_attend_floats(&s) + 15));
}

/* Cosines and sines of row r. */
static void turn_row(probe_state *s, const double *freq, double factor, bool local, int64_t r)
{
    int64_t d = s->g->head_dim;
    rope_table((local ? s->local : s->table) + r * d, freq, factor, s->pos[r], 1, d);
}

static void turn_rows(probe_state *s)
{
    double freq[KVT_HEAD_DIM_MAX / 2];
    bool done[2] = {false, false};
    for (int l = 0; l < s->g->n_layer; l++) {
        bool local = kvt_geometry_is_local(s->g, l);
        if (done[local])
            continue;
        double factor = kvt_geometry_rope(freq, s->g, l);
        for (int64_t r = 0; r < s->cap; r++)
            turn_row(s, freq, factor, local, r);
        done[local] = true;
    }
}

static kvt_code place_rows(probe_state *s, kvt_err *err)
{
    const probe_pass *p = s->p;
    for (int64_t r = 0; r < s->cap; r++) {
        s->pos[r] = p->pos ? p->pos[r] : (int32_t)(s->n_prompt + r);
        if (s->pos[r] < s->n_prompt)
            return kvt_fail(err, KVT_USAGE,
                            "row %lld of a probe is at position %d, inside the prompt of %lld",
                            (long long)r, s->pos[r], (long long)s->n_prompt);
        if (p->segment && r > 0 && p->segment[r] < p->segment[r - 1])
            return kvt_fail(err, KVT_USAGE, "segments of a probe must rise, row %lld does not",
                            (long long)r);
        s->first[r] = r == 0                                             ? 0
                      : p->segment && p->segment[r] != p->segment[r - 1] ? r
                                                                         : s->first[r - 1];
    }
    turn_rows(s);
    return KVT_OK;
}

kvt_code probe_begin(probe_state *s, const probe_pass *p, probe_out *out, int64_t cap,
                     bool one_by_one, kvt_err *err)
{
    const kvt_geometry *g = &p->weights->geometry;
    *out = (probe_out){0};
    *s = (probe_state){.p = p,
                       .g = g,
                       .b = p->backend,
                       .n_thread = kvt_threads(p->ctx),
                       .n_prompt = p->prompt->n_prompt,
                       .cap = cap,
                       .one_by_one = one_by_one,
                       .out = out};
    if (cap < 1 || s->n_prompt < 1 || s->n_prompt + cap > INT32_MAX)
        return kvt_fail(err, KVT_USAGE, "a probe of %lld rows behind %lld tokens",
                        (long long)cap, (long long)s->n_prompt);
    if (p->keep && p->n_lane != g->n_head && p->n_lane != g->n_kv_head)
        return kvt_fail(err, KVT_USAGE, "a probe's cache has %d lanes, expected %lld or %lld",
                        p->n_lane, (long long)g->n_kv_head, (long long)g->n_head);
    if (!p->embed && !(s->id = kvt_alloc(cap, sizeof *s->id)))
        return kvt_fail_memory(err, (size_t)cap * sizeof *s->id);
    if (!take_state(s) || !take_out(out, s))
        return kvt_fail(err, KVT_NOMEM, "out of memory: a probe of %lld rows", (long long)cap);
    gemm_one_thread();
    return place_rows(s, err);
}

void probe_end(probe_state *s)
{
    kvt_free(s->id);
    kvt_free(s->pos);
    kvt_free(s->first);
    kvt_free(s->x);
    kvt_free(s->y);
    kvt_free(s->q);
    kvt_free(s->o);
    kvt_free(s->kv);
    kvt_free(s->gate);
    kvt_free(s->up);
    kvt_free(s->low);
    kvt_free(s->table);
    kvt_free(s->local);
    kvt_free(s->decoded);
    kvt_free(s->k);
    kvt_free(s->v);
    kvt_free(s->logit);
    kvt_free(s->scratch);
}

kvt_code probe_embed(probe_state *s, int64_t r, int32_t id, kvt_err *err)
{
    int64_t e = s->g->n_hidden;
    float *x = s->x + (r - s->done) * e, scale = (float)s->g->embed_scale;
    if (id < 0 || id >= s->g->n_vocab)
        return kvt_fail(err, KVT_USAGE, "token %d of a probe: the vocabulary has %lld", id,
                        (long long)s->g->n_vocab);
    const float *from = matrix_rows(&s->p->weights->embed, id, 1, x);
    for (int64_t i = 0; i < e; i++)
        x[i] = from[i] * scale;
    s->id[r] = id;
    return KVT_OK;
}

/* ---- products ------------------------------------------------------------------------------
 */

typedef struct product {
    const probe_state *s;
    float *out;
    const float *x;
    const kvt_matrix *matrix; /* [n_out in] */
    const float *w;           /* its values; NULL for a row by itself */
    int64_t in, n_out;
    const adapter_map *lora; /* its a is NULL: none */
    float scale;
} product;

static void gemm(const product *p, float *c, const float *a, const float *b, int64_t m,
                 int64_t n, int64_t k, int64_t ldc, float alpha, float beta)
{
    p->s->b->gemm(GEMM_NT, &(gemm_args){.c = c,
                                        .a = a,
                                        .b = b,
                                        .m = m,
                                        .n = n,
                                        .k = k,
                                        .lda = k,
                                        .ldb = k,
                                        .ldc = ldc,
                                        .alpha = alpha,
                                        .beta = beta});
}

static void piece(const product *p, int64_t row, int64_t column)
{
    const probe_state *s = p->s;
    int64_t m = s->n - row < PROBE_ROWS ? s->n - row : PROBE_ROWS,
            r = s->p->adapter ? s->p->adapter->rank : 0;
    int64_t n = p->n_out - column < PROBE_COLUMNS ? p->n_out - column : PROBE_COLUMNS;
    float *c = p->out + row * p->n_out + column;
    if (s->n == 1)
        s->b->matvec(c, p->matrix, column, n, p->x);
    else
        gemm(p, c, p->x + row * p->in, p->w + column * p->in, m, n, p->in, p->n_out, 1, 0);
    if (p->lora->a)
        gemm(p, c, s->low + row * r, p->lora->b + column * r, m, n, r, p->n_out, p->scale, 1);
}

/* out [n n_out] = x w^T, and the LoRA of that map. */
static void project(const probe_state *s, float *out, const float *x, const kvt_matrix *w,
                    int layer, adapter_map_id map)
{
    static const adapter_map none;
    const adapter *a = s->p->adapter;
    product p = {.s = s, .out = out, .x = x, .matrix = w, .lora = &none};
    adapter_map_shape(s->g, map, &p.in, &p.n_out);
    if (a && a->rank && a->layer[layer][map].a) {
        p.lora = &a->layer[layer][map];
        p.scale = (float)(a->alpha / (double)a->rank);
    }
    if (s->n > 1)
        decoded_fill(&p.w, s->decoded, &w, 1, s->n_thread);
    int64_t n_row = (s->n + PROBE_ROWS - 1) / PROBE_ROWS;
    int64_t n_column = (p.n_out + PROBE_COLUMNS - 1) / PROBE_COLUMNS;
    for (int64_t i = 0; p.lora->a && i < n_row; i++) {
        int64_t row = i * PROBE_ROWS, m = s->n - row < PROBE_ROWS ? s->n - row : PROBE_ROWS;
        gemm(&p, s->low + row * a->rank, x + row * p.in, p.lora->a, m, a->rank, p.in, a->rank,
             1, 0);
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(s->n_thread)
    for (int64_t i = 0; i < n_row * n_column; i++)
        piece(&p, i / n_column * PROBE_ROWS, i % n_column * PROBE_COLUMNS);
}

/* ---- one layer -----------------------------------------------------------------------------
 */

static void record_norm(const probe_state *s, int layer)
{
    for (int64_t r = 0; r < s->n; r++) {
        double sum = 0;
        const float *x = s->x + r * s->g->n_hidden;
        for (int64_t e = 0; e < s->g->n_hidden; e++)
            sum += (double)x[e] * (double)x[e];
        s->out->norm[layer * s->cap + s->done + r] = (float)sqrt(sum);
    }
}

/* Rows [n heads D] of a pass to [heads cap D], as halves into `half` and as they are into
 * `own`; either may be NULL. */
static void spread(const probe_state *s, const float *rows, int64_t n_head, uint16_t *half,
                   float *own)
{
    int64_t d = s->g->head_dim;
    for (int64_t h = 0; h < n_head; h++)
        for (int64_t r = 0; r < s->n; r++) {
            const float *x = rows + (r * n_head + h) * d;
            int64_t to = (h * s->cap + s->done + r) * d;
            if (half)
                half_from_floats(half + to, x, d);
            if (own)
                memcpy(own + to, x, (size_t)d * sizeof *own);
        }
}

static void project_in(probe_state *s, int layer)
{
    const kvt_geometry *g = s->g;
    const kvt_weights_layer *w = &s->p->weights->layer[layer];
    int64_t d = g->head_dim, hd = g->n_head * d, gd = g->n_kv_head * d;
    const float *table = (kvt_geometry_is_local(g, layer) ? s->local : s->table) + s->done * d;
    s->b->rmsnorm(s->y, s->x, w->attn_norm, s->n, g->n_hidden, g->norm_eps);
    project(s, s->q, s->y, &w->wq, layer, ADAPTER_Q);
    steps_bias(s->b, s->q, w->bq, s->n, hd);
    steps_head_norm(s->b, s->q, w->q_norm, s->n * g->n_head, g);
    s->b->rope(s->q, hd, table, s->n, g->n_head, d);
    spread(s, s->q, g->n_head, s->out->q + layer * hd * s->cap, NULL);
    project(s, s->kv, s->y, &w->wk, layer, ADAPTER_K);
    steps_bias(s->b, s->kv, w->bk, s->n, gd);
    steps_head_norm(s->b, s->kv, w->k_norm, s->n * g->n_kv_head, g);
    s->b->rope(s->kv, gd, table, s->n, g->n_kv_head, d);
    spread(s, s->kv, g->n_kv_head, s->out->k + layer * gd * s->cap,
           probe_own(s, s->k, layer, 0));
    project(s, s->kv, s->y, &w->wv, layer, ADAPTER_V);
    steps_bias(s->b, s->kv, w->bv, s->n, gd);
    spread(s, s->kv, g->n_kv_head, NULL, probe_own(s, s->v, layer, 0));
}

static void project_out(probe_state *s, int layer)
{
    const kvt_geometry *g = s->g;
    const kvt_weights_layer *w = &s->p->weights->layer[layer];
    project(s, s->y, s->o, &w->wo, layer, ADAPTER_O);
    steps_residual(s->b, s->x, s->y, w->post_attn_norm, s->n, g);
    s->b->rmsnorm(s->y, s->x, w->ffn_norm, s->n, g->n_hidden, g->norm_eps);
    project(s, s->gate, s->y, &w->gate, layer, ADAPTER_GATE);
    project(s, s->up, s->y, &w->up, layer, ADAPTER_UP);
    steps_gate(s->b, s->p->weights, s->gate, s->up, s->n * g->n_ff);
    project(s, s->y, s->gate, &w->down, layer, ADAPTER_DOWN);
    steps_residual(s->b, s->x, s->y, w->post_ffn_norm, s->n, g);
}

static void run_logits(probe_state *s)
{
    const kvt_weights *w = s->p->weights;
    int64_t e = s->g->n_hidden, V = s->g->n_vocab, width = 256;
    s->b->rmsnorm(s->y, s->x + (s->n - 1) * e, w->out_norm, 1, e, s->g->norm_eps);
#pragma omp parallel for schedule(dynamic, 1) num_threads(s->n_thread)
    for (int64_t v = 0; v < V; v += width)
        s->b->matvec(s->logit + v, &w->lm_head, v, V - v < width ? V - v : width, s->y);
}

kvt_code probe_rows(probe_state *s, int64_t n, bool logits, kvt_err *err)
{
    int n_layer = (int)s->g->n_layer;
    s->n = n;
    for (int layer = 0; layer < n_layer; layer++) {
        if (kvt_progress(s->p->ctx, "probe", layer, n_layer, err))
            return err->code;
        record_norm(s, layer);
        project_in(s, layer);
        probe_attend(s, layer);
        if (s->failed.code) {
            *err = s->failed;
            return err->code;
        }
        if (layer < n_layer - 1 || logits)
            project_out(s, layer); /* of the last layer only a logit needs it */
    }
    if (logits)
        run_logits(s);
    s->done += n;
    return KVT_OK;
}

kvt_code probe_run(probe_out *out, const probe_pass *p, bool logits, kvt_err *err)
{
    probe_state s;
    kvt_code code = probe_begin(&s, p, out, p->n_row, false, err);
    if (!code && p->embed)
        memcpy(s.x, p->embed, (size_t)(p->n_row * s.g->n_hidden) * sizeof *s.x);
    for (int64_t r = 0; !code && !p->embed && r < p->n_row; r++)
        code = probe_embed(&s, r, p->id[r], err);
    if (!code)
        code = probe_rows(&s, p->n_row, logits, err);
    if (!code) {
        out->n_row = p->n_row;
        memcpy(out->pos, s.pos, (size_t)s.cap * sizeof *s.pos);
        if (out->id)
            memcpy(out->id, s.id, (size_t)s.cap * sizeof *s.id);
        if (logits) {
            out->logit = s.logit;
            s.logit = NULL;
        }
    }
    probe_end(&s);
    if (code)
        probe_out_free(out);
    return code;
}
