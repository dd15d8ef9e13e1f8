/* out_err_unnorm - error of the attention output where the row is masked, not renormalised.
 *
 *   |sum over held of A_j v_j - o| / |o|,  A the full row divided by its sum
 *
 * in the Euclidean norm, of each row and query head: |sum over lost of A_j v_j| / |o|. */
#include "kvt/metric.h"

static double row(const kvt_judged *j)
{
    return j->out_unnorm;
}

static double weight(const kvt_judged *j)
{
    return j->out_size;
}

const kvt_metric kvt_metric_out_err_unnorm = {
    .name = "out_err_unnorm",
    .unit = "rel",
    .title = "output error without renormalising",
    .formula = "Euclidean norm of the sum of p v over what was lost, over that of the full "
               "output, per head",
    .hides = "no cache computes this output: the softmax over what is left renormalises",
    .range = "0 to infinity",
    .absent = "as out_err, but defined where nothing is held (1); undefined for a policy that "
              "joins slots or changes keys",
    .reading =
        "the quantity in the bounds of papers. Micro: sum of errors over the sum of sizes",
    .needs = KVT_NEED_ATTN | KVT_NEED_VALUES,
    .output = true,
    .extra = true,
    .better = -1,
    .column = {{"out_err_unnorm_mean_rel", KVT_MEAN},
               {"out_err_unnorm_p95_rel", KVT_P95},
               {"out_err_unnorm_max_rel", KVT_MAX},
               {"out_err_unnorm_micro_rel", KVT_MICRO}},
    .row = row,
    .weight = weight,
};
