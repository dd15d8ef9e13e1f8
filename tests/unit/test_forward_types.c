/* test_forward_types.c - the engine on weights of every type, beside the same values as f32:
 * equal bytes in prefill, where blocks are decoded; 1e-5 in decode, where they are read as they
 * lie. */
#include "kvt/arena.h"
#include "tests/unit/forward_run.h"

/* Rows are whole blocks: of 256 weights for the K-quants. */
typedef struct row {
    const char *name;
    int type, wide;
} row;

static const row types[] = {
    {"F32", QUANT_F32, 0},   {"F16", QUANT_F16, 0},   {"BF16", QUANT_BF16, 0},
    {"Q4_0", QUANT_Q4_0, 0}, {"Q4_1", QUANT_Q4_1, 0}, {"Q5_0", QUANT_Q5_0, 0},
    {"Q5_1", QUANT_Q5_1, 0}, {"Q8_0", QUANT_Q8_0, 0}, {"IQ4_NL", QUANT_IQ4_NL, 0},
    {"Q2_K", QUANT_Q2_K, 1}, {"Q3_K", QUANT_Q3_K, 1}, {"Q4_K", QUANT_Q4_K, 1},
    {"Q5_K", QUANT_Q5_K, 1}, {"Q6_K", QUANT_Q6_K, 1},
};

enum { N = 140, M = 6 };

static shape shape_of(const row *r, const char *name)
{
    shape s = {r->name, 2, 4, 2, 16, 64, 96, N, M, 0, 0, NULL, name, false};
    if (r->wide) {
        s.dim = 64;
        s.hidden = s.ff = 256;
    }
    if (name && strcmp(name, "gemma3") == 0)
        s.window = 5;
    return s;
}

static void compare_floats(const char *what, double limit, const float *got, const float *want,
                           int64_t n)
{
    double *w = malloc((size_t)n * sizeof *w);
    for (int64_t i = 0; i < n; i++)
        w[i] = (double)want[i];
    compare(what, limit, got, w, n);
    free(w);
}

/* Row i of heads of a run. */
static void compare_heads(const kvt_geometry *g, const seen *a, const seen *b, const forward *f,
                          const forward *h)
{
    int64_t T = N + M, d = g->head_dim;
    for (int64_t lane = 0; lane < g->n_layer * g->n_head; lane++) {
        same_bytes("lse", a->lse + lane * T, b->lse + lane * T, N);
        same_bytes("q", a->q + lane * T * d, b->q + lane * T * d, N * d);
        same_bytes("rows", a->p + lane * T * T, b->p + lane * T * T, N * T);
        compare_floats("lse", 1e-5, a->lse + lane * T + N, b->lse + lane * T + N, M);
        compare_floats("rows", 1e-5, a->p + (lane * T + N) * T, b->p + (lane * T + N) * T,
                       M * T);
    }
    for (int l = 0; l < g->n_layer; l++) {
        same_bytes("residual", a->x + l * T * g->n_hidden, b->x + l * T * g->n_hidden,
                   N * g->n_hidden);
        compare_floats("residual", 1e-5, a->x + (l * T + N) * g->n_hidden,
                       b->x + (l * T + N) * g->n_hidden, M * g->n_hidden);
        for (int64_t k = 0; k < g->n_kv_head; k++) {
            same_bytes("k", forward_keys(f, l, k), forward_keys(h, l, k), N * d);
            same_bytes("v", forward_values(f, l, k), forward_values(h, l, k), N * d);
            compare_floats("k", 1e-5, forward_keys(f, l, k) + N * d,
                           forward_keys(h, l, k) + N * d, M * d);
        }
    }
}

