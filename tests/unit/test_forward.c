/* test_forward.c - the engine against a forward pass in double on tiny random models, and
 * against itself: threads, tiles, steps, windows, positions, heads. */
#include "capture/forward.h"

#include <math.h>
#include <stdlib.h>

#include "compute/backend.h"
#include "kvt/arena.h"
#include "tests/check.h"
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

static void model_init(model *t, const model_make_options *o)
{
    kvt_err err;
    gguf_make_init(&t->m);
    model_make_into(&t->m, o);
    buf_init(&t->bytes, LIMIT);
    gguf_make_bytes(&t->m, &t->bytes);
    CHECK_OK(gguf_read(&t->g, (const uint8_t *)t->bytes.data, t->bytes.n, &err), &err);
    CHECK_OK(kvt_weights_load(&t->w, t->g, NULL, NULL, &err), &err);
    CHECK_OK(kvt_backend_open(&t->b, "cpu", NULL, &err), &err);
}

static void model_fini(model *t)
{
    kvt_backend_close(t->b);
    kvt_weights_free(t->w);
    gguf_close(t->g);
    buf_fini(&t->bytes);
    gguf_make_fini(&t->m);
}

static int32_t *ids_new(int64_t n, int64_t n_vocab, uint64_t seed)
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

static void on_hidden(void *user, int layer, int64_t pos, int64_t n, const float *x,
                      const float *y)
{
    seen *s = user;
    int64_t e = s->g->n_hidden;
    (void)y;
    memcpy(s->x + (layer * s->cap + pos) * e, x, (size_t)(n * e) * sizeof *x);
}

static void on_qk(void *user, int layer, int64_t pos, int64_t n, const float *q)
{
    seen *s = user;
    int64_t hd = s->g->n_head * s->g->head_dim;
    memcpy(s->q0 + (layer * s->cap + pos) * hd, q, (size_t)(n * hd) * sizeof *q);
}

static void on_tile(void *user, const tap_tile *t)
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

static void on_wave(void *user, int layer, int64_t pos, int64_t n)
{
    seen *s = user;
    (void)layer, (void)pos, (void)n;
    s->waves++;
}

static void on_logits(void *user, int64_t pos, const float *logit)
{
    seen *s = user;
    memcpy(s->logit + pos * s->g->n_vocab, logit, (size_t)s->g->n_vocab * sizeof *logit);
}

static seen *seen_new(const kvt_geometry *g, int64_t cap)
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

static void seen_free(seen *s)
{
    free(s->x), free(s->q0), free(s->q), free(s->p), free(s->lse), free(s->logit), free(s);
}

typedef enum method { STEPS, FORCED } method;

