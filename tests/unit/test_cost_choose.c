/* test_cost_choose - the choice on results and costs that are built by hand: who wins, by how
 * much, what is said of those that do not meet the limits. Expectations are worked out by hand.
 */
#include "tests/check.h"
#include "tests/unit/cost_choose.h"

#include <math.h>

/* ---- who wins ------------------------------------------------------------------------------
 */

/* Ten traces. Trace i: aye at 10 % loses .10 + .01 i, bee .12 + .01 i or .14 + .01 i in turn:
 * the difference is .02 or .04, on average .03. Cee loses least but takes 18 ms a token. Costs
 * are the worst over traces: of aye 1 s + 10 ms for trace 9. */
static void least_loss_within_the_limits(void **state)
{
    world w = begin();
    kvt_selection s;
    kvt_winner won;
    (void)state;
    for (int i = 0; i < 10; i++) {
        add(&w, "aye", "10%", i, 0.10 + 0.01 * i, 1 + i * MS, 12 * MS, 20 * GIB);
        add(&w, "bee", "10%", i, 0.12 + 0.01 * i + 0.02 * (i % 2), 1, 12 * MS, 20 * GIB);
        add(&w, "cee", "40%", i, 0.01, 1, 18 * MS, 30 * GIB);
        add(&w, "aye", "5%", i, 0.4, 0.9, 11 * MS, 19 * GIB);
    }
    choose(&s, &won, &w, "tpot=15ms,ttft=2s", KVT_AXIS_REQUEST);
    assert_int_equal(s.n, 4);
    assert_true(is(&s, won.row, "aye", "10%") && is(&s, won.runner_up, "bee", "10%"));
    assert_int_equal(won.n_meet, 3);
    assert_int_equal(won.n_row, 4);
    CHECK_NEAR(won.margin.mean, 0.03, 1e-12);
    assert_int_equal(won.margin.n_trace, 10);
    assert_int_equal(won.margin.kind, KVT_INTERVAL_PROMPTS);
    assert_true(won.margin.separable && won.margin.lo > 0.019 && won.margin.hi < 0.041);
    CHECK_NEAR(won.headroom_frac, 0.2, 1e-12); /* (15 - 12) / 15; ttft leaves 49.6 % */
    const kvt_selection_row *r = row_of(&s, "aye", "10%");
    CHECK_NEAR(r->lost_mass_mean_frac, 0.145, 1e-12);
    CHECK_NEAR(r->oracle_lost_mass_mean_frac, 0.0725, 1e-12);
    CHECK_NEAR(r->ttft_s, 1.009, 1e-12);
    assert_string_equal(r->interval, "95% over prompts");
    assert_int_equal(r->traces_count, 10);
    assert_int_equal(r->prompt_tokens, 32768);
    assert_true(r->is_winner && r->meets && r->missed[0] == 0);
    r = row_of(&s, "cee", "40%");
    assert_true(!r->meets && !r->is_winner && r->on_front);
    assert_string_equal(r->missed, "tpot 18.0 ms, 20 % over");
    /* Rows lie by rising loss. */
    assert_string_equal(s.row[0].policy, "cee");
    assert_string_equal(s.row[3].budget_asked, "5%");
    assert_true(row_of(&s, "bee", "10%")->on_front); /* 1 s + 100 x 12 ms: 9 ms less than aye */
    finish(&w, &s);
}

/* The interval is the one that curve.csv has for the same cells and seed. */
static void intervals_are_those_of_the_curve(void **state)
{
    world w = begin();
    kvt_selection s;
    kvt_winner won;
    kvt_report *report;
    kvt_err err;
    kvt_ctx ctx = {.seed = 1, .n_thread = 1};
    (void)state;
    for (int i = 0; i < 12; i++)
        add(&w, "aye", "10%", i, 0.1 + 0.001 * i * i, 1, 1 * MS, GIB);
    for (int i = 0; i < 3; i++)
        add(&w, "bee", "10%", i, 0.2 + 0.1 * i, 1, 1 * MS, GIB);
    add(&w, "cee", "10%", 0, 0.5, 1, 1 * MS, GIB);
    choose(&s, &won, &w, "tpot=15ms", KVT_AXIS_REQUEST);
    CHECK_OK(kvt_report_make(&report, "curve", w.results, NULL, &ctx, &err), &err);
    const kvt_curve_row *curve = kvt_report_table(report)->rows;
    for (int i = 0; i < 3; i++) {
        const kvt_selection_row *r = row_of(&s, curve[i].policy, "10%");
        CHECK_NEAR(r->lost_mass_mean_frac, curve[i].lost_mass_mean_frac, 0);
        CHECK_NEAR(r->lost_mass_ci_lo_frac, curve[i].lost_mass_ci_lo_frac, 0);
        CHECK_NEAR(r->lost_mass_ci_hi_frac, curve[i].lost_mass_ci_hi_frac, 0);
        assert_string_equal(r->interval, curve[i].interval);
        assert_string_equal(r->exactness, curve[i].exactness);
        assert_string_equal(r->policy_label, curve[i].policy_label);
    }
    kvt_report_free(report);
    finish(&w, &s);
}

