/* lost_mass - attention that a response row had on tokens that are gone.
 *
 *   lost = sum over evicted j of A_j, at most 1
 *
 * of the full cache's row A. kept + lost = 1 in every row; tokens generated before the row
 * count as kept unless they were evicted. */
#include "kvt/metric.h"

static double row(const kvt_judged *j)
{
    return j->lost;
}

const kvt_metric kvt_metric_lost_mass = {
    .name = "lost_mass",
    .unit = "frac",
    .title = "attention mass lost",
    .formula =
        "sum of the full cache's attention on evicted tokens, of each row and query head",
    .hides =
        "a large loss is harmless where the lost values look like the kept ones: see out_err",
    .range = "0 to 1",
    .absent = "for a policy that joins slots, and without a response",
    .reading =
        "0.1: a tenth of what the full cache looks at is gone. Every row and head counts "
        "alike, so that its micro mean would be the same number. Other divergences "
        "between a row and the same row after eviction are functions of it: total "
        "variation is lost, Hellinger^2 is 1 - sqrt(1 - lost)",
    .needs = KVT_NEED_ATTN,
    .better = -1,
    .column = {{"lost_mass_mean_frac", KVT_MEAN},
               {"lost_mass_p50_frac", KVT_P50},
               {"lost_mass_p95_frac", KVT_P95},
               {"lost_mass_max_frac", KVT_MAX}},
    .row = row,
};