/* Runs n prompt ids in one pass and m more. */
static forward *run(seen *s, const model *t, const int32_t *id, int64_t n, int64_t m,
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
static void compare(const char *what, double limit, const float *got, const double *want,
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

static void compare_all(const seen *s, const forward *f, const naive *want, int64_t n_prompt)
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

/* A model file and a length. */
static const struct shape {
    const char *name;
    int layers, heads, kv_heads, dim, hidden, ff, n, m, tied, window;
    const char *scaling;
} shapes[] = {
    {"plain", 3, 4, 2, 12, 48, 96, 150, 9, 0, 0, NULL},
    {"tied", 2, 4, 4, 8, 40, 72, 65, 3, 1, 0, NULL},
    {"one token", 2, 4, 1, 8, 32, 64, 1, 1, 0, 0, NULL},
    {"group of 8 and one token (C013)", 2, 8, 1, 8, 32, 64, 1, 0, 0, 0, NULL},
    {"group of 8 and two tokens (C013)", 2, 8, 1, 8, 32, 64, 2, 2, 0, 0, NULL},
    {"group of 7 and three tokens (C013)", 2, 28, 4, 4, 32, 64, 3, 2, 0, 0, NULL},
    {"head size beside hidden / heads", 2, 3, 3, 20, 48, 96, 40, 3, 0, 0, NULL},
    {"linear scaling", 2, 4, 2, 12, 48, 96, 130, 3, 0, 0, "linear"},
    {"window of 37", 3, 6, 2, 8, 48, 96, 200, 20, 0, 37, NULL},
    {"exactly a tile", 2, 4, 2, 8, 32, 64, 128, 2, 0, 0, NULL},
    {"over two chunks of decode", 2, 4, 2, 8, 32, 64, 510, 6, 0, 0, NULL},
    {"long and short row tiles", 2, 1, 1, 8, 16, 32, 1300, 3, 0, 0, NULL},
};

static void open_shape(model *t, const struct shape *s)
{
    model_make_options o = model_make_defaults();
    o.n_layer = s->layers;
    o.n_head = s->heads;
    o.n_kv_head = s->kv_heads;
    o.head_dim = s->dim;
    o.n_hidden = s->hidden;
    o.n_ff = s->ff;
    o.tied = s->tied;
    o.spread = 0.2f;
    o.rope_scaling = s->scaling;
    o.rope_factor = s->scaling ? 4.0 : 0;
    model_init(t, &o);
    for (int l = 0; s->window && l < s->layers; l += 2)
        t->w->geometry.window[l] = s->window; /* every other layer, as gemma3 has it */
}

static void engine_follows_the_formulas(void **state)
{
    const struct shape *s = *state;
    model t;
    open_shape(&t, s);
    int64_t T = s->n + s->m;
    int32_t *id = ids_new(T, t.w->geometry.n_vocab, 7);
    naive *want = naive_run(t.w, id, T, 0);
    for (int how = STEPS; how <= FORCED; how++)
        for (int64_t tile = 64; tile <= 256; tile *= 2) {
            seen *got = seen_new(&t.w->geometry, T);
            forward *f = run(got, &t, id, s->n, s->m, (method)how, 2, tile, 0);
            compare_all(got, f, want, s->n);
            forward_free(f);
            seen_free(got);
        }
    naive_free(want);
    free(id);
    model_fini(&t);
}

static void same_bytes(const char *what, const void *a, const void *b, int64_t n)
{
    if (memcmp(a, b, (size_t)n * sizeof(float)) != 0)
        fail_msg("%s: the bytes differ", what);
}

/* The same bytes for any number of threads, in prefill, steps and forced rows; and
 * waves, which only bound memory, change nothing. */
static void threads_change_no_bits(void **state)
{
    static const struct shape s = {"", 3, 6, 2, 16, 64, 128, 300, 12, 0, 0, NULL};
    static const struct {
        int threads;
        int64_t wave;
    } runs[] = {{1, 0}, {2, 0}, {8, 0}, {2, 128}, {3, 256}};
    model t;
    (void)state;
    open_shape(&t, &s);
    const kvt_geometry *g = &t.w->geometry;
    int64_t T = s.n + s.m, lanes = g->n_layer * g->n_head;
    int32_t *id = ids_new(T, g->n_vocab, 8);
    for (int how = STEPS; how <= FORCED; how++) {
        seen *first = seen_new(g, T);
        forward *f0 = run(first, &t, id, s.n, s.m, (method)how, 1, 0, 0);
        for (int i = 1; i < CHECK_COUNT(runs); i++) {
            seen *got = seen_new(g, T);
            forward *f =
                run(got, &t, id, s.n, s.m, (method)how, runs[i].threads, 0, runs[i].wave);
            same_bytes("residual", first->x, got->x, g->n_layer * T * g->n_hidden);
            same_bytes("q", first->q, got->q, lanes * T * g->head_dim);
            same_bytes("rows", first->p, got->p, lanes * T * T);
            same_bytes("lse", first->lse, got->lse, lanes * T);
            same_bytes("logits", first->logit, got->logit, T * g->n_vocab);
            int64_t pass = (s.n + 127) / 128, wave = runs[i].wave / 128;
            int64_t waves = wave ? (pass + wave - 1) / wave : 1;
            assert_int_equal(got->waves, g->n_layer * (waves + (how == FORCED)));
            forward_free(f);
            seen_free(got);
        }
        forward_free(f0);
        seen_free(first);
    }
    free(id);
    model_fini(&t);
}

/* A window of at least T sees everything; rows sum to 1. */
static void a_window_beyond_the_end_is_none(void **state)
{
    static const struct shape s = {"", 2, 4, 2, 8, 32, 64, 100, 10, 0, 0, NULL};
    model t;
    (void)state;
    open_shape(&t, &s);
    const kvt_geometry *g = &t.w->geometry;
    int64_t T = s.n + s.m, lanes = g->n_layer * g->n_head;
    int32_t *id = ids_new(T, g->n_vocab, 9);
    seen *a = seen_new(g, T), *b = seen_new(g, T);
    forward_free(run(a, &t, id, s.n, s.m, STEPS, 2, 0, 0));
    for (int l = 0; l < g->n_layer; l++)
        t.w->geometry.window[l] = (int32_t)T;
    forward_free(run(b, &t, id, s.n, s.m, STEPS, 2, 0, 0));
    same_bytes("rows", a->p, b->p, lanes * T * T);
    for (int64_t row = 0; row < lanes * T; row++) {
        double sum = 0;
        for (int64_t k = 0; k < T; k++)
            sum += (double)a->p[row * T + k];
        CHECK_NEAR(sum, 1.0, 1e-5);
    }
    seen_free(a);
    seen_free(b);
    free(id);
    model_fini(&t);
}

/* RoPE is relative: the same tokens 1,000 positions later look at each other as before. */
static void positions_are_relative(void **state)
{
    static const struct shape s = {"", 2, 4, 2, 8, 32, 64, 40, 0, 0, 0, NULL};
    model t;
    (void)state;
    open_shape(&t, &s);
    const kvt_geometry *g = &t.w->geometry;
    int32_t *id = ids_new(s.n, g->n_vocab, 10);
    seen *a = seen_new(g, s.n);
    forward_free(run(a, &t, id, s.n, 0, STEPS, 2, 0, 0));
    naive *later = naive_run(t.w, id, s.n, 1000);
    compare("rows", 1e-5, a->p, later->p, g->n_layer * g->n_head * s.n * s.n);
    naive_free(later);
    seen_free(a);
    free(id);
    model_fini(&t);
}

/* C014: 8 query heads on 2 kv heads, keys of kv head 1 all zero: heads 4-7 are uniform, heads
 * 0-3 are not. And for 28/4 and 32/8 each kv head serves its own group. */
static void query_heads_have_their_kv_head(void **state)
{
    static const int pairs[][2] = {{8, 2}, {28, 4}, {32, 8}};
    (void)state;
    for (int i = 0; i < CHECK_COUNT(pairs); i++) {
        struct shape s = {"", 1, pairs[i][0], pairs[i][1], 4, 32, 64, 12, 2, 0, 0, NULL};
        int group = s.heads / s.kv_heads;
        model t;
        open_shape(&t, &s);
        const kvt_geometry *g = &t.w->geometry;
        int32_t *id = ids_new(14, g->n_vocab, 11);
        float *wk = (float *)(uintptr_t)t.w->layer[0].wk.data;
        memset(wk + 1 * 4 * 32, 0, 4 * 32 * sizeof *wk);
        seen *a = seen_new(g, 14);
        forward_free(run(a, &t, id, 12, 2, STEPS, 2, 0, 0));
        for (int h = 0; h < s.heads; h++)
            for (int row = 5; row < 14; row++) {
                const float *p = a->p + (h * 14 + row) * 14;
                float low = 1, high = 0;
                for (int k = 0; k <= row; k++) {
                    low = p[k] < low ? p[k] : low;
                    high = p[k] > high ? p[k] : high;
                }
                assert_int_equal((double)(high - low) < 1e-6, h / group == 1);
            }
        seen_free(a);
        free(id);
        model_fini(&t);
    }
}

static void bad_ids_and_lengths_are_refused(void **state)
{
    static const struct shape s = {"", 2, 4, 2, 8, 32, 64, 10, 2, 0, 0, NULL};
    model t;
    kvt_err err;
    forward *f;
    (void)state;
    open_shape(&t, &s);
    int32_t id[] = {1, 2, 100000};
    kvt_ctx ctx = {.n_thread = 1};
    forward_spec spec = {.weights = t.w, .backend = t.b, .ctx = &ctx, .n_token = 3, .n_row = 3};
    CHECK_OK(forward_new(&f, &spec, &err), &err);
    CHECK_FAILS(forward_prefill(f, id, 3, &err), KVT_USAGE, "token 100000 at position 2", &err);
    CHECK_FAILS(forward_prefill(f, id, 4, &err), KVT_USAGE, "do not fit", &err);
    CHECK_OK(forward_prefill(f, id, 2, &err), &err);
    CHECK_OK(forward_step(f, 5, &err), &err);
    CHECK_FAILS(forward_step(f, 5, &err), KVT_USAGE, "do not fit a sequence of 3", &err);
    forward_free(f);
    model_fini(&t);
}

static bool stop_at(void *user, const char *what, int64_t done, int64_t total)
{
    int *left = user;
    (void)what, (void)done, (void)total;
    return --*left > 0;
}

static void progress_stops_the_pass(void **state)
{
    static const struct shape s = {"", 3, 4, 2, 8, 32, 64, 300, 2, 0, 0, NULL};
    model t;
    kvt_err err;
    forward *f;
    (void)state;
    open_shape(&t, &s);
    int32_t *id = ids_new(300, t.w->geometry.n_vocab, 12);
    for (int left = 1; left <= 3; left++) { /* at least one question a layer */
        int n = left;
        kvt_ctx ctx = {.n_thread = 2, .progress = stop_at, .user = &n};
        forward_spec spec = {
            .weights = t.w, .backend = t.b, .ctx = &ctx, .n_token = 300, .n_row = 300};
        CHECK_OK(forward_new(&f, &spec, &err), &err);
        CHECK_FAILS(forward_prefill(f, id, 300, &err), KVT_STOPPED, NULL, &err);
        forward_free(f);
    }
    free(id);
    model_fini(&t);
}

/* C076: what is taken is O(tile T + T), never O(T^2), and memory that is not there is an error.
 */
static void memory_is_bounded(void **state)
{
    static const struct shape s = {"", 2, 4, 2, 8, 32, 64, 10, 2, 0, 0, NULL};
    model t;
    kvt_err err;
    forward *f;
    (void)state;
    open_shape(&t, &s);
    kvt_ctx ctx = {.n_thread = 2};
    forward_spec a = {
        .weights = t.w, .backend = t.b, .ctx = &ctx, .n_token = 32768, .n_row = 32768};
    forward_spec b = a;
    b.n_token = b.n_row = 65536;
    CHECK_NEAR((double)forward_bytes(&b) / (double)forward_bytes(&a), 2.0, 0.05);
    a.n_token = a.n_row = 100;
    for (int n = 1;; n++) {
        kvt_alloc_fail_at(n, false);
        kvt_code code = forward_new(&f, &a, &err);
        kvt_alloc_fail_at(0, false);
        if (code == KVT_OK)
            break;
        assert_int_equal(code, KVT_NOMEM);
        assert_null(f);
    }
    forward_free(f);
    model_fini(&t);
}

int main(void)
{
    static struct CMUnitTest tests[64];
    int n = 0;
    CHECK_ROWS(tests, &n, shapes, engine_follows_the_formulas);
    const struct CMUnitTest rest[] = {
        cmocka_unit_test(threads_change_no_bits),
        cmocka_unit_test(a_window_beyond_the_end_is_none),
        cmocka_unit_test(positions_are_relative),
        cmocka_unit_test(query_heads_have_their_kv_head),
        cmocka_unit_test(bad_ids_and_lengths_are_refused),
        cmocka_unit_test(progress_stops_the_pass),
        cmocka_unit_test(memory_is_bounded),
    };
    for (int i = 0; i < CHECK_COUNT(rest); i++)
        tests[n++] = rest[i];
    return CHECK_RUN("forward", tests, n);
}
