/* global - all lanes of the model share slots by what scores best in all of them.
 *
 *   budget[i] = slots of lane i among the best of all lanes together, sum over i = n B
 *
 * where what a rule keeps, and the best floor x B of each lane, come before everything else (1
 * slot at least). Scores are compared between layers as they are: a policy whose scores are
 * attention mass gives the best total mass that its scores promise, others what their scale
 * happens to say. What fast-kvzip and KVP do with their own scores. Cost: O(n S). */
#include "kvt/pieces.h"
#include "kvt/share.h"

#include <math.h>

typedef struct global {
    double floor;
} global;

static const kvt_param params[] = {
    KVT_PARAM(global, floor, 0, 0, 1, "frac",
              "share of the budget that each lane gets in any case"),
    {0},
};

static void split(const void *params_, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    const global *p = params_;
    kvt_shares_out s;
    if (!kvt_share_begin(&s, budget, lane, n_lane, n_pinned, total))
        return;
    int64_t *count = kvt_arena_array(lane->scratch, n_lane, sizeof *count);
    int64_t *first = kvt_arena_array(lane->scratch, n_lane, sizeof *first);
    double B = (double)s.total / n_lane;
    for (int i = 0; first && i < n_lane; i++) /* 0.29 x 100 is 29 */
        first[i] = kvt_max((int64_t)floor(p->floor * B + 1e-9), s.least[i]) - n_pinned[i];
    bool good =
        count && first && kvt_share_count(count, lane, n_lane, score, NULL, first, s.free);
    for (int i = 0; i < n_lane; i++)
        budget[i] = good ? n_pinned[i] + count[i] : 0;
}

const kvt_share kvt_share_global = {
    .abi = KVT_POLICY_ABI,
    .name = "global",
    .title = "all lanes of the model share slots by what scores best in all of them",
    .paper = "no paper",
    .differs = "",
    .scope = KVT_BY_MODEL,
    .by_score = true,
    .params_size = sizeof(global),
    .params = params,
    .split = split,
};
