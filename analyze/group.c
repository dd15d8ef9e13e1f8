/* group.c - the cells of a result set, gathered into one value a trace. */
#include "analyze/group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/policy.h"

/* Cells of one group are equal up to here; what follows orders them inside it. */
static int compare_group(const kvt_cell *a, const kvt_cell *b)
{
    int c = strcmp(a->policy, b->policy);
    if (c == 0)
        c = strcmp(a->policy_params, b->policy_params);
    if (c == 0)
        c = strcmp(a->act, b->act);
    if (c == 0)
        c = strcmp(a->budget_rule, b->budget_rule);
    if (c == 0)
        c = strcmp(a->budget_asked, b->budget_asked);
    return c;
}

typedef struct entry {
    const kvt_cell *cell;
    bool is_control;
} entry;

static int by_group(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;
    int c = (int)a->is_control - (int)b->is_control;
    if (c == 0)
        c = compare_group(a->cell, b->cell);
    if (c == 0)
        c = strcmp(a->cell->trace_id, b->cell->trace_id);
    if (c == 0)
        c = (a->cell->seed > b->cell->seed) - (a->cell->seed < b->cell->seed);
    return c;
}

static double mean_budget(const group *g)
{
    double sum = 0;
    for (int64_t i = 0; i < g->n; i++)
        sum += g->cell[i]->budget_frac;
    return sum / (double)g->n;
}

static int by_place(const void *a_, const void *b_)
{
    const group *a = a_, *b = b_;
    int c = (int)a->is_control - (int)b->is_control;
    if (c == 0)
        c = strcmp(a->cell[0]->policy, b->cell[0]->policy);
    if (c == 0)
        c = strcmp(a->cell[0]->policy_params, b->cell[0]->policy_params);
    if (c == 0)
        c = strcmp(a->cell[0]->act, b->cell[0]->act);
    if (c == 0) {
        double x = mean_budget(a), y = mean_budget(b);
        c = (x > y) - (x < y);
    }
    return c != 0 ? c : compare_group(a->cell[0], b->cell[0]);
}

kvt_code groups_make(groups *out, const kvt_results *results, kvt_err *err)
{
    *out = (groups){0};
    int64_t n = 0;
    for (int64_t i = 0; i < results->n; i++)
        n += results->result[i]->n_cell;
    entry *all = kvt_alloc(n, sizeof *all);
    out->cell = kvt_alloc(n, sizeof *out->cell);
    out->group = kvt_alloc(n, sizeof *out->group);
    if (all == NULL || out->cell == NULL || out->group == NULL) {
        kvt_free(all);
        groups_free(out);
        return kvt_fail_memory(err, (size_t)n * (sizeof *all + sizeof(group)));
    }
    n = 0;
    for (int64_t i = 0; i < results->n; i++)
        for (int c = 0; c < results->result[i]->n_cell; c++)
            if (strcmp(results->result[i]->cell[c].status, "ok") == 0)
                all[n++] =
                    (entry){&results->result[i]->cell[c], results->result[i]->is_control};
    qsort(all, (size_t)n, sizeof *all, by_group);
    for (int64_t i = 0; i < n; i++) {
        out->cell[i] = all[i].cell;
        if (i == 0 || compare_group(all[i].cell, all[i - 1].cell) != 0)
            out->group[out->n++] = (group){&out->cell[i], 0, all[i].is_control};
        out->group[out->n - 1].n++;
    }
    qsort(out->group, (size_t)out->n, sizeof *out->group, by_place);
    kvt_free(all);
    return KVT_OK;
}

void groups_free(groups *g)
{
    kvt_free(g->group);
    kvt_free(g->cell);
    *g = (groups){0};
}

double group_value(const kvt_cell *cell, const kvt_schema *schema, const char *column)
{
    const kvt_column *c = kvt_column_find(schema->column, column);
    if (c == NULL)
        return (double)NAN;
    const char *at = (const char *)cell + c->offset;
    if (c->type == KVT_COL_REAL) {
        double x;
        memcpy(&x, at, sizeof x);
        return x;
    }
    if (c->type == KVT_COL_INT) {
        int64_t x;
        memcpy(&x, at, sizeof x);
        return x == KVT_EMPTY_INT ? (double)NAN : (double)x;
    }
    return (double)NAN;
}

int64_t group_traces(const group *g, const kvt_schema *schema, const char *column, double *x,
                     const char **trace)
{
    int64_t n = 0;
    for (int64_t i = 0; i < g->n;) {
        int64_t first = i, n_defined = 0;
        double sum = 0;
        for (; i < g->n && strcmp(g->cell[i]->trace_id, g->cell[first]->trace_id) == 0; i++) {
            double value = group_value(g->cell[i], schema, column);
            if (!isnan(value)) {
                sum += value;
                n_defined++;
            }
        }
        if (n_defined == 0)
            continue;
        x[n] = sum / (double)n_defined;
        trace[n++] = g->cell[first]->trace_id;
    }
    return n;
}

static int exactness_place(const char *name)
{
    for (int e = KVT_EXACT; e <= KVT_NOT_REPLAYABLE; e++)
        if (strcmp(kvt_exactness_name((kvt_exactness)e), name) == 0)
            return e;
    return KVT_NOT_REPLAYABLE;
}

const char *group_exactness(const group *g)
{
    const char *worst = g->cell[0]->exactness;
    for (int64_t i = 1; i < g->n; i++)
        if (exactness_place(g->cell[i]->exactness) > exactness_place(worst))
            worst = g->cell[i]->exactness;
    return worst;
}
