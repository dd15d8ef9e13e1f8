/* unavailable - attention to tokens that were generated after the decision.
 *
 *   1 - sum over arrived j of R_j(t) / (M - t)
 *
 * R_j(t) the attention that rows t..M - 1 have on token j, mean over the lane's query heads: no
 * decision at step t could have kept what is not there yet. On top: at the prompt's end, where
 * it is 1 - sum of future/mean. Inside: the mean over its steps, the last one excepted. */
#include "kvt/metric.h"

static kvt_ratio ratio(const kvt_judged *j)
{
    double rows = (double)(j->n_response - j->step), sum = 0;
    for (int64_t i = 0; i < j->n_arrived; i++)
        sum += j->remaining[i];
    return (kvt_ratio){rows > sum ? rows - sum : 0, rows};
}

const kvt_metric kvt_metric_unavailable = {
    .name = "unavailable",
    .unit = "frac",
    .title = "attention on tokens generated after the decision",
    .formula =
        "1 - attention of the rows behind a decision on tokens that had arrived, per row",
    .hides = "it says nothing of the policy: the same for all that decide at the same steps",
    .range = "0 to 1",
    .absent = "for policies that skip or join, or that decide over the whole model while they "
              "decode",
    .reading = "a long response lifts it, and with it the mass that every on-top policy keeps",
    .needs = KVT_NEED_ATTN,
    .of_trace = true,
    .column = {{"unavailable_mean_frac", KVT_MEAN}},
    .ratio = ratio,
};
