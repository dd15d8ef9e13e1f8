/* pyramidkv - what the last prompt queries look at, with more slots in the lower layers.
 *
 *   Cai et al., "PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information
 *   Funneling", 2024, arXiv:2406.02069.
 *
 * With A the attention of the last `window` queries and n slots in front of that window,
 *
 *   vote[s]  = sum over H, Q of A[H Q s]
 *   score[s] = maximum or mean of vote over the `pool` slots around s < n
 *
 * and the window itself is pinned, as in snapkv. What is its own is the allocator `pyramid`:
 * the slots of layer l fall in a straight line from layer 0 to the last one.
 *
 * Differs: see `differs`. Cost for each lane, once: O(H window S) time, S floats. */
#include "kvt/pieces.h"
#include "kvt/share.h"

#include <stdio.h>

typedef struct pyramidkv {
    int64_t window, pool;
    int kind, compat;
} pyramidkv;

enum { COMPAT_PAPER, COMPAT_KVCF, COMPAT_KVPRESS, COMPAT_KVCF_KV };

static const kvt_choice compats[] = {
    [COMPAT_PAPER] =
        {"paper", "window=8,pool=7,kind=max",
         "numbers of Zefan-Cai/KVCache-Factory c97f9d7, reduced to kv heads, exact total"},
    [COMPAT_KVCF] =
        {"kvcf", "window=8,pool=7,kind=max",
         "Zefan-Cai/KVCache-Factory c97f9d7, run scripts, by query head, its integer steps"},
    [COMPAT_KVPRESS] = {"kvpress", "window=64,pool=5,kind=mean",
                        "NVIDIA/kvpress 8bb29b9, its rounding and its uniform fallback"},
    [COMPAT_KVCF_KV] =
        {"kvcf-kv", "window=8,pool=7,kind=max",
         "Zefan-Cai/KVCache-Factory c97f9d7, run scripts, kv_head mode, its integer steps"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(pyramidkv, compats),
    KVT_PARAM_WINDOW(pyramidkv, 8),
    KVT_PARAM_POOL(pyramidkv, 7),
    KVT_PARAM_KIND(pyramidkv, KVT_POOL_MAX),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const pyramidkv *p = params_;
    traits->by_query_head = p->compat == COMPAT_KVCF;
    traits->may_exceed = p->compat != COMPAT_PAPER;
}

static void share_params(const void *params_, char *out, size_t cap)
{
    const pyramidkv *p = params_;
    static const char *const forms[] = {"exact", "kvcf", "kvpress", "kvcf"};
    snprintf(out, cap, "form=%s", forms[p->compat]);
}

static void step(const void *params_, kvt_lane *lane)
{
    (void)params_;
    kvt_add_rows(lane->mark, &lane->attn);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const pyramidkv *p = params_;
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, p->window);
    if (n > 0)
        kvt_pool(out, lane->mark, n, p->pool, p->kind);
}

const kvt_policy kvt_policy_pyramidkv = {
    .abi = KVT_POLICY_ABI,
    .name = "pyramidkv",
    .title = "what the last prompt queries look at, more slots in lower layers",
    .paper = "Cai et al., PyramidKV, 2024, arXiv:2406.02069",
    .about =
        "Attention is spread over the prompt in low layers and narrows to few tokens in high "
        "ones (pyramidal information funnelling): low layers should get more slots. Ranking "
        "and window are SnapKV's; what is new is the allocator pyramid, a straight line from "
        "the first layer to the last one, whose steepness is beta (20). It decides once, at "
        "the end of the prompt.\n\n"
        "Published settings: W = 8, max pool of 7, beta = 20 (KVCache-Factory).",
    .differs =
        "one set for each kv head instead of each query head; layers add up to the budget "
        "exactly, where the authors' integer steps may hold up to twice as much (compat=kvcf "
        "does that, the audit shows it)",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .may_exceed = true},
    .slot_width = 1,
    .params_size = sizeof(pyramidkv),
    .params = params,
    .share = &kvt_share_pyramid,
    .share_params = share_params,
    .vary = vary,
    .fits = kvt_window_held,
    .window = kvt_window_rows,
    .step = step,
    .score = score,
};
