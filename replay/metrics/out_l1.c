/* out_l1 - error of the attention output in the sum norm.
 *
 *   |o' - o|_1 / |o|_1
 *
 * o, o' as in out_err, of each row and query head. */
#include "kvt/metric.h"

static double row(const kvt_judged *j)
{
    return j->out_l1;
}

const kvt_metric kvt_metric_out_l1 = {
    .name = "out_l1",
    .unit = "rel",
    .title = "L1 error of the output",
    .formula = "sum of |o' - o| over the sum of |o|, per head",
    .hides = "the bounds of the papers are for a whole layer behind the output matrix",
    .range = "0 to infinity",
    .absent = "as out_err",
    .reading =
        "for comparison with the bounds of Ada-KV and CriticalKV, which are in this norm",
    .needs = KVT_NEED_ATTN | KVT_NEED_VALUES,
    .output = true,
    .extra = true,
    .better = -1,
    .column = {{"out_l1_mean_rel", KVT_MEAN},
               {"out_l1_p95_rel", KVT_P95},
               {"out_l1_max_rel", KVT_MAX}},
    .row = row,
};
