/* topk_recall - recall of a fixed number of tokens, the same at every budget.
 *
 *   |held and Top_32| / min(32, tokens that have arrived)
 *
 * Comparable between budgets, where recall asks for more tokens the larger the budget is. */
#include "kvt/metric.h"

#include <math.h>

enum { TOP = 32 };

static double lane(const kvt_judged *j)
{
    int64_t k = j->n_arrived < TOP ? j->n_arrived : TOP, hit = 0;
    for (int64_t i = 0; i < k; i++)
        hit += j->held[j->truth[i]];
    return k > 0 ? (double)hit / (double)k : NAN;
}

const kvt_metric kvt_metric_topk_recall = {
    .name = "topk_recall",
    .unit = "frac",
    .title = "recall of the true top 32",
    .formula = "share of the 32 tokens with the most attention to come that is held",
    .hides = "everything below the 32nd token; a budget below 32 cannot reach 1",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"topk_recall_mean_frac", KVT_MEAN}},
    .lane = lane,
};
