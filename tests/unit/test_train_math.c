/* The backward pass of the lookahead rows: every trained entry against finite differences in
 * double, f32 against f64, and what must hold by construction. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/train_toy.h"

enum { ALL = (1 << ADAPTER_MAPS) - 1, N_MASS = TOY_LAYERS * TOY_HEADS * TOY_PROMPT };

static const toy_train plain = {.rank = 3, .maps = ALL, .n_sample = 2, .n_thread = 1};

static int64_t layout_of(look_layout *out, const toy_train *t)
{
    kvt_geometry g;
    toy_train_geometry(&g, t);
    look_layout_of(out, &g, TOY_TOKENS, t->rank, t->maps, 1.5);
    return out->n_param;
}

static double *numbers(int64_t n)
{
    double *out = calloc((size_t)n, sizeof *out);
    assert_non_null(out);
    return out;
}

/* Largest difference over [from, from + n), relative to the largest entry of `a`. */
static double apart(const double *a, const double *b, int64_t from, int64_t n)
{
    double most = 0, scale = 0;
    for (int64_t i = from; i < from + n; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        scale = fmax(scale, fabs(a[i]));
    }
    assert_true(scale > 0); /* a tensor whose gradient is all zero is not trained */
    return most / scale;
}

/* `limit` for every tensor by itself. */
static void check_tensors(const look_layout *l, const kvt_geometry *g, const double *a,
                          const double *b, double limit)
{
    assert_true(apart(a, b, 0, TOY_TOKENS * g->n_hidden) < limit);
    for (int i = 0; i < TOY_LAYERS; i++)
        for (int m = 0; m < ADAPTER_MAPS; m++) {
            int64_t in, out;
            if (l->a[i][m] < 0)
                continue;
            adapter_map_shape(g, (adapter_map_id)m, &in, &out);
            assert_true(apart(a, b, l->a[i][m], l->rank * in) < limit);
            assert_true(apart(a, b, l->b[i][m], l->rank * out) < limit);
        }
}

static void check_differences(const toy_train *t)
{
    const double h = 1e-5;
    look_layout l;
    kvt_geometry g;
    int64_t n = layout_of(&l, t);
    double *x = numbers(n), *grad = numbers(n), *by_h = numbers(n);
    toy_train_geometry(&g, t);
    toy_train_start(x, n);
    assert_true(isfinite(toy_train_run_f64(t, x, grad, NULL)));
    for (int64_t i = 0; i < n; i++) {
        double at = x[i];
        x[i] = at + h;
        by_h[i] = toy_train_run_f64(t, x, NULL, NULL);
        x[i] = at - h;
        by_h[i] = (by_h[i] - toy_train_run_f64(t, x, NULL, NULL)) / (2 * h);
        x[i] = at;
    }
    check_tensors(&l, &g, grad, by_h, 1e-5);
    free(x);
    free(grad);
    free(by_h);
}

static void test_differences(void **state)
{
    (void)state;
    check_differences(&plain);
}

static void test_differences_window(void **state)
{
    (void)state;
    toy_train t = plain;
    t.window = 9; /* hides some of the prompt, and terms of the loss are cut off */
    check_differences(&t);
}

static void test_differences_mse(void **state)
{
    (void)state;
    toy_train t = plain;
    t.mse = true;
    t.maps = 1 << ADAPTER_Q | 1 << ADAPTER_V;
    check_differences(&t);
    t.rank = 0;
    check_differences(&t);
}

/* Rows as a softmax over the prompt alone: another loss, and its own slopes. */
static void test_differences_prompt(void **state)
{
    (void)state;
    look_layout l;
    toy_train t = plain;
    t.prompt_only = true;
    t.maps &= ~(1u << ADAPTER_K); /* the last layer's own keys reach nothing then */
    int64_t n = layout_of(&l, &t);
    double *x = numbers(n);
    toy_train_start(x, n);
    toy_train published = t;
    published.prompt_only = false;
    assert_true(fabs(toy_train_run_f64(&t, x, NULL, NULL) -
                     toy_train_run_f64(&published, x, NULL, NULL)) > 1e-4);
    free(x);
    check_differences(&t);
    t.window = 9;
    check_differences(&t);
}

/* What other architectures have more changes the loss, and its slopes. */
static void test_differences_arch(void **state)
{
    toy_train t = toy_train_of(*(const int *)*state);
    look_layout l;
    int64_t n = layout_of(&l, &t);
    double *x = numbers(n);
    toy_train_start(x, n);
    toy_train llama = t;
    llama.arch = (arch){0};
    assert_true(fabs(toy_train_run_f64(&t, x, NULL, NULL) -
                     toy_train_run_f64(&llama, x, NULL, NULL)) > 1e-4);
    free(x);
    check_differences(&t);
}

