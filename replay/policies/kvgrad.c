/* kvgrad - KVzip's repeat, weighted by gradients. Named, and not replayable.
 *
 *   KVgrad, OpenReview cg1wTCJjjk; NVIDIA/kvpress pull requests 279 and 286.
 *
 * With A the attention of the probe's rows p (the model told to repeat the prompt, in chunks of
 * 256), a_p the residual stream and Phi the sum of squared norms of the last hidden states,
 *
 *   score[s] = max over p of A[p s] |W_O v_s| |d Phi / d a_p|
 *
 * The gradients need a backward pass through the whole model; a trace, probes included, records
 * forward passes only. */
#include "kvt/policy.h"

const kvt_policy kvt_policy_kvgrad = {
    .abi = KVT_POLICY_ABI,
    .name = "kvgrad",
    .title = "rank by what a repeat of the prompt reads, weighted by gradients",
    .paper = "KVgrad, OpenReview cg1wTCJjjk, NVIDIA/kvpress",
    .about =
        "As in KVzip the model is told to repeat the prompt. What a repeated token reads from "
        "a slot (attention times the norm of W_O v) is weighted by how much the last hidden "
        "states would change with that token's residual: a backward pass. The largest value "
        "over all repeated tokens is the score.\n\n"
        "A trace records forward passes, so that the weight is missing; kvzip is the score "
        "without it. Scores that another program computed from gradients can be replayed: kvt "
        "import --scores, then -p scores:file=FILE.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL, .exactness = KVT_NOT_REPLAYABLE},
    .why_not = "it needs gradients, and a trace records forward passes only",
};
