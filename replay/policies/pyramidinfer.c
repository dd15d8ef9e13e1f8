/* pyramidinfer - later layers see fewer prompt tokens. Named, and not replayable.
 *
 *   Yang et al., "PyramidInfer: Pyramid KV Cache Compression for High-throughput LLM
 *   Inference", 2024, arXiv:2405.12532.
 *
 * During the prompt each layer hands on only the hidden states of the tokens that the newest
 * queries look at: keys and values of the others never come to be in later layers. What those
 * layers compute depends on which tokens went before, so that the full cache's keys, queries
 * and rows are none of this method's from the second layer on. */
#include "kvt/policy.h"

const kvt_policy kvt_policy_pyramidinfer = {
    .abi = KVT_POLICY_ABI,
    .name = "pyramidinfer",
    .title = "hand fewer prompt tokens on from layer to layer",
    .paper = "Yang et al., PyramidInfer, 2024, arXiv:2405.12532",
    .about =
        "While the prompt is read, each layer keeps the tokens that its newest queries look at "
        "and drops the hidden states of the others, so that later layers never compute their "
        "keys and values: prompt time is saved beside memory.\n\n"
        "Published settings: the newest 20 % of the tokens vote, weights rising from 1 to 1.2; "
        "the share of a layer shrinks by a factor that falls along a cosine from 1 to 0.9 and "
        "compounds; 4 sinks, at least 64 tokens; while decoding it evicts when 16 tokens are "
        "over.\n\n"
        "A trace holds what each layer computes when it sees all tokens. From the second layer "
        "on that is not what this method computes, and rankings on it would be about another "
        "method (pyramidkv shares slots out over layers and is replayable).",
    .differs = "",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE, .exactness = KVT_NOT_REPLAYABLE},
    .why_not = "it drops hidden states while the prompt is read, so that later layers compute "
               "other keys",
};
