/* choose.c - which policies and budgets meet limits, and which of them loses least.
 *
 * A row of the cost table and the cell that it was made of share a run id and a trace. Rows of
 * one machine, profile, batch, length and geometry form a group; in it every use of a policy at
 * a budget is one row, over its traces. */
#include "analyze/choose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/choose_join.h"
#include "analyze/group.h"
#include "analyze/stat.h"
#include "kvt/arena.h"

/* ---- one row -------------------------------------------------------------------------------
 */

/* What a row is made with. */
typedef struct maker {
    const join *j;
    const kvt_schema *schema;
    const kvt_labels *labels;
    const kvt_slo *slo;
    kvt_cost_axis axis;
    uint64_t seed;
    double *x; /* [n] one value a trace */
    const char **trace;
} maker;

static double worse(double a, double b)
{
    return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
}

/* The worst over traces: what is not known of one is not known of them all. */
static void put_costs(kvt_selection_row *row, const join_entry *e, int64_t n)
{
    row->fits = KVT_EMPTY_INT;
    for (int64_t i = 0; i < n; i++) {
        const kvt_cost *c = &e[i].cost->cost;
        const double value[] = {c->ttft,    c->evict.total, c->step_mean.total,
                                c->request, c->peak.total,  c->steady.total};
        double *const at[] = {&row->ttft_s,    &row->evict_s,    &row->tpot_s,
                              &row->request_s, &row->peak_bytes, &row->steady_bytes};
        for (int k = 0; k < 6; k++)
            *at[k] = i == 0 ? value[k] : worse(*at[k], value[k]);
        if (e[i].cost->fits != KVT_EMPTY_INT &&
            (row->fits == KVT_EMPTY_INT || e[i].cost->fits < row->fits))
            row->fits = e[i].cost->fits;
        row->is_bound |= e[i].cost->is_bound == 1;
        row->is_control |= e[i].cost->is_control == 1;
    }
}

static void put_names(const maker *m, kvt_selection_row *row, const group *g,
                      const kvt_cost_row *cost)
{
    const kvt_cell *c = g->cell[0];
    snprintf(row->policy_label, sizeof row->policy_label, "%s",
             kvt_label(m->labels, c->policy, c->policy_params));
    snprintf(row->policy, sizeof row->policy, "%s", c->policy);
    snprintf(row->policy_params, sizeof row->policy_params, "%s", c->policy_params);
    snprintf(row->exactness, sizeof row->exactness, "%s", group_exactness(g));
    snprintf(row->budget_asked, sizeof row->budget_asked, "%s", c->budget_asked);
    snprintf(row->growth, sizeof row->growth, "%s", c->growth);
    snprintf(row->geometry, sizeof row->geometry, "%s", cost->geometry);
    snprintf(row->machine, sizeof row->machine, "%s", cost->machine);
    snprintf(row->profile, sizeof row->profile, "%s", cost->profile);
    row->batch = cost->batch;
    row->prompt_tokens = cost->prompt_tokens;
}

static double mean_of(const maker *m, const group *g, const char *column)
{
    return stat_mean(m->x, group_traces(g, m->schema, column, m->x, m->trace));
}

/* The interval that curve.csv gives the same cells. */
static kvt_code put_loss(const maker *m, kvt_selection_row *row, const group *g, kvt_err *err)
{
    kvt_difference d;
    int64_t n = group_traces(g, m->schema, "lost_mass_mean_frac", m->x, m->trace);
    if (difference_measure(&d, m->x, n, m->seed, err))
        return err->code;
    if (n == 1) {
        d.kind = KVT_INTERVAL_LANES;
        d.lo = mean_of(m, g, "lost_mass_ci_lo_frac");
        d.hi = mean_of(m, g, "lost_mass_ci_hi_frac");
    }
    row->traces_count = n;
    row->lost_mass_mean_frac = d.mean;
    row->lost_mass_ci_lo_frac = d.lo;
    row->lost_mass_ci_hi_frac = d.hi;
    snprintf(row->interval, sizeof row->interval, "%s", kvt_interval_name(d.kind));
    row->oracle_lost_mass_mean_frac = mean_of(m, g, "oracle_lost_mass_mean_frac");
    return KVT_OK;
}

static kvt_code make_row(const maker *m, kvt_selection_row *row, int64_t first, int64_t n,
                         kvt_err *err)
{
    const join_entry *e = &m->j->entry[first];
    group g = {.cell = &m->j->cell[first], .n = n};
    *row = (kvt_selection_row){0};
    put_names(m, row, &g, e[0].cost);
    put_costs(row, e, n);
    if (put_loss(m, row, &g, err))
        return err->code;
    slo_judge(row, m->slo);
    return KVT_OK;
}

/* ---- one group -----------------------------------------------------------------------------
 */

double choose_cost(const kvt_selection_row *row, kvt_cost_axis axis)
{
    switch (axis) {
    case KVT_AXIS_TTFT: return row->ttft_s;
    case KVT_AXIS_TPOT: return row->tpot_s;
    case KVT_AXIS_PEAK: return row->peak_bytes;
    case KVT_AXIS_STEADY: return row->steady_bytes;
    default: return row->request_s;
    }
}

const char *const *kvt_cost_axis_names(void)
{
    static const char *const names[] = {"request", "ttft", "tpot", "peak", "steady", NULL};
    return names;
}

bool choose_candidate(const kvt_selection_row *row)
{
    return !row->is_bound && !row->is_control && !isnan(row->lost_mass_mean_frac);
}

