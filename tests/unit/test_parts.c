/* Comparisons with a reference: paired by trace, and split into ranking, allocation and size.
 * Expectations are worked out by hand. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/analyze.h"
#include "kvt/arena.h"
#include "kvt/metric.h"

/* One cell: what it lost is the sum of what the best slots lose, allocation and ranking. */
static void add(kvt_results *s, const char *policy, const char *params, int trace, double best,
                double allocation, double ranking)
{
    kvt_err err;
    kvt_result *r = kvt_result_new();
    assert_non_null(r);
    r->n_cell = 1;
    r->cell = kvt_alloc(1, sizeof *r->cell);
    kvt_cell *c = r->cell;
    for (int v = 0; v < KVT_VALUES_MAX; v++)
        c->value[v] = (double)NAN;
    snprintf(c->trace_id, sizeof c->trace_id, "t%02d", trace);
    snprintf(c->policy, sizeof c->policy, "%s", policy);
    snprintf(c->policy_params, sizeof c->policy_params, "%s", params);
    snprintf(c->budget_asked, sizeof c->budget_asked, "10%%");
    snprintf(c->act, sizeof c->act, "prefill");
    snprintf(c->growth, sizeof c->growth, isnan(allocation) ? "inside" : "on-top");
    snprintf(c->status, sizeof c->status, "ok");
    c->budget_frac = 0.1;
    c->seed = KVT_EMPTY_INT;
    c->regret_mean_frac = ranking;
    c->allocation_regret_mean_frac = allocation;
    c->value[kvt_metric_value("lost_mass_mean_frac")] =
        best + (isnan(allocation) ? 0 : allocation) + ranking;
    assert_int_equal(kvt_results_add(s, r, &err), KVT_OK);
}

static kvt_code compare(kvt_comparison *out, const kvt_results *s, const char *a, const char *b,
                        kvt_err *err)
{
    const char *const policy[] = {a, b};
    return kvt_comparison_make(out, s, policy, 2, NULL, 0, "lost_mass_mean_frac", 1, err);
}

/* Nine traces have both. Trace i: the reference .10 + .02 + .05; the policy .10 + .03 + .01 i /
 * 9: it loses less by ranking, .05 - mean(.01 i / 9) = .05 - .01 * 5 / 9, more by allocation.
 */
static void parts_add_up(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    kvt_comparison c;
    for (int i = 1; i <= 9; i++) {
        add(s, "first", "", i, 0.10, 0.02, 0.05);
        add(s, "second", "", i, 0.10, 0.03, 0.01 * i / 9);
    }
    add(s, "first", "", 10, 0.9, 0,
        0); /* a trace that the other has not: it counts for nothing */
    CHECK_OK(compare(&c, s, "first", "second", &err), &err);
    assert_int_equal(c.n, 1);
    const kvt_comparison_row *r = c.row;
    assert_int_equal(r->traces_count, 9);
    CHECK_NEAR(r->reference_mean, 0.17, 1e-12);
    CHECK_NEAR(r->value_mean, 0.13 + 0.05 / 9, 1e-12);
    CHECK_NEAR(r->ranking_diff, 0.05 / 9 - 0.05, 1e-12);
    CHECK_NEAR(r->allocation_diff, 0.01, 1e-12);
    CHECK_NEAR(r->size_diff, 0, 1e-12);
    CHECK_NEAR(r->diff, r->ranking_diff + r->allocation_diff + r->size_diff, 1e-12);
    CHECK_NEAR(r->allocation_ci_lo, 0.01, 1e-12); /* the same in every trace */
    CHECK_NEAR(r->allocation_ci_hi, 0.01, 1e-12);
    assert_true(r->diff_ci_lo < r->diff && r->diff < r->diff_ci_hi && r->diff_ci_hi < 0);
    assert_int_equal(r->separable, 1);
    assert_string_equal(r->interval, "95% over prompts");
    kvt_comparison_free(&c);
    kvt_results_free(s);
}

/* Below eight traces the brackets are the range, and nothing is separable; where one has no
 * allocation regret there is no part but, of two that stay inside, the ranking. */
static void few_traces_and_missing_parts(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    kvt_comparison c;
    for (int i = 1; i <= 3; i++) {
        add(s, "top", "", i, 0.1, 0.02, 0.05);
        add(s, "in", "", i, 0.1, (double)NAN, 0.01 * i);
        add(s, "other", "", i, 0.1, (double)NAN, 0.02 * i);
    }
    CHECK_OK(compare(&c, s, "top", "in", &err), &err);
    assert_string_equal(c.row->interval, "range over prompts");
    CHECK_NEAR(c.row->diff_ci_lo, 0.11 - 0.17, 1e-12);
    CHECK_NEAR(c.row->diff_ci_hi, 0.13 - 0.17, 1e-12);
    assert_int_equal(c.row->separable, 0);
    assert_true(isnan(c.row->p_value) && isnan(c.row->ranking_diff));
    assert_true(isnan(c.row->allocation_diff) && isnan(c.row->size_diff));
    kvt_comparison_free(&c);
    CHECK_OK(compare(&c, s, "in", "other", &err), &err);
    CHECK_NEAR(c.row->ranking_diff, 0.02, 1e-12);
    assert_true(isnan(c.row->allocation_diff) && isnan(c.row->size_diff));
    kvt_comparison_free(&c);
    kvt_results_free(s);
}

static void names_find_one_use(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    kvt_comparison c;
    add(s, "mine", "size=1", 1, 0.1, 0, 0);
    add(s, "mine", "size=2", 1, 0.2, 0, 0);
    add(s, "yours", "size=3", 1, 0.3, 0, 0);
    assert_int_equal(compare(&c, s, "mine", "yours", &err), KVT_USAGE);
    assert_non_null(strstr(err.text, "2 uses"));
    CHECK_OK(compare(&c, s, "mine:size=2", "yours", &err), &err);
    CHECK_NEAR(c.row->diff, 0.1, 1e-12);
    assert_string_equal(c.row->interval, "none");
    kvt_comparison_free(&c);
    assert_int_equal(compare(&c, s, "mine:size=2", "theirs", &err), KVT_NOTFOUND);
    assert_null(c.row);
    assert_int_equal(kvt_comparison_make(&c, s, (const char *const[]){"yours"}, 1, NULL, 0,
                                         "lost_mass_mean_frac", 1, &err),
                     KVT_USAGE);
    assert_int_equal(kvt_comparison_make(&c, s, (const char *const[]){"yours", "mine:size=2"},
                                         2, NULL, 0, "policy", 1, &err),
                     KVT_USAGE);
    kvt_results_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(few_traces_and_missing_parts),
        cmocka_unit_test(names_find_one_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
