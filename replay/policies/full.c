/* full - keep everything: what a row sees without any eviction.
 *
 * The control on the other side of `random`. It scores nothing and keeps all slots at every
 * budget, so that its lost mass is 0 and its bytes are those of the whole cache.
 * Cost: none. */
#include "kvt/pieces.h"

static void choose(const void *params, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *score, const bool *const *pinned, const int64_t *budget)
{
    (void)params, (void)score, (void)pinned, (void)budget;
    for (int i = 0; i < n_lane; i++)
        for (int64_t s = 0; s < lane[i].n_slot; s++)
            keep[i][s] = true;
}

const kvt_policy kvt_policy_full = {
    .abi = KVT_POLICY_ABI,
    .name = "full",
    .title = "keep everything",
    .paper = "control, no paper",
    .differs = "",
    .traits = {.phases = KVT_PREFILL,
               .exactness = KVT_EXACT,
               .may_exceed = true,
               .control = true},
    .select = choose,
};
