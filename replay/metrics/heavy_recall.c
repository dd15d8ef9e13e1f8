/* heavy_recall - the share of a row's heavy keys that it still saw.
 *
 *   |{j seen: p_j > 0.05}| / |{j: p_j > 0.05}|
 *
 * p the full cache's row, generated tokens included, of each row and query head. SnapKV
 * (arXiv:2404.14469) looks at its selections so; a row without a heavy key is left out, and the
 * share of such rows stands beside the mean. */
#include "kvt/metric.h"

#include <math.h>

static double row(const kvt_judged *j)
{
    return j->n_heavy > 0 ? (double)j->had_heavy / (double)j->n_heavy : NAN;
}

static double weight(const kvt_judged *j)
{
    return j->n_heavy > 0 ? (double)j->n_heavy : 0;
}

const kvt_metric kvt_metric_heavy_recall = {
    .name = "heavy_recall",
    .unit = "frac",
    .title = "recall of a row's heavy keys",
    .formula = "share of the keys with more than 0.05 of a row that the row still saw",
    .hides = "mass: a key of 0.06 counts as one of 0.9; flat rows, which have no such key",
    .range = "0 to 1",
    .absent = "in a row without such a key (the share of these rows is its absent column), and "
              "for a policy that joins slots or evicts channels",
    .reading = "sinks are heavy in nearly every row: a policy that keeps them starts high. "
               "Micro: keys over keys, so that rows with several count more",
    .needs = KVT_NEED_ATTN,
    .extra = true,
    .by_heavy = true,
    .better = 1,
    .column = {{"heavy_recall_mean_frac", KVT_MEAN},
               {"heavy_recall_micro_frac", KVT_MICRO},
               {"heavy_recall_absent_frac", KVT_ABSENT}},
    .row = row,
    .weight = weight,
};
