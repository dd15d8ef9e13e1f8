/* forward_run.h - for the tests of the forward pass: tiny models, a tap that keeps everything
 * it is told, and comparison with the pass in double. */
#ifndef TESTS_UNIT_FORWARD_RUN_H
#define TESTS_UNIT_FORWARD_RUN_H

#include <math.h>
#include <stdlib.h>

#include "capture/forward.h"
#include "compute/backend.h"
#include "tests/check.h"
#include "tests/model_load.h"
#include "tests/model_make.h"
#include "tests/naive.h"

enum { LIMIT = 1 << 26 };

typedef struct model {
    gguf_make m;
    buf bytes;
    gguf *g;
    kvt_weights *w;
    kvt_backend *b;
} model;

static inline void model_init(model *t, const model_make_options *o,
                              const kvt_weights_options *how)
{
    kvt_err err;
    gguf_make_init(&t->m);
    model_make_into(&t->m, o);
    buf_init(&t->bytes, LIMIT);
    gguf_make_bytes(&t->m, &t->bytes);
    CHECK_OK(gguf_read(&t->g, (const uint8_t *)t->bytes.data, t->bytes.n, &err), &err);
    CHECK_OK(load_gguf(&t->w, t->g, how, NULL, &err), &err);
    CHECK_OK(kvt_backend_open(&t->b, "cpu", NULL, &err), &err);
}

static inline void model_fini(model *t)
{
    kvt_backend_close(t->b);
    kvt_weights_free(t->w);
    gguf_close(t->g);
    buf_fini(&t->bytes);
    gguf_make_fini(&t->m);
}

static inline int32_t *ids_new(int64_t n, int64_t n_vocab, uint64_t seed)
{
    int32_t *id = malloc((size_t)n * sizeof *id);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        id[i] = (int32_t)((seed >> 33) % (uint64_t)n_vocab);
    }
    return id;
}

/* A tap that keeps everything. */
typedef struct seen {
    const kvt_geometry *g;
    int64_t cap;
    float *x, *q0, *q, *p, *lse, *logit;
    int waves;
} seen;

static inline void on_hidden(void *user, int layer, int64_t pos, int64_t n, const float *x,
                             const float *y)
{
    seen *s = user;
    int64_t e = s->g->n_hidden;
    (void)y;
    memcpy(s->x + (layer * s->cap + pos) * e, x, (size_t)(n * e) * sizeof *x);
}

static inline void on_qk(void *user, int layer, int64_t pos, int64_t n, const float *q)
{
    seen *s = user;
    int64_t hd = s->g->n_head * s->g->head_dim;
    memcpy(s->q0 + (layer * s->cap + pos) * hd, q, (size_t)(n * hd) * sizeof *q);
}

static inline void on_tile(void *user, const tap_tile *t)
{
    seen *s = user;
    int64_t d = s->g->head_dim, lane = t->layer * s->g->n_head + t->head;
    for (int64_t r = 0; r < t->n_row; r++) {
        int64_t row = lane * s->cap + t->pos + r;
        memcpy(s->q + row * d, t->q + r * d, (size_t)d * sizeof *s->q);
        memcpy(s->p + row * s->cap + t->first, t->p + r * t->n_key,
               (size_t)t->n_key * sizeof *s->p);
        s->lse[row] = t->lse[r];
    }
}

static inline void on_wave(void *user, int layer, int64_t pos, int64_t n)
{
    seen *s = user;
    (void)layer, (void)pos, (void)n;
    s->waves++;
}

static inline void on_logits(void *user, int64_t pos, const float *logit)
{
    seen *s = user;
    memcpy(s->logit + pos * s->g->n_vocab, logit, (size_t)s->g->n_vocab * sizeof *logit);
}

static inline seen *seen_new(const kvt_geometry *g, int64_t cap)
{
    seen *s = calloc(1, sizeof *s);
    size_t L = (size_t)g->n_layer, H = (size_t)g->n_head, D = (size_t)g->head_dim;
    size_t t = (size_t)cap;
    s->g = g;
    s->cap = cap;
    s->x = calloc(L * t * (size_t)g->n_hidden, sizeof(float));
    s->q0 = calloc(L * H * t * D, sizeof(float));
    s->q = calloc(L * H * t * D, sizeof(float));
    s->p = calloc(L * H * t * t, sizeof(float));
    s->lse = calloc(L * H * t, sizeof(float));
    s->logit = calloc(t * (size_t)g->n_vocab, sizeof(float));
    return s;
}

static inline void seen_free(seen *s)
{
    free(s->x), free(s->q0), free(s->q), free(s->p), free(s->lse), free(s->logit), free(s);
}

typedef enum method { STEPS, FORCED } method;

