/* curve.c - a policy at a budget, over traces: the lines of the printed table and of curve.csv.
 */
#include "analyze/group.h"
#include "analyze/report_priv.h"
#include "analyze/stat.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

static const char *const interval_names[] = {"none", "95% over lanes", "range over prompts",
                                             "95% over prompts"};

const char *kvt_interval_name(kvt_interval_kind kind)
{
    return interval_names[kind];
}

static void curve_schema(kvt_schema *out)
{
    static const kvt_column columns[] = {
        KVT_COLUMN(kvt_curve_row, policy, "", "policy, with its allocator where one was named"),
        KVT_COLUMN(kvt_curve_row, policy_params, "", "every parameter, defaults written out"),
        KVT_COLUMN(kvt_curve_row, policy_label, "",
                   "policy with the parameters that tell its uses apart"),
        KVT_COLUMN(kvt_curve_row, exactness, "",
                   "what the number is worth; the worst over traces"),
        KVT_COLUMN(kvt_curve_row, act, "", "when it decides: prefill or decode"),
        KVT_COLUMN(kvt_curve_row, growth, "",
                   "on-top: decoded tokens come on top of the budget; inside: they count in "
                   "it; ragged: a threshold decides"),
        KVT_COLUMN(kvt_curve_row, budget_asked, "", "budget as typed"),
        KVT_COLUMN(kvt_curve_row, budget_frac, "frac",
                   "slots a lane may hold as a share of the prompt, mean over traces"),
        KVT_COLUMN(kvt_curve_row, budget_tokens_mean, "tokens",
                   "slots a lane may hold, mean over traces"),
        KVT_COLUMN(kvt_curve_row, traces_count, "traces", "traces with a defined lost mass"),
        KVT_COLUMN(kvt_curve_row, seeds_count, "seeds",
                   "seeds of random draws, averaged within a trace"),
        KVT_COLUMN(kvt_curve_row, kept_tokens_mean, "tokens",
                   "held after the decision at the end of the prompt"),
        KVT_COLUMN(kvt_curve_row, end_slots_mean_tokens, "tokens", "held after the last step"),
        KVT_COLUMN(kvt_curve_row, kept_bytes_mean, "bytes", "K and V held after the last step"),
        KVT_COLUMN(kvt_curve_row, acted_count, "decisions",
                   "decisions of a lane, the most over traces"),
        KVT_COLUMN(kvt_curve_row, lost_mass_mean_frac, "frac",
                   "attention on evicted tokens, mean over rows, heads, layers, then traces"),
        KVT_COLUMN(kvt_curve_row, lost_mass_ci_lo_frac, "frac", "lower end of its interval"),
        KVT_COLUMN(kvt_curve_row, lost_mass_ci_hi_frac, "frac", "upper end of its interval"),
        KVT_COLUMN(kvt_curve_row, interval, "", "what the interval is over"),
        KVT_COLUMN(kvt_curve_row, oracle_lost_mass_mean_frac, "frac",
                   "lost by the oracle with the same number of slots in each lane"),
        KVT_COLUMN(kvt_curve_row, regret_mean_frac, "frac",
                   "ranking regret: lost mass minus that of the oracle"),
        KVT_COLUMN(kvt_curve_row, allocation_regret_mean_frac, "frac",
                   "lost to the allocation of slots: same counts against the best counts of "
                   "equal total"),
        KVT_COLUMN(kvt_curve_row, recall_mean_frac, "frac",
                   "share of the true top B that is held"),
        KVT_COLUMN(kvt_curve_row, recall_unprotected_mean_frac, "frac",
                   "the same without what the rule always keeps"),
        KVT_COLUMN(kvt_curve_row, attn_kl_mean_nats, "nats",
                   "-ln of the kept mass, mean over rows that kept something"),
        KVT_COLUMN(kvt_curve_row, attn_kl_p95_nats, "nats",
                   "its 95th percentile over a trace's rows, mean over traces"),
        KVT_COLUMN(kvt_curve_row, attn_kl_max_nats, "nats", "its maximum over rows and traces"),
        KVT_COLUMN(kvt_curve_row, score_kl_mean_nats, "nats",
                   "KL of the normalised scores to the future mean"),
        KVT_COLUMN(kvt_curve_row, out_err_mean_rel, "1",
                   "relative L2 error of the attention output"),
        KVT_COLUMN(kvt_curve_row, auc_lost_mass, "frac",
                   "mean height of the curve of lost mass over log2 of the budget"),
        KVT_COLUMN(kvt_curve_row, auc_lost_mass_to_oracle, "1",
                   "area under the curve of lost mass over slots (linear) as a multiple of the "
                   "oracle's with the same slots; 1: no ranking is better at any budget"),
        KVT_COLUMN(kvt_curve_row, is_control, "",
                   "1: a control or bound, not a policy to choose"),
        {0},
    };
    *out = (kvt_schema){0};
    report_schema_add(out, columns);
}

