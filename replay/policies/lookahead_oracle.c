/* lookahead-oracle - the reduction of LookaheadKV over the true response: its bound.
 *
 *   No paper: what LookaheadKV (arXiv:2603.10899) keeps where its tokens predict perfectly.
 *
 * With A the attention of the M response queries over the prompt,
 *
 *   s[g, j] = mean over h in group g of (sum over m of A[h, m, j])      j < N
 *   keep    = top-B of maxpool_7(s[g]), each lane alone
 *
 * Without the pool (pool=0) it is `oracle`, bit for bit; with it, it shows what pooling costs
 * or gains a policy whose scores are right. Needs the future and no probe. Cost for each lane,
 * once: O(H M S) time, 3 S floats. */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    kvt_reduce_rows(out, pinned, &lane->future, params, lane->scratch);
}

const kvt_policy kvt_policy_lookahead_oracle = {
    .abi = KVT_POLICY_ABI,
    .name = "lookahead-oracle",
    .title = "bound: LookaheadKV with a perfect prediction",
    .paper = "bound, no paper",
    .about =
        "The rows of the true response through the reduction of LookaheadKV "
        "(arXiv:2603.10899): what that policy keeps where its tokens predict perfectly. With "
        "pool=0 it is the oracle, bit for bit; with the pool it shows what pooling costs or "
        "gains a policy whose scores are right.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_FUTURE,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .control = true},
    .params_size = sizeof(kvt_reduction),
    .params = kvt_reduction_params,
    .fits = kvt_reduction_fits,
    .score = score,
};
