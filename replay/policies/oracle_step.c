/* oracle-step - at every step read what this query looks at most: the bound of retrieval.
 *
 * With A the attention of the query at hand over the whole cache,
 *
 *   score[s] = mean over the query heads H of the lane of A[H s]
 *
 * and the budget's best slots are read, for this query only: nothing is evicted. No policy that
 * evicts keeps more of any row than this does with as many slots. All tokens stay in memory, so
 * that its budget is what is read, not what is stored.
 * Cost for each lane and query: O(H S). */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    kvt_add_rows(out, &lane->attn); /* out starts at zero */
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] /= (float)(lane->attn.dim[0] * lane->attn.dim[1]);
}

const kvt_policy kvt_policy_oracle_step = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle-step",
    .title = "bound: read what each response query looks at most",
    .paper = "bound, no paper",
    .about =
        "At every step the slots that this query looks at most are read, for this query "
        "only; nothing is evicted. No policy that evicts keeps more of any row with as many "
        "slots. All tokens stay in memory: its budget is what is read.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_ATTN,
               .effect = KVT_SKIP,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .control = true},
    .score = score,
};
