/* lookaheadkv - keep what 32 learned tokens behind the prompt look at.
 *
 *   Ahn et al., "LookaheadKV: Fast and Accurate KV Cache Eviction by Glimpsing into the Future
 *   without Generation", ICLR 2026, arXiv:2603.10899 (version 1; their code was not read).
 *
 * n = 32 learned embeddings P run behind the prompt at positions N..N+n-1, with a LoRA (rank 8,
 * alpha 32, all linear maps) that acts on them only; their keys and values are dropped after
 * scoring. They were trained so that s~ below comes near the mean attention of the model's own
 * response. With A the causal softmax over prompt and lookahead tokens,
 *
 *   s~[g, j] = mean over h in group g of (1/n) sum over i of A[h, N-1+i, j]      j < N
 *   keep     = top-B of maxpool_7(s~[g]), each lane alone; nothing is forced
 *
 * kept here as n s~: a constant factor. `reduce`, `pool`, `kind`, `order` and `recent` open
 * what the paper fixes. The probe stores the rows' queries and keys: all of these are replayed
 * from one probe.
 *
 * Not in the paper: how embeddings start, and whether the group's mean comes before the pool;
 * before, as in Ada-KV, which it follows. Differs: attention rows are rounded to half. Cost for
 * each lane, once: O(H n S) time beside the probe's n rows, 3 S floats. */
#include "kvt/pieces.h"

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    kvt_reduce_rows(out, pinned, &lane->probe->attn, params, lane->scratch);
}

const kvt_policy kvt_policy_lookaheadkv = {
    .abi = KVT_POLICY_ABI,
    .name = "lookaheadkv",
    .title = "keep what learned tokens behind the prompt look at",
    .paper = "Ahn et al., LookaheadKV, ICLR 2026, arXiv:2603.10899. 32 embeddings with a LoRA "
             "(rank 8, alpha "
             "32, all linear maps) are trained to look where the model's own response will "
             "(KL of the mean attention, for each head); score = mean over the tokens and over "
             "the query heads of a group, max pool of 7, the best B of each lane; no recent "
             "window",
    .differs = "nothing that is known in what is kept; unspecified there and chosen here: the "
               "mean over the group comes before the pool (as in Ada-KV); rows are rounded to "
               "half as all stored attention",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .probe = "lookaheadkv"},
    .params_size = sizeof(kvt_reduction),
    .params = kvt_reduction_params,
    .fits = kvt_reduction_fits,
    .score = score,
};