static int by_number(double a, double b) /* NAN last */
{
    int c = isnan(a) - isnan(b);
    return c ? c : (a > b) - (a < b);
}

/* By rising loss; the cheaper one first where it is the same, then by name. */
static int by_loss(const kvt_selection_row *a, const kvt_selection_row *b, kvt_cost_axis axis)
{
    int c = by_number(a->lost_mass_mean_frac, b->lost_mass_mean_frac);
    if (!c)
        c = by_number(choose_cost(a, axis), choose_cost(b, axis));
    if (!c)
        c = strcmp(a->policy_label, b->policy_label);
    return c ? c : strcmp(a->budget_asked, b->budget_asked);
}

/* qsort() takes no axis: each comparison is told by its name. */
#define BY_AXIS(name, axis)                       \
    static int name(const void *a, const void *b) \
    {                                             \
        return by_loss(a, b, axis);               \
    }
BY_AXIS(by_request, KVT_AXIS_REQUEST)
BY_AXIS(by_ttft, KVT_AXIS_TTFT)
BY_AXIS(by_tpot, KVT_AXIS_TPOT)
BY_AXIS(by_peak, KVT_AXIS_PEAK)
BY_AXIS(by_steady, KVT_AXIS_STEADY)

/* Bounds, controls and what memory does not hold are no points of the front. */
static kvt_code mark_front(kvt_selection_row *row, int64_t n, kvt_cost_axis axis, kvt_err *err)
{
    double *x = kvt_alloc(2 * n, sizeof *x);
    bool *on = kvt_alloc(n, sizeof *on);
    kvt_code code = x && on ? KVT_OK : kvt_fail_memory(err, (size_t)n * 3 * sizeof *x);
    for (int64_t i = 0; !code && i < n; i++) {
        bool counts = choose_candidate(&row[i]) && row[i].fits != 0;
        x[i] = counts ? choose_cost(&row[i], axis) : (double)NAN;
        x[n + i] = row[i].lost_mass_mean_frac;
    }
    if (!code)
        code = kvt_pareto(on, x, x + n, n, err);
    for (int64_t i = 0; !code && i < n; i++)
        row[i].on_front = on[i];
    kvt_free(x);
    kvt_free(on);
    return code;
}

static kvt_code finish_group(const maker *m, kvt_selection_row *row, int64_t n, kvt_err *err)
{
    static int (*const order[])(const void *, const void *) = {by_request, by_ttft, by_tpot,
                                                               by_peak, by_steady};
    bool one_length = true, one_model = true;
    for (int64_t i = 0; i < n; i++) {
        one_length &= row[i].prompt_tokens == row[0].prompt_tokens;
        one_model &= strcmp(row[i].model, row[0].model) == 0;
    }
    for (int64_t i = 0; i < n; i++) {
        row[i].prompt_tokens = one_length ? row[i].prompt_tokens : KVT_EMPTY_INT;
        if (!one_model)
            row[i].model[0] = 0;
    }
    qsort(row, (size_t)n, sizeof *row, order[m->axis]);
    for (int64_t i = 0; i < n && slo_any(m->slo); i++)
        if (choose_candidate(&row[i]) && row[i].meets) {
            row[i].is_winner = 1;
            break;
        }
    return mark_front(row, n, m->axis, err);
}

/* ---- all of them ---------------------------------------------------------------------------
 */

static kvt_code make_rows(const maker *m, kvt_selection *out, kvt_err *err)
{
    const join *j = m->j;
    for (int64_t i = 0; i < j->n;) {
        int64_t group_first = out->n, begin = i;
        for (; i < j->n && join_same_group(j, begin, i);) {
            int64_t first = i;
            while (i < j->n && join_same_row(j, first, i))
                i++;
            kvt_selection_row *row = &out->row[out->n++];
            if (make_row(m, row, first, i - first, err))
                return err->code;
            join_describe(row, j, first, i - first);
        }
        if (finish_group(m, &out->row[group_first], out->n - group_first, err))
            return err->code;
    }
    return KVT_OK;
}

static kvt_code make_with(kvt_selection *out, const join *j, const kvt_results *results,
                          const kvt_slo *slo, kvt_cost_axis axis, uint64_t seed, kvt_err *err)
{
    kvt_schema schema = {0};
    kvt_labels *labels = NULL;
    kvt_cell_schema(&schema);
    maker m = {.j = j, .schema = &schema, .slo = slo, .axis = axis, .seed = seed};
    m.x = kvt_alloc(j->n, sizeof *m.x);
    m.trace = kvt_alloc(j->n, sizeof *m.trace);
    out->row = kvt_alloc(j->n, sizeof *out->row);
    kvt_code code = KVT_OK;
    if (!m.x || !m.trace || !out->row)
        code = kvt_fail_memory(err, (size_t)j->n * sizeof *out->row);
    if (!code)
        code = kvt_labels_new(&labels, results, err);
    m.labels = labels;
    if (!code)
        code = make_rows(&m, out, err);
    kvt_labels_free(labels);
    kvt_free(m.x);
    kvt_free((void *)m.trace);
    return code;
}

kvt_code kvt_selection_make(kvt_selection *out, const kvt_results *results,
                            const kvt_cost_table *costs, const kvt_slo *slo, kvt_cost_axis axis,
                            uint64_t seed, kvt_err *err)
{
    join j;
    *out = (kvt_selection){0};
    if (join_make(&j, results, costs, err))
        return err->code;
    kvt_code code = make_with(out, &j, results, slo, axis, seed, err);
    join_free(&j);
    if (code)
        kvt_selection_free(out);
    return code;
}
