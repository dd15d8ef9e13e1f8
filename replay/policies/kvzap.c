/* kvzap - keep what a linear map of the hidden state scores from a threshold on.
 *
 *   Jegou and Jeblick, "KVzap: Fast, Adaptive, and Faithful KV Cache Pruning", 2026,
 *   arXiv:2601.07891.
 *
 * With h_t the input of the attention projections, after the input norm,
 *
 *   s_t = w . h_t + b                        for each kv head, an estimate of log KVzip+
 *
 * a token is evicted when s_t is below a threshold (about -4 as published) and it is not one of
 * the last `window`. Prompt and response alike; lanes are ragged. The map is fitted by least
 * squares to the log of KVzip+'s scores: the largest attention that a token gets while the
 * prompt is repeated, times |W_O v| / |h|. What a file of kvt train was fitted to its recipe
 * says. A score does not depend on the cache: on the prompt this is what the policy keeps.
 *
 * Not specified: how one compares at a budget; here the threshold is the one whose mean kept
 * count on the other traces of the set meets it, and threshold=X sets it.
 *
 * Differs: the linear map only; the paper's better one has a hidden layer of 512 units. Cost
 * for each lane: O(E) a token; one float a slot. */
#include "kvt/pieces.h"

typedef struct kvzap {
    int64_t window;
} kvzap;

static const kvt_param params[] = {
    KVT_PARAM(kvzap, window, 128, 0, 1048576, "tokens", "last tokens that are always kept"),
    {0},
};

static const kvt_weight weights[] = {
    {"weight", "LGE", "w, of the input of the projections"},
    {"bias", "LG", "b"},
    {0},
};

static void step(const void *params_, kvt_lane *lane)
{
    int64_t *seen = lane->state;
    int64_t from = kvt_slot_from(lane, *seen), width = lane->hidden.dim[1];
    (void)params_;
    kvt_affine(lane->mark + from,
               (const float *)lane->hidden.data + from * lane->hidden.stride[0],
               lane->hidden.stride[0], lane->n_slot - from, width, lane->weights[0].data,
               lane->weights[1].data, 1);
    *seen = lane->now + 1;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const kvzap *p = params_;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = lane->mark[s];
        pinned[s] = lane->now - lane->pos[s] < p->window;
    }
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    work->state_bytes_slot = sizeof(float);
    work->network_params = (double)work->n_hidden + 1;
}

const kvt_policy kvt_policy_kvzap = {
    .abi = KVT_POLICY_ABI,
    .name = "kvzap",
    .title = "keep what a linear map of the hidden state scores from a threshold on",
    .paper = "Jegou and Jeblick, KVzap, 2026, arXiv:2601.07891",
    .about =
        "KVzip's scores without its passes: a map from the hidden state of a token (the "
        "input of the attention projections) to one number for each kv head, the estimated "
        "log of KVzip+'s score. It does not look at the cache and so works for the response, "
        "too.\n\n"
        "A token goes when its number is below a threshold (about -4) and it is not among "
        "the last 128; prompt and response alike, lanes are ragged. How much stays depends "
        "on the text.\n\n"
        "Published: a linear map by ridge regression, or a hidden layer of 512 units (AdamW "
        "5e-3, 15 epochs), both on 500 tokens of each of 4,500 texts of 750 to 1,250 tokens; "
        "weights for several models are public.",
    .differs =
        "the linear map only, in closed form; what it was fitted to its file says. Not "
        "specified there: how one compares at a budget; here the threshold is the one whose "
        "mean kept count on the other traces of the set meets it, and threshold=X sets it",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_HIDDEN | KVT_NEED_WEIGHTS,
               .exactness = KVT_EXACT,
               .by_threshold = true},
    .slot_width = 1,
    .state_size = sizeof(int64_t),
    .params_size = sizeof(kvzap),
    .params = params,
    .weights = weights,
    .step = step,
    .score = score,
    .work = work,
};
