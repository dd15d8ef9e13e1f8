/* kept_to_oracle - mass kept, as a share of what the oracle keeps.
 *
 *   (1 - lost) / (1 - lost of the oracle)
 *
 * of each lane, both means over rows and heads. The oracle is the one that regret is measured
 * against: as many slots in the lane on top, the best schedule of irreversible eviction inside.
 * Separates how hard a lane is from how good the policy is. */
#include "kvt/metric.h"

#include <math.h>

static kvt_ratio end(const kvt_judged *j)
{
    double best = 1 - j->oracle_lost;
    if (isnan(j->oracle_lost) || isnan(j->regret))
        return (kvt_ratio){0};
    return (kvt_ratio){best - j->regret, best};
}

const kvt_metric kvt_metric_kept_to_oracle = {
    .name = "kept_to_oracle",
    .unit = "frac",
    .title = "mass kept relative to the oracle's",
    .formula =
        "(1 - lost mass) / (1 - lost mass of the oracle with the same slots), of each lane",
    .hides = "how much is lost: where the oracle loses most of the mass, too, it is still 1",
    .range = "0 to 1",
    .absent = "where regret is (see there), and where the oracle keeps nothing",
    .reading = "1: nothing better was possible with these slots. Micro: kept mass over the "
               "oracle's, all lanes together",
    .needs = KVT_NEED_ATTN,
    .better = 1,
    .column = {{"kept_to_oracle_mean_frac", KVT_MEAN},
               {"kept_to_oracle_micro_frac", KVT_MICRO}},
    .end = end,
};
