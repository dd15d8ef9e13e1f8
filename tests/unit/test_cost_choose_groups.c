/* test_cost_choose_groups - what the choice is made among: machines and batches, lengths,
 * models, seeds. Expectations are worked out by hand. */
#include "tests/check.h"
#include "tests/unit/cost_choose.h"

#include <stdio.h>

static void groups_are_chosen_apart(void **state)
{
    kvt_selection s;
    kvt_slo slo;
    kvt_err err;
    world w = begin();
    static const char *const want[] = {"aye", "bee", "aye", "aye"};
    (void)state;
    for (int machine = 0; machine < 2; machine++)
        for (int batch = 1; batch <= 2; batch++) {
            kvt_cell c = {.seed = KVT_EMPTY_INT};
            if (machine == 0 && batch == 1) {
                add_cell(&w, "aye", "10%", 0, 0.1);
                add_cell(&w, "bee", "10%", 0, 0.2);
            }
            for (int p = 0; p < 2; p++) {
                snprintf(c.run_id, sizeof c.run_id, "%s-10%%-00", p ? "bee" : "aye");
                snprintf(c.trace_id, sizeof c.trace_id, "t00");
                /* h100, batch 2: aye is too slow. */
                kvt_cost_row *r =
                    add_cost(&w, &c, machine == 0 && batch == 2 && p == 0 ? 9 : 1, 5 * MS, GIB);
                r->batch = batch;
                if (machine)
                    snprintf(r->machine, sizeof r->machine, "h20");
            }
        }
    CHECK_OK(kvt_slo_parse(&slo, "ttft=2s", &err), &err);
    CHECK_OK(kvt_selection_make(&s, w.results, &w.costs, &slo, KVT_AXIS_TTFT, 1, &err), &err);
    assert_int_equal(s.n, 8);
    int n = 0;
    for (int64_t first = 0, next; first < s.n; first = next, n++) {
        kvt_winner won;
        CHECK_OK(kvt_selection_winner(&won, &next, &s, first, w.results, &slo, 1, &err), &err);
        assert_int_equal(next, first + 2);
        assert_true(n < 4 && is(&s, won.row, want[n], "10%"));
    }
    assert_int_equal(n, 4);
    finish(&w, &s);
}

/* Traces of different lengths are one group without a length; the same traces asked at two
 * lengths are two. */
static void lengths(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    const kvt_cell *c[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        c[i] = add_cell(&w, "aye", "10%", i, 0.1 + 0.2 * i);
        add_cost(&w, c[i], 1 + i, 5 * MS, GIB)->prompt_tokens = 1000 + 500 * i;
    }
    choose(&s, &won, &w, "ttft=3s", KVT_AXIS_REQUEST);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.row[0].prompt_tokens, KVT_EMPTY_INT);
    CHECK_NEAR(s.row[0].lost_mass_mean_frac, 0.2, 1e-12);
    CHECK_NEAR(s.row[0].ttft_s, 2, 0);
    kvt_selection_free(&s);
    w.costs.n = 0;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            add_cost(&w, c[i], 1 + k, 5 * MS, GIB)->prompt_tokens = 4096 << k;
    choose(&s, &won, &w, "ttft=3s", KVT_AXIS_REQUEST);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.row[0].prompt_tokens, 4096);
    assert_int_equal(s.row[1].prompt_tokens, 8192);
    assert_int_equal(s.row[0].traces_count, 2);
    CHECK_NEAR(s.row[0].ttft_s, 1, 0);
    finish(&w, &s);
}

/* Two models' traces are two groups: the margin is paired over the group's own traces. */
static void models_are_not_mixed(void **state)
{
    kvt_selection s;
    kvt_winner won;
    kvt_slo slo;
    kvt_err err;
    int64_t next;
    world w = begin();
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 2; p++) {
            /* bee loses .1 more in the first model, .3 in the second */
            double lost = 0.1 + p * (i < 2 ? 0.1 : 0.3);
            const kvt_cell *c = add_cell(&w, p ? "bee" : "aye", "10%", i, lost);
            kvt_cost_row *r = add_cost(&w, c, 1, 5 * MS, GIB);
            kvt_cell *cell = w.results->result[w.results->n - 1]->cell;
            snprintf(cell->model, sizeof cell->model, "%s", i < 2 ? "small" : "large");
            snprintf(r->geometry, sizeof r->geometry, "%s", i < 2 ? "g-small" : "g-large");
        }
    CHECK_OK(kvt_slo_parse(&slo, "ttft=2s", &err), &err);
    CHECK_OK(kvt_selection_make(&s, w.results, &w.costs, &slo, KVT_AXIS_TTFT, 1, &err), &err);
    assert_int_equal(s.n, 4);
    CHECK_OK(kvt_selection_winner(&won, &next, &s, 0, w.results, &slo, 1, &err), &err);
    assert_string_equal(s.row[0].model, "large");
    CHECK_NEAR(won.margin.mean, 0.3, 1e-12);
    assert_int_equal(won.margin.n_trace, 2);
    CHECK_OK(kvt_selection_winner(&won, &next, &s, next, w.results, &slo, 1, &err), &err);
    CHECK_NEAR(won.margin.mean, 0.1, 1e-12);
    assert_int_equal(next, 4);
    finish(&w, &s);
}

/* Seeds of a trace are averaged before traces are. */
static void seeds_are_averaged(void **state)
{
    kvt_selection s;
    kvt_winner won;
    world w = begin();
    (void)state;
    for (int i = 0; i < 3; i++) { /* two seeds of trace 0, one of trace 1 */
        add_cell(&w, "aye", "10%", i, i == 2 ? 0.8 : 0.5 + 0.2 * i);
        kvt_cell *c = w.results->result[w.results->n - 1]->cell;
        snprintf(c->trace_id, sizeof c->trace_id, "t%02d", i == 2);
        c->seed = i;
        add_cost(&w, c, 1 + i, 5 * MS, GIB);
    }
    choose(&s, &won, &w, "ttft=4s", KVT_AXIS_REQUEST);
    assert_int_equal(s.n, 1);
    CHECK_NEAR(s.row[0].lost_mass_mean_frac, 0.7, 1e-12);
    CHECK_NEAR(s.row[0].ttft_s, 3, 0);
    assert_int_equal(s.row[0].traces_count, 2);
    finish(&w, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_chosen_apart),
        cmocka_unit_test(lengths),
        cmocka_unit_test(models_are_not_mixed),
        cmocka_unit_test(seeds_are_averaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