/* Cells of the trace that has most: they differ in the seed. */
static int64_t count_seeds(const group *g)
{
    int64_t most = 0;
    for (int64_t i = 0, n = 0; i < g->n; i++) {
        bool same = i > 0 && strcmp(g->cell[i]->trace_id, g->cell[i - 1]->trace_id) == 0;
        n = same ? n + 1 : 1;
        most = n > most ? n : most;
    }
    return most;
}

typedef struct maker {
    const kvt_schema *schema;
    double *x; /* one value a trace */
    const char **trace;
    kvt_labels *labels;
    uint64_t seed;
} maker;

static double mean_of(const maker *m, const group *g, const char *column)
{
    return stat_mean(m->x, group_traces(g, m->schema, column, m->x, m->trace));
}

static double max_of(const maker *m, const group *g, const char *column)
{
    int64_t n = group_traces(g, m->schema, column, m->x, m->trace);
    double most = (double)NAN;
    for (int64_t i = 0; i < n; i++)
        if (isnan(most) || m->x[i] > most)
            most = m->x[i];
    return most;
}

/* The interval of the lost mass: over prompts where there are enough, else what there is. */
static kvt_code add_interval(const maker *m, const group *g, kvt_curve_row *row, kvt_err *err)
{
    int64_t n = group_traces(g, m->schema, "lost_mass_mean_frac", m->x, m->trace);
    kvt_interval_kind kind = KVT_INTERVAL_NONE;
    row->traces_count = n;
    row->lost_mass_mean_frac = stat_mean(m->x, n);
    row->lost_mass_ci_lo_frac = row->lost_mass_ci_hi_frac = (double)NAN;
    if (n >= STAT_LEAST_PROMPTS) {
        stat_interval interval;
        if (stat_bootstrap(&interval, m->x, n, m->seed, err) != KVT_OK)
            return err->code;
        kind = KVT_INTERVAL_PROMPTS;
        row->lost_mass_ci_lo_frac = interval.lo;
        row->lost_mass_ci_hi_frac = interval.hi;
    } else if (n > 1) {
        kind = KVT_INTERVAL_RANGE;
        row->lost_mass_ci_lo_frac = row->lost_mass_ci_hi_frac = m->x[0];
        for (int64_t i = 1; i < n; i++) {
            row->lost_mass_ci_lo_frac = fmin(row->lost_mass_ci_lo_frac, m->x[i]);
            row->lost_mass_ci_hi_frac = fmax(row->lost_mass_ci_hi_frac, m->x[i]);
        }
    } else if (n == 1) {
        kind = KVT_INTERVAL_LANES;
        row->lost_mass_ci_lo_frac = mean_of(m, g, "lost_mass_ci_lo_frac");
        row->lost_mass_ci_hi_frac = mean_of(m, g, "lost_mass_ci_hi_frac");
    }
    snprintf(row->interval, sizeof row->interval, "%s", kvt_interval_name(kind));
    return KVT_OK;
}

static kvt_code make_row(const maker *m, const group *g, kvt_curve_row *row, kvt_err *err)
{
    const kvt_cell *first = g->cell[0];
    memset(row, 0, sizeof *row);
    snprintf(row->policy, sizeof row->policy, "%s", first->policy);
    snprintf(row->policy_params, sizeof row->policy_params, "%s", first->policy_params);
    snprintf(row->policy_label, sizeof row->policy_label, "%s",
             kvt_label(m->labels, first->policy, first->policy_params));
    snprintf(row->act, sizeof row->act, "%s", first->act);
    snprintf(row->growth, sizeof row->growth, "%s", first->growth);
    snprintf(row->budget_asked, sizeof row->budget_asked, "%s", first->budget_asked);
    snprintf(row->exactness, sizeof row->exactness, "%s", group_exactness(g));
    row->budget_frac = mean_of(m, g, "budget_frac");
    row->budget_tokens_mean = mean_of(m, g, "budget_tokens");
    row->kept_tokens_mean = mean_of(m, g, "kept_tokens_mean");
    row->end_slots_mean_tokens = mean_of(m, g, "end_slots_mean_tokens");
    row->kept_bytes_mean = mean_of(m, g, "kept_bytes");
    double acted = max_of(m, g, "acted_count");
    row->acted_count = isnan(acted) ? KVT_EMPTY_INT : (int64_t)acted;
    row->oracle_lost_mass_mean_frac = mean_of(m, g, "oracle_lost_mass_mean_frac");
    row->regret_mean_frac = mean_of(m, g, "regret_mean_frac");
    row->allocation_regret_mean_frac = mean_of(m, g, "allocation_regret_mean_frac");
    row->recall_mean_frac = mean_of(m, g, "recall_mean_frac");
    row->recall_unprotected_mean_frac = mean_of(m, g, "recall_unprotected_mean_frac");
    row->attn_kl_mean_nats = mean_of(m, g, "attn_kl_mean_nats");
    row->attn_kl_p95_nats = mean_of(m, g, "attn_kl_p95_nats");
    row->attn_kl_max_nats = max_of(m, g, "attn_kl_max_nats");
    row->score_kl_mean_nats = mean_of(m, g, "score_kl_mean_nats");
    row->out_err_mean_rel = mean_of(m, g, "out_err_mean_rel");
    row->auc_lost_mass = row->auc_lost_mass_to_oracle = (double)NAN;
    row->seeds_count = count_seeds(g);
    row->is_control = g->is_control;
    return add_interval(m, g, row, err);
}

