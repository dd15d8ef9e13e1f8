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
 * and the window itself is pinned. Votes of the window are not pooled (over=all: they are); the
 * mean counts what lies outside 0..n-1 as zero (edge=inside divides by what lies inside). With
 * order=pool each query head's votes are pooled by themselves and score is the mean of that
 * over H (compat=kvpress: and over Q, the same order), with order=max the largest vote of the
 * heads is pooled. `local` pins that many of the last tokens instead of all that vote (n
 * follows), `prefix` the first ones, too. Where the prompt is not longer than the window, the
 * latest tokens are kept.
 *
 * Differs: see `differs`. Cost for each lane, once: O(H window S) time, S floats (H S with
 * order=pool). */
#include "kvt/pieces.h"

typedef struct snapkv {
    int64_t window, pool, local, prefix;
    int kind, order, edge, over, compat;
} snapkv;

enum { ORDER_SUM, ORDER_POOL, ORDER_MAX };
enum { EDGE_ZERO, EDGE_INSIDE };
enum { OVER_FRONT, OVER_ALL };
enum {
    IS_PAPER,
    IS_OFFICIAL,
    IS_LONGBENCH,
    IS_INSTALLED,
    IS_KVPRESS,
    IS_KVCF,
    IS_KVCF_KV,
    IS_ADAKV,
    IS_FRONTIER,
    IS_COLD
};

static const kvt_choice orders[] = {
    [ORDER_SUM] = {"sum", "", "votes are summed over the query heads, then pooled"},
    [ORDER_POOL] = {"pool", "", "the votes of each query head are pooled, then averaged"},
    [ORDER_MAX] = {"max", "", "the largest vote of the query heads is taken, then pooled"},
};

static const kvt_choice edges[] = {
    [EDGE_ZERO] = {"zero", "", "what lies outside counts as 0"},
    [EDGE_INSIDE] = {"inside", "", "the mean of what lies inside"},
};

static const kvt_choice overs[] = {
    [OVER_FRONT] = {"front", "", "votes for what lies in front of the last tokens"},
    [OVER_ALL] = {"all", "", "all votes: near the last tokens theirs count, too"},
};

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "window=32,pool=7,kind=max,order=sum",
                  "FasterDecoding/SnapKV e216ddc, LongBench settings, reduced to kv heads"},
    [IS_OFFICIAL] = {"official", "window=64,pool=5,kind=mean,order=sum",
                     "FasterDecoding/SnapKV e216ddc, defaults of the class (those of "
                     "Zefan-Cai/KVCache-Factory's class, too), by query head"},
    [IS_LONGBENCH] = {"official-longbench", "window=32,pool=7,kind=max,order=sum",
                      "FasterDecoding/SnapKV e216ddc, LongBench settings, by query head"},
    [IS_INSTALLED] = {"official-installed", "window=32,pool=5,kind=mean,order=sum",
                      "FasterDecoding/SnapKV e216ddc, what its patch installs, by query head"},
    [IS_KVPRESS] = {"kvpress", "window=64,pool=5,kind=mean,order=pool",
                    "NVIDIA/kvpress 8bb29b9: mean pool of each query head, then their mean "
                    "(the order is without effect on a mean); means over rows, too, which "
                    "counts where it is a base"},
    [IS_KVCF] = {"kvcf", "window=8,pool=7,kind=max,order=sum",
                 "Zefan-Cai/KVCache-Factory c97f9d7, run scripts, by query head"},
    [IS_KVCF_KV] = {"kvcf-kv", "window=8,pool=7,kind=max,order=sum",
                    "Zefan-Cai/KVCache-Factory c97f9d7, run scripts, kv_head mode (mean; its "
                    "max is order=max)"},
    [IS_ADAKV] = {"adakv", "window=32,pool=7,kind=max,order=sum",
                  "FFY0/AdaKV efe4e2e, fixed budgets: means over rows and heads, which rank as "
                  "the sums of paper do (its max is order=max)"},
    [IS_FRONTIER] =
        {"sparse-frontier", "window=256,pool=7,kind=mean,order=sum,over=all,local=128,prefix=4",
         "PiotrNawrot/sparse-frontier, defaults of its class (its runs have pool=21): "
         "256 queries vote, of which the last 128 tokens are kept, and the first 4"},
    [IS_COLD] =
        {"cold-compress", "window=16,pool=5,kind=mean,order=sum,edge=inside,over=all",
         "AnswerDotAI/cold-compress 11db56e: 16 queries vote, the ends of the pool are not "
         "padded"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(snapkv, compats),
    KVT_PARAM_WINDOW(snapkv, 32),
    KVT_PARAM_POOL(snapkv, 7),
    KVT_PARAM_KIND(snapkv, KVT_POOL_MAX),
    KVT_PARAM_CHOICE(snapkv, order, ORDER_SUM, orders, "what comes first, heads or pool"),
    KVT_PARAM_CHOICE(snapkv, edge, EDGE_ZERO, edges, "what a mean pool divides by at the ends"),
    KVT_PARAM_CHOICE(snapkv, over, OVER_FRONT, overs, "which votes are pooled"),
    KVT_PARAM(snapkv, local, 0, 0, 4096, "tokens",
              "last tokens that are always kept; 0: all that vote"),
    KVT_PARAM(snapkv, prefix, 0, 0, 4096, "tokens", "first tokens that are always kept"),
    {0},
};

