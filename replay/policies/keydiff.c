/* keydiff - keep the keys that point away from the mean direction.
 *
 *   Park et al., "KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM
 *   Inference in Resource-Constrained Environments", 2025, arXiv:2504.15364.
 *
 *   m        = mean over S of k_s / ||k_s||
 *   score[s] = -cos(k_s, m)                        keys after RoPE, a kv head by itself
 *
 * With block=K the prompt comes K tokens at a time: the first B are kept, and after each block
 * behind them the score is made again of what is there and the best B stay. A key of zeros has
 * the cosine 0, and so has every key where m is 0.
 *
 * Differs: see `differs`. Cost for each lane: O(S D), with blocks O(S (B + K) D / K). */
#include "kvt/pieces.h"

#include <math.h>

typedef struct keydiff {
    int64_t sinks, block;
    int compat;
} keydiff;

enum { IS_PAPER, IS_OFFICIAL, IS_KVPRESS, IS_MLX };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "sinks=0,block=0", "the score of the paper, once, over the prompt"},
    [IS_OFFICIAL] =
        {"official", "sinks=0,block=128",
         "the paper's usage, NVIDIA/kvpress 8bb29b9 KeyDiffPress in BlockPress: the "
         "prompt in blocks of 128"},
    [IS_KVPRESS] = {"kvpress", "sinks=0,block=0",
                    "NVIDIA/kvpress 8bb29b9 KeyDiffPress: once, as the default"},
    [IS_MLX] = {"mlx", "sinks=4,block=0", "rajveer43/VeloxQuant-MLX: keeps the first 4 tokens"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(keydiff, compats),
    KVT_PARAM(keydiff, sinks, 0, 0, 65536, "tokens", "first tokens that are always kept"),
    KVT_PARAM(keydiff, block, 0, 0, 65536, "tokens",
              "tokens of the prompt between two decisions; 0: one decision at its end"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const keydiff *p = params_;
    if (p->block == 0)
        return;
    traits->one_ranking = false;
    traits->exactness = KVT_OPEN_LOOP;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const keydiff *p = params_;
    return kvt_pinned_fits(p->sinks, "sinks", budget, n_token, why, cap);
}

/* out of the slots below `end` that are there (here NULL: all). mean [D] and norm [S] are room.
 */
static void rank(float *out, const kvt_lane *lane, const bool *here, int64_t end, double *mean,
                 const double *norm)
{
    int64_t D = lane->keys.dim[1];
    for (int64_t d = 0; d < D; d++)
        mean[d] = 0;
    for (int64_t s = 0; s < end; s++)
        for (int64_t d = 0; (!here || here[s]) && norm[s] > 0 && d < D; d++)
            mean[d] += (double)kvt_row(&lane->keys, s)[d] / norm[s];
    double length = 0;
    for (int64_t d = 0; d < D; d++)
        length += mean[d] * mean[d];
    length = sqrt(length);
    for (int64_t s = 0; s < end; s++)
        if (!here || here[s])
            out[s] =
                norm[s] > 0 && length > 0
                    ? (float)(-kvt_dot(kvt_row(&lane->keys, s), mean, D) / (norm[s] * length))
                    : 0;
}

/* Keeps the budget's best of what is there; what goes ranks below what goes later, and so below
 * all that is there. */
static bool drop(float *out, bool *here, const bool *pinned, bool *keep, const kvt_lane *lane,
                 int64_t end, int64_t left)
{
    if (!kvt_keep_budget(keep, out, pinned, end, lane->budget, lane->scratch))
        return false;
    for (int64_t s = 0; s < end; s++)
        if (here[s] && !keep[s])
            here[s] = false, out[s] -= 3 * (float)(left + 1);
    return true;
}

static bool by_blocks(const keydiff *p, float *out, const bool *pinned, const kvt_lane *lane,
                      double *mean, const double *norm)
{
    int64_t n = lane->n_slot;
    bool *here = kvt_arena_array(lane->scratch, n, sizeof *here);
    bool *keep = kvt_arena_array(lane->scratch, n, sizeof *keep);
    bool good = here && keep;
    int64_t end = kvt_min(lane->budget, n);
    for (int64_t s = 0; good && s < end; s++)
        here[s] = true;
    while (good && end < n) {
        int64_t from = end;
        end = kvt_min(end + p->block, n);
        for (int64_t s = from; s < end; s++)
            here[s] = true;
        rank(out, lane, here, end, mean, norm);
        good = drop(out, here, pinned, keep, lane, end, (n - end + p->block - 1) / p->block);
    }
    return good;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const keydiff *p = params_;
    int64_t n = lane->n_slot, D = lane->keys.dim[1];
    double *mean = kvt_arena_array(lane->scratch, D, sizeof *mean);
    double *norm = kvt_arena_array(lane->scratch, n, sizeof *norm);
    bool good = mean && norm;
    for (int64_t s = 0; s < n; s++) {
        if (good)
            norm[s] = kvt_norm(kvt_row(&lane->keys, s), D);
        pinned[s] = lane->pos[s] < p->sinks;
    }
    if (good && p->block > 0)
        good = by_blocks(p, out, pinned, lane, mean, norm);
    else if (good)
        rank(out, lane, NULL, n, mean, norm);
    if (!good)
        kvt_no_score(out, n);
}

const kvt_policy kvt_policy_keydiff = {
    .abi = KVT_POLICY_ABI,
    .name = "keydiff",
    .title = "keep the keys that point away from the mean direction",
    .paper = "Park et al., KeyDiff, 2025, arXiv:2504.15364",
    .about =
        "Keys that look like all others get little attention; those that stand apart get much. "
        "The score of a token is minus the cosine between its key and the mean of all "
        "normalised keys of the lane, so that what stays is as diverse as possible. Neither "
        "attention nor values are read, nothing is trained.\n\n"
        "Made for devices that read a long prompt in blocks of 128 tokens and cut the cache to "
        "B after each (compat=official).",
    .differs =
        "one decision at the end of the prompt; in blocks (block=K, compat=official) the "
        "first B tokens stay until the first block behind them, and the keys are those of the "
        "full cache, which later blocks would not have seen (open-loop); a key of zeros has "
        "the cosine 0",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .params_size = sizeof(keydiff),
    .params = params,
    .vary = vary,
    .fits = fits,
    .score = score,
};
