/* choose_join.c - rows of a cost table beside the cells that they were made of. */
#include "analyze/choose_join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

static int by_int(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* ---- finding cells -------------------------------------------------------------------------
 */

static int by_run(const void *a_, const void *b_)
{
    const kvt_cell *a = *(const kvt_cell *const *)a_, *b = *(const kvt_cell *const *)b_;
    int c = strcmp(a->run_id, b->run_id);
    return c ? c : strcmp(a->trace_id, b->trace_id);
}

/* Every cell that is ok, by run. */
static const kvt_cell **all_cells(const kvt_results *results, int64_t *n)
{
    int64_t cap = 0;
    for (int64_t i = 0; i < results->n; i++)
        cap += results->result[i]->n_cell;
    const kvt_cell **cell = kvt_alloc(cap, sizeof *cell);
    *n = 0;
    for (int64_t i = 0; cell && i < results->n; i++)
        for (int c = 0; c < results->result[i]->n_cell; c++)
            if (strcmp(results->result[i]->cell[c].status, "ok") == 0)
                cell[(*n)++] = &results->result[i]->cell[c];
    if (cell)
        qsort((void *)cell, (size_t)*n, sizeof *cell, by_run);
    return cell;
}

static const kvt_cell *find_cell(const kvt_cell *const *cell, int64_t n,
                                 const kvt_cost_row *cost)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        int c = strcmp(cell[mid]->run_id, cost->run_id);
        if (!c)
            c = strcmp(cell[mid]->trace_id, cost->trace_id);
        if (!c)
            return cell[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- order ---------------------------------------------------------------------------------
 */

static int by_setting(const kvt_cost_row *a, const kvt_cost_row *b)
{
    int c = strcmp(a->machine, b->machine);
    if (!c)
        c = strcmp(a->profile, b->profile);
    return c ? c : by_int(a->batch, b->batch);
}

static int by_group(const join *j, const join_entry *a, const join_entry *b)
{
    int c = by_setting(a->cost, b->cost);
    if (!c && j->lengths)
        c = by_int(a->cost->prompt_tokens, b->cost->prompt_tokens);
    return c ? c : strcmp(a->cost->geometry, b->cost->geometry);
}

static int by_row(const join_entry *a, const join_entry *b)
{
    int c = strcmp(a->cell->policy, b->cell->policy);
    if (!c)
        c = strcmp(a->cell->policy_params, b->cell->policy_params);
    if (!c)
        c = strcmp(a->cell->act, b->cell->act);
    if (!c)
        c = strcmp(a->cell->budget_rule, b->cell->budget_rule);
    return c ? c : strcmp(a->cell->budget_asked, b->cell->budget_asked);
}

static int compare(const join *j, const join_entry *a, const join_entry *b)
{
    int c = by_group(j, a, b);
    if (!c)
        c = by_row(a, b);
    if (!c)
        c = strcmp(a->cell->trace_id, b->cell->trace_id);
    return c ? c : by_int(a->cell->seed, b->cell->seed);
}

static int with_lengths(const void *a, const void *b)
{
    return compare(&(const join){.lengths = true}, a, b);
}

static int without_lengths(const void *a, const void *b)
{
    return compare(&(const join){.lengths = false}, a, b);
}

/* Whether a cell was asked at more than one length; the entries come in an order that does not
 * look at lengths. */
static bool several_lengths(const join_entry *e, int64_t n)
{
    const join all = {.lengths = false};
    for (int64_t i = 1; i < n; i++)
        if (compare(&all, &e[i - 1], &e[i]) == 0 &&
            e[i - 1].cost->prompt_tokens != e[i].cost->prompt_tokens)
            return true;
    return false;
}

/* ---- the join ------------------------------------------------------------------------------
 */

static kvt_code fill(join *out, const kvt_cell *const *cell, int64_t n_cell,
                     const kvt_cost_table *costs, kvt_err *err)
{
    for (int64_t i = 0; i < costs->n; i++) {
        const kvt_cost_row *cost = &costs->row[i];
        const kvt_cell *found = strcmp(cost->status, "ok") == 0 && cost->run_id[0]
                                    ? find_cell(cell, n_cell, cost)
                                    : NULL;
        if (found)
            out->entry[out->n++] = (join_entry){cost, found};
    }
    if (out->n == 0)
        return kvt_fail(
            err, KVT_NOTFOUND,
            "choice: none of the %lld rows of costs has a replayed cell: limits and "
            "fronts need results",
            (long long)costs->n);
    qsort(out->entry, (size_t)out->n, sizeof *out->entry, without_lengths);
    out->lengths = several_lengths(out->entry, out->n);
    if (out->lengths)
        qsort(out->entry, (size_t)out->n, sizeof *out->entry, with_lengths);
    for (int64_t i = 0; i < out->n; i++)
        out->cell[i] = out->entry[i].cell;
    return KVT_OK;
}

kvt_code join_make(join *out, const kvt_results *results, const kvt_cost_table *costs,
                   kvt_err *err)
{
    int64_t n_cell;
    const kvt_cell **cell = all_cells(results, &n_cell);
    *out = (join){.entry = kvt_alloc(costs->n, sizeof *out->entry),
                  .cell = kvt_alloc(costs->n, sizeof *out->cell)};
    kvt_code code = cell && out->entry && out->cell
                        ? fill(out, cell, n_cell, costs, err)
                        : kvt_fail_memory(err, (size_t)costs->n * sizeof *out->entry);
    kvt_free((void *)cell);
    if (code)
        join_free(out);
    return code;
}

void join_free(join *j)
{
    kvt_free(j->entry);
    kvt_free((void *)j->cell);
    *j = (join){0};
}

bool join_same_group(const join *j, int64_t a, int64_t b)
{
    return by_group(j, &j->entry[a], &j->entry[b]) == 0;
}

bool join_same_row(const join *j, int64_t a, int64_t b)
{
    return join_same_group(j, a, b) && by_row(&j->entry[a], &j->entry[b]) == 0;
}

void join_describe(kvt_selection_row *row, const join *j, int64_t first, int64_t n)
{
    const join_entry *e = &j->entry[first];
    row->prompt_tokens = e[0].cost->prompt_tokens;
    snprintf(row->model, sizeof row->model, "%s", e[0].cell->model);
    for (int64_t i = 1; i < n; i++) {
        if (e[i].cost->prompt_tokens != e[0].cost->prompt_tokens)
            row->prompt_tokens = KVT_EMPTY_INT;
        if (strcmp(e[i].cell->model, e[0].cell->model) != 0)
            row->model[0] = 0;
    }
}
