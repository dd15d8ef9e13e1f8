/* out_err - error of the attention output after eviction.
 *
 *   |o' - o| / |o|,  o = sum of A_j v_j / sum of A_j over all tokens, o' over what is held
 *
 * in the Euclidean norm, of each row and query head, before the output matrix. 0 where nothing
 * with attention is gone; undefined where nothing is left. By the identity
 * o' - o = lost (o_kept - o_lost) a large loss does no harm where both means are alike. */
#include "kvt/metric.h"

static double row(const kvt_judged *j)
{
    return j->out_err;
}

static double weight(const kvt_judged *j)
{
    return j->out_size;
}

const kvt_metric kvt_metric_out_err = {
    .name = "out_err",
    .unit = "rel",
    .title = "attention output error",
    .formula =
        "relative Euclidean distance of the renormalised output to the full one, per head",
    .hides = "what the output matrix and later layers make of it",
    .range = "0 to infinity",
    .absent = "in a row that holds nothing or whose full output is 0, without values, and with "
              "--no-output-error",
    .reading = "micro: sum of |o' - o| over the sum of |o|, so that rows with a large output "
               "count more",
    .needs = KVT_NEED_ATTN | KVT_NEED_VALUES,
    .output = true,
    .better = -1,
    .column = {{"out_err_mean_rel", KVT_MEAN},
               {"out_err_p95_rel", KVT_P95},
               {"out_err_max_rel", KVT_MAX},
               {"out_err_micro_rel", KVT_MICRO},
               {"out_err_absent_frac", KVT_ABSENT}},
    .row = row,
    .weight = weight,
};
