/* dmc - average a token into the one before it where the model says so.
 *
 *   Nawrot et al., "Dynamic Memory Compression: Retrofitting LLMs for Accelerated Inference",
 *   2024, arXiv:2403.09636.
 *
 * A retrofitted model gives up a channel of its keys and one of its queries. Before RoPE, for
 * each lane,
 *
 *   alpha_t = 1[ k_t[D-1] - 5 > 0 ]          omega_t = sigma(mean over the group of q_t[D-1] +
 * 5) alpha = 0:  a new slot with z = omega_t alpha = 1:  kbar <- (kbar z + k_t omega_t) / (z +
 * omega_t), the same for v; z <- z + omega_t
 *
 * alpha_0 is 0. A pooled key is rotated at the newest position, and the two channels are zero
 * in attention. Lanes are ragged; prompt tokens come one by one.
 *
 * On a model that was not retrofitted these channels are features like others, and any number
 * would be about nothing: it is replayed from /decision/logit (k_t[D-1] - 5) and
 * /decision/weight (omega_t) of policy dmc only, else it is not replayable. Nothing is evicted,
 * so that slots and the output error are all that can be measured; published code:
 * NVIDIA/Megatron-LM, branch dmc, d36bf8d. Cost for each lane: O(D) a token. */
#include "kvt/pieces.h"

/* What the newest token's bit says. */
static bool join(const void *params, const kvt_lane *lane, float *weight)
{
    (void)params;
    int64_t s = lane->n_slot - 1;
    const float *logit = lane->decision.data, *omega = lane->decision_weight.data;
    *weight = omega ? omega[s] : 1;
    return lane->pos[s] > 0 && logit[s] > 0;
}

/* Nothing is ranked: slots only grow fewer by joining. */
static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = 0;
        pinned[s] = true;
    }
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->page_tokens = 256;
    work->more_bytes_lane = sizeof(float); /* weight of the running slot */
}

const kvt_policy kvt_policy_dmc = {
    .abi = KVT_POLICY_ABI,
    .name = "dmc",
    .title = "average a token into the one before it where the model says so",
    .paper = "Nawrot et al., Dynamic Memory Compression (DMC), ICML 2024, arXiv:2403.09636",
    .about =
        "Instead of dropping tokens a retrofitted model merges them: for each token and kv "
        "head it says whether the token gets a slot of its own or is averaged into the slot "
        "before it.\n\n"
        "Before RoPE, one channel of the key decides (alpha = 1 where k[D-1] - 5 > 0) and "
        "one of the query, mean over the group, gives a weight omega by a sigmoid. Merged, "
        "the slot holds the weighted mean of its members, keys and values alike, of the last "
        "12 where there are more; the pooled key is rotated at the newest position, and both "
        "channels are zero in attention. The first token always gets a slot. Prompt tokens "
        "come one by one; lanes are ragged.\n\n"
        "Training: the two channels are faded out, then the model is retrofitted with soft "
        "decisions (Gumbel-sigmoid) and a hinge on the share of merged tokens that rises to "
        "a compression of 4: 25 billion tokens, and 8 billion more at the compression that "
        "was reached.\n\n"
        "On a model that was not trained for it those channels are features like others, and "
        "any number would be about nothing: it is refused. From the trace of such a model "
        "(decisions and weights, kvt import) every join is replayed; nothing is evicted, so "
        "that slots and the output error are what can be measured.",
    .differs = "nothing in what is joined",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_DECISION,
               .effect = KVT_JOIN,
               .exactness = KVT_NOT_REPLAYABLE,
               .may_exceed = true,
               .decision = "dmc"},
    .join = join,
    .score = score,
    .work = work,
};