/* Runs n prompt ids in one pass and m more. */
static inline forward *run(seen *s, const model *t, const int32_t *id, int64_t n, int64_t m,
                           method how, int threads, int64_t tile, int64_t wave_rows)
{
    kvt_err err;
    forward *f;
    static kvt_ctx ctx;
    static tap all;
    ctx = (kvt_ctx){.n_thread = threads};
    all.user = s;
    all.wave_rows = wave_rows;
    all.hidden = on_hidden;
    all.qk = on_qk;
    all.tile = on_tile;
    all.wave = on_wave;
    all.logits = on_logits;
    forward_spec spec = {.weights = t->w,
                         .backend = t->b,
                         .tap = s ? &all : NULL,
                         .ctx = &ctx,
                         .n_token = n + m,
                         .n_row = n > m ? n : m,
                         .tile = tile};
    CHECK_OK(forward_new(&f, &spec, &err), &err);
    CHECK_OK(forward_prefill(f, id, n, &err), &err);
    for (int64_t i = 0; how == STEPS && i < m; i++)
        CHECK_OK(forward_step(f, id[n + i], &err), &err);
    if (how == FORCED && m)
        CHECK_OK(forward_force(f, id + n, m, &err), &err);
    assert_int_equal(forward_length(f), n + m);
    return f;
}

/* Largest difference beside the largest value: relative to the size of the operands. */
static inline void compare(const char *what, double limit, const float *got, const double *want,
                           int64_t n)
{
    double gap = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        gap = d > gap || isnan(d) ? d : gap;
        size = fabs(want[i]) > size ? fabs(want[i]) : size;
    }
    if (!(gap <= limit * size))
        fail_msg("%s: relative difference %.3g, limit %.3g", what, gap / size, limit);
}

static inline void compare_all(const seen *s, const forward *f, const naive *want,
                               int64_t n_prompt)
{
    const kvt_geometry *g = s->g;
    int64_t T = s->cap, D = g->head_dim, hd = g->n_head * D;
    for (int l = 0; l < g->n_layer; l++) {
        compare("residual", 1e-5, s->x + l * T * g->n_hidden, want->x + l * T * g->n_hidden,
                T * g->n_hidden);
        for (int64_t h = 0; h < g->n_head; h++) {
            int64_t lane = l * g->n_head + h;
            compare("q", 1e-5, s->q + lane * T * D, want->q + lane * T * D, T * D);
            compare("lse", 1e-5, s->lse + lane * T, want->lse + lane * T, T);
            compare("rows", 1e-5, s->p + lane * T * T, want->p + lane * T * T, T * T);
            for (int64_t t = 0; t < n_prompt; t++)
                compare("q before RoPE", 2e-5, s->q0 + (l * T + t) * hd + h * D,
                        want->q0 + (lane * T + t) * D, D);
        }
        for (int64_t h = 0; h < g->n_kv_head; h++) {
            int64_t at = (l * g->n_kv_head + h) * T * D;
            compare("k", 1e-5, forward_keys(f, l, h), want->k + at, T * D);
            compare("v", 1e-5, forward_values(f, l, h), want->v + at, T * D);
        }
    }
    compare("logits", 1e-5, s->logit + (n_prompt - 1) * g->n_vocab,
            want->logit + (n_prompt - 1) * g->n_vocab, (T - n_prompt + 1) * g->n_vocab);
}

static inline void same_bytes(const char *what, const void *a, const void *b, int64_t n)
{
    if (memcmp(a, b, (size_t)n * sizeof(float)) != 0)
        fail_msg("%s: the bytes differ", what);
}

/* A model file and a length. */
typedef struct shape {
    const char *name;
    int layers, heads, kv_heads, dim, hidden, ff, n, m, tied, window;
    const char *scaling;
    const char *arch; /* NULL: llama */
    bool factors;     /* llama3: frequency factors */
} shape;

/* Divisors as a llama3 file has them: none for the fast pairs, the factor for the slow ones. */
static const float divisors[] = {1, 1, 1.5f, 3, 6, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};

static inline model_make_options options_of(const shape *s)
{
    model_make_options o = s->arch ? model_make_of(s->arch) : model_make_defaults();
    o.n_layer = s->layers;
    o.n_head = s->heads;
    o.n_kv_head = s->kv_heads;
    o.head_dim = s->dim;
    o.n_hidden = s->hidden;
    o.n_ff = s->ff;
    o.tied = s->tied;
    o.spread = 0.2f;
    o.window = o.arch && strcmp(o.arch, "gemma3") == 0 ? s->window : 0;
    o.rope_divisor = s->factors ? divisors : NULL;
    o.rope_scaling = s->scaling;
    o.rope_factor = s->scaling ? 4.0 : 0;
    o.rope_original = s->scaling ? 64 : 0;
    return o;
}

/* A window of another architecture than gemma3 is that of every other layer. */
static inline void open_shape(model *t, const shape *s)
{
    model_make_options o = options_of(s);
    model_init(t, &o, NULL);
    for (int l = 0; s->window && t->w->arch->global_every == 0 && l < s->layers; l += 2)
        t->w->geometry.window[l] = s->window;
}

#endif
