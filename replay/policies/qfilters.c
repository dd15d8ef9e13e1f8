/* qfilters - keep the keys along the direction that the queries of their head share.
 *
 *   Godey et al., "Q-Filters: Leveraging QK Geometry for Efficient KV Cache Compression", 2025,
 *   arXiv:2503.02812.
 *
 *   score[s] = -(u . k_s)
 *
 * with u of each kv head from a file: minus the first right singular vector of its queries,
 * signed so that most queries agree with it, mean over the group (kvt train qfilters). Keys and
 * queries are those after RoPE. The last `recent` slots are pinned.
 *
 * Differs: nothing in the kept set, given the file; the sign of a singular vector is the
 * majority's. compat=official is the authors' cache, which keeps a recent window and acts while
 * decoding, too. Cost for each lane and decision: O(S D). */
#include "kvt/pieces.h"

typedef struct qfilters {
    int64_t recent;
    int compat;
} qfilters;

enum { IS_PAPER, IS_OFFICIAL, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "recent=0", "once, at the end of the prompt"},
    [IS_OFFICIAL] =
        {"official", "recent=64",
         "NathanGodey/qfilters cda5c38, its cache class: a recent window (64 here, an "
         "argument there) beside the best, after each token"},
    [IS_KVPRESS] = {"kvpress", "recent=0",
                    "NVIDIA/kvpress 8bb29b9 QFilterPress: as the default"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(qfilters, compats),
    KVT_PARAM(qfilters, recent, 0, 0, 65536, "tokens", "last tokens that are always kept"),
    {0},
};

static const kvt_weight weights[] = {
    {"filter", "LGD", "u: a key scores -(u . k), high: keep"},
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const qfilters *p = params_;
    if (p->compat != IS_OFFICIAL)
        traits->phases = KVT_PREFILL;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const qfilters *p = params_;
    return kvt_pinned_fits(p->recent, "last tokens", budget, n_token, why, cap);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const qfilters *p = params_;
    const float *u = lane->weights[0].data;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        const float *k = kvt_row(&lane->keys, s);
        double sum = 0;
        for (int64_t d = 0; d < lane->keys.dim[1]; d++)
            sum += (double)u[d] * (double)k[d];
        out[s] = (float)-sum;
        pinned[s] = s >= lane->n_slot - p->recent;
    }
}

const kvt_policy kvt_policy_qfilters = {
    .abi = KVT_POLICY_ABI,
    .name = "qfilters",
    .title = "keep the keys along the direction that the queries of their head share",
    .paper = "Godey et al., Q-Filters, 2025, arXiv:2503.02812",
    .about =
        "Queries of a head are far from isotropic: they share one direction, and the product "
        "of a key with it predicts what the key gets on average. One vector for each kv head, "
        "taken once from a few thousand queries (3,000 as published, kvt train qfilters), "
        "ranks all keys without any attention.\n\n"
        "The authors' cache keeps a recent window beside the best and cuts after each token "
        "(compat=official).",
    .differs =
        "the sign of the singular vector is that of most queries; ranks the prompt once where "
        "the authors' cache cuts after each token (compat=official)",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_KEYS | KVT_NEED_WEIGHTS,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .params_size = sizeof(qfilters),
    .params = params,
    .weights = weights,
    .vary = vary,
    .fits = fits,
    .score = score,
};
