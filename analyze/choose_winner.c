/* choose_winner.c - of each group: what to take, by how much it is better, and the table. */
#include "analyze/choose.h"

#include <math.h>
#include <string.h>

#include "analyze/group.h"
#include "kvt/arena.h"

bool choose_same_group(const kvt_selection_row *a, const kvt_selection_row *b)
{
    return strcmp(a->machine, b->machine) == 0 && strcmp(a->profile, b->profile) == 0 &&
           a->batch == b->batch && a->prompt_tokens == b->prompt_tokens &&
           strcmp(a->geometry, b->geometry) == 0;
}

static bool same_use(const kvt_selection_row *a, const kvt_selection_row *b)
{
    return strcmp(a->policy, b->policy) == 0 && strcmp(a->policy_params, b->policy_params) == 0;
}

/* Rows lie by rising loss, the cheaper one first where it is the same: the first that meets the
 * limits is the winner, the first of another use behind it the runner-up. */
static void find_best(kvt_winner *out, const kvt_selection *c, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++) {
        const kvt_selection_row *r = &c->row[i];
        if (!choose_candidate(r))
            continue;
        out->n_row++;
        if (!r->meets)
            continue;
        out->n_meet++;
        if (out->row < 0)
            out->row = i;
        else if (out->runner_up < 0 && !same_use(r, &c->row[out->row]))
            out->runner_up = i;
    }
}

/* ---- the margin ----------------------------------------------------------------------------
 */

static bool is_of(const kvt_cell *c, const kvt_selection_row *r)
{
    return strcmp(c->policy, r->policy) == 0 &&
           strcmp(c->policy_params, r->policy_params) == 0 &&
           strcmp(c->budget_asked, r->budget_asked) == 0 && strcmp(c->growth, r->growth) == 0 &&
           (!r->model[0] || strcmp(c->model, r->model) == 0);
}

/* The cells of a row: those of its policy and budget, of its model. They lie in one group, by
 * trace. */
static group cells_of(const groups *all, const kvt_selection_row *r, const kvt_cell **cell)
{
    group g = {.cell = cell};
    for (int64_t i = 0; i < all->n && g.n == 0; i++)
        for (int64_t k = 0; k < all->group[i].n; k++)
            if (is_of(all->group[i].cell[k], r))
                cell[g.n++] = all->group[i].cell[k];
    return g;
}

static kvt_code measure(kvt_difference *out, const kvt_results *results,
                        const kvt_selection_row *runner_up, const kvt_selection_row *winner,
                        uint64_t seed, kvt_err *err)
{
    groups all;
    if (groups_make(&all, results, err))
        return err->code;
    int64_t n = 0;
    for (int64_t i = 0; i < all.n; i++)
        n += all.group[i].n;
    const kvt_cell **cell = kvt_alloc(2 * n, sizeof *cell);
    kvt_code code = cell ? KVT_OK : kvt_fail_memory(err, (size_t)n * 2 * sizeof *cell);
    if (!code) {
        group a = cells_of(&all, runner_up, cell), b = cells_of(&all, winner, cell + n);
        code = groups_difference(out, results, &a, &b, "lost_mass_mean_frac", seed, err);
    }
    kvt_free((void *)cell);
    groups_free(&all);
    return code;
}

kvt_code kvt_selection_winner(kvt_winner *out, int64_t *next, const kvt_selection *c,
                              int64_t first, const kvt_results *results, const kvt_slo *slo,
                              uint64_t seed, kvt_err *err)
{
    int64_t end = first;
    while (end < c->n && choose_same_group(&c->row[end], &c->row[first]))
        end++;
    *next = end;
    *out = (kvt_winner){.row = -1, .runner_up = -1, .headroom_frac = (double)NAN};
    out->margin = (kvt_difference){.mean = (double)NAN,
                                   .lo = (double)NAN,
                                   .hi = (double)NAN,
                                   .p_value = (double)NAN,
                                   .n_needed = KVT_EMPTY_INT};
    find_best(out, c, first, end);
    if (out->row < 0)
        return KVT_OK;
    out->headroom_frac = slo_headroom(&c->row[out->row], slo);
    return out->runner_up < 0 ? KVT_OK
                              : measure(&out->margin, results, &c->row[out->runner_up],
                                        &c->row[out->row], seed, err);
}

