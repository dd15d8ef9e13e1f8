/* test_forward_relations.c - what must hold between two runs of the engine, or within one,
 * whatever the weights: for every architecture. */
#include "tests/unit/forward_run.h"

static const shape each[] = {
    {"llama", 2, 4, 2, 8, 32, 64, 300, 10, 0, 0, NULL, NULL, false},
    {"qwen2", 2, 4, 2, 8, 32, 64, 300, 10, 1, 0, NULL, "qwen2", false},
    {"qwen3", 2, 4, 2, 12, 32, 64, 300, 10, 0, 0, NULL, "qwen3", false},
    {"gemma3", 7, 4, 2, 8, 32, 64, 300, 10, 1, 5, "linear", "gemma3", false},
};

/* Within one run: rows sum to 1, so that what all keys get is the number of queries. */
static void rows_sum_to_one(void **state)
{
    const shape *s = *state;
    model t;
    open_shape(&t, s);
    const kvt_geometry *g = &t.w->geometry;
    int64_t T = s->n + s->m, lanes = g->n_layer * g->n_head;
    int32_t *id = ids_new(T, g->n_vocab, 9);
    seen *a = seen_new(g, T);
    forward_free(run(a, &t, id, s->n, s->m, STEPS, 2, 0, 0));
    for (int64_t lane = 0; lane < lanes; lane++) {
        double all = 0;
        for (int64_t row = 0; row < T; row++) {
            double sum = 0;
            for (int64_t k = 0; k < T; k++)
                sum += (double)a->p[(lane * T + row) * T + k];
            CHECK_NEAR(sum, 1.0, 1e-5);
            all += sum;
        }
        CHECK_NEAR(all / (double)T, 1.0, 1e-6);
    }
    seen_free(a);
    free(id);
    model_fini(&t);
}

/* A pass in two parts is a pass: the same bytes where the second begins on the grid of tiles,
 * 1e-5 elsewhere. */
static void parts_are_the_whole(void **state)
{
    const shape *s = *state;
    model t;
    open_shape(&t, s);
    const kvt_geometry *g = &t.w->geometry;
    int64_t T = s->n, lanes = g->n_layer * g->n_head;
    int32_t *id = ids_new(T, g->n_vocab, 13);
    seen *whole = seen_new(g, T);
    forward *f = run(whole, &t, id, T, 0, FORCED, 2, 0, 0);
    double *p = malloc((size_t)(lanes * T * T) * sizeof *p);
    for (int64_t i = 0; i < lanes * T * T; i++)
        p[i] = (double)whole->p[i];
    for (int64_t cut = 100; cut <= 128; cut += 28) {
        seen *parts = seen_new(g, T);
        forward *h = run(parts, &t, id, cut, T - cut, FORCED, 2, 0, 0);
        compare("rows", 1e-5, parts->p, p, lanes * T * T);
        if (cut == 128) {
            same_bytes("rows", parts->p, whole->p, lanes * T * T);
            same_bytes("residual", parts->x, whole->x, g->n_layer * T * g->n_hidden);
            same_bytes("values", forward_values(h, 1, 0), forward_values(f, 1, 0),
                       T * g->head_dim);
        }
        forward_free(h);
        seen_free(parts);
    }
    free(p);
    forward_free(f);
    seen_free(whole);
    free(id);
    model_fini(&t);
}

/* RoPE is relative: the same tokens 1,000 positions later look at each other as before. */
static void positions_are_relative(void **state)
{
    const shape *s = *state;
    model t;
    open_shape(&t, s);
    const kvt_geometry *g = &t.w->geometry;
    enum { N = 40 };
    int32_t *id = ids_new(N, g->n_vocab, 10);
    seen *a = seen_new(g, N);
    forward_free(run(a, &t, id, N, 0, STEPS, 2, 0, 0));
    naive *later = naive_run(t.w, id, N, 1000);
    compare("rows", 1e-5, a->p, later->p, g->n_layer * g->n_head * N * N);
    naive_free(later);
    seen_free(a);
    free(id);
    model_fini(&t);
}

/* A window of at least T sees everything. (gemma3 turns such a layer by another base than one
 * without a window, so that there a longer window is what it is compared with.) */
static void a_window_beyond_the_end_is_none(void **state)
{
    const shape *s = *state;
    model t;
    open_shape(&t, s);
    const kvt_geometry *g = &t.w->geometry;
    int64_t T = 110, lanes = g->n_layer * g->n_head;
    int32_t *id = ids_new(T, g->n_vocab, 9);
    seen *a = seen_new(g, T), *b = seen_new(g, T);
    bool local = g->rope_theta_local > 0;
    for (int l = 0; l < g->n_layer; l++)
        t.w->geometry.window[l] = local ? (int32_t)(9 * T) : 0;
    forward_free(run(a, &t, id, 100, 10, STEPS, 2, 0, 0));
    for (int l = 0; l < g->n_layer; l++)
        t.w->geometry.window[l] = (int32_t)T;
    forward_free(run(b, &t, id, 100, 10, STEPS, 2, 0, 0));
    same_bytes("rows", a->p, b->p, lanes * T * T);
    seen_free(a);
    seen_free(b);
    free(id);
    model_fini(&t);
}

