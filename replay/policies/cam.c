/* cam - add the values of evicted tokens to kept ones. Named, and not replayable.
 *
 *   Zhang et al., "CaM: Cache Merging for Memory-efficient LLMs Inference", ICML 2024,
 *   OpenReview LCTmppB165.
 *
 * An evicted value is added to the next (at most 32) kept ones, divided by their number, by a
 * coin with
 *
 *   p = clamp(acc of the evicted token / mean acc of those, 0, 1)
 *
 * where acc is attention so far. The same holds for others that merge: KVMerger (runs of
 * similar keys become one, Gaussian weights; arXiv:2407.08454) and kvpress's MergingPress (the
 * nearest kept key by cosine). The first layer's output could be computed; from the next on
 * queries and keys are of other hidden states at every step, prompt included where it merges
 * there, and set metrics (recall, mass) know nothing of what merging saves. */
#include "kvt/policy.h"

const kvt_policy kvt_policy_cam = {
    .abi = KVT_POLICY_ABI,
    .name = "cam",
    .title = "add the values of evicted tokens to kept ones",
    .paper = "Zhang et al., CaM: Cache Merging, ICML 2024, OpenReview LCTmppB165",
    .about =
        "What is evicted is not lost: its value is added to those of the kept tokens behind it "
        "(at most 32, divided by their number) by a coin whose chance is the evicted token's "
        "accumulated attention over the mean of theirs.\n\n"
        "Other methods that merge are named by this entry, too: KVMerger (arXiv:2407.08454: "
        "runs of similar keys become one with Gaussian weights) and kvpress's MergingPress "
        "(each evicted token goes to the nearest kept key, by cosine, weighted with the "
        "values' norms).\n\n"
        "The slots are those of the policy that evicts, and a replay of that one says which "
        "they are. What merging adds lies in the outputs, and from the second layer on these "
        "come from other hidden states than the trace holds; recall and mass do not see it at "
        "all.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE, .exactness = KVT_NOT_REPLAYABLE},
    .why_not = "merged values change what every later layer computes, and no metric of slots "
               "sees them",
};
