/* suffix - keep what fixed tokens behind the prompt look at: LookaheadKV without training.
 *
 *   No paper: the control of learned lookahead tokens (LookaheadKV, arXiv:2603.10899, table 5,
 *   has what training adds: 26.4 with embeddings only, 27.1 with the LoRA).
 *
 * The n tokens of a text, or the first n tokens of this trace's own response, run behind the
 * prompt through the plain model. With A the causal softmax over prompt and suffix,
 *
 *   s[g, j] = mean over h in group g and over i of A[h, N-1+i, j]       j < N
 *   keep    = top-B of maxpool_7(s[g]), each lane alone
 *
 * kept here as n s: a constant factor. With the response as suffix it knows what the model will
 * say and bounds what a draft of n tokens can reach; it is no policy then. Cost for each lane,
 * once: O(H n S) time beside the probe's n rows, 3 S floats. */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    kvt_reduce_rows(out, pinned, &lane->probe->attn, params, lane->scratch);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->extra_tokens = 32; /* of the probe, unless it was asked for others */
}

const kvt_policy kvt_policy_suffix = {
    .abi = KVT_POLICY_ABI,
    .name = "suffix",
    .title = "keep what fixed tokens behind the prompt look at",
    .paper = "control, no paper",
    .about =
        "What LookaheadKV (arXiv:2603.10899) is worth without learning: its reduction (mean "
        "over rows and over the query heads of a group, max pool of 7, the best B of each "
        "lane) over tokens that nothing was trained for, those of a text or of the response "
        "itself. A learned suffix that does not beat it has learned nothing.\n\n"
        "With the response as suffix it knows what the model will say, and bounds what a "
        "draft of so many tokens can reach; it is no policy then, and its rows are marked "
        "as those of the oracles are.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .probe = "suffix"},
    .params_size = sizeof(kvt_reduction),
    .params = kvt_reduction_params,
    .fits = kvt_reduction_fits,
    .score = score,
    .work = work,
};
