/* whole_rows - rows from which nothing had been evicted.
 *
 *   rows that saw every token that had arrived / rows
 *
 * of each lane. Such rows lose 0 whatever the policy, and pull every mean over rows. */
#include "kvt/metric.h"

static kvt_ratio end(const kvt_judged *j)
{
    return (kvt_ratio){(double)j->n_whole, j->n_whole < 0 ? 0 : (double)j->n_response};
}

const kvt_metric kvt_metric_whole_rows = {
    .name = "whole_rows",
    .unit = "frac",
    .title = "rows that saw the whole cache",
    .formula = "share of response rows from which nothing had been evicted, of each lane",
    .hides = "a window of the model itself: such a layer looks at less than it holds",
    .range = "0 to 1",
    .absent = "for a policy that joins slots, and without a response",
    .reading = "1: the budget never bound, the cell says nothing of the policy",
    .needs = KVT_NEED_ATTN,
    .column = {{"whole_rows_mean_frac", KVT_MEAN}},
    .end = end,
};
