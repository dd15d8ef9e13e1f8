/* regret.h - which evicted tokens cost most, against a judge.
 *
 * The judge is the kept set of an oracle at the same budget. Regretted tokens are the smallest
 * set of evicted tokens that the judge keeps and that carries `share` of the regret: without
 * this rule half of a text would be marked and nothing learned. */
#ifndef ANALYZE_REGRET_H
#define ANALYZE_REGRET_H

#include "kvt/err.h"

typedef struct regret_sum {
    int64_t missing;   /* evicted tokens that the judge keeps */
    int64_t regretted; /* of these, the marked ones */
    double mass;       /* attention on missing tokens minus that on tokens kept in vain */
} regret_sum;

/* marked [n]: whether a token is in the set. held, judged [n]: whether the policy and the judge
 * keep it; of a token that the judge has no say on, let it agree. mass [n]: attention still to
 * come for it, any scale. NOMEM. */
KVT_CHECKED kvt_code regret_mark(bool *marked, regret_sum *sum, const bool *held,
                                 const bool *judged, const double *mass, int64_t n,
                                 double share, kvt_err *err);

#endif
