/* Tables from results that are built by hand: curves, intervals, paired differences, keys. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/analyze.h"
#include "kvt/arena.h"
#include "kvt/metric.h"

static kvt_ctx ctx = {.seed = 1, .n_thread = 1};

/* A pass of one cell at each of two budgets; `lost` at the smaller one, half of it at the
 * other. */
static kvt_result *make(const char *policy, const char *trace, double lost, int64_t seed,
                        bool control)
{
    kvt_result *r = kvt_result_new();
    assert_non_null(r);
    int at = kvt_metric_value("lost_mass_mean_frac");
    assert_true(at >= 0);
    snprintf(r->trace_id, sizeof r->trace_id, "%s", trace);
    snprintf(r->policy_text, sizeof r->policy_text, "%s", policy);
    r->is_control = control;
    r->n_layer = 1;
    r->n_lane = 2;
    r->n_prompt = 100;
    r->n_response = 10;
    r->n_cell = 2;
    r->cell = kvt_alloc(2, sizeof *r->cell);
    r->lane = kvt_alloc(4, sizeof *r->lane);
    for (int c = 0; c < 2; c++) {
        kvt_cell *cell = &r->cell[c];
        for (int v = 0; v < KVT_VALUES_MAX; v++)
            cell->value[v] = (double)NAN;
        snprintf(cell->run_id, sizeof cell->run_id, "%08x%s%c", 0x1000u + (unsigned)c, "00",
                 policy[0]);
        snprintf(cell->trace_id, sizeof cell->trace_id, "%s", trace);
        snprintf(cell->policy, sizeof cell->policy, "%s", policy);
        snprintf(cell->exactness, sizeof cell->exactness, "exact");
        snprintf(cell->budget_asked, sizeof cell->budget_asked, "%s", c == 0 ? "10%" : "20%");
        snprintf(cell->budget_rule, sizeof cell->budget_rule, "floor_exact");
        snprintf(cell->act, sizeof cell->act, "prefill");
        snprintf(cell->growth, sizeof cell->growth, "on-top");
        snprintf(cell->status, sizeof cell->status, "ok");
        cell->budget_tokens = c == 0 ? 10 : 20;
        cell->budget_frac = c == 0 ? 0.1 : 0.2;
        cell->seed = seed;
        cell->value[at] = c == 0 ? lost : lost / 2;
        cell->oracle_lost_mass_mean_frac = control ? (double)NAN : c == 0 ? 0.1 : 0.05;
        for (int a = 0; a < 2; a++)
            r->lane[2 * c + a].value[at] = cell->value[at] + (a == 0 ? 0.01 : -0.01);
    }
    return r;
}

static void add(kvt_results *s, kvt_result *r)
{
    kvt_err err;
    assert_int_equal(kvt_results_add(s, r, &err), KVT_OK);
}

static const kvt_curve_row *find(const kvt_table *t, const char *policy, const char *budget)
{
    const kvt_curve_row *row = t->rows;
    for (int64_t i = 0; i < t->n_row; i++)
        if (strcmp(row[i].policy, policy) == 0 && strcmp(row[i].budget_asked, budget) == 0)
            return &row[i];
    fail_msg("no row of %s at %s", policy, budget);
    return NULL;
}

/* Two prompts: the mean is (0.2 + 0.4) / 2 and the bracket their range. The area over log2 of
 * the budget from 10 to 20 tokens is the mean of both heights: (0.3 + 0.15) / 2. Seeds of one
 * trace are averaged first: random is ((0.5 + 0.7) / 2 + 0.8) / 2. */
static void curve_is_a_mean_over_prompts(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    add(s, make("snapkv", "a", 0.2, KVT_EMPTY_INT, false));
    add(s, make("snapkv", "b", 0.4, KVT_EMPTY_INT, false));
    add(s, make("random", "a", 0.5, 1, true));
    add(s, make("random", "a", 0.7, 2, true));
    add(s, make("random", "b", 0.8, 1, true));
    kvt_report *r;
    assert_int_equal(kvt_report_make(&r, "curve", s, NULL, &ctx, &err), KVT_OK);
    const kvt_curve_row *row = find(kvt_report_table(r), "snapkv", "10%");
    CHECK_NEAR(row->lost_mass_mean_frac, 0.3, 1e-12);
    CHECK_NEAR(row->lost_mass_ci_lo_frac, 0.2, 1e-12);
    CHECK_NEAR(row->lost_mass_ci_hi_frac, 0.4, 1e-12);
    assert_string_equal(row->interval, "range over prompts");
    CHECK_NEAR(row->auc_lost_mass, 0.225, 1e-12);
    /* From 10 to 20 slots: 10 (0.3 + 0.15) / 2 by 10 (0.1 + 0.05) / 2. */
    CHECK_NEAR(row->auc_lost_mass_to_oracle, 3, 1e-12);
    assert_int_equal(row->traces_count, 2);
    row = find(kvt_report_table(r), "random", "10%");
    CHECK_NEAR(row->lost_mass_mean_frac, 0.7, 1e-12);
    assert_true(isnan(row->auc_lost_mass_to_oracle) != 0); /* nothing to compare it with */
    assert_int_equal(row->traces_count, 2);
    assert_int_equal(row->seeds_count, 2); /* of trace a */
    /* Controls come last, budgets rise. */
    const kvt_curve_row *all = kvt_report_table(r)->rows;
    assert_string_equal(all[0].policy, "snapkv");
    assert_string_equal(all[0].budget_asked, "10%");
    assert_string_equal(all[1].budget_asked, "20%");
    assert_string_equal(all[2].policy, "random");
    kvt_report_free(r);
    kvt_results_free(s);
}

