/* test_forward.c - the engine against a forward pass in double on tiny random models, and
 * against itself: threads, tiles, steps, windows, positions, heads. */
#include "kvt/arena.h"
#include "tests/unit/forward_run.h"

static const shape shapes[] = {
    {"plain", 3, 4, 2, 12, 48, 96, 150, 9, 0, 0, NULL, NULL, false},
    {"tied", 2, 4, 4, 8, 40, 72, 65, 3, 1, 0, NULL, NULL, false},
    {"one token", 2, 4, 1, 8, 32, 64, 1, 1, 0, 0, NULL, NULL, false},
    {"group of 8 and one token (C013)", 2, 8, 1, 8, 32, 64, 1, 0, 0, 0, NULL, NULL, false},
    {"group of 8 and two tokens (C013)", 2, 8, 1, 8, 32, 64, 2, 2, 0, 0, NULL, NULL, false},
    {"group of 7 and three tokens (C013)", 2, 28, 4, 4, 32, 64, 3, 2, 0, 0, NULL, NULL, false},
    {"head size beside hidden / heads", 2, 3, 3, 20, 48, 96, 40, 3, 0, 0, NULL, NULL, false},
    {"linear scaling", 2, 4, 2, 12, 48, 96, 130, 3, 0, 0, "linear", NULL, false},
    {"window of 37", 3, 6, 2, 8, 48, 96, 200, 20, 0, 37, NULL, NULL, false},
    {"exactly a tile", 2, 4, 2, 8, 32, 64, 128, 2, 0, 0, NULL, NULL, false},
    {"over two chunks of decode", 2, 4, 2, 8, 32, 64, 510, 6, 0, 0, NULL, NULL, false},
    {"long and short row tiles", 2, 1, 1, 8, 16, 32, 1300, 3, 0, 0, NULL, NULL, false},
    {"llama3 factors", 2, 4, 2, 12, 48, 96, 140, 4, 0, 0, NULL, NULL, true},
    {"llama, yarn", 2, 4, 2, 12, 48, 96, 140, 4, 0, 0, "yarn", NULL, false},
    {"qwen2", 3, 6, 2, 12, 48, 96, 150, 9, 1, 0, NULL, "qwen2", false},
    {"qwen2, yarn", 2, 6, 2, 12, 48, 96, 130, 3, 0, 0, "yarn", "qwen2", false},
    {"qwen2, windows of 40", 3, 4, 4, 8, 32, 64, 140, 5, 0, 40, NULL, "qwen2", false},
    {"qwen2, one token", 2, 4, 2, 8, 32, 64, 1, 1, 0, 0, NULL, "qwen2", false},
    {"qwen3", 3, 4, 2, 20, 48, 96, 150, 9, 0, 0, NULL, "qwen3", false},
    {"qwen3, yarn", 2, 4, 1, 16, 48, 96, 130, 3, 1, 0, "yarn", "qwen3", false},
    {"gemma3", 7, 4, 1, 16, 48, 96, 150, 9, 1, 5, "linear", "gemma3", false},
    {"gemma3, no window", 7, 4, 2, 8, 40, 72, 66, 3, 1, 0, NULL, "gemma3", false},
    {"gemma3, one token", 7, 4, 1, 16, 48, 96, 1, 2, 1, 5, "linear", "gemma3", false},
    {"gemma3, over two chunks of decode", 7, 2, 1, 8, 32, 64, 510, 6, 1, 300, NULL, "gemma3",
     false},
};

static void engine_follows_the_formulas(void **state)
{
    const shape *s = *state;
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

/* The same bytes for any number of threads, in prefill, steps and forced rows; and
 * waves, which only bound memory, change nothing. */
static const shape threaded[] = {
    {"llama on 1, 2, 8 threads", 3, 6, 2, 16, 64, 128, 300, 12, 0, 0, NULL, NULL, false},
    {"qwen2 on 1, 2, 8 threads", 2, 6, 2, 16, 64, 128, 300, 12, 0, 0, NULL, "qwen2", false},
    {"qwen3 on 1, 2, 8 threads", 2, 4, 2, 20, 48, 96, 300, 12, 0, 0, "yarn", "qwen3", false},
    {"gemma3 on 1, 2, 8 threads", 7, 4, 1, 16, 48, 96, 300, 12, 1, 5, "linear", "gemma3",
     false},
};

static void threads_change_no_bits(void **state)
{
    const shape s = *(const shape *)*state;
    static const struct {
        int threads;
        int64_t wave;
    } runs[] = {{1, 0}, {2, 0}, {8, 0}, {2, 128}, {3, 256}};
    model t;
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

/* C014: 8 query heads on 2 kv heads, keys of kv head 1 all zero: heads 4-7 are uniform, heads
 * 0-3 are not. And for 28/4 and 32/8 each kv head serves its own group. */
static void query_heads_have_their_kv_head(void **state)
{
    static const int pairs[][2] = {{8, 2}, {28, 4}, {32, 8}};
    (void)state;
    for (int i = 0; i < CHECK_COUNT(pairs); i++) {
        shape s = {"", 1, pairs[i][0], pairs[i][1], 4, 32, 64, 12, 2, 0, 0, NULL, NULL, false};
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
    static const shape s = {"", 2, 4, 2, 8, 32, 64, 10, 2, 0, 0, NULL, NULL, false};
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
    static const shape s = {"", 3, 4, 2, 8, 32, 64, 300, 2, 0, 0, NULL, NULL, false};
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
    static const shape s = {"", 2, 4, 2, 8, 32, 64, 10, 2, 0, 0, NULL, NULL, false};
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
    CHECK_ROWS(tests, &n, threaded, threads_change_no_bits);
    const struct CMUnitTest rest[] = {
        cmocka_unit_test(query_heads_have_their_kv_head),
        cmocka_unit_test(bad_ids_and_lengths_are_refused),
        cmocka_unit_test(progress_stops_the_pass),
        cmocka_unit_test(memory_is_bounded),
    };
    for (int i = 0; i < CHECK_COUNT(rest); i++)
        tests[n++] = rest[i];
    return CHECK_RUN("forward", tests, n);
}
