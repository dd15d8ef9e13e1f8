/* kvp-supervised - rank the prompt by a network on key, value and position.
 *
 *   Moschella et al., "Learning to Evict from Key-Value Cache", 2026, arXiv:2602.10238.
 *
 * At the end of a prompt of N tokens, for each lane,
 *
 *   score_t = a . SiLU(W [k_t ; v_t ; log2(1 + N - 1 - t)] + b) + b'
 *
 * ranks the tokens once for every budget; the first `sinks` and the last `recent` are kept.
 *
 * Not specified in what is public, and chosen here: the key after RoPE, the form of the
 * position (log2 of the distance to the end), the activation, one network for each lane.
 *
 * Differs: the paper trains a ranking by REINFORCE with the future attention of what is
 * evicted as cost; here it is supervised (pairs that straddle a random budget, by the same
 * future sums), hence the name. Cost for each lane: O(K D) a token, once; one float a slot. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>

typedef struct kvp {
    int64_t sinks, recent;
} kvp;

enum { TILE = 256 };

static const kvt_param params[] = {
    KVT_PARAM(kvp, sinks, 4, 0, 65536, "tokens", "first tokens that are always kept"),
    KVT_PARAM(kvp, recent, 16, 0, 65536, "tokens", "last tokens that are always kept"),
    {0},
};

static const kvt_weight weights[] = {
    {"in/weight", "LGKW", "hidden layer, of [k; v; log2(1 + distance to the end)]"},
    {"in/bias", "LGK", "its bias"},
    {"out/weight", "LGK", "read-out"},
    {"out/bias", "LG", "its bias"},
    {0},
};

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const kvp *p = params_;
    int64_t need = p->sinks + p->recent;
    if (budget >= n_token || budget >= need)
        return true;
    snprintf(why, cap,
             "%lld first and %lld last tokens need a budget of %lld or more, got %lld",
             (long long)p->sinks, (long long)p->recent, (long long)need, (long long)budget);
    return false;
}

/* The inputs of n slots, one distance behind each [k; v]. */
static void add_distance(float *x, const float *kv, const kvt_lane *lane, int64_t from,
                         int64_t n)
{
    int64_t width = 2 * lane->keys.dim[1];
    for (int64_t i = 0; i < n; i++, kv += width) {
        for (int64_t d = 0; d < width; d++)
            *x++ = kv[d];
        *x++ = (float)log2((double)(1 + lane->now - lane->pos[from + i]));
    }
}

/* Once, with the prompt. */
static void step(const void *params_, kvt_lane *lane)
{
    int64_t width = 2 * lane->keys.dim[1];
    float *kv = kvt_arena_array(lane->scratch, TILE * width, sizeof *kv);
    float *x = kvt_arena_array(lane->scratch, TILE * (width + 1), sizeof *x);
    (void)params_;
    if (lane->now >= lane->seq->n_prompt)
        return; /* it ranks the prompt only */
    for (int64_t at = 0; at < lane->n_slot; at += TILE) {
        int64_t n = kvt_min(TILE, lane->n_slot - at);
        if (kv && x) {
            kvt_key_value(kv, lane, at, n);
            add_distance(x, kv, lane, at, n);
            kvt_network(lane->mark + at, x, n, lane->weights, kvt_silu, lane->scratch);
        }
        if (!kv || !x)
            kvt_no_score(lane->mark + at, n);
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const kvp *p = params_;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = lane->mark[s];
        pinned[s] = lane->pos[s] < p->sinks || lane->now - lane->pos[s] < p->recent;
    }
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    const double K = 256; /* as published */
    double n_in = 2 * (double)work->head_dim + 1;
    work->network_params = (n_in + 2) * K + 1;
}

const kvt_policy kvt_policy_kvp_supervised = {
    .abi = KVT_POLICY_ABI,
    .name = "kvp-supervised",
    .title = "rank the prompt by a network on key, value and position",
    .paper = "Moschella et al., Learning to Evict (KVP), ICML 2026, arXiv:2602.10238",
    .about =
        "A ranking of the prompt's tokens by a network for each lane, on key, value and "
        "position alone: no attention is read, and one ranking serves every budget. The "
        "first 4 and the last 16 tokens are kept.\n\n"
        "The paper trains it by reinforcement on recorded queries, keys and values, without "
        "running the model: rankings are sampled (Plackett-Luce), the cost at each budget is "
        "the future attention of what falls below it (REINFORCE with a leave-one-out "
        "baseline; AdamW 5e-5 to 1e-6, 4,000 steps, two layers of 256 units, about 10,500 "
        "traces). What it needs is exactly what a trace of kvt holds.",
    .differs =
        "trained on pairs that straddle a drawn budget, by the same future attention, "
        "instead of by reinforcement: hence the name. Not specified there and chosen here: "
        "the key after RoPE, log2(1 + distance to the end) as position, SiLU, one network "
        "for each lane",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_WEIGHTS,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(kvp),
    .params = params,
    .weights = weights,
    .fits = fits,
    .step = step,
    .score = score,
    .work = work,
};
