/* streaming - keep the first tokens (attention sinks) and the newest.
 *
 *   Xiao et al., "Efficient Streaming Language Models with Attention Sinks", 2023,
 *   arXiv:2309.17453.
 *
 * With S sinks and T tokens so far, a cache of B = S + R slots holds
 *
 *   [0, S) and [T - R, T)
 *
 * The sinks are pinned; score[s] = position of slot s. With `window` W > 0 it is the other way
 * round, as KVCache-Factory's code is written: the last W are given and the first B - W tokens
 * are the rest.
 *
 * positions=cache is the authors' code: slot s has the position s, the newest query n - 1. The
 * same slots stay; the output error is that of rows made again with keys and query turned there
 * (replay/reposition.c), mass lost is that of the full cache. What a model would write with
 * moved positions drifts from the trace: open-loop.
 *
 * Differs: see `differs`. Cost for each lane and decision: O(S). */
#include "kvt/pieces.h"

typedef struct streaming {
    int64_t sinks, window;
    int positions, compat;
} streaming;

enum {
    COMPAT_PAPER,
    COMPAT_OFFICIAL,
    COMPAT_PPL,
    COMPAT_KVPRESS,
    COMPAT_KVCF,
    COMPAT_KVCF_NEEDLE
};
enum { POSITIONS_TEXT, POSITIONS_CACHE };

static const kvt_choice positions[] = {
    [POSITIONS_TEXT] = {"text", "", "keys keep the positions that they have in the text"},
    [POSITIONS_CACHE] = {"cache", "",
                         "keys take the position of their slot, the newest query that of the "
                         "last one"},
};

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "sinks=4,window=0,positions=text",
                      "4 sinks and the newest B - 4, original positions"},
    [COMPAT_OFFICIAL] = {"official", "sinks=4,window=0,positions=cache",
                         "mit-han-lab/streaming-llm 2e50426, the cache of its class and chat "
                         "example: positions of the cache"},
    [COMPAT_PPL] = {"official-ppl", "sinks=1,window=0,positions=cache",
                    "the same, perplexity example: 1 sink"},
    [COMPAT_KVPRESS] =
        {"kvpress", "sinks=4,window=0,positions=text",
         "NVIDIA/kvpress 8bb29b9: once, at the end of the prompt (its KeyRerotation wrapper: "
         "positions=cache)"},
    [COMPAT_KVCF] =
        {"kvcf", "sinks=4,window=0,positions=text",
         "Zefan-Cai/KVCache-Factory c97f9d7, LongBench and RULER scripts (a window of B - 4): "
         "on the prompt, stored for each query head"},
    [COMPAT_KVCF_NEEDLE] =
        {"kvcf-needle", "sinks=4,window=32,positions=text",
         "the same, needle script: all but the last 32 slots are first tokens"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(streaming, compats),
    KVT_PARAM(streaming, sinks, 4, 0, 65536, "tokens", "first tokens that are always kept"),
    KVT_PARAM(
        streaming, window, 0, 0, 1048576, "tokens",
        "last tokens that are always kept, all other slots are first tokens; 0: sinks decides"),
    KVT_PARAM_CHOICE(streaming, positions, POSITIONS_TEXT, positions,
                     "positions that keys and queries have while they attend"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const streaming *p = params_;
    if (p->compat >= COMPAT_KVPRESS)
        traits->phases = KVT_PREFILL;
    if (p->compat >= COMPAT_KVCF)
        traits->by_query_head = true;
    traits->cache_positions = p->positions == POSITIONS_CACHE;
    if (traits->cache_positions)
        traits->exactness = KVT_OPEN_LOOP;
    if (p->window > 0) /* how many first tokens there are depends on the budget */
        traits->one_ranking = false;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const streaming *p = params_;
    if (p->window > 0)
        return kvt_pinned_fits(p->window, "last tokens", budget, n_token, why, cap);
    return kvt_pinned_fits(p->sinks, "sinks", budget, n_token, why, cap);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const streaming *p = params_;
    int64_t first = p->window > 0 ? kvt_max(lane->budget - p->window, 0) : p->sinks;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = (float)(lane->pos[s] - lane->now); /* minus the age: it only ranks */
        pinned[s] = lane->pos[s] < first || s >= lane->n_slot - p->window;
    }
}

const kvt_policy kvt_policy_streaming = {
    .abi = KVT_POLICY_ABI,
    .name = "streaming",
    .title = "keep the first tokens and the newest",
    .paper = "Xiao et al., StreamingLLM, 2023, arXiv:2309.17453",
    .about =
        "Models put attention that they have no use for on the first tokens (attention sinks). "
        "A window of the newest tokens breaks when these leave; with the first 4 kept beside "
        "it a model reads streams of any length. No score, no training: the first S and the "
        "last B - S tokens, the same everywhere, prompt and response alike.\n\n"
        "The authors rotate every key by its place in the cache instead of its position in the "
        "text (positions=cache, compat=official): the same tokens stay, and the output error "
        "is that of rows made again with keys and query turned there. Published settings: 4 "
        "sinks and 512 to 2,000 newest tokens, 1 and 255 in the perplexity example.",
    .differs =
        "keys keep their original positions unless positions=cache; one token comes and one "
        "goes, where the authors' chat makes room for a whole turn",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .drop_first = true,
               .cache_positions = true},
    .params_size = sizeof(streaming),
    .params = params,
    .vary = vary,
    .fits = fits,
    .score = score,
};
