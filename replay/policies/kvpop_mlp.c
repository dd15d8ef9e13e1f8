/* kvpop-mlp - keep what a small network on key and value expects to be looked at.
 *
 *   Hauzenberger et al., "KVpop - Key-Value Cache Compression with Predictive Online Pruning",
 *   2026, arXiv:2607.05061 (version 1): the scorer without memory. No code was published.
 *
 * B = S + w + k slots a lane. The query q sees S sinks, the last w tokens, itself among them,
 * and the best k of E_q = { t : S <= t <= q - w } by
 *
 *   x_t    = [k_t ; v_t]                     as cached, so the key after RoPE
 *   r_t    = a . SiLU(W x_t + b) + b'        a network for each lane, once, at insertion
 *   r_t(q) = r_t + floor((q - t) / n_d) log gamma
 *   pi_t   = r_t - t log gamma               orders as r_t(q) does at every q, n_d = 1
 *
 * It drops before the row attends, so that every row sees exactly min(q + 1, B) tokens; an
 * evicted one never returns. Choosing the best k of what is left is the paper's heap: where
 * n_d = 1 the token that leaves the window enters if its pi exceeds the smallest. Where n_d is
 * larger the order changes with q, and only this online form is exact: the prompt's rows drop
 * one after the other, too.
 *
 * S, w, n_d, gamma and the network come from weights=FILE (kvt train). The paper does not give
 * the hidden width; the trainer says which it took. A linear scorer is the same form with K =
 * 2, since SiLU(u) - SiLU(-u) = u.
 *
 * Differs: the paper trains the whole model to live with the policy; here the model is frozen
 * (the class is surrogate, the paper's tables do not apply). k is B - S - w, whatever the file
 * was trained for; a budget below S + w + 1 is skipped. Cost for each lane: O(K D) a token,
 * O(S) a decision, one float a slot. */
#include "kvt/pieces.h"

enum { IN = 0, GAMMA = 4, SINKS, WINDOW, STEP };

static const kvt_weight weights[] = {
    [IN] = {"in/weight", "LGKW", "hidden layer, of [k; v]"},
    {"in/bias", "LGK", "its bias"},
    {"out/weight", "LGK", "read-out"},
    {"out/bias", "LG", "its bias"},
    [GAMMA] = {"decay/log_gamma", "LG", "decay of a score with age"},
    [SINKS] = {"sinks", "", "first tokens that are always kept"},
    [WINDOW] = {"window", "", "last tokens that are always kept"},
    [STEP] = {"decay_step", "", "tokens of age that count as one step of decay"},
    {0},
};

/* A token is scored when it is first seen: by the decision in front of its row, or with it. */
static void step(const void *params, kvt_lane *lane)
{
    (void)params;
    kvt_network_new(lane, lane->state);
}

static void score(const void *params, float *out, bool *pinned, const kvt_lane *lane)
{
    (void)params;
    kvt_lane own = *lane;
    kvt_pop rule = {.sinks = (int64_t)kvt_weight_number(lane, SINKS),
                    .window = (int64_t)kvt_weight_number(lane, WINDOW),
                    .step = kvt_max((int64_t)kvt_weight_number(lane, STEP), 1),
                    .log_gamma = (double)kvt_weight_number(lane, GAMMA)};
    kvt_network_new(&own, lane->state);
    kvt_pop_score(&rule, lane->mark, out, pinned, lane);
}

static void work(const void *params, kvt_work *work)
{
    (void)params;
    double n_in = 2 * (double)work->head_dim, K = n_in; /* the paper does not give the width */
    work->state_bytes_slot = sizeof(float);
    work->more_bytes_slot = sizeof(int32_t); /* positions: a new token takes any slot */
    work->network_params = (n_in + 2) * K + 1;
}

const kvt_policy kvt_policy_kvpop_mlp = {
    .abi = KVT_POLICY_ABI,
    .name = "kvpop-mlp",
    .title = "keep what a small network on key and value expects to be looked at",
    .paper = "Hauzenberger et al., KVpop, 2026, arXiv:2607.05061 (version 1)",
    .about =
        "KVpop's scorer without memory: for each kv head a network of one hidden layer "
        "(SiLU) on a token's key and value, read once, when the token comes. It is trained "
        "on future attention and decides which token stays when it leaves the window of "
        "recent ones.\n\n"
        "A lane holds B = S + w + k tokens: the first S (4), the last w (256), the row's own "
        "among them, and the k best of the others by r_t(q) = r_t + floor((q - t) / n_d) log "
        "gamma, a score that fades with age, gamma learned for each kv head between 0.999 "
        "and 0.999999. It drops before the row attends, so that every row sees exactly min(q "
        "+ 1, B) tokens, prompt and response alike; what went never returns. With n_d = 1 "
        "the order by r_t - t log gamma is the same at every query: a heap of k is enough "
        "while decoding, and a whole sequence is masked in O(T log T).\n\n"
        "Target and loss are those of kvpop (kvt policy show kvpop): the log of the mean "
        "attention from queries at distance w or more, maximum over the group, and pairs at "
        "the boundary of what would be kept. Published, share of the dense score on AIME and "
        "HMMT with 4,096 / 2,048 of 16,384 tokens, the model trained with it: Qwen3-4B .98 / "
        ".93, Qwen3-8B 1.00 / .98; outside of mathematics it is the better of the two "
        "scorers (4B, GPQA-D .59 / .57).\n\n"
        "Here kvt train kvpop makes the file: scorer=mlp, or scorer=linear, which is stored "
        "as the same form.",
    .differs =
        "the model is frozen instead of trained with it: its class is surrogate, and the "
        "published figures do not apply. k is B - S - w, whatever the scorer was trained "
        "for; a budget below S + w + 1 is skipped. Not specified there: the hidden width "
        "(the scorer's file says which one)",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_WEIGHTS,
               .exactness = KVT_SURROGATE,
               .drop_first = true,
               .new_slots_only = true},
    .slot_width = 1,
    .state_size = sizeof(int64_t),
    .weights = weights,
    .step = step,
    .score = score,
    .work = work,
};
