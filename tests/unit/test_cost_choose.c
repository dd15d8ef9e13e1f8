/* The choice on results and costs that are built by hand: who wins, by how much, what is said
 * of those that do not meet the limits. Expectations are worked out by hand. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "kvt/analyze.h"
#include "kvt/arena.h"
#include "kvt/metric.h"

#define MS  1e-3
#define GIB 1073741824.

/* One set of cells with their costs. */
typedef struct world {
    kvt_results *results;
    kvt_cost_table costs;
} world;

static world begin(void)
{
    world w = {.results = kvt_alloc(1, sizeof *w.results)};
    assert_non_null(w.results);
    w.costs.row = kvt_alloc(256, sizeof *w.costs.row);
    assert_non_null(w.costs.row);
    return w;
}

static void end(world *w, kvt_selection *s)
{
    kvt_selection_free(s);
    kvt_results_free(w->results);
    kvt_free(w->costs.row);
}

/* A cell of a policy at a budget on a trace. */
static const kvt_cell *add_cell(world *w, const char *policy, const char *budget, int trace,
                                double lost)
{
    kvt_err err;
    kvt_result *r = kvt_result_new();
    assert_non_null(r);
    r->n_cell = 1;
    r->n_layer = 1;
    r->n_lane = 2;
    r->cell = kvt_alloc(1, sizeof *r->cell);
    r->lane = kvt_alloc(2, sizeof *r->lane);
    kvt_cell *c = r->cell;
    int at = kvt_metric_value("lost_mass_mean_frac");
    for (int v = 0; v < KVT_VALUES_MAX; v++)
        c->value[v] = (double)NAN;
    snprintf(c->run_id, sizeof c->run_id, "%.8s-%.8s-%02d", policy, budget, trace);
    snprintf(c->trace_id, sizeof c->trace_id, "t%02d", trace);
    snprintf(c->policy, sizeof c->policy, "%s", policy);
    snprintf(c->exactness, sizeof c->exactness, "exact");
    snprintf(c->budget_asked, sizeof c->budget_asked, "%s", budget);
    snprintf(c->act, sizeof c->act, "prefill");
    snprintf(c->growth, sizeof c->growth, "on-top");
    snprintf(c->status, sizeof c->status, "ok");
    snprintf(c->model, sizeof c->model, "some-model");
    c->seed = KVT_EMPTY_INT;
    c->value[at] = lost;
    c->lost_mass_ci_lo_frac = lost - 0.02;
    c->lost_mass_ci_hi_frac = lost + 0.03;
    c->oracle_lost_mass_mean_frac = lost / 2;
    r->lane[0].value[at] = lost + 0.01;
    r->lane[1].value[at] = lost - 0.01;
    assert_int_equal(kvt_results_add(w->results, r, &err), KVT_OK);
    return c;
}

/* A cost row of that cell; more of it is set by the caller. */
static kvt_cost_row *add_cost(world *w, const kvt_cell *c, double ttft, double tpot,
                              double peak)
{
    kvt_cost_row *r = &w->costs.row[w->costs.n++];
    snprintf(r->run_id, sizeof r->run_id, "%s", c->run_id);
    snprintf(r->trace_id, sizeof r->trace_id, "%s", c->trace_id);
    snprintf(r->policy, sizeof r->policy, "%s", c->policy);
    snprintf(r->geometry, sizeof r->geometry, "llama-3.1-8b");
    snprintf(r->machine, sizeof r->machine, "h100-sxm");
    snprintf(r->profile, sizeof r->profile, "fused");
    snprintf(r->status, sizeof r->status, "ok");
    r->batch = 1;
    r->prompt_tokens = 32768;
    r->fits = 1;
    r->cost.ttft = ttft;
    r->cost.evict.total = ttft / 100;
    r->cost.step_mean.total = tpot;
    r->cost.request = ttft + 100 * tpot;
    r->cost.peak.total = peak;
    r->cost.steady.total = peak / 2;
    return r;
}