/* The same loss: the cheaper one on the axis, then the first by name. */
static void ties(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    (void)state;
    add(&w, "aye", "10%", 0, 0.1, 1.0, 5 * MS, 20 * GIB);
    add(&w, "bee", "10%", 0, 0.1, 1.1, 3 * MS, 21 * GIB);
    add(&w, "cee", "10%", 0, 0.1, 1.2, 4 * MS, 10 * GIB);
    add(&w, "dee", "10%", 0, 0.1, 1.2, 3 * MS, 22 * GIB);
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_TTFT);
    assert_true(is(&s, won.row, "aye", "10%") && is(&s, won.runner_up, "bee", "10%"));
    kvt_selection_free(&s);
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_PEAK);
    assert_true(is(&s, won.row, "cee", "10%") && is(&s, won.runner_up, "aye", "10%"));
    kvt_selection_free(&s);
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_STEADY);
    assert_true(is(&s, won.row, "cee", "10%"));
    kvt_selection_free(&s);
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_TPOT); /* bee and dee: 3 ms */
    assert_true(is(&s, won.row, "bee", "10%") && is(&s, won.runner_up, "dee", "10%"));
    CHECK_NEAR(won.margin.mean, 0, 0);
    assert_true(row_of(&s, "bee", "10%")->on_front && row_of(&s, "dee", "10%")->on_front &&
                !row_of(&s, "aye", "10%")->on_front);
    kvt_selection_free(&s);
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_REQUEST); /* 1.4 s of bee */
    assert_true(is(&s, won.row, "bee", "10%"));
    finish(&w, &s);
}

/* The runner-up is another policy, not the winner at less; a policy alone has none. */
static void the_runner_up_is_another_policy(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    (void)state;
    for (int i = 0; i < 2; i++) {
        add(&w, "aye", "20%", i, 0.1, 1, 5 * MS, GIB);
        add(&w, "aye", "10%", i, 0.2, 1, 5 * MS, GIB);
    }
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_REQUEST);
    assert_true(is(&s, won.row, "aye", "20%") && won.runner_up == -1);
    assert_true(isnan(won.margin.mean) && !won.margin.separable);
    kvt_selection_free(&s);
    for (int i = 0; i < 2; i++) /* at another budget; margins .15 and .25 */
        add(&w, "bee", "5%", i, 0.25 + 0.1 * i, 1, 5 * MS, GIB);
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_REQUEST);
    assert_true(is(&s, won.runner_up, "bee", "5%"));
    CHECK_NEAR(won.margin.mean, 0.2, 1e-12);
    CHECK_NEAR(won.margin.lo, 0.15, 1e-12);
    CHECK_NEAR(won.margin.hi, 0.25, 1e-12);
    assert_true(won.margin.kind == KVT_INTERVAL_RANGE && !won.margin.separable);
    finish(&w, &s);
}

/* Limits that nothing meets: by how much each is missed, all of them. */
static void nothing_meets(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    (void)state;
    add(&w, "aye", "10%", 0, 0.1, 4, 5 * MS, 30 * GIB);
    add(&w, "bee", "10%", 0, 0.2, 2.5, 5 * MS, 20 * GIB);
    choose(&s, &won, &w, "ttft=2s,peak=24GiB,lost=15%", KVT_AXIS_REQUEST);
    assert_true(won.row == -1 && won.runner_up == -1 && won.n_meet == 0 && won.n_row == 2);
    assert_true(isnan(won.headroom_frac));
    assert_string_equal(row_of(&s, "aye", "10%")->missed,
                        "ttft 4.00 s, 100 % over; peak 30.0 GiB, 25 % over");
    assert_string_equal(row_of(&s, "bee", "10%")->missed,
                        "ttft 2.50 s, 25 % over; lost 20 %, 33 % over");
    assert_true(!row_of(&s, "aye", "10%")->is_winner && !row_of(&s, "bee", "10%")->is_winner);
    finish(&w, &s);
}

/* One trace: brackets are the spread over its lanes, and separate nothing. */
static void one_trace(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    (void)state;
    add(&w, "aye", "10%", 0, 0.1, 1, 5 * MS, GIB);
    add(&w, "bee", "10%", 0, 0.3, 1, 5 * MS, GIB);
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_REQUEST);
    CHECK_NEAR(won.margin.mean, 0.2, 1e-12);
    assert_true(won.margin.kind == KVT_INTERVAL_LANES && !won.margin.separable);
    const kvt_selection_row *r = row_of(&s, "aye", "10%");
    assert_string_equal(r->interval, "95% over lanes");
    CHECK_NEAR(r->lost_mass_ci_lo_frac, 0.08, 1e-12);
    CHECK_NEAR(r->lost_mass_ci_hi_frac, 0.13, 1e-12);
    finish(&w, &s);
}

