/* locret - rank the prompt by a network on all queries, keys and values of a token.
 *
 *   Huang et al., "Locret: Enhancing Eviction in Long-Context LLM Inference with Trained
 *   Retaining Heads", 2024, arXiv:2410.01805.
 *
 * A retaining head for each layer reads all heads of a token and scores it for each kv head,
 *
 *   c_t = W' SiLU(W [q_t ; k_t ; v_t] + b) + b'        [H D + 2 G D] -> K -> G
 *
 * once, when the token comes. Its label is the largest attention that it gets from the response
 * in its group. The last `recent` tokens of the prompt are kept without competing.
 *
 * Chosen here: queries and keys after RoPE; heads one behind the other; where the prompt is
 * short a tenth of it takes the place of `recent`.
 *
 * Differs: the published inference (huangyuxiang03/Locret 28995c5) evicts while the prompt
 * comes in chunks of 3,072 tokens, with the last 2,500 forced after each; here one decision at
 * the end of the prompt stands in for it (surrogate). Needs the queries of the whole prompt
 * (kvt capture --queries all). Cost for each lane: O(K (H + 2 G) D) a token, once; one float a
 * slot. */
#include "kvt/pieces.h"

#include <string.h>

typedef struct locret {
    int64_t recent;
} locret;

enum { TILE = 64 };

static const kvt_param params[] = {
    KVT_PARAM(locret, recent, 100, 0, 65536, "tokens",
              "last prompt tokens that are always kept, at most a tenth of the prompt"),
    {0},
};

static const kvt_weight weights[] = {
    {"in/weight", "LKW", "hidden layer, of all queries, keys and values of a token"},
    {"in/bias", "LK", "its bias"},
    {"out/weight", "LGK", "read-out"},
    {"out/bias", "LG", "its bias"},
    {0},
};

static int64_t recent(const locret *p, int64_t n_prompt)
{
    return kvt_min(p->recent, n_prompt / 10);
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    return kvt_pinned_fits(recent(params_, n_token), "last tokens", budget, n_token, why, cap);
}

static int64_t window(const void *params_, int64_t n_prompt)
{
    (void)params_;
    return n_prompt;
}

/* Token i of each head of a view [H T D], one head behind the other; returns what follows. */
static float *put_heads(float *x, const kvt_view *v, int64_t i)
{
    for (int64_t h = 0; h < v->dim[0]; h++, x += v->dim[2])
        memcpy(x, kvt_head_row(v, h, i), (size_t)v->dim[2] * sizeof *x);
    return x;
}

static void step(const void *params_, kvt_lane *lane)
{
    int64_t width = lane->weights[0].dim[1];
    float *x = kvt_arena_array(lane->scratch, TILE * width, sizeof *x);
    (void)params_;
    if (lane->now >= lane->seq->n_prompt)
        return; /* it ranks the prompt only */
    bool good = x && lane->layer_queries.dim[1] == lane->n_slot;
    for (int64_t at = 0; at < lane->n_slot; at += TILE) {
        int64_t n = kvt_min(TILE, lane->n_slot - at);
        float *to = x;
        for (int64_t i = 0; good && i < n; i++) {
            to = put_heads(to, &lane->layer_queries, at + i);
            to = put_heads(to, &lane->layer_keys, at + i);
            to = put_heads(to, &lane->layer_values, at + i);
        }
        if (good)
            kvt_network(lane->mark + at, x, n, lane->weights, kvt_silu, lane->scratch);
        else
            kvt_no_score(lane->mark + at, n);
    }
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    int64_t last = recent(params_, lane->seq->n_prompt);
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = lane->mark[s];
        pinned[s] = lane->now - lane->pos[s] < last;
    }
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    const double K = 1024; /* as published */
    /* Its hidden layer reads all heads of the layer: H D + 2 G D, a G-th for each lane. */
    double n_in = (double)((work->lane_heads + 2) * work->head_dim);
    work->network_params = n_in * K + K + 1;
    work->network_shared = K;
}

const kvt_policy kvt_policy_locret = {
    .abi = KVT_POLICY_ABI,
    .name = "locret",
    .title = "rank the prompt by a network on all queries, keys and values of a token",
    .paper = "Huang et al., Locret, 2024, arXiv:2410.01805",
    .about =
        "Retaining heads: in each layer a network (1,024 units) reads all queries, keys and "
        "values of a token and scores it for each kv head, once, when it comes. The score "
        "estimates the largest attention that any response query of the group will give to "
        "the token.\n\n"
        "The paper evicts while a long prompt comes in chunks of 3,072 tokens: after each "
        "the best 6,000 stay and the last 2,500 are forced; the last 100 prompt tokens "
        "always stay.\n\n"
        "Loss: smooth L1 to that maximum, plus 0.0025 times the squared step between "
        "neighbours; AdamW 5e-4, 3,000 steps on LongAlpaca, up to 10,240 tokens.",
    .differs =
        "one decision at the end of the prompt instead of one after each chunk, so that it "
        "stands in for the published one; of a short prompt only the last tenth is forced; "
        "heads one behind the other, after RoPE; the width is the file's",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_LAYER | KVT_NEED_WEIGHTS,
               .exactness = KVT_SURROGATE,
               .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(locret),
    .params = params,
    .weights = weights,
    .fits = fits,
    .window = window,
    .step = step,
    .score = score,
    .work = work,
};