/* ---- the table -----------------------------------------------------------------------------
 */

/* clang-format off */
static const kvt_column columns[] = {
    KVT_COLUMN(kvt_selection_row, machine, "", "device"),
    KVT_COLUMN(kvt_selection_row, profile, "", "how policies are implemented: fused, as-published, paper-lkv"),
    KVT_COLUMN(kvt_selection_row, batch, "requests", "requests decoded together"),
    KVT_COLUMN(kvt_selection_row, prompt_tokens, "tokens", "length of the prompt; empty where traces differ"),
    KVT_COLUMN(kvt_selection_row, geometry, "", "model whose costs are predicted"),
    KVT_COLUMN(kvt_selection_row, model, "", "model of the traces; empty where they differ"),
    KVT_COLUMN(kvt_selection_row, policy_label, "", "policy with the parameters that tell its uses apart"),
    KVT_COLUMN(kvt_selection_row, policy, "", "policy, with its allocator where one was named"),
    KVT_COLUMN(kvt_selection_row, policy_params, "", "every parameter, defaults written out"),
    KVT_COLUMN(kvt_selection_row, exactness, "", "what the number is worth; the worst over traces"),
    KVT_COLUMN(kvt_selection_row, growth, "", "on-top: decoded tokens come on top of the budget; inside: they count in it; ragged: a threshold decides"),
    KVT_COLUMN(kvt_selection_row, budget_asked, "", "budget as typed"),
    KVT_COLUMN(kvt_selection_row, traces_count, "traces", "traces with a defined lost mass"),
    KVT_COLUMN(kvt_selection_row, lost_mass_mean_frac, "frac", "attention on evicted tokens, mean over traces"),
    KVT_COLUMN(kvt_selection_row, lost_mass_ci_lo_frac, "frac", "lower end of its interval"),
    KVT_COLUMN(kvt_selection_row, lost_mass_ci_hi_frac, "frac", "upper end of its interval"),
    KVT_COLUMN(kvt_selection_row, interval, "", "what the interval is over"),
    KVT_COLUMN(kvt_selection_row, oracle_lost_mass_mean_frac, "frac", "lost by the oracle with the same number of slots in each lane"),
    KVT_COLUMN(kvt_selection_row, ttft_s, "s", "time to first token, the worst over traces"),
    KVT_COLUMN(kvt_selection_row, evict_s, "s", "of it: eviction"),
    KVT_COLUMN(kvt_selection_row, tpot_s, "s", "time of a decode step, mean of the response, the worst over traces"),
    KVT_COLUMN(kvt_selection_row, request_s, "s", "time to first token and the whole response, the worst over traces"),
    KVT_COLUMN(kvt_selection_row, peak_bytes, "bytes", "memory at its peak, the worst over traces"),
    KVT_COLUMN(kvt_selection_row, steady_bytes, "bytes", "memory at the last decode step, the worst over traces"),
    KVT_COLUMN(kvt_selection_row, fits, "", "1: the machine's memory holds it; empty: that is not known"),
    KVT_COLUMN(kvt_selection_row, meets, "", "1: it fits and meets every limit"),
    KVT_COLUMN(kvt_selection_row, missed, "", "which limits it misses, and by how much"),
    KVT_COLUMN(kvt_selection_row, on_front, "", "1: no other one costs and loses less"),
    KVT_COLUMN(kvt_selection_row, is_winner, "", "1: loses least of those that meet the limits"),
    KVT_COLUMN(kvt_selection_row, is_bound, "", "1: an oracle, a limit of what a policy can reach"),
    KVT_COLUMN(kvt_selection_row, is_control, "", "1: a control, not a policy to choose"),
    {0},
};
/* clang-format on */

kvt_table kvt_selection_table(const kvt_selection *c)
{
    return (kvt_table){.name = "selection",
                       .title = "one row a policy and budget, its loss beside its costs",
                       .columns = columns,
                       .rows = c->row,
                       .n_row = c->n,
                       .row_size = sizeof *c->row};
}

void kvt_selection_free(kvt_selection *c)
{
    kvt_free(c->row);
    *c = (kvt_selection){0};
}
