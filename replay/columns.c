/* columns.c - the columns of cells and lanes: the fields of kvt_cell and kvt_lane_row, and a
 * column for every line of the registry of metrics. */
#include "kvt/metric.h"
#include "kvt/result.h"

#include <assert.h>
#include <stddef.h>

/* clang-format off */
static const kvt_column cell_columns[] = {
#define C(field, unit, help) KVT_COLUMN(kvt_cell, field, unit, help)
    C(run_id,           "", "digest of everything that decides this cell; 8 digits are for display"),
    C(trace_id,         "", "name of the trace file"),
    C(policy,           "", "policy, with /allocator where one was named"),
    C(policy_params,    "", "its parameters, defaults written out"),
    C(exactness,        "", "what the number is worth: exact, budget-exact, open-loop, surrogate"),
    C(budget_asked,     "", "budget as typed"),
    C(budget_rule,      "", "how it became whole slots"),
    C(budget_tokens,    "tokens", "slots that a lane may hold, mean over lanes"),
    C(budget_frac,      "frac", "the same as a share of the prompt"),
    C(act,              "", "when the policy acts: prefill or decode"),
    C(growth,           "", "on-top: decoded tokens come on top of the budget; inside: they count in it; ragged: a threshold decides, which met the budget in the mean at the end of the prompt"),
    C(seed,             "", "seed of its random numbers; empty where it draws none"),
    C(model,            "", "name of the model"),
    C(layers,           "1", "layers that were replayed"),
    C(kv_heads,         "1", "kv heads of a layer"),
    C(q_heads,          "1", "query heads of a layer"),
    C(prompt_tokens,    "tokens", "length of the prompt"),
    C(decode_steps,     "steps", "length of the response"),
    C(kept_tokens_mean, "tokens", "slots held after the decision at the prompt's end, mean over lanes"),
    C(kept_tokens_min,  "tokens", "the same, smallest lane"),
    C(kept_tokens_max,  "tokens", "the same, largest lane"),
    C(end_slots_mean_tokens, "tokens", "slots held after the last decision, mean over lanes"),
    C(kept_bytes,       "bytes", "keys and values held at the end, in the trace's type, all lanes"),
    C(full_bytes,       "bytes", "keys and values of the whole cache"),
    C(acted_count,      "1", "decisions that dropped something, of the busiest lane"),
    C(evictions_prefill_count, "1", "tokens dropped at the prompt's end, all lanes"),
    C(evictions_decode_count,  "1", "tokens dropped while decoding, all lanes"),
    C(lost_mass_ci_lo_frac, "frac", "95% bootstrap over the lanes of this one trace, lower end: a spread"),
    C(lost_mass_ci_hi_frac, "frac", "the same, upper end"),
    C(oracle_lost_mass_mean_frac, "frac", "mass lost by the best choice of as many slots in each lane"),
    C(regret_mean_frac, "frac", "mass lost beyond that"),
    C(allocation_regret_mean_frac, "frac", "mass that the best choice loses by these slots per lane instead of the best ones of equal total"),
    C(attn_kl_inf_count,"1", "rows that lost everything, left out of the mean of the attention KL"),
    C(worst_layer,      "", "layer of the model with the lane that lost most"),
    C(worst_kv_head,    "", "that lane"),
    C(worst_step,       "", "response row in which it lost most"),
    C(decisions_count,  "1", "slots looked at in decisions"),
    C(status,           "", "ok, skipped or failed"),
    C(error,            "", "why"),
#undef C
};

static const kvt_column lane_columns[] = {
#define C(field, unit, help) KVT_COLUMN(kvt_lane_row, field, unit, help)
    C(run_id,              "", "digest of everything that decides this cell"),
    C(policy,              "", "policy, with /allocator where one was named"),
    C(budget_asked,        "", "budget as typed"),
    C(layer,               "", "layer of the model"),
    C(kv_head,             "", "lane of the layer: a kv head, or a query head where a set is kept for each"),
    C(asked_tokens,        "tokens", "slots that the allocator gave this lane"),
    C(kept_prefill_tokens, "tokens", "slots held after the decision at the prompt's end"),
    C(kept_end_tokens,     "tokens", "slots held after the last decision"),
    C(kept_max_tokens,     "tokens", "slots that its fullest row saw"),
    C(pinned_tokens,       "tokens", "slots that the rule kept in any case at the prompt's end"),
    C(flag,                "", "ok, over, under or empty against asked; grows: by decoded tokens only"),
    C(oracle_lost_mass_mean_frac, "frac", "mass lost by the best choice of as many slots"),
    C(regret_mean_frac,    "frac", "mass lost beyond that"),
    C(worst_step,          "", "response row in which it lost most"),
    C(worst_lost_frac,     "frac", "mass lost in that row, mean over the lane's query heads"),
#undef C
};
/* clang-format on */

static void add_metrics(kvt_schema *out, size_t offset, bool means_only)
{
    size_t at = 0;
    for (int i = 0; kvt_metrics()[i]; i++) {
        const kvt_metric *m = kvt_metrics()[i];
        for (const kvt_metric_column *c = m->column; c->column; c++, at++) {
            if (means_only && c->over != KVT_MEAN)
                continue;
            assert(at < KVT_VALUES_MAX && out->n < KVT_COLUMNS_MAX);
            out->column[out->n++] = (kvt_column){.name = c->column,
                                                 .unit = m->unit,
                                                 .help = m->formula,
                                                 .type = KVT_COL_REAL,
                                                 .offset = offset + at * sizeof(double),
                                                 .width = sizeof(double)};
        }
    }
    out->column[out->n] = (kvt_column){0};
}

static void add_fields(kvt_schema *out, const kvt_column *c, size_t n)
{
    out->n = 0;
    for (size_t i = 0; i < n; i++)
        out->column[out->n++] = c[i];
}

void kvt_cell_schema(kvt_schema *out)
{
    add_fields(out, cell_columns, sizeof cell_columns / sizeof cell_columns[0]);
    add_metrics(out, offsetof(kvt_cell, value), false);
}

void kvt_lane_schema(kvt_schema *out)
{
    add_fields(out, lane_columns, sizeof lane_columns / sizeof lane_columns[0]);
    add_metrics(out, offsetof(kvt_lane_row, value), true);
}
