/* snapkv - keep what the last prompt queries look at.
 *
 *   Li et al., "SnapKV: LLM Knows What You are Looking for Before Generation", 2024,
 *   arXiv:2404.14469.
 *
 * With A the attention of the last `window` queries and n slots in front of that window,
 *
 *   vote[s]  = sum over H, Q of A[H Q s]
 *   score[s] = maximum or mean of vote over the `pool` slots around s < n
 *
 * and the window itself is pinned. Votes of the window are not pooled; the mean counts what
 * lies outside 0..n-1 as zero. With order=pool each query head's votes are pooled by themselves
 * and score is the mean of that over H. Where the prompt is not longer than the window, the
 * latest tokens are kept.
 *
 * Differs: one set for each kv head; the authors' code repeats keys and values first and keeps
 * one set for each query head (compat=official). Sums stay in f32. Cost for each lane, once:
 * O(H window S) time, S floats (H S with order=pool). */
#include "kvt/pieces.h"

#include <math.h>
#include <string.h>

typedef struct snapkv {
    int64_t window, pool;
    int kind, order, compat;
} snapkv;

enum { KIND_MAX, KIND_MEAN };
enum { ORDER_SUM, ORDER_POOL };
enum { IS_PAPER, IS_OFFICIAL, IS_LONGBENCH, IS_KVPRESS, IS_KVCF, IS_KVCF_KV };

static const kvt_choice kinds[] = {
    [KIND_MAX] = {"max", "", "the largest vote nearby"},
    [KIND_MEAN] = {"mean", "", "the mean vote nearby"},
};

static const kvt_choice orders[] = {
    [ORDER_SUM] = {"sum", "", "votes are summed over the query heads, then pooled"},
    [ORDER_POOL] = {"pool", "", "the votes of each query head are pooled, then averaged"},
};

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "window=32,pool=7,kind=max,order=sum",
                  "FasterDecoding/SnapKV e216ddc, LongBench settings, reduced to kv heads"},
    [IS_OFFICIAL] = {"official", "window=64,pool=5,kind=mean,order=sum",
                     "FasterDecoding/SnapKV e216ddc, defaults of the class, by query head"},
    [IS_LONGBENCH] = {"official-longbench", "window=32,pool=7,kind=max,order=sum",
                      "FasterDecoding/SnapKV e216ddc, LongBench settings, by query head"},
    [IS_KVPRESS] = {"kvpress", "window=64,pool=5,kind=mean,order=pool",
                    "NVIDIA/kvpress 8bb29b9"},
    [IS_KVCF] = {"kvcf", "window=8,pool=7,kind=max,order=sum",
                 "Zefan-Cai/KVCache-Factory c97f9d7, run scripts, by query head"},
    [IS_KVCF_KV] = {"kvcf-kv", "window=8,pool=7,kind=max,order=sum",
                    "Zefan-Cai/KVCache-Factory c97f9d7, run scripts, kv_head mode"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(snapkv, compat, IS_PAPER, compats, "published implementation to follow"),
    KVT_PARAM(snapkv, window, 32, 1, 4096, "tokens",
              "last prompt queries that vote, always kept"),
    KVT_PARAM(snapkv, pool, 7, 1, 255, "tokens",
              "width of the pool; an even one counts as the next odd one"),
    KVT_PARAM_CHOICE(snapkv, kind, KIND_MAX, kinds, "what the pool takes"),
    KVT_PARAM_CHOICE(snapkv, order, ORDER_SUM, orders, "what comes first, heads or pool"),
    {0},
};

static bool by_query_head(const snapkv *p)
{
    return p->compat == IS_OFFICIAL || p->compat == IS_LONGBENCH || p->compat == IS_KVCF;
}

static void vary(const void *params_, kvt_traits *traits)
{
    traits->by_query_head = by_query_head(params_);
}

static bool fits(const void *params_, int64_t budget, int64_t n_prompt, char *why, size_t cap)
{
    const snapkv *p = params_;
    return kvt_window_fits(p->window, budget, n_prompt, why, cap);
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const snapkv *p = params_;
    return kvt_min(p->window, n_prompt);
}

/* Sets of votes: one, or one for each query head of the lane. */
static int64_t n_vote(const snapkv *p, const kvt_sequence *seq)
{
    bool apart = p->order == ORDER_POOL && !by_query_head(p);
    return apart ? seq->geometry->n_head / seq->geometry->n_kv_head : 1;
}

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    (void)budget, (void)state_size;
    *slot_width = (int)n_vote(params_, seq);
}

static void step(const void *params_, kvt_lane *lane)
{
    int64_t n_set = n_vote(params_, lane->seq);
    float *vote = kvt_arena_array(lane->scratch, lane->n_slot, sizeof *vote);
    for (int64_t h = 0; h < n_set; h++) {
        kvt_view rows = lane->attn;
        if (n_set > 1) { /* this query head alone */
            rows.data = (const float *)rows.data + h * rows.stride[0];
            rows.dim[0] = 1;
        }
        if (vote) {
            memset(vote, 0, (size_t)lane->n_slot * sizeof *vote);
            kvt_add_rows(vote, &rows);
        }
        for (int64_t s = 0; s < lane->n_slot; s++) /* NaN, which is refused: no memory */
            lane->mark[s * n_set + h] = vote ? vote[s] : NAN;
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const snapkv *p = params_;
    int64_t n_set = n_vote(p, lane->seq);
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, p->window);
    float *vote = kvt_arena_array(lane->scratch, 2 * lane->n_slot, sizeof *vote);
    for (int64_t h = 0; vote && h < n_set; h++) {
        float *pooled = vote + n;
        for (int64_t s = 0; s < n; s++)
            vote[s] = lane->mark[s * n_set + h];
        if (p->kind == KIND_MAX)
            kvt_pool_max(pooled, vote, n, p->pool);
        else
            kvt_pool_mean(pooled, vote, n, p->pool);
        for (int64_t s = 0; s < n; s++)
            out[s] += pooled[s] / (float)n_set;
    }
    for (int64_t s = 0; !vote && s < n; s++)
        out[s] = NAN;
}

const kvt_policy kvt_policy_snapkv = {
    .abi = KVT_POLICY_ABI,
    .name = "snapkv",
    .title = "keep what the last prompt queries look at",
    .paper = "Li et al., SnapKV, 2024, arXiv:2404.14469",
    .about =
        "What the end of the prompt looks at, the response will look at, too. At the end of "
        "the prompt the last W queries vote: the attention that each earlier token gets from "
        "them is summed, and pooled over its neighbours, so that what stands beside a find "
        "stays with it. The best B - W tokens and the window itself stay; decoded tokens "
        "come on top. Nothing is trained.\n\n"
        "Published settings: W = 32 and max pool of 7 (LongBench runs), W = 64 and mean pool "
        "of 5 (class defaults), B of 1,024 to 4,096. The authors' code repeats keys and "
        "values first and keeps a set for each query head (compat=official).",
    .differs = "one set for each kv head instead of each query head; sums stay in f32",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(snapkv),
    .params = params,
    .vary = vary,
    .fits = fits,
    .window = window,
    .size = size,
    .step = step,
    .score = score,
};