/* ---- who takes no part ---------------------------------------------------------------------
 */

static void bounds_and_controls_are_passed_over(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    (void)state;
    add_cost(&w, add_cell(&w, "oracle", "10%", 0, 0.01), 0.5, 1 * MS, GIB)->is_bound = 1;
    add_cost(&w, add_cell(&w, "full", "10%", 0, 0.0), 0.5, 1 * MS, GIB)->is_control = 1;
    add_cost(&w, add_cell(&w, "huge", "10%", 0, 0.05), 0.5, 1 * MS, 900 * GIB)->fits = 0;
    add(&w, "aye", "10%", 0, 0.1, 1, 5 * MS, GIB);
    add(&w, "bee", "10%", 0, 0.2, 2, 6 * MS, GIB);
    choose(&s, &won, &w, "ttft=3s", KVT_AXIS_REQUEST);
    assert_true(is(&s, won.row, "aye", "10%") && is(&s, won.runner_up, "bee", "10%"));
    assert_int_equal(won.n_row, 3);
    assert_int_equal(won.n_meet, 2);
    assert_string_equal(row_of(&s, "huge", "10%")->missed, "memory does not hold it");
    assert_true(row_of(&s, "oracle", "10%")->is_bound && row_of(&s, "full", "10%")->is_control);
    int64_t on = 0, winners = 0;
    for (int64_t i = 0; i < s.n; i++) {
        on += s.row[i].on_front;
        winners += s.row[i].is_winner;
    }
    assert_true(on == 1 && winners == 1 && row_of(&s, "aye", "10%")->on_front);
    finish(&w, &s);
}

/* What is not known meets no limit on it, and is no worst case of the known ones. */
static void unknown_costs(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    (void)state;
    for (int i = 0; i < 2; i++) {
        add(&w, "aye", "10%", i, 0.1, i ? 1 : (double)NAN, 5 * MS, GIB);
        kvt_cost_row *r = add_cost(&w, add_cell(&w, "bee", "10%", i, 0.2), 1, (double)NAN, GIB);
        r->fits = KVT_EMPTY_INT;
        add(&w, "cee", "10%", i, (double)NAN, 1, 5 * MS, GIB);
    }
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_REQUEST);
    assert_true(is(&s, won.row, "bee", "10%") && won.runner_up == -1);
    const kvt_selection_row *r = row_of(&s, "aye", "10%");
    assert_true(isnan(r->ttft_s) && isnan(r->request_s) && !r->on_front);
    assert_string_equal(r->missed, "ttft not known");
    assert_true(row_of(&s, "bee", "10%")->fits == KVT_EMPTY_INT);
    assert_true(!row_of(&s, "cee", "10%")->on_front); /* its loss is not known */
    assert_string_equal(s.row[2].policy, "cee");      /* last */
    kvt_selection_free(&s);
    choose(&s, &won, &w, "tpot=1s", KVT_AXIS_REQUEST);
    assert_true(is(&s, won.row, "aye", "10%")); /* of bee the time per token is not known */
    finish(&w, &s);
}

/* ---- its table -----------------------------------------------------------------------------
 */

static void the_table_has_every_number(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    char text[64];
    (void)state;
    add(&w, "aye", "10%", 0, 0.25, 1, 5 * MS, GIB);
    choose(&s, &won, &w, "ttft=2s", KVT_AXIS_REQUEST);
    kvt_table t = kvt_selection_table(&s);
    static const char *const want[][2] = {
        {"policy", "aye"},
        {"lost_mass_mean_frac", "0.25"},
        {"ttft_s", "1"},
        {"evict_s", "0.01"},
        {"tpot_s", "0.005"},
        {"request_s", "1.5"},
        {"meets", "1"},
        {"is_winner", "1"},
        {"peak_bytes", "1073741824"},
        {"growth", "on-top"},
        {"steady_bytes", "536870912"},
        {"oracle_lost_mass_mean_frac", "0.125"},
    };
    for (int i = 0; i < CHECK_COUNT(want); i++) {
        const kvt_column *c = kvt_column_find(t.columns, want[i][0]);
        assert_non_null(c);
        kvt_cell_print(&t, 0, c, text, sizeof text);
        assert_string_equal(text, want[i][1]);
    }
    assert_string_equal(t.name, "selection");
    finish(&w, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_loss_within_the_limits),
        cmocka_unit_test(intervals_are_those_of_the_curve),
        cmocka_unit_test(ties),
        cmocka_unit_test(the_runner_up_is_another_policy),
        cmocka_unit_test(nothing_meets),
        cmocka_unit_test(one_trace),
        cmocka_unit_test(bounds_and_controls_are_passed_over),
        cmocka_unit_test(unknown_costs),
        cmocka_unit_test(the_table_has_every_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
