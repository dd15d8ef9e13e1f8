/* compare.c - the paired difference of two policies over the traces that both have. */
#include "analyze/group.h"
#include "analyze/stat.h"

#include <math.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/metric.h"

/* The group of a policy at a budget; its name or its name with parameters. NULL: none. */
static const group *find(const groups *g, const char *policy, const char *budget)
{
    for (int64_t i = 0; i < g->n; i++) {
        const kvt_cell *c = g->group[i].cell[0];
        size_t n = strlen(c->policy);
        bool named = strcmp(c->policy, policy) == 0 ||
                     (strncmp(policy, c->policy, n) == 0 && policy[n] == ':' &&
                      strcmp(policy + n + 1, c->policy_params) == 0);
        if (named && strcmp(c->budget_asked, budget) == 0)
            return &g->group[i];
    }
    return NULL;
}

/* d[i] = a - b of the traces that both have; both lists are sorted by trace. */
static int64_t pair_up(double *d, const group *a, const group *b, const kvt_schema *schema,
                       const char *column, double *x, double *y, const char **x_trace,
                       const char **y_trace)
{
    int64_t n_x = group_traces(a, schema, column, x, x_trace);
    int64_t n_y = group_traces(b, schema, column, y, y_trace);
    int64_t n = 0;
    for (int64_t i = 0, j = 0; i < n_x && j < n_y;) {
        int c = strcmp(x_trace[i], y_trace[j]);
        if (c == 0)
            d[n++] = x[i++] - y[j++];
        else if (c < 0)
            i++;
        else
            j++;
    }
    return n;
}

kvt_code difference_measure(kvt_difference *out, const double *d, int64_t n, uint64_t seed,
                            kvt_err *err)
{
    *out = (kvt_difference){.n_trace = n, .mean = stat_mean(d, n)};
    out->lo = out->hi = out->p_value = (double)NAN;
    if (n >= STAT_LEAST_PROMPTS) {
        stat_interval interval;
        if (stat_bootstrap(&interval, d, n, seed, err) != KVT_OK)
            return err->code;
        out->lo = interval.lo;
        out->hi = interval.hi;
        out->p_value = interval.p_value;
        out->kind = KVT_INTERVAL_PROMPTS;
        out->separable = interval.lo > 0 || interval.hi < 0;
    } else if (n > 1) {
        out->lo = out->hi = d[0];
        for (int64_t i = 1; i < n; i++) {
            out->lo = fmin(out->lo, d[i]);
            out->hi = fmax(out->hi, d[i]);
        }
        out->kind = KVT_INTERVAL_RANGE; /* too few prompts to separate anything */
    }
    out->n_needed = stat_needed(d, n);
    return KVT_OK;
}

/* Lane rows of a cell, n of them; NULL: not found. */
static const kvt_lane_row *lanes_of(const kvt_results *results, const kvt_cell *cell,
                                    int64_t *n)
{
    for (int64_t i = 0; i < results->n; i++) {
        const kvt_result *r = results->result[i];
        if (cell < r->cell || cell >= r->cell + r->n_cell || r->lane == NULL)
            continue;
        *n = (int64_t)r->n_layer * r->n_lane;
        return r->lane + (cell - r->cell) * *n;
    }
    return NULL;
}

/* One trace: the spread of the difference over lanes, where both have the same lanes. */
static kvt_code measure_lanes(kvt_difference *out, const kvt_results *results,
                              const kvt_cell *a, const kvt_cell *b, const char *column,
                              uint64_t seed, kvt_err *err)
{
    int64_t n_a = 0, n_b = 0, n = 0;
    int value = kvt_metric_value(column);
    const kvt_lane_row *x = lanes_of(results, a, &n_a), *y = lanes_of(results, b, &n_b);
    if (value < 0 || x == NULL || y == NULL || n_a != n_b)
        return KVT_OK;
    double *d = kvt_alloc(n_a, sizeof *d);
    if (d == NULL)
        return kvt_fail_memory(err, (size_t)n_a * sizeof *d);
    for (int64_t i = 0; i < n_a; i++) {
        double difference = x[i].value[value] - y[i].value[value];
        if (!isnan(difference))
            d[n++] = difference;
    }
    stat_interval interval;
    kvt_code code = stat_bootstrap(&interval, d, n, seed, err);
    kvt_free(d);
    if (code != KVT_OK || n < 2)
        return code;
    out->lo = interval.lo;
    out->hi = interval.hi;
    out->kind = KVT_INTERVAL_LANES;
    return KVT_OK;
}

kvt_code groups_difference(kvt_difference *out, const kvt_results *results, const group *a,
                           const group *b, const char *column, uint64_t seed, kvt_err *err)
{
    int64_t n = a->n + b->n;
    double *d = kvt_alloc(3 * n, sizeof *d);
    const char **trace = kvt_alloc(2 * n, sizeof *trace);
    kvt_code code = KVT_OK;
    if (d == NULL || trace == NULL) {
        code = kvt_fail_memory(err, (size_t)n * 5 * sizeof *d);
        goto out;
    }
    kvt_schema schema = {0};
    kvt_cell_schema(&schema);
    n = pair_up(d, a, b, &schema, column, d + n, d + 2 * n, trace, trace + n);
    code = difference_measure(out, d, n, seed, err);
    if (code == KVT_OK && n == 1)
        code = measure_lanes(out, results, a->cell[0], b->cell[0], column, seed, err);

out:
    kvt_free(d);
    kvt_free((void *)trace);
    return code;
}

kvt_code kvt_compare(kvt_difference *out, const kvt_results *results, const char *policy_a,
                     const char *policy_b, const char *budget, const char *column,
                     uint64_t seed, kvt_err *err)
{
    groups g;
    if (groups_make(&g, results, err) != KVT_OK)
        return err->code;
    const group *a = find(&g, policy_a, budget), *b = find(&g, policy_b, budget);
    kvt_code code = a == NULL || b == NULL
                        ? kvt_fail(err, KVT_NOTFOUND, "no cell of %s at budget %s",
                                   a == NULL ? policy_a : policy_b, budget)
                        : groups_difference(out, results, a, b, column, seed, err);
    groups_free(&g);
    return code;
}
