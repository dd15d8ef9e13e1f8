/* lagkv - keep what stands out from the partition behind it.
 *
 *   Liang et al., "LagKV: Lag-Relative Information of the KV Cache Tells Which Tokens Are
 *   Important", 2025, arXiv:2504.04704.
 *
 * Behind the first `sinks` tokens the prompt is cut into partitions of L tokens. In each but
 * the last, with the least and the largest of every channel in the partition behind it,
 *
 *   u[s, c]  = (k[s, c] - least[c]) / (largest[c] - least[c])      0 where they are equal
 *   score[s] = softmax over the partition of deviation over c of u[s]    (n - 1; keys)
 *              + value times the same of values
 *
 * and each partition keeps as many of its best as the others: B - sinks - tail over their
 * number, what is left over goes to the best of the next rank. The sinks, the last whole
 * partition and the tokens behind it (tail) are pinned.
 *
 * Differs: see `differs`. Cost for each lane and budget: O(S D + S log L). */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct lagkv {
    int64_t sinks, lag;
    double most, value;
    int compat;
} lagkv;

enum { IS_PAPER, IS_OFFICIAL, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "sinks=16,lag=1024,most=0.25,value=1",
                  "the published rule, scaled to the budget"},
    [IS_OFFICIAL] = {"official", "sinks=16,lag=1024,most=0,value=1",
                     "AI-Lab-China-Merchants-Bank/LagKV 2a9d19e: partitions of 1,024 behind 16 "
                     "sinks whatever the budget, refused where it would not act"},
    [IS_KVPRESS] =
        {"kvpress", "sinks=4,lag=128,most=0,value=1",
         "NVIDIA/kvpress 8bb29b9 LagKVPress: the rank in the partition is the score "
         "(left-over slots go to the lowest positions); below 260 tokens sinks and the "
         "latest"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(lagkv, compats),
    KVT_PARAM(lagkv, sinks, 16, 0, 65536, "tokens", "first tokens that are always kept"),
    KVT_PARAM(lagkv, lag, 1024, 1, 65536, "tokens", "tokens of a partition"),
    KVT_PARAM(lagkv, most, 0.25, 0, 1, "frac",
              "largest share of the budget that a partition is, sinks half of that; 0: any"),
    KVT_PARAM(lagkv, value, 1, 0, 1000, "1", "weight of the values"),
    {0},
};

/* How a lane of n tokens is cut. */
typedef struct cuts {
    int64_t sinks, lag, part; /* partitions that are compressed; 0: it does not act */
} cuts;

static cuts cut(const lagkv *p, int64_t budget, int64_t n)
{
    cuts c = {p->sinks, p->lag, 0};
    if (p->most > 0) {
        c.lag = kvt_max(kvt_min(c.lag, kvt_share_floor(p->most, budget)), 1);
        c.sinks = kvt_min(c.sinks, kvt_share_floor(p->most / 2, budget));
    }
    if (n >= c.sinks + 2 * c.lag)
        c.part = (n - c.sinks) / c.lag - 1;
    return c;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const lagkv *p = params_;
    cuts c = cut(p, budget, n_token);
    int64_t need = n_token - c.part * c.lag;
    if (budget >= n_token || (c.part == 0 && p->compat == IS_KVPRESS))
        return true;
    if (c.part == 0)
        snprintf(why, cap, "partitions of %lld act on %lld tokens or more, got %lld",
                 (long long)c.lag, (long long)(c.sinks + 2 * c.lag), (long long)n_token);
    else if (budget < need)
        snprintf(why, cap, "sinks and last partition are %lld tokens, got a budget of %lld",
                 (long long)need, (long long)budget);
    else
        return true;
    return false;
}

/* Out of each partition's order: the same number of each, what is over goes by the score. */
static bool by_parts(const lagkv *p, float *out, const kvt_lane *lane, cuts c)
{
    double *x = kvt_arena_array(lane->scratch, c.lag, sizeof *x);
    int32_t *order = kvt_arena_array(lane->scratch, c.lag, sizeof *order);
    bool good = x && order;
    for (int64_t k = 0; good && k < c.part; k++) {
        int64_t at = c.sinks + k * c.lag;
        memset(x, 0, (size_t)c.lag * sizeof *x);
        good = kvt_add_lag(x, &lane->keys, at, c.lag, 1, lane->scratch) &&
               kvt_add_lag(x, &lane->values, at, c.lag, p->value, lane->scratch) &&
               kvt_rank_double(order, x, c.lag, lane->scratch);
        for (int64_t rank = 0; good && rank < c.lag; rank++) {
            double left = (double)(c.lag - rank); /* L .. 1 */
            out[at + order[rank]] =
                (float)(p->compat == IS_KVPRESS ? (left - 1) / (double)c.lag
                                                : left + x[order[rank]] / (2 + 2 * p->value));
        }
    }
    return good;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const lagkv *p = params_;
    int64_t n = lane->n_slot;
    cuts c = cut(p, lane->budget, n);
    int64_t tail = c.sinks + c.part * c.lag;
    bool good = c.part == 0 || by_parts(p, out, lane, c);
    for (int64_t s = 0; s < n; s++) {
        if (!good || c.part == 0) /* the latest; NaN, which is refused: no memory */
            out[s] = good ? (float)(s - n) : NAN;
        pinned[s] = s < c.sinks || (c.part > 0 && s >= tail);
    }
}

const kvt_policy kvt_policy_lagkv = {
    .abi = KVT_POLICY_ABI,
    .name = "lagkv",
    .title = "keep what stands out from the partition behind it",
    .paper = "Liang et al., LagKV, 2025, arXiv:2504.04704",
    .about =
        "Neighbouring tokens have similar keys and values; what leaves the range of those that "
        "come right after it carries more. The prompt is cut into partitions; each channel is "
        "put between the least and the largest of the next partition, and the deviation over "
        "channels, of keys and of values, ranks the tokens of a partition. Each keeps the same "
        "number; sinks and the last partition stay whole. No attention is read, nothing is "
        "trained.\n\n"
        "Published settings: 16 sinks, partitions of 1,024, half of each kept, applied again "
        "whenever a partition is full, while decoding, too.",
    .differs =
        "the share that partitions keep follows from the budget, on the prompt only (as "
        "published it is fixed and the cache grows with the text); partitions are at most a "
        "quarter of the budget and sinks an eighth, since 16 and 1,024 do not act below 2,064 "
        "tokens (compat=official); slots that the equal shares leave over go to the best of "
        "the next rank; a channel without range counts 0, there NaN",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS | KVT_NEED_VALUES,
               .exactness = KVT_EXACT},
    .params_size = sizeof(lagkv),
    .params = params,
    .fits = fits,
    .score = score,
};
