/* dms - evict what a learned bit has marked, after a delay.
 *
 *   Lancucki et al., "Inference-Time Hyper-Scaling with KV Cache Compression" (dynamic memory
 *   sparsification), 2025, arXiv:2506.05345.
 *
 * A retrofitted model says for each token and kv head whether it goes, one token later:
 *
 *   a_t = 100 (W rmsnorm(x_t))_g - 5         (shipped; the paper borrows a channel of the
 * query) e_t = 1[ a_{t+1} > 0 ]                   the bit that comes with t + 1 decides about t
 *
 * A marked token is visible while q < t + W: the lane of query q holds the last W tokens and
 * those before them that are not marked. Lanes are ragged and have no bound; a row sees what is
 * left after the drop.
 *
 * from=decisions reads a of such a model's own trace (/decision/logit of policy dms, with
 * attribute shift 1 where it is stored at the token that it comes with): score -a_{t+1}, kept
 * from 0 on (a = 0 marks nothing) unless threshold=X says otherwise. On a frozen model there is
 * no such bit: from=weights (the default) is a surrogate with kvpop-mlp's score, the delay that
 * its file was trained for and a threshold that meets the budget in the mean; the file's decay
 * is not read. Its sinks always stay: the scorer has learned to score none of them.
 *
 * Not specified: what to do on a frozen model. W is 256 in the paper and 512 in the published
 * checkpoint (NVIDIA/Model-Optimizer a2fbac7); training sees a marked token one step longer.
 *
 * Differs: nothing is stored in pages of 256 tokens here, lengths are exact. kvpress's
 * DMSPress is another thing (any scorer, a window, a threshold). Cost for each lane: none on
 * top of the model's, or kvpop-mlp's; one float a slot. */
#include "kvt/pieces.h"

#include <math.h>

typedef struct dms {
    int from;
    int64_t window;
} dms;

enum { FROM_WEIGHTS, FROM_DECISIONS };

static const kvt_choice froms[] = {
    [FROM_WEIGHTS] = {"weights", "",
                      "the scorer of weights=FILE on a frozen model (surrogate)"},
    [FROM_DECISIONS] = {"decisions", "", "bits that the trace of a retrofitted model holds"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(dms, from, FROM_WEIGHTS, froms, "where the scores come from"),
    KVT_PARAM(
        dms, window, 0, 0, 1048576, "tokens",
        "W: a marked token stays so long (published: 256, its checkpoint 512); 0: 256 for "
        "decisions, the file's window for weights"),
    {0},
};

enum { PAPER_WINDOW = 256, SINKS = 4, WINDOW };

static const kvt_weight weights[] = {
    {"in/weight", "LGKW", "hidden layer, of [k; v]"},
    {"in/bias", "LGK", "its bias"},
    {"out/weight", "LGK", "read-out"},
    {"out/bias", "LG", "its bias"},
    [SINKS] = {"sinks", "", "first tokens that the scorer does not score: always kept"},
    [WINDOW] = {"window", "", "last tokens that it was trained to leave alone"},
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const dms *p = params_;
    if (p->from == FROM_DECISIONS) {
        traits->needs &= ~(unsigned)(KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_WEIGHTS);
        traits->own_threshold = true;
        traits->threshold = 0;
    } else {
        traits->needs &= ~(unsigned)KVT_NEED_DECISION;
        traits->exactness = KVT_SURROGATE;
    }
}

static void step(const void *params_, kvt_lane *lane)
{
    const dms *p = params_;
    if (p->from == FROM_WEIGHTS)
        kvt_network_new(lane, lane->state);
}

/* A bit that has not arrived marks nothing. */
static float keep_score(float logit)
{
    return isnan(logit) ? 0 : -logit;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const dms *p = params_;
    const float *logit = lane->decision.data; /* of the bit about each token: a_{t+1} */
    kvt_lane own = *lane;
    int64_t sinks = 0, window = p->window;
    if (p->from == FROM_WEIGHTS) {
        sinks = (int64_t)kvt_weight_number(lane, SINKS);
        window = window ? window : (int64_t)kvt_weight_number(lane, WINDOW);
    }
    window = window ? window : PAPER_WINDOW;
    step(p, &own); /* the decision lies in front of the row */
    for (int64_t s = 0; s < lane->n_slot; s++) {
        pinned[s] = lane->pos[s] < sinks || lane->now - lane->pos[s] < window;
        out[s] = p->from == FROM_DECISIONS ? keep_score(logit[s]) : lane->mark[s];
    }
}

static void work(const void *params_, kvt_work *work)
{
    const dms *p = params_;
    work->state_bytes_slot = sizeof(float);
    work->more_bytes_lane =
        (double)(p->window ? p->window : PAPER_WINDOW) / 8; /* bits that wait */
    work->page_tokens = 256;
    /* The published score is a spare neuron of the model: no network. What stands in for it on
     * a frozen model (from=weights) is none of the policy's. */
}

const kvt_policy kvt_policy_dms = {
    .abi = KVT_POLICY_ABI,
    .name = "dms",
    .title = "evict what a learned bit has marked, after a delay",
    .paper =
        "Lancucki et al., Inference-Time Hyper-Scaling (DMS), NeurIPS 2025, arXiv:2506.05345",
    .about =
        "Dynamic memory sparsification: the model itself says, with one bit for each token "
        "and kv head, that a token may go, and it goes W tokens later, so that what it says "
        "can still be taken up.\n\n"
        "The bit of token t comes with token t + 1: a = 100 (W rmsnorm(x))_g - 5, above 0 it "
        "goes (the paper borrows a channel of the query instead; the shipped checkpoint has "
        "an adapter on the residual). A marked token is visible while q < t + W. Lanes are "
        "ragged and have no bound; the published cache stores them in pages of 256. W is 256 "
        "in the paper, 512 in the checkpoint.\n\n"
        "Training is a retrofit: bits are drawn by Gumbel-sigmoid (temperature 0.1) and "
        "added to the logits as log sigma(-a); the loss is the KL between the model with and "
        "without eviction plus a hinge on the share of marked tokens, whose goal rises with "
        "the steps (in the shipped recipe to a compression of 16 in 510 steps). The paper "
        "trains all weights, the shipped recipe only the adapter.\n\n"
        "from=decisions reads the bits of such a model from its own trace (kvt import). On a "
        "frozen model there is no such bit, and from=weights, the default, puts kvpop-mlp's "
        "score in its place.",
    .differs =
        "on a frozen model, which the paper says nothing about: kvpop-mlp's score, a "
        "threshold that meets the budget in the mean over the other traces of the set, and "
        "the same delay stand in for the bit (surrogate); the sinks of the scorer's file, "
        "which it has not learned to score, always stay. Lengths are exact instead of pages "
        "of 256",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_WEIGHTS | KVT_NEED_DECISION,
               .exactness = KVT_EXACT,
               .drop_first = true,
               .by_threshold = true,
               .decision = "dms",
               .new_slots_only = true},
    .slot_width = 1,
    .state_size = sizeof(int64_t),
    .params_size = sizeof(dms),
    .params = params,
    .weights = weights,
    .weights_kind = "kvpop-mlp",
    .vary = vary,
    .step = step,
    .score = score,
    .work = work,
};
