/* oracle - keep what the response will look at: the best that one decision can do.
 *
 * With A the attention of the response queries m over the prompt,
 *
 *   score[s] = mean over the query heads H of the lane of (sum over m of A[H m s])
 *
 * that is R_s(0), the remaining mass at the end of the prompt. The mass that a set keeps is the
 * sum of its scores, so that the budget's best slots are the optimum for every lane, exactly.
 * It does not choose budgets: lanes share out slots as for any other policy. Cost for each
 * lane, once: O(H M S). */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    kvt_add_rows(out, &lane->future); /* out starts at zero */
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] /= (float)lane->future.dim[0];
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
        "does not choose how slots are shared out over lanes.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_FUTURE,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .control = true},
    .score = score,
};