/* Ten prompts whose pairs differ by 0.1 +- 0.01: separable, and the interval is around -0.1
 * although the prompts themselves spread over 0.9. */
static void differences_are_paired(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    for (int i = 0; i < 10; i++) {
        char trace[16];
        snprintf(trace, sizeof trace, "t%d", i);
        double base = 0.1 * i;
        add(s,
            make("h2o", trace, base + 0.1 + (i % 2 == 0 ? 0.01 : -0.01), KVT_EMPTY_INT, false));
        add(s, make("snapkv", trace, base, KVT_EMPTY_INT, false));
    }
    kvt_difference d;
    assert_int_equal(kvt_compare(&d, s, "snapkv", "h2o", "10%", "lost_mass_mean_frac", 1, &err),
                     KVT_OK);
    CHECK_NEAR(d.mean, -0.1, 1e-9);
    assert_int_equal(d.kind, KVT_INTERVAL_PROMPTS);
    assert_true(d.separable && d.lo < -0.1 && d.hi > -0.1 && d.lo > -0.11 && d.hi < -0.09);
    assert_int_equal(d.n_trace, 10);
    assert_int_equal(
        kvt_compare(&d, s, "snapkv", "tova", "10%", "lost_mass_mean_frac", 1, &err),
        KVT_NOTFOUND);
    assert_non_null(strstr(err.text, "tova"));
    kvt_results_free(s);
}

static void one_prompt_gives_a_spread_over_lanes_and_separates_nothing(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    add(s, make("h2o", "a", 0.5, KVT_EMPTY_INT, false));
    add(s, make("snapkv", "a", 0.2, KVT_EMPTY_INT, false));
    kvt_difference d;
    assert_int_equal(kvt_compare(&d, s, "snapkv", "h2o", "10%", "lost_mass_mean_frac", 1, &err),
                     KVT_OK);
    assert_int_equal(d.kind, KVT_INTERVAL_LANES);
    assert_false(d.separable);
    CHECK_NEAR(d.mean, -0.3, 1e-12);
    assert_int_equal(d.n_needed, KVT_EMPTY_INT);
    kvt_results_free(s);
}

static void lanes_carry_the_keys_of_their_cell(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *s = kvt_alloc(1, sizeof *s);
    add(s, make("snapkv", "a", 0.2, KVT_EMPTY_INT, false));
    kvt_report *r;
    assert_int_equal(kvt_report_make(&r, "lanes", s, NULL, &ctx, &err), KVT_OK);
    const kvt_table *t = kvt_report_table(r);
    assert_int_equal(t->n_row, 4);
    char text[64];
    kvt_cell_print(t, 2, kvt_column_find(t->columns, "budget_asked"), text, sizeof text);
    assert_string_equal(text, "20%");
    kvt_cell_print(t, 0, kvt_column_find(t->columns, "lost_mass_mean_frac"), text, sizeof text);
    assert_string_equal(text, "0.21000000000000002"); /* 0.2 + 0.01 in doubles */
    int n_run_id = 0;
    for (const kvt_column *c = t->columns; c->name != NULL; c++)
        n_run_id += strcmp(c->name, "run_id") == 0;
    assert_int_equal(n_run_id, 1);
    kvt_report_free(r);
    kvt_results_free(s);
}

static void every_table_has_named_columns_with_help(void **state)
{
    (void)state;
    for (const char *const *name = kvt_report_names(); *name != NULL; name++) {
        kvt_schema schema = {0};
        kvt_report_schema(*name, &schema);
        assert_true(schema.n > 5);
        for (int i = 0; i < schema.n; i++) {
            if (strlen(schema.column[i].help) < 3)
                fail_msg("%s: column %s has no help", *name, schema.column[i].name);
            for (int k = 0; k < i; k++)
                if (strcmp(schema.column[i].name, schema.column[k].name) == 0)
                    fail_msg("%s: column '%s' twice", *name, schema.column[i].name);
        }
    }
}

static void unknown_tables_are_refused(void **state)
{
    (void)state;
    kvt_err err;
    kvt_report *r;
    kvt_results s = {0};
    assert_int_equal(kvt_report_make(&r, "cell", &s, NULL, &ctx, &err), KVT_USAGE);
    assert_non_null(strstr(err.text, "cells"));
    assert_null(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curve_is_a_mean_over_prompts),
        cmocka_unit_test(differences_are_paired),
        cmocka_unit_test(one_prompt_gives_a_spread_over_lanes_and_separates_nothing),
        cmocka_unit_test(lanes_carry_the_keys_of_their_cell),
        cmocka_unit_test(every_table_has_named_columns_with_help),
        cmocka_unit_test(unknown_tables_are_refused),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
