/* support_95 - how many keys hold 0.95 of a row: its effective support.
 *
 *   the smallest n whose largest n weights sum to at least 0.95 of the row
 *
 * over all tokens that the row of the full cache sees, generated ones included. Of the row's
 * own sum: halves that are stored may add up to a little less than 1. */
#include "kvt/metric.h"

static double row(const kvt_judged *j)
{
    return j->support[1];
}

const kvt_metric kvt_metric_support_95 = {
    .name = "support_95",
    .unit = "tokens",
    .title = "effective support at 0.95",
    .formula = "fewest keys that hold 0.95 of a row's attention",
    .hides =
        "it says nothing of the policy: the same in every cell of a trace; that the keys are "
        "others in each row",
    .range = "1 to the tokens that have arrived",
    .absent = "without rows",
    .reading = "the budget that a choice made anew for each row would need to lose at most "
               "1 - 0.95 of it",
    .needs = KVT_NEED_ATTN,
    .extra = true,
    .column = {{"support_95_mean_tokens", KVT_MEAN},
               {"support_95_p50_tokens", KVT_P50},
               {"support_95_p95_tokens", KVT_P95},
               {"support_95_max_tokens", KVT_MAX}},
    .row = row,
};
