/* precision - the share of what is held that is among the truly best tokens.
 *
 *   |held and Top_k| / |held|,  k = min(budget of the lane, tokens that have arrived)
 *
 * Equal to recall where exactly k tokens are held; policies with a threshold, those that may
 * exceed their budget and those that fill it only later hold another number. Protected tokens
 * count, as in recall. */
#include "kvt/metric.h"

static kvt_ratio ratio(const kvt_judged *j)
{
    return (kvt_ratio){kvt_recall_at(j, j->budget).above, (double)j->n_held};
}

const kvt_metric kvt_metric_precision = {
    .name = "precision",
    .unit = "frac",
    .title = "precision against the true top budget",
    .formula =
        "share of the held tokens that is among the min(budget, arrived) tokens with the "
        "most attention to come",
    .hides = "what was missed: a lane that holds one token, a good one, has 1",
    .range = "0 to 1",
    .absent = "where nothing is held, and without a response",
    .reading = "above recall: it holds less than its budget; below: more",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"precision_mean_frac", KVT_MEAN}, {"precision_micro_frac", KVT_MICRO}},
    .ratio = ratio,
};
