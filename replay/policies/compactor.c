/* compactor - leverage of the keys and attention without order, weighed by how much must go.
 *
 *   Chari, Van Durme, "Compactor: Calibrated Query-Agnostic KV Cache Compression with
 *   Approximate Leverage Scores", 2025, arXiv:2507.08143.
 *
 * The first 8 and the last 4 tokens are pinned and take no part. Of the tokens between them
 *
 *   score[s] = b z(leverage)[s] + z(noncausal)[s]
 *
 * as in leverage.c and noncausal.c; z takes the mean and the deviation (n - 1, at least 1e-6)
 * of all kv heads of the layer out. b = 1 - B / S, the removed fraction, unless blend says
 * another one: the more must go, the more leverage counts.
 *
 * Differs: see `differs`. Needs the queries of the whole prompt (kvt capture --queries all).
 * Cost for each lane, once: O(H S C D + G S (D K + K^2)) time for chunks of C tokens, O(S (D +
 * G)) memory; two floats a slot. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct compactor {
    double blend;
    int64_t first, last, chunk, sketch;
    int compat;
} compactor;

enum { IS_PAPER, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "first=8,last=4,chunk=256,sketch=48,blend=-1",
                  "settings of NVIDIA/kvpress 8bb29b9, the last chunk is shorter"},
    [IS_KVPRESS] =
        {"kvpress", "first=8,last=4,chunk=256,sketch=48,blend=-1",
         "NVIDIA/kvpress 8bb29b9 CompactorPress: zeros fill up the last chunk and are "
         "looked at"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(compactor, compats),
    KVT_PARAM(compactor, blend, -1, -1, 100, "1",
              "weight of leverage; below 0: the removed fraction; published without one: 0.35"),
    KVT_PARAM(compactor, first, 8, 0, 65536, "tokens", "first tokens that are always kept"),
    KVT_PARAM(compactor, last, 4, 0, 65536, "tokens", "last tokens that are always kept"),
    KVT_PARAM(compactor, chunk, 256, 1, 4096, "tokens", "tokens that look at each other"),
    KVT_PARAM(compactor, sketch, 48, 0, 512, "channels",
              "width of the Gaussian sketch; 0: none, keys as they are"),
    {0},
};

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const compactor *p = params_;
    return kvt_pinned_fits(p->first + p->last, "first and last tokens", budget, n_token, why,
                           cap);
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    (void)params_;
    return n_prompt;
}

/* Tokens between the ends: from *from on, as many as it returns. */
static int64_t inner(const compactor *p, int64_t n, int64_t *from)
{
    *from = kvt_min(p->first, n);
    return n - *from - kvt_min(p->last, n - *from);
}

/* x [G n] of both kinds, those of the lane's own head at x + group n. */
static bool measure(const compactor *p, double *lev, double *att, const kvt_lane *lane,
                    int64_t from, int64_t n)
{
    int64_t G = lane->layer_keys.dim[0], R = lane->layer_queries.dim[0] / G;
    bool good = true;
    for (int64_t i = 0; good && i < G; i++) { /* its own head's draws first, as in leverage */
        int64_t g = i == 0 ? lane->group : i <= lane->group ? i - 1 : i;
        kvt_view queries = kvt_heads_of(&lane->layer_queries, g * R, R);
        kvt_view keys = kvt_view_at(&lane->layer_keys, g);
        kvt_view values = kvt_view_at(&lane->layer_values, g);
        good = kvt_leverage(lev + g * n, &keys, lane, from, n, p->sketch) &&
               kvt_chunk_attention(att + g * n, &queries, &keys, &values, lane, from, n,
                                   p->chunk, p->compat == IS_KVPRESS);
    }
    kvt_standardize(lev, G * n);
    kvt_standardize(att, G * n);
    return good;
}

/* mark [S 2] = z of leverage, z of attention. */
static void step(const void *params_, kvt_lane *lane)
{
    const compactor *p = params_;
    int64_t from, n = inner(p, lane->n_slot, &from), G = lane->layer_keys.dim[0];
    double *lev = kvt_arena_array(lane->scratch, G * n + 1, sizeof *lev);
    double *att = kvt_arena_array(lane->scratch, G * n + 1, sizeof *att);
    bool good = lev && att && measure(p, lev, att, lane, from, n);
    for (int64_t i = 0; i < n; i++) { /* NaN, which is refused: no memory */
        lane->mark[2 * (from + i)] = good ? (float)lev[lane->group * n + i] : NAN;
        lane->mark[2 * (from + i) + 1] = good ? (float)att[lane->group * n + i] : NAN;
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const compactor *p = params_;
    int64_t from, n = inner(p, lane->n_slot, &from);
    double b = p->blend >= 0 ? p->blend : 1 - (double)lane->budget / (double)lane->n_slot;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        pinned[s] = s < from || s >= from + n;
        out[s] = (float)(b * (double)lane->mark[2 * s] + (double)lane->mark[2 * s + 1]);
    }
}

static void work(const void *params_, kvt_work *work)
{
    const compactor *p = params_;
    work->rows = p->chunk; /* each key is looked at by the queries of its chunk */
}

const kvt_policy kvt_policy_compactor = {
    .abi = KVT_POLICY_ABI,
    .name = "compactor",
    .title = "leverage of the keys and attention without order, by how much must go",
    .paper = "Chari, Van Durme, Compactor, 2025, arXiv:2507.08143",
    .about =
        "Ranks a context without its question. Two views of a token are added: leverage, how "
        "little the other keys span its key (before RoPE, after a random projection to 48 "
        "channels), and attention without order, what it gets when all queries of its chunk of "
        "256 tokens look at all keys. Both are standardised over the kv heads of the layer.\n\n"
        "Leverage has the weight b, the removed fraction by default: at strong compression "
        "outliers count more. The first 8 and last 4 tokens always stay. Nothing is trained.",
    .differs =
        "the last chunk is shorter, where kvpress fills it up with zeros that take part "
        "(compat=kvpress); the draws are seeded, each lane's stream draws for all heads of "
        "its layer; the ends are kept by a rule, not by a score",
    .traits = {.phases = KVT_PREFILL, .needs = KVT_NEED_LAYER, .exactness = KVT_EXACT},
    .slot_width = 2,
    .params_size = sizeof(compactor),
    .params = params,
    .fits = fits,
    .window = window,
    .step = step,
    .score = score,
    .work = work,
};