static void check_float(const toy_train *t)
{
    look_layout l;
    kvt_geometry g;
    int64_t n = layout_of(&l, t);
    double *x = numbers(n), *a = numbers(n), *b = numbers(n);
    toy_train_geometry(&g, t);
    toy_train_start(x, n);
    double loss = toy_train_run_f64(t, x, a, NULL);
    assert_true(fabs(toy_train_run(t, x, b, NULL) - loss) < 1e-5 * loss);
    check_tensors(&l, &g, a, b, 1e-3);
    free(x);
    free(a);
    free(b);
}

static void test_float(void **state)
{
    (void)state;
    check_float(&plain);
    for (int i = 0; i < TOY_ARCHS; i++) {
        toy_train t = toy_train_of(i);
        check_float(&t);
    }
}

static void check_threads(const toy_train *one)
{
    look_layout l;
    int64_t n = layout_of(&l, one);
    double *x = numbers(n), *a = numbers(n), *b = numbers(n);
    toy_train_start(x, n);
    double loss = toy_train_run(one, x, a, NULL);
    for (int threads = 2; threads <= 5; threads++) {
        toy_train t = *one;
        t.n_thread = threads;
        assert_true(toy_train_run(&t, x, b, NULL) == loss);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
    }
    free(x);
    free(a);
    free(b);
}

static void test_threads(void **state)
{
    (void)state;
    toy_train gemma = toy_train_of(TOY_ARCHS - 1);
    check_threads(&plain);
    check_threads(&gemma);
}

static void check_begin(const toy_train *t)
{
    look_layout l, bare;
    toy_train without = *t;
    without.rank = 0;
    int64_t n = layout_of(&l, t), n_bare = layout_of(&bare, &without);
    double *x = numbers(n), *grad = numbers(n), one[N_MASS], two[N_MASS];
    kvt_geometry g;
    toy_train_geometry(&g, t);
    assert_int_equal(n_bare, TOY_TOKENS * g.n_hidden);
    toy_train_start(x, n);
    for (int i = 0; i < TOY_LAYERS; i++)
        for (int m = 0; m < ADAPTER_MAPS; m++) {
            int64_t in, out;
            adapter_map_shape(&g, (adapter_map_id)m, &in, &out);
            if (l.b[i][m] >= 0)
                memset(x + l.b[i][m], 0, (size_t)(l.rank * out) * sizeof *x);
        }
    double loss = toy_train_run(t, x, grad, one);
    assert_true(toy_train_run(&without, x, NULL, two) == loss);
    assert_memory_equal(one, two, sizeof one);
    for (int64_t i = 0; i < l.rank * g.n_hidden; i++)
        assert_true(grad[l.a[0][ADAPTER_Q] + i] == 0);
    assert_true(grad[l.b[0][ADAPTER_Q]] != 0);
    free(x);
    free(grad);
}

/* With B = 0 the rows are those of the frozen model, bit for bit; and A has no gradient yet. */
static void test_begin(void **state)
{
    (void)state;
    check_begin(&plain);
    for (int i = 0; i < TOY_ARCHS; i++) {
        toy_train t = toy_train_of(i);
        check_begin(&t);
    }
}

/* Nothing of the last layer but q and k reaches a score: it is no parameter. */
static void test_last_layer(void **state)
{
    (void)state;
    look_layout l;
    kvt_geometry g;
    layout_of(&l, &plain);
    toy_train_geometry(&g, &plain);
    for (int m = 0; m < ADAPTER_MAPS; m++) {
        bool live = m == ADAPTER_Q || m == ADAPTER_K;
        assert_int_equal(l.a[TOY_LAYERS - 1][m] >= 0, live);
        assert_true(l.a[0][m] >= 0 && l.b[0][m] > l.a[0][m]);
    }
}

/* Table 1 of the paper, in millions to the digit that it prints, and its formula,
 *
 *   r ((L - 1) sum over the 7 maps of (in + out) + (in + out of q and k)) + n E
 */
