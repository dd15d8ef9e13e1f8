/* cost_choose.c - results and costs that are built by hand for tests of the choice. */
#include "tests/unit/cost_choose.h"

#include <math.h>
#include <stdio.h>

#include "kvt/arena.h"
#include "kvt/metric.h"
#include "tests/check.h"

world begin(void)
{
    world w = {.results = kvt_alloc(1, sizeof *w.results)};
    assert_non_null(w.results);
    w.costs.row = kvt_alloc(256, sizeof *w.costs.row);
    assert_non_null(w.costs.row);
    return w;
}

void finish(world *w, kvt_selection *s)
{
    kvt_selection_free(s);
    kvt_results_free(w->results);
    kvt_free(w->costs.row);
}

const kvt_cell *add_cell(world *w, const char *policy, const char *budget, int trace,
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

kvt_cost_row *add_cost(world *w, const kvt_cell *c, double ttft, double tpot, double peak)
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

void add(world *w, const char *policy, const char *budget, int trace, double lost, double ttft,
         double tpot, double peak)
{
    add_cost(w, add_cell(w, policy, budget, trace, lost), ttft, tpot, peak);
}

void choose(kvt_selection *out, kvt_winner *won, const world *w, const char *limits,
            kvt_cost_axis axis)
{
    kvt_slo slo;
    kvt_err err;
    int64_t next;
    CHECK_OK(kvt_slo_parse(&slo, limits, &err), &err);
    CHECK_OK(kvt_selection_make(out, w->results, &w->costs, &slo, axis, 1, &err), &err);
    CHECK_OK(kvt_selection_winner(won, &next, out, 0, w->results, &slo, 1, &err), &err);
}

const kvt_selection_row *row_of(const kvt_selection *s, const char *policy, const char *budget)
{
    for (int64_t i = 0; i < s->n; i++)
        if (strcmp(s->row[i].policy, policy) == 0 &&
            strcmp(s->row[i].budget_asked, budget) == 0)
            return &s->row[i];
    fail_msg("no row of %s at %s", policy, budget);
    return NULL;
}

bool is(const kvt_selection *s, int64_t row, const char *policy, const char *budget)
{
    return row >= 0 && strcmp(s->row[row].policy, policy) == 0 &&
           strcmp(s->row[row].budget_asked, budget) == 0;
}
