/* noncausal - keep what all queries of its neighbourhood look at, before and behind.
 *
 *   Chari, Van Durme, "Compactor: Calibrated Query-Agnostic KV Cache Compression with
 *   Approximate Leverage Scores", 2025, arXiv:2507.08143; its second half.
 *
 * In chunks of 256 tokens, with queries and keys after RoPE and no scale,
 *
 *   A[h, i, j] = softmax over j of the chunk of q_i.k_j          no causal mask
 *   raw[j]     = ||v_j||_2 mean over H of sum over i of A[h, i, j]
 *   score[j]   = (raw[j - 1] + raw[j] + raw[j + 1]) / 3          outside: 0
 *
 * Differs: see `differs`. Needs the queries of the whole prompt (kvt capture --queries all).
 * Cost for each lane, once: O(H S C D) time for chunks of C tokens; compat=kvpress as often as
 * the layer has kv heads. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct noncausal {
    int64_t chunk;
    int compat;
} noncausal;

enum { IS_PAPER, IS_KVPRESS };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "chunk=256", "the last chunk is shorter"},
    [IS_KVPRESS] =
        {"kvpress", "chunk=256",
         "NVIDIA/kvpress 8bb29b9 NonCausalAttnPress: zeros fill up the last chunk and "
         "are looked at, z-scores over all kv heads of the layer"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(noncausal, compats),
    KVT_PARAM(noncausal, chunk, 256, 1, 4096, "tokens", "tokens that look at each other"),
    {0},
};

static int64_t window(const void *params_, int64_t n_prompt)
{
    (void)params_;
    return n_prompt;
}

/* mark [S] = the score, z-scored over the layer where kvpress is followed. */
static void step(const void *params_, kvt_lane *lane)
{
    const noncausal *p = params_;
    int64_t n = lane->n_slot, G = lane->layer_keys.dim[0];
    int64_t R = lane->layer_queries.dim[0] / G;
    bool layer = p->compat == IS_KVPRESS, good = true;
    double *x = kvt_arena_array(lane->scratch, G * n, sizeof *x);
    for (int64_t g = 0; x && good && g < G; g++) {
        if (!layer && g != lane->group)
            continue;
        kvt_view queries = kvt_heads_of(&lane->layer_queries, g * R, R);
        kvt_view keys = kvt_view_at(&lane->layer_keys, g);
        kvt_view values = kvt_view_at(&lane->layer_values, g);
        good = kvt_chunk_attention(x + g * n, &queries, &keys, &values, lane, 0, n, p->chunk,
                                   layer);
    }
    if (x && good && layer)
        kvt_standardize(x, G * n);
    for (int64_t s = 0; s < n; s++) /* NaN, which is refused: no memory */
        lane->mark[s] = x && good ? (float)x[lane->group * n + s] : NAN;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params_, (void)pinned;
    for (int64_t s = 0; s < lane->n_slot; s++)
        out[s] = lane->mark[s];
}

static void work(const void *params_, kvt_work *work)
{
    const noncausal *p = params_;
    work->rows = p->chunk; /* each key is looked at by the queries of its chunk */
}

const kvt_policy kvt_policy_noncausal = {
    .abi = KVT_POLICY_ABI,
    .name = "noncausal",
    .title = "keep what all queries of its neighbourhood look at, before and behind",
    .paper = "Chari, Van Durme, Compactor, 2025, arXiv:2507.08143",
    .about =
        "Causal attention favours early tokens, which more queries see. Here the prompt is cut "
        "into chunks of 256 tokens and every query of a chunk looks at all of its keys, those "
        "behind it too; what a token gets from all of them, weighed by the norm of its value "
        "and averaged over its neighbours, is its score. No question is needed, nothing is "
        "trained. It is one half of compactor.",
    .differs =
        "the last chunk is shorter, where kvpress fills it up with zeros that take part, so "
        "that real keys gain and lose (compat=kvpress); not z-scored over the layer, which "
        "changes no order in it",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_LAYER,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(noncausal),
    .params = params,
    .window = window,
    .step = step,
    .score = score,
    .work = work,
};
