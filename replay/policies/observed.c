/* observed - keep what gets most attention from each query that can see it.
 *
 *   NVIDIA/kvpress 8bb29b9 (ObservedAttentionPress); no paper.
 *
 * With A the causal attention of the prompt of T tokens and j the position of slot s,
 *
 *   score[s] = mean over H of (sum over i of A[H i s]) / (T - j)
 *
 * T - j queries see token j. Nothing is pinned: the last tokens have few observers, whose
 * attention to themselves is large, so that they stay by their score; the bias is opposite to
 * that of the plain sum (h2o). Once, at the end of the prompt.
 *
 * Differs: nothing in the kept set. Cost for each lane, once: O(H S); as published the whole
 * matrix. */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params, (void)pinned;
    kvt_mean_heads(out, &lane->col_sum);
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] /= (float)(lane->now + 1 - lane->pos[s]);
}

static void work(const void *params, kvt_work *work)
{
    (void)params;
    work->whole_rows = true;
}

const kvt_policy kvt_policy_observed = {
    .abi = KVT_POLICY_ABI,
    .name = "observed",
    .title = "keep what gets most attention from each query that can see it",
    .paper = "NVIDIA/kvpress 8bb29b9 (ObservedAttentionPress), no paper",
    .about =
        "The attention that each prompt token got, divided by the number of queries that can "
        "see it, mean over the query heads of the group. The division takes away the "
        "advantage of early tokens that plain sums have (h2o), and gives one to the last "
        "tokens: few queries see them, and those look at themselves. Nothing is pinned. It "
        "acts once, at the end of the prompt; nothing is trained. The sums need every row of "
        "the prompt, so that published code runs without a fused kernel.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_COLUMNS,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .mass_scores = true},
    .score = score,
    .work = work,
};
