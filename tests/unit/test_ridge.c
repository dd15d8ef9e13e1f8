/* test_ridge.c - least squares against systems solved by hand. */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "train/ridge.h"

/* x = 0, 1, 2, 3; y = 1, 3, 5, 7 and -x. Mean 1.5, variance 1.25; at lambda = 1 the slope is
 * 2 x 1.25 / (1.25 + 1.25) = 1 and the line goes through (1.5, 4). */
static void one_input(void **state)
{
    (void)state;
    static const float x[] = {0, 1, 2, 3};
    static const double y[] = {1, 3, 5, 7, 0, -1, -2, -3};
    kvt_err err;
    ridge r;
    double w[2], b[2];
    CHECK_OK(ridge_new(&r, 1, 2, &err), &err);
    ridge_add(&r, x, y, 4, 1);
    CHECK_OK(ridge_solve(&r, 0, w, b, &err), &err);
    CHECK_NEAR(w[0], 2, 1e-12);
    CHECK_NEAR(b[0], 1, 1e-12);
    CHECK_NEAR(w[1], -1, 1e-12);
    CHECK_NEAR(b[1], 0, 1e-12);
    CHECK_NEAR(ridge_error(&r, w, b), 0, 1e-12);
    CHECK_OK(ridge_solve(&r, 1, w, b, &err), &err);
    CHECK_NEAR(w[0], 1, 1e-12);
    CHECK_NEAR(b[0], 2.5, 1e-12);
    CHECK_NEAR(w[1], -0.5, 1e-12);
    CHECK_NEAR(b[1], -0.75, 1e-12);
    /* Residuals -1.5 -.5 .5 1.5 and .75 .25 -.25 -.75: (5 + 1.25) / 4 / 2 */
    CHECK_NEAR(ridge_error(&r, w, b), 0.78125, 1e-12);
    ridge_free(&r);
}

/* Rows (1, 0), (0, 1), (1, 1), (0, 0) and y = 3 a - 2 b + 5. Each input's variance is 1/4 and
 * they are uncorrelated: lambda = 1 halves both slopes. */
static void two_inputs(void **state)
{
    (void)state;
    static const float x[] = {1, 0, 0, 1, 1, 1, 0, 0};
    static const double y[] = {8, 3, 6, 5};
    kvt_err err;
    ridge r;
    double w[2], b[1];
    CHECK_OK(ridge_new(&r, 2, 1, &err), &err);
    ridge_add(&r, x, y, 2, 1);
    ridge_add(&r, x + 4, y + 2, 2, 1);
    CHECK_OK(ridge_solve(&r, 0, w, b, &err), &err);
    CHECK_NEAR(w[0], 3, 1e-12);
    CHECK_NEAR(w[1], -2, 1e-12);
    CHECK_NEAR(b[0], 5, 1e-12);
    CHECK_OK(ridge_solve(&r, 1, w, b, &err), &err);
    CHECK_NEAR(w[0], 1.5, 1e-12);
    CHECK_NEAR(w[1], -1, 1e-12);
    CHECK_NEAR(b[0], 5.25, 1e-12);
    ridge_free(&r);
}

static void too_few_rows(void **state)
{
    (void)state;
    static const float x[] = {1, 2, 2, 4};
    static const double y[] = {1, 2};
    kvt_err err;
    ridge r;
    double w[2], b[1];
    CHECK_OK(ridge_new(&r, 2, 1, &err), &err);
    CHECK_FAILS(ridge_solve(&r, 0, w, b, &err), KVT_FORMAT, "no rows", &err);
    assert_true(isnan(ridge_error(&r, w, b)));
    ridge_add(&r, x, y, 2, 1);
    CHECK_FAILS(ridge_solve(&r, 0, w, b, &err), KVT_FORMAT, "do not determine", &err);
    CHECK_OK(ridge_solve(&r, 1e-3, w, b, &err), &err);
    ridge_clear(&r);
    CHECK_FAILS(ridge_solve(&r, 0, w, b, &err), KVT_FORMAT, "no rows", &err);
    ridge_free(&r);
}

/* The error by the sums is that of the rows; threads change no byte. */
static void error_of_other_rows(void **state)
{
    (void)state;
    enum { IN = 37, ROWS = 150 };
    static float x[ROWS * IN];
    static double y[2 * ROWS];
    double w[2 * IN], b[2], sum = 0;
    uint64_t rng[4];
    kvt_err err;
    ridge r, s;
    rng_init(rng, "ridge", 5);
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)rng_real(rng);
    for (int i = 0; i < 2 * ROWS; i++)
        y[i] = rng_real(rng);
    CHECK_OK(ridge_new(&r, IN, 2, &err), &err);
    CHECK_OK(ridge_new(&s, IN, 2, &err), &err);
    ridge_add(&r, x, y, ROWS, 1);
    ridge_add(&s, x, y, ROWS, 3);
    assert_memory_equal(r.xx, s.xx, sizeof(double) * IN * IN);
    assert_memory_equal(r.xy, s.xy, sizeof(double) * 2 * IN);
    CHECK_OK(ridge_solve(&r, 0.1, w, b, &err), &err);
    w[3] += 0.5;
    for (int o = 0; o < 2; o++)
        for (int t = 0; t < ROWS; t++) {
            double gap = y[o * ROWS + t] - b[o];
            for (int i = 0; i < IN; i++)
                gap -= w[o * IN + i] * (double)x[t * IN + i];
            sum += gap * gap / (2 * ROWS);
        }
    CHECK_NEAR(ridge_error(&r, w, b), sum, 1e-12);
    ridge_free(&r);
    ridge_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_input),
        cmocka_unit_test(two_inputs),
        cmocka_unit_test(too_few_rows),
        cmocka_unit_test(error_of_other_rows),
    };
    return cmocka_run_group_tests_name("ridge", tests, NULL, NULL);
}
