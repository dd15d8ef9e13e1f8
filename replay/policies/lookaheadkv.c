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

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->extra_tokens = 32;
    work->lora_rank = 8;
    work->learned_tokens = true;
}

const kvt_policy kvt_policy_lookaheadkv = {
    .abi = KVT_POLICY_ABI,
    .name = "lookaheadkv",
    .title = "keep what learned tokens behind the prompt look at",
    .paper = "Ahn et al., LookaheadKV, ICLR 2026, arXiv:2603.10899",
    .about =
        "What a response will look at is known once it is written, and a draft of it costs "
        "more time than the eviction saves. LookaheadKV predicts it instead: n = 32 learned "
        "embeddings that belong to no vocabulary go through the model behind the prompt, at "
        "positions N to N + 31, in the same pass. A LoRA (rank 8, alpha 32, on the seven "
        "linear maps of every layer) acts on their rows only, so that the prompt's keys and "
        "values are those of the plain model. Their own are dropped after scoring: decoding "
        "is unchanged.\n\n"
        "It decides once, at the end of the prompt, layer by layer. Score of prompt token j "
        "for a kv head: the attention that j gets from the lookahead tokens in the causal "
        "softmax over prompt and lookahead tokens, mean over the n tokens and over the query "
        "heads of the group; then a max pool of 7. The best B of each kv head stay, as many "
        "in every layer. Nothing is forced, no recent token either: with the last 32 prompt "
        "queries in the mean LongBench falls from 29.10 to 28.52 (table 7).\n\n"
        "Only embeddings and LoRA are trained, 20.6 million numbers (0.26 %) for "
        "Llama-3.1-8B. The model answers its training prompts itself, greedily, with at most "
        "512 tokens. Loss: KL(p || q), mean over all layers and query heads, with p the mean "
        "attention of the true response over the prompt and q that of the lookahead tokens, "
        "both divided by their sum over the prompt. Adam (0.9, 0.95), rate 1e-3 (Llama) or "
        "2e-4 (Qwen), cosine to 0 with 2 % warm-up, norm of the gradient at most 1, 7,600 "
        "steps of 32 samples of up to 16,384 tokens.\n\n"
        "Published, LongBench with Llama-3.1-8B and 128 tokens kept: 47.72, against SnapKV "
        "43.50, SpecKV 45.45, LAQ 46.61, the full cache 49.88. At 32K tokens it adds 38 ms "
        "to a prefill of 1,760 ms where LAQ with 32 draft tokens adds 554. Quality saturates "
        "at n = 32; embeddings without the LoRA reach 26.4 where all maps reach 27.1 "
        "(Llama-3.2-1B, 64 kept, table 5).\n\n"
        "Here kvt train lookaheadkv makes the adapter, kvt capture --probe "
        "NAME=lookaheadkv:FILE runs it behind a stored prompt, and the policy reads that "
        "probe: every reduction below is replayed from the same rows.",
    .differs =
        "nothing that is known in what is kept. Not specified there and chosen here: the "
        "mean over the group comes before the pool (as in Ada-KV, which it follows); how the "
        "embeddings start (kvt train show lookaheadkv). The rows come from stored halves and "
        "are rounded to half, as all attention is",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_PROBE,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .probe = "lookaheadkv"},
    .params_size = sizeof(kvt_reduction),
    .params = kvt_reduction_params,
    .fits = kvt_reduction_fits,
    .score = score,
    .work = work,
};
