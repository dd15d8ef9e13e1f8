/* recall_unprotected - recall without the tokens that the policy's rule keeps in any case.
 *
 * Protected tokens are taken out of the held set, out of the true order and out of k, so that a
 * window or sinks, which dominate the true top, do not lift every policy alike. Undefined where
 * the rule keeps everything. */
#include "kvt/metric.h"

static kvt_ratio ratio(const kvt_judged *j)
{
    int64_t k = j->budget < j->n_arrived ? j->budget : j->n_arrived, hit = 0, seen = 0;
    int32_t rule = 0;
    for (int64_t i = 0; j->pinned && i < j->n_arrived; i++)
        rule += j->pinned[i] & j->held[i];
    k -= rule;
    for (int64_t i = 0; i < j->n_arrived && seen < k; i++) { /* without branches: chance hits */
        int32_t t = j->truth[i];
        int held = j->held[t], open = !(j->pinned && (j->pinned[t] & held));
        seen += open;
        hit += held & open;
    }
    return (kvt_ratio){(double)hit, (double)seen};
}

const kvt_metric kvt_metric_recall_unprotected = {
    .name = "recall_unprotected",
    .unit = "frac",
    .title = "recall of the true top budget, protected tokens left out",
    .formula =
        "as recall, with the tokens that the rule always keeps left out of both sets and of k",
    .hides = "policies with different protection are asked for different tokens",
    .range = "0 to 1",
    .absent = "where the rule keeps everything that the budget holds",
    .reading = "beside recall it says how much of a policy's recall is its protection",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"recall_unprotected_mean_frac", KVT_MEAN},
               {"recall_unprotected_micro_frac", KVT_MICRO}},
    .ratio = ratio,
};
