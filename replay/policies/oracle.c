/* oracle - keep what the response will look at: the best that one decision can do.
 *
 * With A the attention of the response queries m over the prompt,
 *
 *   score[s] = mean over the query heads H of the lane of (sum over m of A[H m s])
 *
 * that is R_s(0), the remaining mass at the end of the prompt. The mass that a set keeps is the
 * sum of its scores, so that the best slots are the optimum, exactly: of every lane
 * (scope=lane), of the lanes of a layer together, or of all of the model, where each row adds
 * up to 1 in every head, so that masses compare. Layers are not equally important for the
 * output: the optimum of mass over the model is none of the output. With heads=query each query
 * head has a set of its own: what it loses less is the price of sharing. sinks and recent
 * protect the first and the newest slots, and the rest is the best beside them: what a rule of
 * protection costs, apart from scores.
 *
 * Shared out by scope=lane it does not choose budgets: lanes get slots as for any other policy.
 * Cost for each lane, once: O(H M S). */
#include "kvt/pieces.h"

typedef struct oracle {
    int scope, heads;
    int64_t sinks, recent;
} oracle;

enum { SCOPE_LANE, SCOPE_LAYER, SCOPE_MODEL };
enum { HEADS_KV, HEADS_QUERY };

static const kvt_choice scopes[] = {
    [SCOPE_LANE] = {"lane", "", "the best of each lane"},
    [SCOPE_LAYER] = {"layer", "", "the best of a layer's lanes together: differing lengths"},
    [SCOPE_MODEL] = {"model", "", "the best of all lanes of the model together"},
};

static const kvt_choice heads[] = {
    [HEADS_KV] = {"kv", "", "one set for the query heads that share a kv head"},
    [HEADS_QUERY] = {"query", "", "a set for each query head"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(oracle, scope, SCOPE_LANE, scopes, "which lanes share their slots"),
    KVT_PARAM_CHOICE(oracle, heads, HEADS_KV, heads, "whose sets are chosen"),
    KVT_PARAM(oracle, sinks, 0, 0, 1048576, "tokens", "first tokens that always stay"),
    KVT_PARAM(oracle, recent, 0, 0, 1048576, "tokens", "newest tokens that always stay"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const oracle *p = params_;
    traits->scope = p->scope == SCOPE_LANE    ? KVT_BY_LANE
                    : p->scope == SCOPE_LAYER ? KVT_BY_LAYER
                                              : KVT_BY_MODEL;
    traits->by_query_head = p->heads == HEADS_QUERY;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const oracle *p = params_;
    return kvt_pinned_fits(p->sinks + p->recent, "protected tokens", budget, n_token, why, cap);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const oracle *p = params_;
    kvt_add_rows(out, &lane->future); /* out starts at zero */
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] /= (float)lane->future.dim[0];
        pinned[s] = s < p->sinks || s >= lane->n_slot - p->recent;
    }
}

static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    (void)params_;
    kvt_keep_best_of_all(keep, lane, n_lane, scores, pinned, budget);
}

const kvt_policy kvt_policy_oracle = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle",
    .title = "bound: keep what the response will look at most",
    .paper = "bound, no paper",
    .about =
        "Top slots by the attention that the response will give them, one decision at the "
        "end of the prompt. The mass that a set keeps is the sum of its scores, so that the "
        "best B are the optimum of every lane, exactly; regret is measured against it. It "
        "does not choose how slots are shared out over lanes, unless scope= has lanes of a "
        "layer or of the model compete: then it is the optimum of their total.\n\n"
        "heads=query keeps a set for each query head: the difference is what sharing a kv "
        "head costs. sinks= and recent= protect tokens as policies do: the difference is what "
        "their rule costs, whatever their scores.",
    .differs = "where lanes compete each keeps one slot at least",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_FUTURE,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .selects_best = true,
               .control = true},
    .params_size = sizeof(oracle),
    .params = params,
    .vary = vary,
    .fits = fits,
    .score = score,
    .select = choose,
};
