/* think - drop the channels of the keys that queries and keys use least.
 *
 *   Xu et al., "ThinK: Thinner Key Cache by Query-Driven Pruning", 2024, arXiv:2407.21018.
 *
 * With k the N keys of the prompt and q its last `window` queries, both after RoPE,
 *
 *   score[c] = mean over S of k[S c]^2  x  mean over H, Q of q[H Q c]^2
 *
 * and the best channels of each lane stay, chosen once at the end of the prompt: all tokens
 * stay, and values are whole. The rank of a channel is that of |q_c| |k_c|, the Frobenius norm
 * of what it adds to q k^T. A budget of B slots leaves floor(D (2 B - N) / N) channels, the
 * bytes of B slots; prune=X drops floor(D X) whatever the budget.
 *
 * Differs: nothing in the ranking; published as a share of the channels (0.4) on top of an
 * evicting policy, here alone and by bytes.
 * Cost for each lane, once: O((N + H window) D), D floats. */
#include "kvt/pieces.h"

typedef struct think {
    int64_t window, recent;
    double prune;
    int compat;
} think;

enum { COMPAT_PAPER, COMPAT_OFFICIAL, COMPAT_KVPRESS };

static const kvt_choice compats[] = {
    [COMPAT_PAPER] = {"paper", "window=32,recent=0",
                      "a set for each query head, keys of the whole prompt are thinned"},
    [COMPAT_OFFICIAL] =
        {"official", "window=32,recent=32",
         "SalesforceAIResearch/ThinK d200577: the same, the last 32 prompt tokens stay "
         "whole on top of the budget"},
    [COMPAT_KVPRESS] =
        {"kvpress", "window=32,recent=0",
         "NVIDIA/kvpress 8bb29b9: a set for each kv head, mean over its queries; that code "
         "sets channels to 0 and saves no memory as implemented"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(think, compats),
    KVT_PARAM(think, prune, 0, 0, 0.99, "frac",
              "share of the channels that goes at every budget (published: 0.4); 0: what the "
              "budget asks for"),
    KVT_PARAM(think, window, 32, 1, 4096, "tokens", "last prompt queries that rank channels"),
    KVT_PARAM(think, recent, 0, 0, 4096, "tokens",
              "last prompt tokens whose keys keep all channels, on top of the budget"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const think *p = params_;
    traits->by_query_head = p->compat != COMPAT_KVPRESS;
    traits->whole_recent = p->recent;
    traits->may_exceed = p->prune > 0 || p->recent > 0;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params_, (void)pinned;
    const kvt_view *k = &lane->keys, *q = &lane->queries;
    int64_t D = k->dim[1], H = q->dim[0], W = q->dim[1];
    for (int64_t c = 0; c < D; c++) {
        double keys = 0, queries = 0;
        for (int64_t s = 0; s < lane->n_slot; s++) {
            double x = (double)kvt_row(k, s)[c];
            keys += x * x;
        }
        for (int64_t i = 0; i < H * W; i++) {
            const float *row = kvt_head_row(q, i / W, i % W);
            queries += (double)row[c] * (double)row[c];
        }
        out[c] = (float)(keys / (double)lane->n_slot * (queries / (double)(H * W)));
    }
}

static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    const think *p = params_;
    for (int i = 0; i < n_lane; i++) {
        int64_t D = lane[i].keys.dim[1], n = budget[i];
        if (p->prune > 0)
            n = D - kvt_share_floor(p->prune, D);
        (void)kvt_keep_budget(keep[i], scores[i], pinned[i], D, n, lane[i].scratch);
    }
}

const kvt_policy kvt_policy_think = {
    .abi = KVT_POLICY_ABI,
    .name = "think",
    .title = "drop the channels of the keys that are used least",
    .paper = "Xu et al., ThinK: Thinner Key Cache, 2024, arXiv:2407.21018",
    .about =
        "Instead of tokens, channels of the keys go: a few channels carry most of q k, since "
        "both queries and keys are large in them. At the end of the prompt each channel is "
        "scored by the mean square of the keys in it times that of the last 32 queries, and "
        "the least ones are dropped from every key of the prompt. All tokens stay, values are "
        "whole, tokens of the response keep all channels. Nothing is trained.\n\n"
        "Keys are half of the bytes: dropping a share X of the channels saves X / 2, never "
        "more than half. A budget of B slots is read as their bytes; below half of the prompt "
        "it is refused. What is measured is the output error: no token is lost.\n\n"
        "Published setting: 40 % of the channels, for each query head (keys and values are "
        "repeated first), on top of a policy that evicts.",
    .differs = "alone instead of on top of an evicting policy, and by bytes (prune=0.4 is the "
               "published share); channels that go are counted as saved",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS | KVT_NEED_QUERIES,
               .effect = KVT_CHANNELS,
               .exactness = KVT_EXACT,
               .may_exceed = true,
               .one_ranking = true},
    .params_size = sizeof(think),
    .params = params,
    .vary = vary,
    .window = kvt_window_rows,
    .score = score,
    .select = choose,
};
