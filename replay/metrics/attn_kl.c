/* attn_kl - divergence of what a row sees after eviction from what it saw before.
 *
 *   KL(q || p) = -ln(1 - lost)
 *
 * p the full cache's row, q the same row renormalised over what is left. Infinite where a row
 * lost everything: such rows are left out of the mean and counted (attn_kl_inf_count). */
#include "kvt/metric.h"

#include <math.h>

static double row(const kvt_judged *j)
{
    if (isnan(j->lost))
        return NAN;
    return j->lost < 1 ? -log1p(-j->lost) : INFINITY;
}

const kvt_metric kvt_metric_attn_kl = {
    .name = "attn_kl",
    .unit = "nats",
    .title = "attention KL",
    .formula = "-ln(1 - lost mass), of each row and query head",
    .hides = "it orders rows as lost mass does: only its averages say something of their own",
    .range = "0 to infinity",
    .absent = "for a policy that joins slots; rows that lost everything are infinite: they are "
              "left out of the mean and counted (attn_kl_inf_count)",
    .reading = "its mean grows with rare rows that lost nearly everything, where that of lost "
               "mass hardly moves",
    .needs = KVT_NEED_ATTN,
    .better = -1,
    .column = {{"attn_kl_mean_nats", KVT_MEAN},
               {"attn_kl_p95_nats", KVT_P95},
               {"attn_kl_max_nats", KVT_MAX}},
    .row = row,
};
