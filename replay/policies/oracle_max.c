/* oracle-max - keep what any single response query looks at hard.
 *
 * With A the attention of the response queries m over the prompt,
 *
 *   score[s] = maximum over the query heads H of the lane and m of A[H m s]
 *
 * The budget's best slots minimise the largest attention that any one query misses. Another set
 * than `oracle`, which minimises what all of them miss together; beside it, it shows how much
 * of a loss comes from tokens that matter once. It asks for rows (NEED_ATTN), since a trace of
 * level summary has only their mean. Cost for each lane, once: O(H M S). */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    const kvt_view *A = &lane->future;
    for (int64_t h = 0; h < A->dim[0]; h++)
        for (int64_t m = 0; m < A->dim[1]; m++) {
            const float *row = kvt_head_row(A, h, m);
            for (int64_t s = 0; s < lane->n_slot; s++)
                out[s] = row[s] > out[s] ? row[s] : out[s];
        }
}

const kvt_policy kvt_policy_oracle_max = {
    .abi = KVT_POLICY_ABI,
    .name = "oracle-max",
    .title = "bound: keep what any one response query looks at most",
    .paper = "bound, no paper",
    .about =
        "Top slots by the largest attention that any one response query gives them: the set "
        "that minimises the worst miss, where the oracle minimises the sum of all. Beside "
        "it, it shows how much of a loss comes from tokens that matter once.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_FUTURE | KVT_NEED_ATTN,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .control = true},
    .score = score,
};
