/* out_cos - turn of the attention output after eviction.
 *
 *   1 - cos(o', o)
 *
 * o, o' as in out_err, of each row and query head. 0 where nothing with attention is gone. */
#include "kvt/metric.h"

static double row(const kvt_judged *j)
{
    return j->out_cos;
}

const kvt_metric kvt_metric_out_cos = {
    .name = "out_cos",
    .unit = "rel",
    .title = "cosine error of the output",
    .formula =
        "1 - cos of the angle between the output after eviction and the full one, per head",
    .hides = "length: an output of twice the size has 0",
    .range = "0 to 2",
    .absent = "as out_err",
    .reading = "only the direction, which is what a norm behind the layer leaves",
    .needs = KVT_NEED_ATTN | KVT_NEED_VALUES,
    .output = true,
    .extra = true,
    .better = -1,
    .column = {{"out_cos_mean_rel", KVT_MEAN},
               {"out_cos_p95_rel", KVT_P95},
               {"out_cos_max_rel", KVT_MAX}},
    .row = row,
};
