/* recall - the share of the truly best tokens that is there.
 *
 *   |held and Top_k| / k,  k = min(budget of the lane, tokens that have arrived)
 *
 * Top_k by the attention that is still to come, mean over the lane's query heads, evicted
 * tokens included; of equal ones the lower position. On top: at the decision at the prompt's
 * end. Inside: the mean over its steps, the last one (no row is left) excepted. */
#include "kvt/metric.h"

static kvt_ratio ratio(const kvt_judged *j)
{
    return kvt_recall_at(j, j->budget);
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
    .range = "0 to 1",
    .absent = "where a lane was given no slot, and without a response",
    .reading =
        "micro: hits over slots of all lanes, so that a lane with more slots counts more",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"recall_mean_frac", KVT_MEAN}, {"recall_micro_frac", KVT_MICRO}},
    .ratio = ratio,
};
