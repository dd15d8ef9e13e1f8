/* recall - the share of the truly best tokens that is there.
 *
 *   |held and Top_k| / k,  k = min(budget of the lane, tokens that have arrived)
 *
 * Top_k by the attention that is still to come, mean over the lane's query heads, evicted
 * tokens included; of equal ones the lower position. On top: at the decision at the prompt's
 * end. Inside: the mean over its steps, the last one (no row is left) excepted. */
#include "kvt/metric.h"

#include <math.h>

static double lane(const kvt_judged *j)
{
    int64_t k = j->budget < j->n_arrived ? j->budget : j->n_arrived, hit = 0;
    for (int64_t i = 0; i < k; i++)
        hit += j->held[j->truth[i]];
    return k > 0 ? (double)hit / (double)k : NAN;
}

const kvt_metric kvt_metric_recall = {
    .name = "recall",
    .unit = "frac",
    .title = "recall of the true top budget",
    .formula =
        "share of the min(budget, arrived) tokens with the most attention to come that is "
        "held",
    .hides =
        "a token at the cut counts as much as the most important one; sinks and windows that "
        "every rule keeps count as hits",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"recall_mean_frac", KVT_MEAN}},
    .lane = lane,
};
