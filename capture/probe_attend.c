/* probe_attend.c - attention of a probe's rows over the stored prompt and over themselves.
 *
 * An item is a query head and a tile of rows. Its scores stand in whole rows, the prompt first
 * and the rows' own keys behind, so that lse and probabilities are final in one pass. */
#include "capture/probe_priv.h"

#include <math.h>
#include <omp.h>
#include <string.h>

typedef struct item {
    probe_state *s;
    int layer;
    int64_t head, kv_head;
    int64_t row, m;        /* rows of the probe */
    int64_t own, n_own;    /* own keys that a row of the tile may see */
    int64_t width;         /* N + n_own */
    float *prompt, *q, *z; /* f32 [N D], [m D], [m width] */
} item;

int64_t probe_attend_floats(const probe_state *s)
{
    int64_t m = s->cap < PROBE_ROWS ? s->cap : PROBE_ROWS;
    return s->n_prompt * s->g->head_dim + m * (s->g->head_dim + s->n_prompt + s->cap);
}

static bool load(item *t, bool keys)
{
    kvt_err err;
    const kvt_prompt *p = t->s->p->prompt;
    kvt_code code =
        (keys ? p->keys : p->values)(p->self, t->layer, (int)t->kv_head, t->prompt, &err);
    if (code) {
#pragma omp critical(kvt_probe_failed)
        if (!t->s->failed.code)
            t->s->failed = err;
    }
    return !code;
}

/* z [m n] = scale q [m D] k [n D]^T; a row by itself without packing the keys. */
static void score(const item *t, float *z, const float *k, int64_t n)
{
    const kvt_geometry *g = t->s->g;
    int64_t d = g->head_dim;
    float scale = (float)g->attn_scale;
    if (t->m == 1) {
        t->s->b->gemv(z, k, t->q, n, d);
        for (int64_t j = 0; j < n; j++)
            z[j] *= scale;
        return;
    }
    t->s->b->gemm(GEMM_NT, &(gemm_args){.c = z,
                                        .a = t->q,
                                        .b = k,
                                        .m = t->m,
                                        .n = n,
                                        .k = d,
                                        .lda = d,
                                        .ldb = d,
                                        .ldc = t->width,
                                        .alpha = scale});
}

/* o rows += z [m n] v [n D] */
static void mix(const item *t, const float *z, const float *v, int64_t n)
{
    const kvt_geometry *g = t->s->g;
    int64_t d = g->head_dim, hd = g->n_head * d;
    float *o = t->s->o + (t->row - t->s->done) * hd + t->head * d;
    if (t->m == 1) {
        t->s->b->mix(o, z, v, n, d);
        return;
    }
    t->s->b->gemm(GEMM_NN, &(gemm_args){.c = o,
                                        .a = z,
                                        .b = v,
                                        .m = t->m,
                                        .n = d,
                                        .k = n,
                                        .lda = t->width,
                                        .ldb = d,
                                        .ldc = hd,
                                        .alpha = 1.0f,
                                        .beta = 1.0f});
}

/* What row r does not see becomes -inf, which the softmax turns into 0. */
static void hide(const item *t, int64_t r, float *z)
{
    const probe_state *s = t->s;
    int64_t window = s->g->window[t->layer], N = s->n_prompt, pos = s->pos[r];
    const uint8_t *keep = s->p->keep;
    if (keep) {
        int64_t lane = s->p->n_lane == s->g->n_head ? t->head : t->kv_head;
        keep += (t->layer * s->p->n_lane + lane) * N;
        for (int64_t j = 0; j < N; j++)
            if (!keep[j])
                z[j] = -INFINITY;
    }
    int64_t gone = window && pos >= window ? pos - window + 1 : 0;
    for (int64_t j = 0; j < gone && j < N; j++)
        z[j] = -INFINITY;
    for (int64_t c = t->own; c < t->own + t->n_own; c++)
        if (c < s->first[r] || c > r || (window && pos - s->pos[c] >= window))
            z[N + c - t->own] = -INFINITY;
}

static void attend(item *t)
{
    probe_state *s = t->s;
    const kvt_geometry *g = s->g;
    int64_t d = g->head_dim, hd = g->n_head * d, N = s->n_prompt, at = t->row - s->done;
    for (int64_t r = 0; r < t->m; r++) {
        memcpy(t->q + r * d, s->q + (at + r) * hd + t->head * d, (size_t)d * sizeof *t->q);
        memset(s->o + (at + r) * hd + t->head * d, 0, (size_t)d * sizeof *s->o);
    }
    if (!load(t, true))
        return;
    score(t, t->z, t->prompt, N);
    score(t, t->z + N, probe_own(s, s->k, t->layer, t->kv_head) + t->own * d, t->n_own);
    float *lse = s->out->lse + (t->layer * g->n_head + t->head) * s->cap + t->row;
    for (int64_t r = 0; r < t->m; r++) {
        float *z = t->z + r * t->width;
        hide(t, t->row + r, z);
        lse[r] = s->b->softmax(z, t->width, 0, t->width);
    }
    if (!load(t, false))
        return;
    mix(t, t->z, t->prompt, N);
    mix(t, t->z + N, probe_own(s, s->v, t->layer, t->kv_head) + t->own * d, t->n_own);
}

void probe_attend(probe_state *s, int layer)
{
    const kvt_geometry *g = s->g;
    int64_t n_tile = (s->n + PROBE_ROWS - 1) / PROBE_ROWS, group = g->n_head / g->n_kv_head;
#pragma omp parallel for schedule(dynamic, 1) num_threads(s->n_thread)
    for (int64_t i = 0; i < n_tile * g->n_head; i++) {
        int64_t row = s->done + i / g->n_head * PROBE_ROWS, end = s->done + s->n;
        item t = {.s = s, .layer = layer, .head = i % g->n_head, .row = row};
        t.kv_head = t.head / group;
        t.m = end - row < PROBE_ROWS ? end - row : PROBE_ROWS;
        t.own = s->first[row];
        t.n_own = row + t.m - t.own;
        t.width = s->n_prompt + t.n_own;
        t.prompt = s->scratch + omp_get_thread_num() * s->stride;
        t.q = t.prompt + s->n_prompt * g->head_dim;
        t.z = t.q + t.m * g->head_dim;
        attend(&t);
    }
}
