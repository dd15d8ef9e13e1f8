/* ada - heads of a layer share slots by what scores best in all of them.
 *
 *   Feng et al., "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for
 *   Efficient LLM Inference", 2024, arXiv:2407.11550.
 *
 * With B the average budget of n lanes, P_i what lane i pins, C the mean of B - P_i, alpha =
 * `floor`, and m_i how many of lane i are among the n C best scores of all lanes,
 *
 *   exact     budget[i] = P_i + (1 - alpha) m_i + alpha C in whole slots that add up to n B
 *             (largest remainders)
 *   official  budget[i] = P_i + round((1 - alpha) m_i + int(alpha C)), half to even: the total
 *             drifts
 *   kvpress   the int(alpha B) best of each lane, pinned ones among them, come first, then the
 *             best of all: adds up to n B
 *
 * With `normalise` a lane's scores are first multiplied by the share of its C best in their
 * sum. Each lane gets 1 slot at least. Cost: O(n S). */
#include "kvt/pieces.h"
#include "kvt/share.h"

#include <math.h>

typedef struct ada {
    double floor;
    int rule;
    bool normalise;
} ada;

enum { RULE_EXACT, RULE_OFFICIAL, RULE_KVPRESS, RULE_KVCF };

static const kvt_choice rules[] = {
    [RULE_EXACT] = {"exact", "floor=0.2,normalise=false", "alpha of the paper, exact total"},
    [RULE_OFFICIAL] = {"official", "floor=0.5,normalise=false",
                       "FFY0/AdaKV: rounds half to even, the total drifts; alpha of its code"},
    [RULE_KVPRESS] = {"kvpress", "floor=0.2,normalise=false",
                      "NVIDIA/kvpress 8bb29b9: the best alpha B of each lane are safe"},
    [RULE_KVCF] = {"kvcf", "floor=0.2,normalise=true",
                   "Zefan-Cai/KVCache-Factory c97f9d7: official with normalised scores; its "
                   "floor flag has no effect there"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(ada, rule, RULE_EXACT, rules, "arithmetic of the shares"),
    KVT_PARAM(ada, floor, 0.2, 0, 1, "frac", "alpha: share of the budget that each lane gets"),
    KVT_PARAM(ada, normalise, 0, 0, 1, "",
              "scores times the share of the lane's best in their sum"),
    {0},
};

static bool is_open(const kvt_lane *lane, int64_t s)
{
    return !lane->share_pinned || !lane->share_pinned[s];
}

/* The share of a lane's C best in the sum of its open scores; 1 where that is no number. */
static float weight_of(const kvt_lane *lane, const float *score, int64_t C, kvt_arena *a)
{
    size_t mark = kvt_arena_mark(a);
    bool *best = kvt_arena_array(a, lane->n_slot, sizeof *best);
    float *open = kvt_arena_array(a, lane->n_slot, sizeof *open);
    double top = 0, sum = 0;
    int64_t n = 0;
    for (int64_t s = 0; best && open && s < lane->n_slot; s++)
        if (is_open(lane, s))
            open[n++] = score[s];
    bool good = best && open && kvt_keep_best(best, open, NULL, n, C, a) >= 0;
    for (int64_t k = 0; good && k < n; k++) {
        sum += (double)open[k];
        top += best[k] ? (double)open[k] : 0;
    }
    kvt_arena_rewind(a, mark);
    return sum > 0 && isfinite(top / sum) ? (float)(top / sum) : 1;
}

static void split(const void *params_, int64_t *budget, const kvt_lane *lane, int n_lane,
                  const float *const *score, const int64_t *n_pinned, int64_t total)
{
    const ada *p = params_;
    kvt_shares_out s;
    if (!kvt_share_begin(&s, budget, lane, n_lane, n_pinned, total))
        return;
    int64_t *count = kvt_arena_array(lane->scratch, n_lane, sizeof *count);
    int64_t *first = kvt_arena_array(lane->scratch, n_lane, sizeof *first);
    float *factor = kvt_arena_array(lane->scratch, n_lane, sizeof *factor);
    double C = (double)s.free / n_lane, B = (double)s.total / n_lane;
    for (int i = 0; first && factor && i < n_lane; i++) {
        factor[i] = p->normalise ? weight_of(&lane[i], score[i], (int64_t)C, lane->scratch) : 1;
        first[i] = p->rule == RULE_KVPRESS ? (int64_t)(p->floor * B) - n_pinned[i] : 0;
        if (p->rule == RULE_KVPRESS)
            first[i] = kvt_max(first[i], s.least[i] - n_pinned[i]);
    }
    bool good = count && first && factor &&
                kvt_share_count(count, lane, n_lane, score, factor, first, s.free);
    for (int i = 0; i < n_lane; i++) {
        double n = good ? (double)count[i] : 0;
        if (p->rule == RULE_EXACT)
            n = n * (1 - p->floor) + p->floor * C;
        else if (p->rule != RULE_KVPRESS)
            n = nearbyint(n * (1 - p->floor) + floor(p->floor * C));
        s.want[i] = (double)n_pinned[i] + n;
        budget[i] = good ? kvt_min(kvt_max((int64_t)s.want[i], s.least[i]), s.most[i]) : 0;
    }
    if (good && (p->rule == RULE_EXACT || p->rule == RULE_KVPRESS))
        kvt_share_round(budget, &s);
}

const kvt_share kvt_share_ada = {
    .abi = KVT_POLICY_ABI,
    .name = "ada",
    .title = "heads of a layer share slots by what scores best in all of them",
    .paper = "Feng et al., Ada-KV, 2024, arXiv:2407.11550",
    .differs = "the default adds up to the total exactly, which the published rounding does "
               "not (rule=official); each lane gets one slot at least",
    .scope = KVT_BY_LAYER,
    .may_exceed = true,
    .by_score = true,
    .params_size = sizeof(ada),
    .params = params,
    .split = split,
};
