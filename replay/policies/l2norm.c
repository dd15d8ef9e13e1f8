/* l2norm - keep the keys with the smallest norm.
 *
 *   Devoto et al., "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression",
 *   2024, arXiv:2406.11430.
 *
 *   score[s] = -||k_s||_2
 *
 * RoPE leaves the norm as it is. Nothing is pinned.
 *
 * Differs: see `differs`. Cost for each lane, once: O(S D). */
#include "kvt/pieces.h"

#include <stdio.h>

typedef struct l2norm {
    int64_t layers, above;
    int compat;
} l2norm;

enum { IS_PAPER, IS_OFFICIAL, IS_KVCF, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "layers=0,above=0", "every layer, a prompt of any length"},
    [IS_OFFICIAL] = {"official", "layers=2,above=2048",
                     "alessiodevoto/l2compress f93d6ca: layers 0 and 1 stay whole; refused "
                     "for 2,048 tokens or fewer, which it would not cut"},
    [IS_KVCF] = {"kvcf", "layers=2,above=0",
                 "Zefan-Cai/KVCache-Factory c97f9d7: layers 0 and 1 stay whole, by query head"},
    [IS_KVPRESS] = {"kvpress", "layers=0,above=0",
                    "NVIDIA/kvpress 8bb29b9 KnormPress: skips no layer, as the default"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(l2norm, compats),
    KVT_PARAM(l2norm, layers, 0, 0, 256, "layers", "first layers that keep all tokens"),
    KVT_PARAM(l2norm, above, 0, 0, 1048576, "tokens",
              "refused for so many or fewer, which stay whole"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const l2norm *p = params_;
    bool whole = p->layers > 0 || p->above > 0;
    traits->by_query_head = p->compat == IS_KVCF;
    traits->may_exceed = whole;
    traits->one_ranking = !whole; /* a whole lane is no cut of a ranking */
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const l2norm *p = params_;
    if (budget >= n_token || n_token > p->above)
        return true;
    snprintf(why, cap, "acts on more than %lld tokens, got %lld", (long long)p->above,
             (long long)n_token);
    return false;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const l2norm *p = params_;
    bool whole = lane->model_layer < p->layers || lane->n_slot <= p->above;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = (float)-kvt_norm(kvt_row(&lane->keys, s), lane->keys.dim[1]);
        pinned[s] = whole;
    }
}

const kvt_policy kvt_policy_l2norm = {
    .abi = KVT_POLICY_ABI,
    .name = "l2norm",
    .title = "keep the keys with the smallest norm",
    .paper = "Devoto et al., L2 norm, 2024, arXiv:2406.11430",
    .about =
        "In most heads a key with a small norm gets much attention: sinks have the smallest of "
        "all. So the norm alone, known before any query, ranks the tokens; the B smallest "
        "stay. No attention is read and nothing is trained (kvpress calls it Knorm).\n\n"
        "The authors leave the first two layers whole, where norm and attention do not go "
        "together, and act on more than 2,048 tokens only (compat=official).",
    .differs =
        "acts in every layer and on a prompt of any length: the authors' code leaves layers 0 "
        "and 1 whole and acts on more than 2,048 tokens (compat=official; those lanes hold "
        "more than the budget, which the audit shows); ceil(f N) is the budget in tokens",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS,
               .exactness = KVT_EXACT,
               .may_exceed = true,
               .one_ranking = true},
    .params_size = sizeof(l2norm),
    .params = params,
    .vary = vary,
    .fits = fits,
    .score = score,
};
