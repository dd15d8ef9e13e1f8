/* Statistics: quantiles against numpy's definition, intervals against the normal approximation,
 * pairing, and the smallest regretted set by hand. */
#include "tests/check.h"

#include <math.h>

#include "analyze/regret.h"
#include "analyze/stat.h"

/* numpy.quantile([1, 2, 4, 8, 16], p), computed by hand from its formula (type 7). */
static void quantile_is_linear_between_order_statistics(void **state)
{
    (void)state;
    const double x[] = {1, 2, 4, 8, 16};
    CHECK_NEAR(stat_quantile(x, 5, 0), 1, 0);
    CHECK_NEAR(stat_quantile(x, 5, 0.25), 2, 0);
    CHECK_NEAR(stat_quantile(x, 5, 0.3), 2.4, 1e-12);   /* place 1.2 */
    CHECK_NEAR(stat_quantile(x, 5, 0.95), 14.4, 1e-12); /* place 3.8 */
    CHECK_NEAR(stat_quantile(x, 5, 1), 16, 0);
    assert_true(isnan(stat_quantile(x, 0, 0.5)));
}

static void nothing_is_undefined_and_one_value_has_no_deviation(void **state)
{
    (void)state;
    kvt_err err;
    stat_interval i;
    const double one = 3;
    assert_true(isnan(stat_mean(&one, 0)));
    assert_int_equal(stat_bootstrap(&i, &one, 0, 1, &err), KVT_OK);
    assert_true(isnan(i.lo));
    assert_int_equal(stat_bootstrap(&i, &one, 1, 1, &err), KVT_OK);
    CHECK_NEAR(i.lo, 3, 0);
    CHECK_NEAR(i.hi, 3, 0);
}

/* 0..99 has mean 49.5 and standard deviation 28.866 (population): the 95 % interval of the mean
 * is 49.5 +- 1.96 x 2.8866 = 43.84 .. 55.16; 10,000 resamples are within 0.25 of it. */
static void interval_is_that_of_the_mean(void **state)
{
    (void)state;
    kvt_err err;
    double x[100];
    stat_interval i;
    for (int k = 0; k < 100; k++)
        x[k] = k;
    assert_int_equal(stat_bootstrap(&i, x, 100, 7, &err), KVT_OK);
    CHECK_NEAR(i.lo, 43.84, 0.25);
    CHECK_NEAR(i.hi, 55.16, 0.25);
    assert_true(i.p_value < 0.001);
}

static void equal_counts_draw_the_same_prompts(void **state)
{
    (void)state;
    kvt_err err;
    double x[12], y[12];
    stat_interval a, b;
    for (int k = 0; k < 12; k++) {
        x[k] = sin(k);
        y[k] = 2 * x[k] + 1;
    }
    assert_int_equal(stat_bootstrap(&a, x, 12, 3, &err), KVT_OK);
    assert_int_equal(stat_bootstrap(&b, y, 12, 3, &err), KVT_OK);
    CHECK_NEAR(b.lo, 2 * a.lo + 1, 1e-12);
    CHECK_NEAR(b.hi, 2 * a.hi + 1, 1e-12);
    assert_int_equal(stat_bootstrap(&b, x, 12, 4, &err), KVT_OK);
    assert_true(a.lo != b.lo); /* another seed, other draws */
}

/* Missing: tokens 1 (0.5), 3 (0.3), 5 (0.1); in vain: token 0 (0.1). Regret 0.9 - 0.1 = 0.8; 90
 * % of it is 0.72, which tokens 1 and 3 carry (0.8) and token 1 alone does not. */
static void regretted_set_is_the_smallest(void **state)
{
    (void)state;
    kvt_err err;
    const bool held[] = {true, false, true, false, false, false};
    const bool judged[] = {false, true, true, true, false, true};
    const double mass[] = {0.1, 0.5, 0.2, 0.3, 0.05, 0.1};
    bool marked[6];
    regret_sum sum;
    assert_int_equal(regret_mark(marked, &sum, held, judged, mass, 6, 0.9, &err), KVT_OK);
    assert_int_equal(sum.missing, 3);
    assert_int_equal(sum.regretted, 2);
    CHECK_NEAR(sum.mass, 0.8, 1e-12);
    assert_true(marked[1] && marked[3]);
    assert_false(marked[0] || marked[2] || marked[4] || marked[5]);
}

static void no_regret_marks_nothing(void **state)
{
    (void)state;
    kvt_err err;
    const bool held[] = {true, false}, judged[] = {true, false};
    const double mass[] = {0.5, 0.5};
    bool marked[2];
    regret_sum sum;
    assert_int_equal(regret_mark(marked, &sum, held, judged, mass, 2, 0.9, &err), KVT_OK);
    assert_int_equal(sum.regretted, 0);
    assert_false(marked[0] || marked[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantile_is_linear_between_order_statistics),
        cmocka_unit_test(nothing_is_undefined_and_one_value_has_no_deviation),
        cmocka_unit_test(interval_is_that_of_the_mean),
        cmocka_unit_test(equal_counts_draw_the_same_prompts),
        cmocka_unit_test(regretted_set_is_the_smallest),
        cmocka_unit_test(no_regret_marks_nothing),
    };
    return cmocka_run_group_tests_name("stat", tests, NULL, NULL);
}
