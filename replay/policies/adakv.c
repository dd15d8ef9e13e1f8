/* adakv - what the last prompt queries look at, slots shared out over the heads of a layer.
 *
 *   Feng et al., "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for
 *   Efficient LLM Inference", 2024, arXiv:2407.11550.
 *
 * With A the attention of the last `window` queries, R heads in a group and n slots in front of
 * the last `recent` ones,
 *
 *   vote[s]  = mean over H, Q of A[H Q s]   (rows=max: their maximum)
 *   score[s] = maximum or mean of vote over the `pool` slots around s < n
 *
 * and the last `recent` slots and the first `sinks` are pinned. With order=pool each query
 * head's votes are pooled by themselves first. Votes of the window are not pooled, unless
 * recent is not window (sparse-frontier), where all are. What is its own is the allocator
 * `ada`: the best scores of all heads of a layer say how many slots each head gets, beside a
 * floor of alpha of the budget.
 *
 * Differs: see `differs`. Cost for each lane, once: O(H window S) time, S floats (H S with
 * order=pool). */
#include "kvt/pieces.h"
#include "kvt/share.h"

#include <stdio.h>

typedef struct adakv {
    int64_t window, pool, recent, sinks;
    int kind, rows, order, compat;
} adakv;

enum { ROWS_MEAN, ROWS_MAX };
enum { ORDER_MEAN, ORDER_POOL };
enum { IS_PAPER, IS_OFFICIAL, IS_KVPRESS, IS_KVCF, IS_FRONTIER };

static const kvt_choice row_kinds[] = {
    [ROWS_MEAN] = {"mean", "", "mean over rows and query heads"},
    [ROWS_MAX] = {"max", "", "maximum over rows and query heads"},
};

static const kvt_choice orders[] = {
    [ORDER_MEAN] = {"mean", "", "votes of the query heads are averaged, then pooled"},
    [ORDER_POOL] = {"pool", "", "the votes of each query head are pooled, then averaged"},
};

#define VOTES(w, p, k, o) "window=" w ",pool=" p ",kind=" k ",order=" o
static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", VOTES("32", "7", "max", "mean") ",rows=mean,recent=0,sinks=0",
                  "settings of FFY0/AdaKV, alpha 0.2, exact total"},
    [IS_OFFICIAL] =
        {"official", VOTES("32", "7", "max", "mean") ",rows=mean,recent=0,sinks=0",
         "FFY0/AdaKV 0ae8e19, one set for each kv head: alpha 0.5, rounding that drifts"},
    [IS_KVPRESS] = {"kvpress", VOTES("64", "5", "mean", "pool") ",rows=mean,recent=0,sinks=0",
                    "NVIDIA/kvpress 8bb29b9, AdaKVPress around SnapKVPress"},
    [IS_KVCF] = {"kvcf", VOTES("8", "7", "max", "mean") ",rows=mean,recent=0,sinks=0",
                 "Zefan-Cai/KVCache-Factory c97f9d7, run scripts: by query head, normalised"},
    [IS_FRONTIER] =
        {"sparse-frontier", VOTES("256", "21", "mean", "mean") ",rows=max,recent=128,sinks=4",
         "PiotrNawrot/sparse-frontier: maximum over rows and heads, 128 + 4 pinned"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(adakv, compats),
    KVT_PARAM(adakv, window, 32, 1, 4096, "tokens", "last prompt queries that vote"),
    KVT_PARAM_POOL(adakv, 7),
    KVT_PARAM_KIND(adakv, KVT_POOL_MAX),
    KVT_PARAM_CHOICE(adakv, rows, ROWS_MEAN, row_kinds, "what a token gets of rows and heads"),
    KVT_PARAM_CHOICE(adakv, order, ORDER_MEAN, orders, "what comes first, heads or pool"),
    KVT_PARAM(adakv, recent, 0, 0, 4096, "tokens",
              "last tokens that are always kept; 0: the window"),
    KVT_PARAM(adakv, sinks, 0, 0, 4096, "tokens", "first tokens that are always kept"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const adakv *p = params_;
    traits->by_query_head = p->compat == IS_KVCF;
}

static int64_t recent(const adakv *p)
{
    return p->recent > 0 ? p->recent : p->window;
}

static bool fits(const void *params_, int64_t budget, int64_t n_prompt, char *why, size_t cap)
{
    const adakv *p = params_;
    if (p->sinks > 0)
        return kvt_ends_fit(p->sinks, recent(p), budget, n_prompt, why, cap);
    return kvt_window_fits(recent(p), budget, n_prompt, why, cap);
}

static void share_params(const void *params_, char *out, size_t cap)
{
    const adakv *p = params_;
    static const char *const rule[] = {"exact", "official", "kvpress", "kvcf", "kvpress"};
    snprintf(out, cap, "rule=%s", rule[p->compat]);
}

/* Sets of votes: one, or one for each query head of the lane. */
static int64_t n_vote(const adakv *p, const kvt_sequence *seq)
{
    return p->order == ORDER_POOL && p->compat != IS_KVCF ? kvt_lane_heads(seq) : 1;
}

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    (void)budget, (void)state_size;
    *slot_width = (int)n_vote(params_, seq);
}

static void step(const void *params_, kvt_lane *lane)
{
    const adakv *p = params_;
    kvt_vote(lane, n_vote(p, lane->seq), p->rows == ROWS_MAX ? KVT_VOTE_MAX : KVT_VOTE_MEAN);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const adakv *p = params_;
    int64_t n_set = n_vote(p, lane->seq), all = lane->n_slot;
    int64_t n = kvt_pin_window(out, pinned, all, recent(p));
    for (int64_t s = 0; n > 0 && s < kvt_min(p->sinks, all); s++)
        pinned[s] = true;
    if (n > 0 && recent(p) != p->window)
        n = all; /* the pool sees what is pinned, too */
    kvt_pool_votes(out, lane, n, n_set, p->pool, p->kind, n_set);
}

const kvt_policy kvt_policy_adakv = {
    .abi = KVT_POLICY_ABI,
    .name = "adakv",
    .title = "what the last prompt queries look at, slots shared over heads",
    .paper = "Feng et al., Ada-KV, 2024, arXiv:2407.11550",
    .about =
        "Some heads look at few tokens, others at many: under one budget for each head the "
        "former hold tokens that nobody looks at. Ranking and window are SnapKV's; what is new "
        "is the allocator ada. The scores of all heads of a layer are ranked together, and "
        "each head gets as many slots as it has among the best, beside a floor of alpha of its "
        "budget. That bounds the loss of attention output from above better than an even "
        "share. It decides once, at the end of the prompt; nothing is trained.\n\n"
        "Published settings: W = 32, max pool of 7, alpha 0.2 (paper) or 0.5 (code), B of 128 "
        "to 1,024. Any other ranking may be combined with it: keydiff/ada.",
    .differs =
        "each layer adds up to the budget exactly, where the authors' rounding drifts "
        "(compat=official); sums stay in f32; no layer is left out. sparse-frontier's votes "
        "are pooled over all tokens, and its floor counts what is pinned",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(adakv),
    .params = params,
    .share = &kvt_share_ada,
    .share_params = share_params,
    .vary = vary,
    .fits = fits,
    .window = kvt_window_rows,
    .size = size,
    .step = step,
    .score = score,
};
