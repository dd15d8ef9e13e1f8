/* AdamW, clipping and the schedule against steps worked out by hand. */
#include "tests/check.h"

#include <math.h>
#include <stdint.h>

#include "train/train_priv.h"

static void near(double got, double expected, double limit)
{
    if (!(fabs(got - expected) <= limit))
        fail_msg("got %.9g, expected %.9g", got, expected);
}

/* First step: m/(1-b1) = g, v/(1-b2) = g^2, so the parameter moves by rate * sign(g). */
static void test_first(void **state)
{
    (void)state;
    const adamw_spec s = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    float x[] = {1, -2, 0.5f}, g[] = {0.3f, -7, 0}, m[3] = {0}, v[3] = {0};
    adamw_step(&s, x, g, m, v, 3, 1, 0.01);
    near((double)x[0], 0.99, 1e-6);
    near((double)x[1], -1.99, 1e-6);
    near((double)x[2], 0.5, 0); /* no gradient, no step */
    near((double)m[0], 0.03, 1e-7);
    near((double)v[0], 0.0045, 1e-7);
}

/* Second step with gradients 1, then -0.5: m = 0.09 - 0.05 = 0.04, v = 0.05 * 0.95 + 0.05 *
 * 0.25 = 0.06; m/0.19 = 0.2105263, v/0.0975 = 0.6153846, whose root is 0.7844645. */
static void test_second(void **state)
{
    (void)state;
    const adamw_spec s = {.beta1 = 0.9, .beta2 = 0.95, .eps = 0};
    float x = 0, m = 0, v = 0, g = 1;
    adamw_step(&s, &x, &g, &m, &v, 1, 1, 0.1);
    near((double)x, -0.1, 1e-7);
    g = -0.5f;
    adamw_step(&s, &x, &g, &m, &v, 1, 2, 0.1);
    near((double)m, 0.04, 1e-7);
    near((double)v, 0.06, 1e-7);
    near((double)x, -0.1 - 0.1 * 0.2105263 / 0.7844645, 1e-7);
}

static void test_decay(void **state)
{
    (void)state;
    const adamw_spec s = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.1};
    float x = 2, g = 0, m = 0, v = 0;
    adamw_step(&s, &x, &g, &m, &v, 1, 1, 0.5);
    near((double)x, 2 - 0.5 * 0.1 * 2, 1e-6); /* the decay alone, not through m */
    near((double)m, 0, 0);
}

static void test_clip(void **state)
{
    (void)state;
    float a[] = {3, 0}, b[] = {0, 4};
    float *const part[] = {a, b};
    const int64_t n[] = {2, 2};
    near(adamw_clip(part, n, 2, 10), 5, 1e-12);
    near((double)a[0], 3, 0);
    near(adamw_clip(part, n, 2, 1), 5, 1e-12);
    near((double)a[0], 0.6, 1e-7);
    near((double)b[1], 0.8, 1e-7);
}

static void test_schedule(void **state)
{
    (void)state;
    near(train_schedule(1, 100, 0.05), 0.2, 1e-12);
    near(train_schedule(4, 100, 0.05), 0.8, 1e-12);
    near(train_schedule(5, 100, 0.05), 1, 1e-12);
    near(train_schedule(53, 100, 0.05), 0.5, 1e-12); /* half way from 5 to 101 */
    near(train_schedule(101, 100, 0.05), 0, 1e-12);
    near(train_schedule(1, 1, 0), 0.5, 1e-12); /* one step is no step of rate 0 */
    double before = 2;
    for (int64_t t = 5; t <= 100; t++) {
        assert_true(train_schedule(t, 100, 0.05) < before);
        before = train_schedule(t, 100, 0.05);
    }
    assert_true(before > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first),    cmocka_unit_test(test_second),
        cmocka_unit_test(test_decay),    cmocka_unit_test(test_clip),
        cmocka_unit_test(test_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
