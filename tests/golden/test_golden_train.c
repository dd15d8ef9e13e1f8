/* test_golden_train.c - loss and gradients of the lookahead rows beside torch's automatic
 * differentiation (train.py), in double and in float. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/train_toy.h"

enum { ALL = (1 << ADAPTER_MAPS) - 1 };

static const struct golden {
    const char *name;
    toy_train toy;
} cases[] = {
    {"kl", {.rank = 3, .maps = ALL}},
    {"window", {.rank = 3, .maps = 1 << ADAPTER_Q | 1 << ADAPTER_K, .window = 9}},
    {"mse", {.rank = 0, .mse = true}},
};

/* Reads the case's loss and gradient; the file's order is that of `cases`. */
static double *read_case(FILE *f, const char *name, double *loss, int64_t *n)
{
    char line[256], got[32];
    long long count;
    do
        assert_non_null(fgets(line, sizeof line, f));
    while (line[0] == '#');
    assert_int_equal(sscanf(line, "case %31s %lf %lld", got, loss, &count), 3);
    assert_string_equal(got, name);
    double *out = calloc((size_t)count, sizeof *out);
    for (int64_t i = 0; i < count; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        out[i] = strtod(line, NULL);
    }
    *n = count;
    return out;
}

static void compare(const double *got, const double *expected, int64_t n, double limit)
{
    double most = 0, scale = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(got[i] - expected[i]));
        scale = fmax(scale, fabs(expected[i]));
    }
    if (!(most <= limit * scale))
        fail_msg("gradients differ by %g of %g", most, scale);
}

static void check_case(FILE *f, const char *name, toy_train toy)
{
    kvt_geometry g;
    look_layout layout;
    double loss;
    int64_t n;
    double *expected = read_case(f, name, &loss, &n);
    double *x = calloc((size_t)n, sizeof *x), *grad = calloc((size_t)n, sizeof *grad);
    toy.n_sample = 2;
    toy.n_thread = 2;
    toy_train_geometry(&g, &toy);
    look_layout_of(&layout, &g, TOY_TOKENS, toy.rank, toy.maps, 1.5);
    assert_int_equal(layout.n_param, n);
    toy_train_start(x, n);
    assert_true(fabs(toy_train_run_f64(&toy, x, grad, NULL) - loss) < 1e-9 * loss);
    compare(grad, expected, n, 1e-6);
    assert_true(fabs(toy_train_run(&toy, x, grad, NULL) - loss) < 1e-5 * loss);
    compare(grad, expected, n, 1e-3);
    free(expected);
    free(x);
    free(grad);
}

static void test_torch(void **state)
{
    (void)state;
    FILE *f = fopen(KVT_SOURCE_DIR "/tests/golden/train.txt", "r");
    assert_non_null(f);
    for (int i = 0; i < CHECK_COUNT(cases); i++)
        check_case(f, cases[i].name, cases[i].toy);
    for (int i = 0; i < TOY_ARCHS; i++)
        check_case(f, toy_train_names[i], toy_train_of(i));
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_torch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
