/* simlayerkv - layers that look at sinks and the newest tokens only keep no others.
 *
 *   Zhang et al., "SimLayerKV: A Simple Framework for Layer-Level KV Cache Reduction", 2024,
 *   arXiv:2410.13846.
 *
 * With A the attention of the last prompt query on the N - 1 tokens before it, mean over the
 * query heads of a layer, S sinks, B the budget, R = floor(recent B) and n lanes of N slots,
 *
 *   lazy(l) = sum of A_l over the first S and the last R of these tokens, each counted once
 *
 * Layers become lazy by falling lazy(l), of equal ones the higher layer first, until the lazy
 * lanes can hold S + R slots each and all others N within n B. What is then left of n B goes to
 * the lazy lanes evenly (the first one more): a lazy lane holds its first S slots and the last
 * ones.
 *
 * With `lazy` above 0 those layers are lazy whose lazy(l) is above it, and hold S + R slots, R
 * = `window`; how much is kept is an outcome then: it may exceed the budget. compat=official
 * takes the first response row, which sees its own token, too; kvpress holds one slot fewer.
 *
 * Cost for each lane, once: O(H S). */
#include "kvt/pieces.h"

#include <stdio.h>

typedef struct simlayerkv {
    double recent, lazy;
    int64_t sinks, window;
    int compat;
} simlayerkv;

enum { IS_PAPER, IS_KVPRESS, IS_OFFICIAL };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "sinks=4,window=0,lazy=0,recent=0.5",
                  "as many lazy layers as the budget needs"},
    [IS_KVPRESS] = {"kvpress", "sinks=4,window=1024,lazy=0.9",
                    "NVIDIA/kvpress 8bb29b9: last prompt row, 4 + 1,023 stay, threshold of "
                    "Llama-3; Llama-2 0.65, Mistral 0.8, Qwen 0.85"},
    [IS_OFFICIAL] =
        {"official", "sinks=4,window=1024,lazy=0.9",
         "sail-sg/SimLayerKV 1fb6bda, check while decoding: the first response row, "
         "4 + 1,024 stay"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(simlayerkv, compats),
    KVT_PARAM(simlayerkv, sinks, 4, 0, 4096, "tokens", "first tokens that a lazy layer keeps"),
    KVT_PARAM(simlayerkv, recent, 0.5, 0, 1, "frac",
              "share of the budget for the last tokens of a lazy layer"),
    KVT_PARAM(simlayerkv, window, 0, 0, 1048576, "tokens",
              "last tokens of a lazy layer; 0: recent decides"),
    KVT_PARAM(simlayerkv, lazy, 0, 0, 1, "mass",
              "attention above which a layer is lazy; 0: as many as the budget needs"),
    {0},
};

static bool decides_itself(const simlayerkv *p)
{
    return p->lazy > 0;
}

/* Reads the first row of the response, whose marks score() leaves: of one ranking only. */
static bool by_response(const simlayerkv *p)
{
    return p->compat == IS_OFFICIAL && decides_itself(p);
}

static void vary(const void *params_, kvt_traits *traits)
{
    const simlayerkv *p = params_;
    traits->may_exceed = decides_itself(p);
    traits->one_ranking = decides_itself(p); /* else R, and who is lazy, follow the budget */
    traits->needs = by_response(p) ? KVT_NEED_FUTURE : KVT_NEED_ATTN;
}

/* Last tokens of a lazy layer. */
static int64_t newest(const simlayerkv *p, int64_t budget)
{
    if (p->window > 0)
        return p->window - (p->compat == IS_KVPRESS);
    return kvt_share_floor(p->recent, budget);
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const simlayerkv *p = params_;
    int64_t R = newest(p, budget), hold = p->sinks + R, spare = p->compat == IS_KVPRESS ? 2 : 0;
    if (budget >= n_token)
        return true;
    if (hold < 1)
        snprintf(why, cap, "a lazy layer keeps no token: sinks=0 and %g of a budget of %lld",
                 p->recent, (long long)budget);
    else if (!decides_itself(p))
        return kvt_ends_fit(p->sinks, R, budget, n_token, why, cap);
    else if (hold + spare >= n_token) /* sinks, window and its row there */
        snprintf(why, cap, "not engaged: a lazy layer keeps %lld tokens, the prompt has %lld",
                 (long long)hold, (long long)n_token);
    else
        return true;
    return false;
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    const simlayerkv *p = params_;
    return by_response(p) ? 0 : kvt_min(1, n_prompt);
}

static void step(const void *params_, kvt_lane *lane)
{
    const simlayerkv *p = params_;
    if (!by_response(p))
        kvt_add_rows(lane->mark, &lane->attn);
}

/* The newest first, behind the sinks; the row that the layers' rule needs stays in marks. */
static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const simlayerkv *p = params_;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = (float)(s - lane->n_slot); /* minus the age: it only ranks */
        pinned[s] = lane->pos[s] < p->sinks && !decides_itself(p);
    }
    if (!by_response(p))
        return;
    kvt_view row = lane->future; /* of the first response query */
    row.dim[1] = kvt_min(row.dim[1], 1);
    kvt_add_rows(lane->mark, &row);
}