static void test_published(void **state)
{
    static const struct {
        const char *name;
        kvt_geometry g;
        double printed;
        int64_t n;
    } models[] = {
        {"Llama-3.2-1B",
         {.n_layer = 16,
          .n_head = 32,
          .n_kv_head = 8,
          .head_dim = 64,
          .n_hidden = 2048,
          .n_ff = 8192},
         5.4,
         5402624},
        {"Llama-3.2-3B",
         {.n_layer = 28,
          .n_head = 24,
          .n_kv_head = 8,
          .head_dim = 128,
          .n_hidden = 3072,
          .n_ff = 8192},
         11.9,
         11902976},
        {"Llama-3.1-8B",
         {.n_layer = 32,
          .n_head = 32,
          .n_kv_head = 8,
          .head_dim = 128,
          .n_hidden = 4096,
          .n_ff = 14336},
         20.6,
         20553728},
        {"Qwen3-1.7B",
         {.n_layer = 28,
          .n_head = 16,
          .n_kv_head = 8,
          .head_dim = 128,
          .n_hidden = 2048,
          .n_ff = 6144},
         8.5,
         8527872},
        {"Qwen3-4B",
         {.n_layer = 36,
          .n_head = 32,
          .n_kv_head = 8,
          .head_dim = 128,
          .n_hidden = 2560,
          .n_ff = 9728},
         16.2,
         16220160},
        {"Qwen3-8B",
         {.n_layer = 36,
          .n_head = 32,
          .n_kv_head = 8,
          .head_dim = 128,
          .n_hidden = 4096,
          .n_ff = 12288},
         21.5,
         21454848},
    };
    look_layout l;
    (void)state;
    for (int i = 0; i < CHECK_COUNT(models); i++) {
        look_layout_of(&l, &models[i].g, 32, 8, ALL, 4);
        if (fabs(round((double)l.n_param / 1e5) / 10 - models[i].printed) > 1e-9)
            fail_msg("%s: expected %.1f M, got %lld", models[i].name, models[i].printed,
                     (long long)l.n_param);
        assert_int_equal(l.n_param, models[i].n);
    }
}

/* Configurations of a small one, SmolLM2-135M. */
static void test_parameters(void **state)
{
    enum { Q = 1 << ADAPTER_Q, K = 1 << ADAPTER_K, V = 1 << ADAPTER_V };
    static const struct {
        int64_t rank;
        unsigned maps;
        int64_t n;
    } rows[] = {
        {8, ALL, 2394624},      {4, ALL, 1206528},  {2, ALL, 612480}, {1, ALL, 315456},
        {8, Q | K | V, 657408}, {8, Q | K, 479232}, {0, 0, 18432},
    };
    static const kvt_geometry g = {.n_layer = 30,
                                   .n_head = 9,
                                   .n_kv_head = 3,
                                   .head_dim = 64,
                                   .n_hidden = 576,
                                   .n_ff = 1536};
    look_layout l;
    (void)state;
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        look_layout_of(&l, &g, 32, rows[i].rank, rows[i].maps, 4);
        assert_int_equal(l.n_param, rows[i].n);
    }
}

static void check_own_mean(const toy_train *of)
{
    look_layout l;
    toy_train t = *of;
    float target[N_MASS];
    double mass[N_MASS];
    t.n_sample = 1;
    int64_t n = layout_of(&l, &t);
    double *x = numbers(n), *grad = numbers(n);
    toy_train_start(x, n);
    assert_true(toy_train_run_f64(&t, x, NULL, mass) > 0.01);
    for (int i = 0; i < N_MASS; i++)
        target[i] = (float)mass[i];
    t.target = target;
    assert_true(fabs(toy_train_run_f64(&t, x, grad, NULL)) < 1e-6);
    for (int64_t i = 0; i < n; i++)
        assert_true(fabs(grad[i]) < 1e-6);
    free(x);
    free(grad);
}

/* Rows against their own mean lose nothing, and ask for nothing. */
static void test_own_mean(void **state)
{
    (void)state;
    check_own_mean(&plain);
    for (int i = 0; i < TOY_ARCHS; i++) {
        toy_train t = toy_train_of(i);
        check_own_mean(&t);
    }
}

static void check_descent(const toy_train *t)
{
    look_layout l;
    int64_t n = layout_of(&l, t);
    double *x = numbers(n), *grad = numbers(n);
    toy_train_start(x, n);
    double before = toy_train_run(t, x, grad, NULL);
    for (int step = 0; step < 11; step++) {
        for (int64_t i = 0; i < n; i++)
            x[i] -= 0.02 * grad[i];
        double loss = toy_train_run(t, x, grad, NULL);
        assert_true(loss < before);
        before = loss;
    }
    free(x);
    free(grad);
}

static void test_descent(void **state)
{
    (void)state;
    check_descent(&plain);
    for (int i = 0; i < TOY_ARCHS; i++) {
        toy_train t = toy_train_of(i);
        check_descent(&t);
    }
}

int main(void)
{
    static int arch_of[TOY_ARCHS] = {0, 1, 2};
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_differences),     cmocka_unit_test(test_differences_window),
        cmocka_unit_test(test_differences_mse), cmocka_unit_test(test_differences_prompt),
        cmocka_unit_test(test_float),           cmocka_unit_test(test_threads),
        cmocka_unit_test(test_begin),           cmocka_unit_test(test_last_layer),
        cmocka_unit_test(test_published),       cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_own_mean),        cmocka_unit_test(test_descent),
    };
    struct CMUnitTest tests[CHECK_COUNT(all) + TOY_ARCHS];
    memcpy(tests, all, sizeof all);
    for (int i = 0; i < TOY_ARCHS; i++)
        tests[CHECK_COUNT(all) + i] = (struct CMUnitTest){
            toy_train_names[i], test_differences_arch, NULL, NULL, &arch_of[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