/* A scaling by 1 is none. */
static void a_factor_of_one_is_none(void **state)
{
    static const char *const kind[] = {"linear", "yarn"};
    const shape *s = *state;
    model_make_options o = options_of(s);
    enum { N = 60 };
    o.rope_scaling = NULL;
    model plain, scaled;
    model_init(&plain, &o, NULL);
    const kvt_geometry *g = &plain.w->geometry;
    int64_t n = g->n_layer * g->n_head * N * N;
    int32_t *id = ids_new(N, g->n_vocab, 14);
    seen *a = seen_new(g, N), *b = seen_new(g, N);
    forward_free(run(a, &plain, id, N, 0, STEPS, 2, 0, 0));
    double *p = malloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = (double)a->p[i];
    for (int i = 0; i < 2; i++) {
        o.rope_scaling = kind[i];
        o.rope_factor = 1;
        o.rope_original = 64;
        model_init(&scaled, &o, NULL);
        forward_free(run(b, &scaled, id, N, 0, STEPS, 2, 0, 0));
        compare(kind[i], 1e-5, b->p, p, n);
        model_fini(&scaled);
    }
    free(p);
    seen_free(a);
    seen_free(b);
    free(id);
    model_fini(&plain);
}

/* Exchanges n floats. */
static void swap(const float *a, const float *b, int64_t n)
{
    float *x = (float *)(uintptr_t)a, *y = (float *)(uintptr_t)b;
    for (int64_t i = 0; i < n; i++) {
        float keep = x[i];
        x[i] = y[i];
        y[i] = keep;
    }
}

/* Exchanges kv heads 0 and 1 with their query heads, in all matrices of a layer. */
static void swap_groups(const kvt_weights_layer *w, const kvt_geometry *g)
{
    int64_t d = g->head_dim, e = g->n_hidden, hd = g->n_head * d;
    int64_t group = g->n_head / g->n_kv_head * d;
    const float *q = matrix_floats(&w->wq), *k = matrix_floats(&w->wk);
    const float *v = matrix_floats(&w->wv), *o = matrix_floats(&w->wo);
    swap(q, q + group * e, group * e);
    swap(k, k + d * e, d * e);
    swap(v, v + d * e, d * e);
    for (int64_t r = 0; r < e; r++)
        swap(o + r * hd, o + r * hd + group, group);
    if (w->bq) {
        swap(w->bq, w->bq + group, group);
        swap(w->bk, w->bk + d, d);
        swap(w->bv, w->bv + d, d);
    }
}

/* Heads have no order: a model whose groups of heads change places has the same rows in other
 * places, and the same logits. */
static void groups_have_no_order(void **state)
{
    const shape *s = *state;
    enum { N = 60 };
    model_make_options o = options_of(s);
    model t;
    model_init(&t, &o, &(kvt_weights_options){.f32 = true});
    const kvt_geometry *g = &t.w->geometry;
    int64_t lane = N * N, group = g->n_head / g->n_kv_head;
    int32_t *id = ids_new(N, g->n_vocab, 15);
    seen *a = seen_new(g, N), *b = seen_new(g, N);
    forward_free(run(a, &t, id, N, 0, STEPS, 2, 0, 0));
    for (int l = 0; l < g->n_layer; l++)
        swap_groups(&t.w->layer[l], g);
    forward_free(run(b, &t, id, N, 0, STEPS, 2, 0, 0));
    double *p = malloc((size_t)lane * sizeof *p), most = 0;
    for (int64_t i = 0; i < g->n_layer * g->n_head; i++) {
        int64_t h = i % g->n_head, other = i - h + (h + group) % g->n_head;
        for (int64_t j = 0; j < lane; j++) {
            p[j] = (double)a->p[other * lane + j];
            most = fmax(most, fabs(p[j] - (double)a->p[i * lane + j]));
        }
        compare("rows", 1e-5, b->p + i * lane, p, lane);
    }
    assert_true(most > 0.01); /* the heads do differ */
    for (int64_t v = 0; v < g->n_vocab; v++)
        CHECK_NEAR((double)b->logit[(N - 1) * g->n_vocab + v],
                   (double)a->logit[(N - 1) * g->n_vocab + v], 1e-4);
    free(p);
    seen_free(a);
    seen_free(b);
    free(id);
    model_fini(&t);
}

int main(void)
{
    static struct CMUnitTest tests[64];
    int n = 0;
    CHECK_ROWS(tests, &n, each, rows_sum_to_one);
    CHECK_ROWS(tests, &n, each, parts_are_the_whole);
    CHECK_ROWS(tests, &n, each, positions_are_relative);
    CHECK_ROWS(tests, &n, each, a_window_beyond_the_end_is_none);
    CHECK_ROWS(tests, &n, each, a_factor_of_one_is_none);
    CHECK_ROWS(tests, &n, each, groups_have_no_order);
    return CHECK_RUN("forward_relations", tests, n);
}