static void types_are_their_values(void **state)
{
    static const char *const archs[] = {NULL, "qwen2", "gemma3"};
    const row *r = *state;
    for (int i = 0; i < CHECK_COUNT(archs); i++) {
        shape s = shape_of(r, archs[i]);
        model_make_options o = options_of(&s);
        model t, u;
        o.type = r->type;
        o.spread = 0.05f;
        model_init(&t, &o, NULL);
        model_init(&u, &o, &(kvt_weights_options){.f32 = true});
        assert_int_equal(t.w->layer[0].wq.type, r->type);
        assert_int_equal(u.w->layer[0].wq.type, QUANT_F32);
        const kvt_geometry *g = &t.w->geometry;
        int32_t *id = ids_new(N + M, g->n_vocab, 21);
        for (int how = STEPS; how <= FORCED; how++) {
            seen *a = seen_new(g, N + M), *b = seen_new(g, N + M);
            forward *f = run(a, &t, id, N, M, (method)how, 2, 0, 0);
            forward *h = run(b, &u, id, N, M, (method)how, 2, 0, 0);
            compare_heads(g, a, b, f, h);
            compare_floats("logits", 1e-5, a->logit + (N - 1) * g->n_vocab,
                           b->logit + (N - 1) * g->n_vocab, (M + 1) * g->n_vocab);
            forward_free(f);
            forward_free(h);
            seen_free(a);
            seen_free(b);
        }
        free(id);
        model_fini(&t);
        model_fini(&u);
    }
}

static void threads_change_no_bits(void **state)
{
    const row *r = *state;
    shape s = shape_of(r, "qwen3");
    model_make_options o = options_of(&s);
    model t;
    o.type = r->type;
    model_init(&t, &o, NULL);
    const kvt_geometry *g = &t.w->geometry;
    int64_t T = N + M;
    int32_t *id = ids_new(T, g->n_vocab, 22);
    seen *a = seen_new(g, T);
    forward_free(run(a, &t, id, N, M, STEPS, 1, 0, 0));
    for (int threads = 2; threads <= 8; threads *= 4) {
        seen *b = seen_new(g, T);
        forward_free(run(b, &t, id, N, M, STEPS, threads, 0, 0));
        same_bytes("residual", a->x, b->x, g->n_layer * T * g->n_hidden);
        same_bytes("rows", a->p, b->p, g->n_layer * g->n_head * T * T);
        same_bytes("logits", a->logit, b->logit, T * g->n_vocab);
        seen_free(b);
    }
    seen_free(a);
    free(id);
    model_fini(&t);
}

/* The workspace is the larger of the two rounds of a layer, and is not there for f32; any of
 * its matrices can be asked for. */
static void one_workspace_is_counted(void **state)
{
    (void)state;
    shape s = shape_of(&types[7], NULL);
    model_make_options o = options_of(&s);
    model t, u;
    kvt_err err;
    forward *f;
    kvt_ctx ctx = {.n_thread = 2};
    o.type = types[7].type;
    model_init(&t, &o, NULL);
    model_init(&u, &o, &(kvt_weights_options){.f32 = true});
    forward_spec a = {.weights = t.w, .ctx = &ctx, .n_token = N, .n_row = N}, b = a;
    a.backend = t.b;
    b.weights = u.w;
    int64_t behind = 64 * 64 + 3 * 96 * 64; /* wo, gate, up, down */
    assert_int_equal(forward_bytes(&a) - forward_bytes(&b), behind * (int64_t)sizeof(float));
    CHECK_OK(forward_new(&f, &a, &err), &err);
    for (int l = 0; l < 2; l++) {
        const kvt_weights_layer *x = &t.w->layer[l], *y = &u.w->layer[l];
        const kvt_matrix *got[] = {&x->wq, &x->wk, &x->wv, &x->wo, &x->gate, &x->up, &x->down};
        const kvt_matrix *want[] = {&y->wq, &y->wk, &y->wv, &y->wo, &y->gate, &y->up, &y->down};
        for (int i = 0; i < CHECK_COUNT(got); i++)
            same_bytes("matrix", forward_matrix(f, got[i]), matrix_floats(want[i]),
                       got[i]->n_row * got[i]->n_col);
        assert_ptr_equal(forward_matrix(f, want[0]), matrix_floats(want[0]));
    }
    forward_free(f);
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
    model_fini(&u);
}

int main(void)
{
    static struct CMUnitTest tests[64];
    int n = 0;
    CHECK_ROWS(tests, &n, types, types_are_their_values);
    CHECK_ROWS(tests, &n, types, threads_change_no_bits);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(one_workspace_is_counted);
    return CHECK_RUN("forward_types", tests, n);
}
