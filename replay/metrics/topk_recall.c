/* topk_recall - recall of a fixed number of tokens, the same at every budget.
 *
 *   |held and Top_32| / min(32, tokens that have arrived)
 *
 * Comparable between budgets, where recall asks for more tokens the larger the budget is. */
#include "kvt/metric.h"

static kvt_ratio ratio(const kvt_judged *j)
{
    return kvt_recall_at(j, 32);
}

const kvt_metric kvt_metric_topk_recall = {
    .name = "topk_recall",
    .unit = "frac",
    .title = "recall of the true top 32",
    .formula = "share of the 32 tokens with the most attention to come that is held",
    .hides = "everything below the 32nd token; a budget below 32 cannot reach 1",
    .range = "0 to 1",
    .absent = "without a response",
    .reading = "the few tokens that carry most of the mass: a low value is felt at once",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"topk_recall_mean_frac", KVT_MEAN}},
    .ratio = ratio,
};