/* The row's attention, sum over the lane's heads, on the first S and the last R of the tokens
 * before it; of the first response row its own token, which has the rest, is the last one. */
static double lazy_mass(const simlayerkv *p, const kvt_lane *lane, int64_t R)
{
    bool official = by_response(p);
    int64_t n = lane->n_slot - !official, last = R - official;
    double seen = 0, mass = 0;
    for (int64_t s = 0; s < n; s++)
        seen += (double)lane->mark[s];
    if (official)
        mass = (double)kvt_lane_heads(lane->seq) - seen;
    for (int64_t s = 0; s < n; s++)
        mass += s < p->sinks || s >= n - last ? (double)lane->mark[s] : 0;
    return mass;
}

/* A layer of the decision: lanes from..to, its laziness. */
typedef struct layer {
    int from, to;
    double lazy;
    bool is_lazy;
} layer;

static int find_layers(const simlayerkv *p, layer *l, const kvt_lane *lane, int n_lane,
                       int64_t R)
{
    int n = 0;
    for (int i = 0; i < n_lane; i = l[n++].to) {
        l[n] = (layer){.from = i, .to = i + kvt_layer_lanes(lane + i, n_lane - i)};
        for (int k = i; k < l[n].to; k++)
            l[n].lazy += lazy_mass(p, &lane[k], R);
        l[n].lazy /= (double)lane->seq->geometry->n_head;
    }
    return n;
}

/* Makes layers lazy until the total holds them, those that are so hold `hold` slots a lane. */
static void choose_lazy(layer *l, int n, int64_t n_slot, int64_t hold, int64_t total)
{
    for (int i = 0; i < n; i++)
        total -= (l[i].to - l[i].from) * n_slot;
    while (total < 0) {
        int best = -1;
        for (int i = n - 1; i >= 0; i--)
            if (!l[i].is_lazy && (best < 0 || l[i].lazy > l[best].lazy))
                best = i;
        if (best < 0)
            break;
        l[best].is_lazy = true;
        total += (l[best].to - l[best].from) * (n_slot - hold);
    }
}

static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    const simlayerkv *p = params_;
    layer *l = kvt_arena_array(lane->scratch, n_lane, sizeof *l);
    int32_t *cut = kvt_arena_array(lane->scratch, n_lane, sizeof *cut);
    int64_t total = 0;
    int n_cut = 0;
    (void)scores, (void)pinned;
    if (!l || !cut)
        return; /* nothing kept: refused */
    for (int i = 0; i < n_lane; i++)
        total += budget[i];
    int64_t R = newest(p, total / n_lane), hold = p->sinks + R;
    int n = find_layers(p, l, lane, n_lane, p->window > 0 ? p->window : R);
    for (int i = 0; i < n; i++)
        l[i].is_lazy = decides_itself(p) && l[i].lazy > p->lazy;
    if (!decides_itself(p))
        choose_lazy(l, n, lane->n_slot, hold, total);
    for (int i = 0; i < n; i++)
        for (int k = l[i].from; l[i].is_lazy && k < l[i].to; k++)
            cut[n_cut++] = k;
    kvt_keep_ends(keep, lane, n_lane, cut, n_cut, p->sinks, decides_itself(p) ? hold : 0,
                  total);
}

static void work(const void *params_, kvt_work *work)
{
    const simlayerkv *p = params_;
    work->cuts_at_once = decides_itself(p) && !by_response(p);
    work->even_lanes = true;
}

const kvt_policy kvt_policy_simlayerkv = {
    .abi = KVT_POLICY_ABI,
    .name = "simlayerkv",
    .title = "layers that look at sinks and the newest only keep no others",
    .paper = "Zhang et al., SimLayerKV, 2024, arXiv:2410.13846",
    .about =
        "Some layers are lazy: their attention goes to the first tokens and the newest, "
        "whatever lies between. These layers keep just that, all others keep everything. Which "
        "are lazy is seen at the last row of the prompt (or the first of the response): a "
        "layer whose attention on sinks and newest tokens is above a threshold. Nothing is "
        "trained.\n\n"
        "Published settings: 4 sinks and 1,024 newest tokens, thresholds of 0.65 to 0.9 for "
        "each model; how much is kept is an outcome, not an input. compat=kvpress and official "
        "do that: the audit shows what they kept, and a prompt that a lazy layer would keep "
        "whole is skipped as not engaged.",
    .differs =
        "the laziest layers are lazy, as many as the budget needs; lazy layers hold 4 sinks "
        "and half of the budget in newest tokens, since 1,024 exceed short prompts, and share "
        "what is left of the total; no slot counts twice where the two ranges meet; official "
        "decides at the end of the prompt, from the row that its code reads one step later",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_ATTN | KVT_NEED_FUTURE,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT,
               .one_ranking = true,
               .may_exceed = true},
    .slot_width = 1,
    .params_size = sizeof(simlayerkv),
    .params = params,
    .vary = vary,
    .fits = fits,
    .window = window,
    .step = step,
    .score = score,
    .select = choose,
    .work = work,
};
