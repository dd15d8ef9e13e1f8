/* oracle-greedy - drop what has the least attention still to come, at every step.
 *
 * With A the attention of the response queries m that come after the decision,
 *
 *   score[s] = sum over the query heads H of the lane and m of A[H m s]
 *
 * the remaining mass. Cheap, near the best schedule, and not the best: a new token may get its
 * attention soon and be dropped for one that gets a little more much later (oracle-assign is
 * the optimum). It is no bound: other policies may keep more. At the end of the prompt alone it
 * is `oracle`. It knows the response. Cost for each decision: O(H M S). */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    kvt_add_rows(out, &lane->future); /* out starts at zero */
}

const kvt_policy kvt_policy_oracle_greedy = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle-greedy",
    .title = "drop at every step what the rest of the response looks at least",
    .paper = "heuristic that knows the response, no paper",
    .about =
        "At the end of the prompt and after each token the slots go that have the least "
        "attention still to come. Near the best schedule (oracle-assign), which it is not: "
        "its regret is the gap. For responses so long that the best schedule takes more "
        "memory than --oracle-limit.",
    .differs = "",
    .traits = {.phases = KVT_DECODE,
               .needs = KVT_NEED_FUTURE | KVT_NEED_ATTN,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .control = true},
    .score = score,
};
