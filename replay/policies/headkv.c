/* headkv - what the last prompt queries look at, more slots for heads that retrieve.
 *
 *   Fu et al., "Not All Heads Matter: A Head-Level KV Cache Compression Method with Integrated
 *   Retrieval and Reasoning" (HeadKV), 2024, arXiv:2410.19258.
 *
 * Ranking and window are SnapKV's: with A the attention of the last `window` queries and n
 * slots in front of that window,
 *
 *   score[s] = maximum or mean over the `pool` slots around s < n of the sum over H, Q of A
 *
 * and the window is pinned. With I the importance of each kv head (tensor score LG of a file
 * that kvt train headkv writes), B the budget, C = B - window, beta = `split` and n lanes
 *
 *   imp_i = (I_i / sum of I)^temp / sum of these
 *   c     = floor(C / beta)                  slots of each lane that go into the pool
 *   n_i   = window + (C - c) + imp_i n c     the pool by importance, beside a floor
 *
 * in whole slots that add up to n B (largest remainders); what a lane cannot use, since it
 * holds fewer slots, goes to the others in proportion. official rounds each n_i half to even,
 * kvcf takes B for C: both may exceed the total.
 *
 * Cost for each lane, once: O(H window S) time, S floats. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct headkv {
    int64_t window, pool;
    double split, temp;
    int kind, compat;
} headkv;

enum { IS_PAPER, IS_OFFICIAL, IS_KVCF, IS_KVCF_KV };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "window=32,pool=7,kind=max",
                  "settings of FYYFU/HeadKV, reduced to kv heads, exact total"},
    [IS_OFFICIAL] = {"official", "window=32,pool=7,kind=max",
                     "FYYFU/HeadKV 3ec9653: by query head, each count rounded by itself"},
    [IS_KVCF] = {"kvcf", "window=8,pool=7,kind=max",
                 "Zefan-Cai/KVCache-Factory c97f9d7: by query head, shares out B beside the "
                 "window: more than the budget"},
    [IS_KVCF_KV] = {"kvcf-kv", "window=8,pool=7,kind=max", "the same, kv_head mode"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(headkv, compats),
    KVT_PARAM_WINDOW(headkv, 32),
    KVT_PARAM_POOL(headkv, 7),
    KVT_PARAM_KIND(headkv, KVT_POOL_MAX),
    KVT_PARAM(headkv, split, 1.01, 1, 1e6, "",
              "beta: a 1/beta of each head's slots is shared out by importance"),
    KVT_PARAM(headkv, temp, 1, 0, 100, "", "power of the importance: above 1 sharper"),
    {0},
};

static const kvt_weight weights[] = {{"score", "LG", "importance of each kv head, 0 or more"},
                                     {0}};

static void vary(const void *params_, kvt_traits *traits)
{
    const headkv *p = params_;
    traits->by_query_head = p->compat == IS_OFFICIAL || p->compat == IS_KVCF;
    traits->may_exceed = p->compat != IS_PAPER;
}

static void step(const void *params_, kvt_lane *lane)
{
    (void)params_;
    kvt_add_rows(lane->mark, &lane->attn);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const headkv *p = params_;
    int64_t n = kvt_pin_window(out, pinned, lane->n_slot, p->window);
    if (n > 0)
        kvt_pool(out, lane->mark, n, p->pool, p->kind);
}

/* imp [n], which adds up to 1; even where every importance is 0. */
static void importance(double *imp, const headkv *p, const kvt_lane *lane, int n_lane)
{
    double sum = 0, again = 0;
    for (int i = 0; i < n_lane; i++)
        sum += (double)*(const float *)lane[i].weights[0].data;
    for (int i = 0; i < n_lane; i++) {
        double one = (double)*(const float *)lane[i].weights[0].data;
        imp[i] = sum > 0 ? pow(one / sum, p->temp) : 1;
        again += imp[i];
    }
    for (int i = 0; i < n_lane; i++)
        imp[i] /= again;
}

static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    const headkv *p = params_;
    bool beside = p->compat == IS_KVCF || p->compat == IS_KVCF_KV;
    kvt_shares_out s;
    int64_t *count;
    double *part;
    if (!kvt_share_open(&s, &count, &part, keep, lane, n_lane, scores, pinned, budget))
        return;
    importance(part, p, lane, n_lane);
    for (int i = 0; i < n_lane; i++) {
        int64_t B = s.total / n_lane, C = beside ? B : B - s.n_pinned[i];
        double c = floor((double)C / p->split);
        s.want[i] = (double)(s.n_pinned[i] + C) - c;
        part[i] *= c * n_lane;
        double n = nearbyint(s.want[i] + part[i]);
        count[i] = kvt_min(kvt_max((int64_t)n, s.least[i]), s.most[i]);
    }
    if (p->compat == IS_PAPER) {
        kvt_share_fill(&s, part);
        kvt_share_round(count, &s);
    }
    kvt_keep_counts(keep, lane, n_lane, scores, pinned, count);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->cuts_at_once = true; /* importance is a table */
}

const kvt_policy kvt_policy_headkv = {
    .abi = KVT_POLICY_ABI,
    .name = "headkv",
    .title = "what the last prompt queries look at, more slots for heads that retrieve",
    .paper = "Fu et al., HeadKV, 2024, arXiv:2410.19258",
    .about =
        "Few heads find what a question asks for. How much each does is measured once for a "
        "model, on prompts whose answer is planted (and, in HeadKV-R2, must be reasoned "
        "about), and read from a file. Each head gets a floor; the rest of all budgets is one "
        "pool that importance shares out over the heads of all layers. Ranking and window are "
        "SnapKV's; it decides once, at the end of the prompt.\n\n"
        "Published settings: W = 32, max pool of 7, beta of 1.005 to 10, budgets of 64 to "
        "1,024. kvt train headkv measures importance on traces.",
    .differs =
        "one set and one importance for each kv head instead of each query head; the counts "
        "add up to the budget exactly, where the authors' rounding drifts (compat=official); "
        "importance is shared out over the layers that the trace holds",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN | KVT_NEED_WEIGHTS,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true,
               .may_exceed = true},
    .slot_width = 1,
    .params_size = sizeof(headkv),
    .params = params,
    .weights = weights,
    .vary = vary,
    .fits = kvt_window_held,
    .window = kvt_window_rows,
    .step = step,
    .score = score,
    .select = choose,
    .work = work,
};
