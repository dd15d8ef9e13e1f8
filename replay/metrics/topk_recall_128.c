/* topk_recall_128 - recall of the true top 128, as topk_recall.
 *
 *   |held and Top_128| / min(128, tokens that have arrived) */
#include "kvt/metric.h"

static kvt_ratio ratio(const kvt_judged *j)
{
    return kvt_recall_at(j, 128);
}

const kvt_metric kvt_metric_topk_recall_128 = {
    .name = "topk_recall_128",
    .unit = "frac",
    .title = "recall of the true top 128",
    .formula = "share of the 128 tokens with the most attention to come that is held",
    .hides = "what is below the 128th token; a budget below 128 cannot reach 1, and where no "
             "more than 128 tokens have arrived it is the share of tokens that is held",
    .range = "0 to 1",
    .absent = "without a response",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"topk_recall_128_mean_frac", KVT_MEAN}},
    .ratio = ratio,
};
