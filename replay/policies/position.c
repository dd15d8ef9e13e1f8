/* position - keep the positions that got attention in the other traces of the set.
 *
 *   score[s] = mean future mass, in the other traces, of the bin that position s falls into,
 *              for this layer and kv head
 *
 * What can be known without looking at this prompt at all: a policy that does not beat it has
 * learned where attention goes, not what it goes to. The bins are those of kvt_position_bin():
 * one for each of the first 8 positions, then by the logarithm of the distance from the end.
 * Within a bin scores are equal and the lower position is kept.
 * Cost for each lane, once: O(S). */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    int64_t n_group = lane->seq->geometry->n_kv_head;
    const float *mass = /* f32 [L G bin] */
        lane->seq->position_mass + (lane->layer * n_group + lane->group) * KVT_POSITION_BINS;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = mass[kvt_position_bin(lane->pos[s], lane->seq->n_prompt)];
}

const kvt_policy kvt_policy_position = {
    .abi = KVT_POLICY_ABI,
    .name = "position",
    .title = "keep the positions that mattered in the other traces",
    .paper = "control, no paper",
    .about =
        "Tokens are ranked by the mean future attention of their position in the other "
        "traces of the set: the first 8 one by one, then by the logarithm of the distance "
        "from the end. That is what can be known without looking at the prompt at all; a "
        "policy that does not beat it has learned where attention goes, not what it goes to.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_OTHERS,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .control = true},
    .score = score,
};
