/* random - keep slots drawn at random: the floor that every policy must beat.
 *
 *   score[s] = a uniform number of [0, 1) from the lane's own stream
 *
 * The budget's best of one draw, so that a larger budget only adds slots. The stream is keyed
 * by seed, trace, policy, layer and lane: the same draw for any number of threads. Differs:
 * kvpress draws from one generator for all heads of a call (RandomPress). Cost for each lane,
 * once: O(S). */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = (float)kvt_random(lane->rng);
}

const kvt_policy kvt_policy_random = {
    .abi = KVT_POLICY_ABI,
    .name = "random",
    .title = "keep slots drawn at random",
    .paper = "control, no paper; NVIDIA/kvpress 8bb29b9 has it as RandomPress",
    .differs = "one stream for each lane, keyed by seed, trace, policy, layer and lane",
    .traits = {.phases = KVT_PREFILL,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .control = true},
    .score = score,
};
