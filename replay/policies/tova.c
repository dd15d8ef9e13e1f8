/* tova - keep what the newest query looks at, one set for all heads of a layer.
 *
 *   Oren et al., "Transformers are Multi-State RNNs" (token omission via attention), 2024,
 *   arXiv:2401.06104.
 *
 * With A the attention of the newest query over what is left in the cache,
 *
 *   w[s] = mean over all query heads of the layer of A[H s]
 *
 * and the budget's best w are kept, the same slots in every kv head (they hold the same ones
 * and have equally many query heads, so that the sum over lanes ranks as the mean over heads).
 * Nothing is pinned: the newest token competes with its own weight, and may leave at once. With
 * keep_last it stays.
 *
 * Differs: nothing in the kept set.
 * Cost for each layer and query: O(H S), S floats for each lane. */
#include "kvt/pieces.h"

typedef struct tova {
    int compat;
    bool keep_last;
} tova;

enum { COMPAT_PAPER, COMPAT_KVPRESS };

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "keep_last=false", "schwartz-lab-NLP/TOVA 9c7d09b"},
    [COMPAT_KVPRESS] =
        {"kvpress", "keep_last=true",
         "NVIDIA/kvpress 8bb29b9: once, at the end of the prompt, the last token is kept"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(tova, compats),
    KVT_PARAM(tova, keep_last, 0, 0, 1, "", "the newest token is always kept"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const tova *p = params_;
    if (p->compat == COMPAT_KVPRESS)
        traits->phases = KVT_PREFILL;
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    (void)params_;
    return kvt_min(1, n_prompt);
}

static void step(const void *params_, kvt_lane *lane)
{
    (void)params_;
    for (int64_t s = 0; s < lane->n_slot; s++)
        lane->mark[s] = 0;
    kvt_add_rows(lane->mark, &lane->attn);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const tova *p = params_;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = lane->mark[s];
    pinned[lane->n_slot - 1] = p->keep_last;
}

static void work(const void *params_, kvt_work *work)
{
    const tova *p = params_;
    work->even_lanes = true; /* one set for all heads */
    work->whole_rows =
        p->compat == COMPAT_PAPER; /* the weights that the model's attention made */
}

const kvt_policy kvt_policy_tova = {
    .abi = KVT_POLICY_ABI,
    .name = "tova",
    .title = "keep what the newest query looks at, one set a layer",
    .paper = "Oren et al., Transformers are Multi-State RNNs (TOVA), 2024, arXiv:2401.06104",
    .about =
        "Token omission via attention: a cache of B tokens is a recurrent state, and the "
        "cheapest rule for it is to drop what the newest query looks at least. The weight of a "
        "token is its attention from the newest query, mean over all query heads of the layer; "
        "all heads of a layer keep the same B tokens. It acts at the end of the prompt, by its "
        "last query alone, and after each token.\n\n"
        "Nothing is pinned: sinks stay because they are looked at, and the newest token "
        "competes with its own weight and may leave at once (kvpress keeps it: keep_last). "
        "Nothing is trained.",
    .differs = "",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_ATTN,
               .scope = KVT_BY_LAYER,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(tova),
    .params = params,
    .vary = vary,
    .window = window,
    .step = step,
    .score = score,
    .select = kvt_select_together,
    .work = work,
};
