/* test_cost_fit_solve - the least squares of a calibration: small systems, by hand. */
#include "tests/check.h"

#include <math.h>

#include "replay/cost/calibrate_priv.h"

static const fit_bound any[FIT_MAX] = {{-1e9, 1e9}, {-1e9, 1e9}, {-1e9, 1e9}, {-1e9, 1e9}};

/* Columns (1, 1) and (0, 1) make the matrix 1, 1/sqrt 2, 1 at length 1: its eigenvalues are 1
 * +- 1/sqrt 2, their ratio 3 + 2 sqrt 2. */
static void a_line_through_two_points(void **state)
{
    (void)state;
    const fit_row row[] = {{{1, 0}, 3, 1}, {{1, 1}, 5, 1}};
    fit f;
    fit_solve(&f, row, 2, 2, any);
    CHECK_NEAR(f.value[0], 3, 1e-12);
    CHECK_NEAR(f.value[1], 2, 1e-12);
    CHECK_NEAR(f.condition, 3 + 2 * sqrt(2), 1e-9);
    assert_false(f.clamped[0] || f.clamped[1]);
}

/* Errors count as shares: of 1 and 3 the mean with weights 1 and 1/9 is (1 + 3/9) / (1 + 1/9) =
 * 1.2. */
static void errors_are_relative(void **state)
{
    (void)state;
    const fit_row row[] = {{{1}, 1, 1}, {{1}, 3, 3}};
    fit f;
    fit_solve(&f, row, 2, 1, any);
    CHECK_NEAR(f.value[0], 1.2, 1e-12);
    CHECK_NEAR(f.condition, 1, 1e-12);
}

/* y = 2 x - 1 through (1, 1) and (2, 3); held at 0 the constant leaves the slope (1 + 2 * 3) /
 * (1
 * + 4) = 1.4. */
static void what_is_clamped_is_solved_around(void **state)
{
    (void)state;
    const fit_row row[] = {{{1, 1}, 1, 1}, {{2, 1}, 3, 1}};
    const fit_bound bound[] = {{0, 9}, {0, 9}};
    fit f;
    fit_solve(&f, row, 2, 2, bound);
    CHECK_NEAR(f.value[0], 1.4, 1e-12);
    CHECK_NEAR(f.value[1], 0, 0);
    assert_true(f.clamped[1] && !f.clamped[0]);
    const fit_bound narrow[] = {{0, 1.1},
                                {0, 9}}; /* then the best constant is (-.1 + .8) / 2 */
    fit_solve(&f, row, 2, 2, narrow);
    CHECK_NEAR(f.value[0], 1.1, 0);
    CHECK_NEAR(f.value[1], 0.35, 1e-12);
}

static void columns_that_depend_are_ill_conditioned(void **state)
{
    (void)state;
    const fit_row row[] = {{{1, 2}, 1, 1}, {{3, 6}, 3, 1}, {{4, 8}, 4, 1}};
    const fit_row empty[] = {{{1, 0}, 1, 1}, {{3, 0}, 3, 1}};
    fit f;
    fit_solve(&f, row, 3, 2, any);
    assert_true(f.condition > 1e12);
    fit_solve(&f, empty, 2, 2, any);
    assert_true(f.condition > 1e12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_through_two_points),
        cmocka_unit_test(errors_are_relative),
        cmocka_unit_test(what_is_clamped_is_solved_around),
        cmocka_unit_test(columns_that_depend_are_ill_conditioned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
