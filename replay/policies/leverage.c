/* leverage - keep the keys that the others do not explain.
 *
 *   Chari, Van Durme, "Compactor: Calibrated Query-Agnostic KV Cache Compression with
 *   Approximate Leverage Scores", 2025, arXiv:2507.08143; its first half.
 *
 * With X [S D] the keys before RoPE less their mean, and a Gaussian sketch G [D K] / sqrt(K) of
 * the lane's stream,
 *
 *   Y        = X G
 *   score[s] = max(0, y_s^T (Y^T Y + e I)^-1 y_s)
 *
 * e = 0.01, ten times that where the factorisation fails, up to five times. Nothing is pinned.
 * compat=kvpress takes the mean and deviation of all heads of the layer out (z): a score of a
 * lane's own order, other numbers for allocators. Where sketch is 0 or not below D, X itself is
 * taken and nothing is drawn.
 *
 * Differs: exact given the draws, which are unseeded in the published code; solved in double.
 * Cost for each lane, once: O(S D K + S K^2) time, O(S D) memory; compat=kvpress as often as
 * the layer has kv heads. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct leverage {
    int64_t sketch;
    int compat;
} leverage;

enum { IS_PAPER, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "sketch=48", "the leverage itself"},
    [IS_KVPRESS] = {"kvpress", "sketch=48",
                    "NVIDIA/kvpress 8bb29b9 LeverageScorePress: z-scores over all kv heads of "
                    "the layer, the same order in each"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(leverage, compats),
    KVT_PARAM(leverage, sketch, 48, 0, 512, "channels",
              "width of the Gaussian sketch; 0: none, keys as they are"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const leverage *p = params_;
    if (p->compat != IS_KVPRESS)
        traits->needs &= ~(unsigned)KVT_NEED_LAYER;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const leverage *p = params_;
    int64_t n = lane->n_slot;
    bool layer = p->compat == IS_KVPRESS;
    int64_t G = layer ? lane->layer_keys.dim[0] : 1;
    double *x = kvt_arena_array(lane->scratch, G * n, sizeof *x);
    (void)pinned;
    bool good = x && kvt_leverage(x, &lane->keys, lane, 0, n, p->sketch);
    for (int64_t g = 0, i = 1; good && layer && g < G; g++) { /* its own heads' draws first */
        if (g == lane->group)
            continue;
        kvt_view keys = kvt_view_at(&lane->layer_keys, g);
        good = kvt_leverage(x + i++ * n, &keys, lane, 0, n, p->sketch);
    }
    if (good && layer)
        kvt_standardize(x, G * n);
    for (int64_t s = 0; s < n; s++) /* NaN, which is refused: no memory */
        out[s] = good ? (float)x[s] : NAN;
}

const kvt_policy kvt_policy_leverage = {
    .abi = KVT_POLICY_ABI,
    .name = "leverage",
    .title = "keep the keys that the others do not explain",
    .paper = "Chari, Van Durme, Compactor, 2025, arXiv:2507.08143",
    .about =
        "The leverage of a key says how little the other keys span it: outliers have much, "
        "what is repeated has little, and of two equal keys each takes from the other. It is "
        "computed on keys before RoPE, less their mean, after a random projection to 48 "
        "channels. No query is read and nothing is trained. It is one half of compactor.",
    .differs =
        "the draws are seeded (published: not), solved in double; the leverage itself, where "
        "kvpress prints its z-score over all heads of the layer: the order within a layer is "
        "the same",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS | KVT_NEED_LAYER,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .params_size = sizeof(leverage),
    .params = params,
    .vary = vary,
    .score = score,
};