static bool by_query_head(const snapkv *p)
{
    return p->compat == IS_OFFICIAL || p->compat == IS_LONGBENCH || p->compat == IS_INSTALLED ||
           p->compat == IS_KVCF;
}

static void vary(const void *params_, kvt_traits *traits)
{
    traits->by_query_head = by_query_head(params_);
}

static bool fits(const void *params_, int64_t budget, int64_t n_prompt, char *why, size_t cap)
{
    const snapkv *p = params_;
    int64_t n = (p->local ? p->local : p->window) + p->prefix;
    return n_prompt <= p->window || kvt_window_fits(n, budget, n_prompt, why, cap);
}

/* Sets of votes: one, or one for each query head of the lane. */
static int64_t n_vote(const snapkv *p, const kvt_sequence *seq)
{
    return p->order == ORDER_POOL && !by_query_head(p) ? kvt_lane_heads(seq) : 1;
}

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    (void)budget, (void)state_size;
    *slot_width = (int)n_vote(params_, seq);
}

static void step(const void *params_, kvt_lane *lane)
{
    const snapkv *p = params_;
    bool head = p->order == ORDER_MAX && !by_query_head(p);
    kvt_vote(lane, n_vote(p, lane->seq), head ? KVT_VOTE_HEAD : KVT_VOTE_SUM);
}

/* Slots before those that are kept for being the last; 0: the latest are kept. */
static int64_t pin(const snapkv *p, float *out, bool *pinned, const kvt_lane *lane)
{
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, p->window);
    if (n == 0)
        return 0;
    if (p->local)
        n = kvt_max(lane->n_slot - p->local, 0);
    for (int64_t s = 0; s < lane->n_slot; s++)
        pinned[s] = s >= n || (p->prefix && lane->pos[s] < p->prefix);
    return n;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const snapkv *p = params_;
    int64_t n_set = n_vote(p, lane->seq), n = pin(p, out, pinned, lane), r = p->pool / 2;
    if (n > 0 && p->over == OVER_ALL) /* what is pinned is not ranked */
        n = lane->n_slot;
    kvt_pool_votes(out, lane, n, n_set, p->pool, p->kind,
                   n_set * (p->compat == IS_KVPRESS ? p->window : 1));
    bool inside = p->kind == KVT_POOL_AVG && p->edge == EDGE_INSIDE;
    for (int64_t s = 0; inside && s < n; s++)
        out[s] *= (float)(2 * r + 1) / (float)(kvt_min(s + r, n - 1) - kvt_max(s - r, 0) + 1);
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
        "stays with it. The best B - W tokens and the window itself stay; decoded tokens come "
        "on top. Nothing is trained.\n\n"
        "Published settings: W = 32 and max pool of 7 (LongBench runs), W = 64 and mean pool "
        "of 5 (class defaults), B of 1,024 to 4,096. The authors' code repeats keys and values "
        "first and keeps a set for each query head (compat=official). R-KV's baseline of that "
        "name takes the largest logit of the heads before a softmax over what lies in front of "
        "the window, which is R-KV without redundancy, not this.",
    .differs =
        "one set for each kv head instead of each query head, for which the authors repeat "
        "keys and values (compat=official); sums stay in f32",
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
    .window = kvt_window_rows,
    .size = size,
    .step = step,
    .score = score,
};
