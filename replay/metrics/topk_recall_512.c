/* topk_recall_512 - recall of the true top 512, as topk_recall.
 *
 *   |held and Top_512| / min(512, tokens that have arrived) */
#include "kvt/metric.h"

static kvt_ratio ratio(const kvt_judged *j)
{
    return kvt_recall_at(j, 512);
}

const kvt_metric kvt_metric_topk_recall_512 = {
    .name = "topk_recall_512",
    .unit = "frac",
    .title = "recall of the true top 512",
    .formula = "share of the 512 tokens with the most attention to come that is held",
    .hides = "what is below the 512th token; a budget below 512 cannot reach 1, and where no "
             "more than 512 tokens have arrived it is the share of tokens that is held",
    .range = "0 to 1",
    .absent = "without a response",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"topk_recall_512_mean_frac", KVT_MEAN}},
    .ratio = ratio,
};
