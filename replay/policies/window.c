/* window - keep the newest tokens.
 *
 *   Beltagy, Peters, Cohan, "Longformer: The Long-Document Transformer", 2020,
 * arXiv:2004.05150; as a cache policy the baseline of Xiao et al., "Efficient Streaming
 * Language Models with Attention Sinks", 2023, arXiv:2309.17453.
 *
 *   score[s] = position of slot s
 *
 * A row sees the budget's newest tokens, itself included. Where the model itself has a sliding
 * window, rows are already cut to it.
 * Differs: keys keep their original positions.
 * Cost for each lane and decision: O(S). */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = (float)(lane->pos[s] - lane->now); /* minus the age: it only ranks */
}

const kvt_policy kvt_policy_window = {
    .abi = KVT_POLICY_ABI,
    .name = "window",
    .title = "keep the newest tokens",
    .paper = "Beltagy et al., Longformer, 2020, arXiv:2004.05150",
    .differs = "keys keep their original positions",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .drop_first = true},
    .score = score,
};
