/* judgeq - keep what learned soft tokens behind the prompt look at, without a LoRA.
 *
 *   Liu et al., "Judge Q: Trainable Queries for Optimized Information Retention in KV Cache
 *   Eviction", AAAI 2026, arXiv:2509.10798 (from notes on the paper; no code was read).
 *
 * n = 32 soft tokens run behind the prompt; only their embeddings are trained, by the squared
 * error between their mean attention map and that of the response over the prompt. With A the
 * causal softmax over prompt and soft tokens,
 *
 *   s[g, j] = mean over h in group g and over i of A[h, N-1+i, j]       j < N
 *   keep    = top-B of maxpool_7(s[g]), each lane alone
 *
 * kept here as n s: a constant factor.
 *
 * Not known of the paper: group reduction, pooling, a recent window. They are LookaheadKV's
 * here, whose ablation it is (LoRA off, squared error for KL), so that the two differ in their
 * training only. Differs: attention rows are rounded to half. Cost for each lane, once: O(H n
 * S) time beside the probe's n rows, 3 S floats. */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    kvt_reduce_rows(out, pinned, &lane->probe->attn, params, lane->scratch);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->extra_tokens = 32;
    work->learned_tokens = true;
}

const kvt_policy kvt_policy_judgeq = {
    .abi = KVT_POLICY_ABI,
    .name = "judgeq",
    .title = "keep what learned soft tokens without a LoRA look at",
    .paper = "Liu et al., Judge Q, AAAI 2026, arXiv:2509.10798",
    .about =
        "32 soft tokens stand behind the prompt and judge it: a token is worth what they "
        "look at. Only their embeddings are trained, nothing in the model changes. It "
        "decides once, at the end of the prompt, by their mean attention; the best B of each "
        "lane stay.\n\n"
        "Trained by the squared error between the soft tokens' mean attention map over the "
        "prompt and that of the response, on 50,000 responses that the model wrote itself. "
        "Reported, Llama-3.1-8B on LongBench at 128 / 256 / 512 kept: 35.90 / 37.69 / 39.17, "
        "SnapKV 34.31 / 36.56 / 38.31, the full cache 41.23.\n\n"
        "It is the natural ablation of LookaheadKV: no LoRA, squared error for KL.",
    .differs =
        "the reduction is not known in full (no code was read): mean over the query heads of "
        "a group, max pool of 7 and no recent window are LookaheadKV's, so that the two "
        "differ in training only",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .probe = "judgeq"},
    .params_size = sizeof(kvt_reduction),
    .params = kvt_reduction_params,
    .fits = kvt_reduction_fits,
    .score = score,
    .work = work,
};