static bool same_curve(const kvt_curve_row *a, const kvt_curve_row *b)
{
    return strcmp(a->policy, b->policy) == 0 &&
           strcmp(a->policy_params, b->policy_params) == 0 && strcmp(a->act, b->act) == 0;
}

/* Mean height over log2 of the budget, by trapezoids; undefined below two budgets. */
static void add_area(kvt_curve_row *row, int64_t n)
{
    double area = 0, width = 0;
    for (int64_t i = 1; i < n; i++) {
        double step = log2(row[i].budget_tokens_mean) - log2(row[i - 1].budget_tokens_mean);
        area += step * (row[i].lost_mass_mean_frac + row[i - 1].lost_mass_mean_frac) / 2;
        width += step;
    }
    for (int64_t i = 0; i < n; i++)
        row[i].auc_lost_mass = width > 0 ? area / width : (double)NAN;
}

/* Area over slots, the policy's over the oracle's, between budgets at which both are known
 * (policies-training-free.md 10.3). */
static void add_share(kvt_curve_row *row, int64_t n)
{
    double own = 0, best = 0;
    for (int64_t i = 1; i < n; i++) {
        double step = row[i].budget_tokens_mean - row[i - 1].budget_tokens_mean;
        double lost = row[i].lost_mass_mean_frac + row[i - 1].lost_mass_mean_frac;
        double least =
            row[i].oracle_lost_mass_mean_frac + row[i - 1].oracle_lost_mass_mean_frac;
        if (isnan(lost) || isnan(least))
            continue;
        own += step * lost / 2;
        best += step * least / 2;
    }
    for (int64_t i = 0; i < n; i++)
        row[i].auc_lost_mass_to_oracle = best > 0 ? own / best : (double)NAN;
}

static kvt_code make_curve(const kvt_results *results, const char *run_id,
                           const report_sink *sink, const kvt_ctx *ctx, kvt_err *err)
{
    (void)run_id; /* a curve is over all cells of a policy */
    groups g;
    if (groups_make(&g, results, err) != KVT_OK)
        return err->code;
    kvt_schema schema = {0};
    kvt_cell_schema(&schema);
    int64_t n_cell = 0;
    for (int64_t i = 0; i < g.n; i++)
        n_cell += g.group[i].n;
    maker m = {&schema, kvt_alloc(n_cell, sizeof(double)), kvt_alloc(n_cell, sizeof(char *)),
               NULL, ctx->seed};
    kvt_curve_row *row = kvt_alloc(g.n, sizeof *row);
    kvt_code code = KVT_OK;
    if (m.x == NULL || m.trace == NULL || row == NULL)
        code = kvt_fail_memory(err, (size_t)g.n * sizeof *row);
    if (code == KVT_OK)
        code = kvt_labels_new(&m.labels, results, err);
    for (int64_t i = 0; i < g.n && code == KVT_OK; i++)
        code = make_row(&m, &g.group[i], &row[i], err);
    for (int64_t i = 0; i < g.n && code == KVT_OK;) {
        int64_t first = i;
        while (i < g.n && same_curve(&row[i], &row[first]))
            i++;
        add_area(row + first, i - first);
        add_share(row + first, i - first);
    }
    if (code == KVT_OK)
        code = sink->rows(sink->user, row, g.n, err);
    kvt_labels_free(m.labels);
    kvt_free(m.x);
    kvt_free((void *)m.trace);
    kvt_free(row);
    groups_free(&g);
    return code;
}

const report_kind report_curve = {
    .name = "curve",
    .title = "one row a policy and budget, over traces",
    .row_size = sizeof(kvt_curve_row),
    .schema = curve_schema,
    .make = make_curve,
};