static void add(world *w, const char *policy, const char *budget, int trace, double lost,
                double ttft, double tpot, double peak)
{
    add_cost(w, add_cell(w, policy, budget, trace, lost), ttft, tpot, peak);
}

static void choose(kvt_selection *out, kvt_winner *won, const world *w, const char *limits,
                   kvt_cost_axis axis)
{
    kvt_slo slo;
    kvt_err err;
    int64_t next;
    CHECK_OK(kvt_slo_parse(&slo, limits, &err), &err);
    CHECK_OK(kvt_selection_make(out, w->results, &w->costs, &slo, axis, 1, &err), &err);
    CHECK_OK(kvt_selection_winner(won, &next, out, 0, w->results, &slo, 1, &err), &err);
}

static const kvt_selection_row *row_of(const kvt_selection *s, const char *policy,
                                       const char *budget)
{
    for (int64_t i = 0; i < s->n; i++)
        if (strcmp(s->row[i].policy, policy) == 0 &&
            strcmp(s->row[i].budget_asked, budget) == 0)
            return &s->row[i];
    fail_msg("no row of %s at %s", policy, budget);
    return NULL;
}

static bool is(const kvt_selection *s, int64_t row, const char *policy, const char *budget)
{
    return row >= 0 && strcmp(s->row[row].policy, policy) == 0 &&
           strcmp(s->row[row].budget_asked, budget) == 0;
}

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
    end(&w, &s);
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
    end(&w, &s);
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
    end(&w, &s);
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
    end(&w, &s);
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
    end(&w, &s);
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
    end(&w, &s);
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
    end(&w, &s);
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
    end(&w, &s);
}

/* ---- groups --------------------------------------------------------------------------------
 */

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
    end(&w, &s);
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
    end(&w, &s);
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
    end(&w, &s);
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
    end(&w, &s);
}

static void costs_without_cells(void **state)
{
    kvt_selection s;
    kvt_slo slo;
    kvt_err err;
    world w = begin();
    (void)state;
    add(&w, "aye", "10%", 0, 0.1, 1, 5 * MS, GIB);
    w.costs.row[0].run_id[0] = 0;
    CHECK_OK(kvt_slo_parse(&slo, "ttft=2s", &err), &err);
    CHECK_FAILS(kvt_selection_make(&s, w.results, &w.costs, &slo, KVT_AXIS_TTFT, 1, &err),
                KVT_NOTFOUND, "none of the 1 rows of costs has a replayed cell", &err);
    assert_null(s.row);
    end(&w, &s);
}

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
    end(&w, &s);
}

/* Each allocation fails once. */
static void memory_runs_out(void **state)
{
    kvt_selection s = {0};
    kvt_winner won;
    kvt_slo slo;
    kvt_err err;
    kvt_code code = KVT_NOMEM;
    int64_t n = 0, next;
    world w = begin();
    (void)state;
    for (int i = 0; i < 9; i++) {
        add(&w, "aye", "10%", i, 0.1 + 0.01 * i, 1, 5 * MS, GIB);
        add(&w, "bee", "10%", i, 0.2 + 0.01 * i, 1, 5 * MS, GIB);
    }
    CHECK_OK(kvt_slo_parse(&slo, "ttft=2s", &err), &err);
    while (code) {
        kvt_alloc_fail_at(++n, false);
        code = kvt_selection_make(&s, w.results, &w.costs, &slo, KVT_AXIS_TTFT, 1, &err);
        if (!code)
            code = kvt_selection_winner(&won, &next, &s, 0, w.results, &slo, 1, &err);
        kvt_alloc_fail_at(0, false);
        if (code && code != KVT_NOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)n, kvt_code_name(code), err.text);
        if (code)
            kvt_selection_free(&s);
    }
    assert_true(n > 5 && is(&s, won.row, "aye", "10%"));
    end(&w, &s);
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
        cmocka_unit_test(groups_are_chosen_apart),
        cmocka_unit_test(lengths),
        cmocka_unit_test(models_are_not_mixed),
        cmocka_unit_test(seeds_are_averaged),
        cmocka_unit_test(costs_without_cells),
        cmocka_unit_test(the_table_has_every_number),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
