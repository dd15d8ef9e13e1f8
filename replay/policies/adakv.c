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

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct adakv {
    int64_t window, pool, recent, sinks;
    int kind, rows, order, compat;
} adakv;

enum { ROWS_MEAN, ROWS_MAX };
enum { ORDER_MEAN, ORDER_POOL };
enum { IS_PAPER, IS_OFFICIAL, IS_KVPRESS, IS_KVCF, IS_FRONTIER };

static const kvt_choice kinds[] = {
    [KVT_POOL_MAX] = {"max", "", "the largest vote nearby"},
    [KVT_POOL_AVG] = {"mean", "", "the mean vote nearby"},
};

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
    KVT_PARAM_CHOICE(adakv, compat, IS_PAPER, compats, "published implementation to follow"),
    KVT_PARAM(adakv, window, 32, 1, 4096, "tokens", "last prompt queries that vote"),
    KVT_PARAM(adakv, pool, 7, 1, 255, "tokens",
              "width of the pool; an even one counts as the next odd one"),
    KVT_PARAM_CHOICE(adakv, kind, KVT_POOL_MAX, kinds, "what the pool takes"),
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
    int64_t need = recent(p) + p->sinks;
    if (p->sinks == 0)
        return kvt_window_fits(need, budget, n_prompt, why, cap);
    if (budget >= n_prompt || budget >= need)
        return true;
    snprintf(why, cap,
             "%lld sinks and %lld last tokens need a budget of %lld or more, got %lld",
             (long long)p->sinks, (long long)recent(p), (long long)need, (long long)budget);
    return false;
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const adakv *p = params_;
    return kvt_min(p->window, n_prompt);
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
    bool apart = p->order == ORDER_POOL && p->compat != IS_KVCF;
    return apart ? seq->geometry->n_head / seq->geometry->n_kv_head : 1;
}

static void size(const void *params_, const kvt_sequence *seq, int64_t budget, int *slot_width,
                 size_t *state_size)
{
    (void)budget, (void)state_size;
    *slot_width = (int)n_vote(params_, seq);
}

/* vote[s] of some heads' rows, in doubles rounded once. */
static void count_votes(float *vote, const kvt_view *rows, int kind)
{
    int64_t n = rows->dim[2], n_row = rows->dim[0] * rows->dim[1];
    memset(vote, 0, (size_t)n * sizeof *vote);
    if (kind == ROWS_MEAN)
        kvt_add_rows(vote, rows);
    for (int64_t i = 0; i < n_row && kind == ROWS_MAX; i++) {
        const float *row = (const float *)rows->data + i / rows->dim[1] * rows->stride[0] +
                           i % rows->dim[1] * rows->stride[1];
        for (int64_t s = 0; s < n; s++)
            vote[s] = row[s] > vote[s] ? row[s] : vote[s];
    }
    for (int64_t s = 0; s < n && kind == ROWS_MEAN; s++)
        vote[s] /= (float)n_row;
}

static void step(const void *params_, kvt_lane *lane)
{
    const adakv *p = params_;
    int64_t n_set = n_vote(p, lane->seq);
    float *vote = kvt_arena_array(lane->scratch, lane->n_slot, sizeof *vote);
    for (int64_t h = 0; h < n_set; h++) {
        kvt_view rows = lane->attn;
        if (n_set > 1) { /* this query head alone */
            rows.data = (const float *)rows.data + h * rows.stride[0];
            rows.dim[0] = 1;
        }
        if (vote)
            count_votes(vote, &rows, p->rows);
        for (int64_t s = 0; s < lane->n_slot; s++) /* NaN, which is refused: no memory */
            lane->mark[s * n_set + h] = vote ? vote[s] : NAN;
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const adakv *p = params_;
    int64_t n_set = n_vote(p, lane->seq), all = lane->n_slot;
    int64_t n = kvt_pin_window(out, pinned, all, recent(p));
    if (n > 0 && recent(p) != p->window)
        n = all; /* the pool sees what is pinned, too */
    float *vote = kvt_arena_array(lane->scratch, 2 * all, sizeof *vote);
    for (int64_t h = 0; vote && h < n_set; h++) {
        for (int64_t s = 0; s < n; s++)
            vote[s] = lane->mark[s * n_set + h];
        kvt_pool(vote + all, vote, n, p->pool, p->kind);
        for (int64_t s = 0; s < n; s++)
            out[s] += vote[all + s] / (float)n_set;
    }
    for (int64_t s = 0; !vote && s < n; s++)
        out[s] = NAN;
    for (int64_t s = 0; n > 0 && s < kvt_min(p->sinks, all); s++)
        pinned[s] = true;
}

const kvt_policy kvt_policy_adakv = {
    .abi = KVT_POLICY_ABI,
    .name = "adakv",
    .title = "what the last prompt queries look at, slots shared over heads",
    .paper = "Feng et al., Ada-KV, 2024, arXiv:2407.11550",
    .about =
        "Some heads look at few tokens, others at many: under one budget for each head the "
        "former hold tokens that nobody looks at. Ranking and window are SnapKV's; what is "
        "new is the allocator ada. The scores of all heads of a layer are ranked together, "
        "and each head gets as many slots as it has among the best, beside a floor of alpha "
        "of its budget. That bounds the loss of attention output from above better than an "
        "even share. It decides once, at the end of the prompt; nothing is trained.\n\n"
        "Published settings: W = 32, max pool of 7, alpha 0.2 (paper) or 0.5 (code), B of "
        "128 to 1,024. Any other ranking may be combined with it: keydiff/ada.",
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
    .window = window,
    .size = size,
    .step = step,
    .score = score,
};
