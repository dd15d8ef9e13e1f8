/* trim-kv - keep what a learned retention has not let fade.
 *
 *   Bui et al., "Cache What Lasts: Token Retention for Memory-Bounded KV Cache in LLMs"
 *   (TRIM-KV), 2025, arXiv:2512.03324.
 *
 * A gate for each lane gives a token a retention beta_t of (0, 1), whose powers stand for what
 * is left of it:
 *
 *   log beta_t = logsigmoid(MLP(h_t))
 *   score_t(q) = (q + 1 - t) log beta_t
 *
 * and the B best are kept each time a lane has grown by 128 tokens. Age multiplies log beta, so
 * that the order of two tokens changes with q (KVpop's does not). Nothing is pinned; `recent`
 * of the newest may be.
 *
 * The gate belongs to a model that was trained with it, so that its decisions are read: from
 * /decision/logit of policy trim-kv, what logsigmoid is taken of.
 *
 * Differs: ages are those of the formula; the published code has seen + 1 - t, one more, and
 * waits for B + 128 tokens at the prompt's end, too. The variant that adds log |k_t| and
 * DBTrimKV's one budget for all lanes are not here. Cost for each lane: O(S) a decision; one
 * float a slot (ngocbh/trimkv 0456bc4). */
#include "kvt/pieces.h"

#include <math.h>

typedef struct trim_kv {
    int64_t recent;
} trim_kv;

static const kvt_param params[] = {
    KVT_PARAM(trim_kv, recent, 0, 0, 1048576, "tokens", "newest tokens that are always kept"),
    {0},
};

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const trim_kv *p = params_;
    return kvt_pinned_fits(p->recent, "newest tokens", budget, n_token, why, cap);
}

/* log sigma(u), which neither overflows nor loses its small values. */
static double log_sigmoid(double u)
{
    return u < 0 ? u - log1p(exp(u)) : -log1p(exp(-u));
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const trim_kv *p = params_;
    const float *logit = lane->decision.data;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        int64_t age = lane->now - lane->pos[s];
        out[s] = (float)((double)(age + 1) * log_sigmoid((double)logit[s]));
        pinned[s] = age < p->recent;
    }
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    const double K = 512; /* as published; one hidden layer for all lanes of a layer */
    work->state_bytes_slot = sizeof(float);
    work->network_params = K + 1;
    work->network_shared = K * ((double)work->n_hidden + 1);
}

const kvt_policy kvt_policy_trim_kv = {
    .abi = KVT_POLICY_ABI,
    .name = "trim-kv",
    .title = "keep what a learned retention has not let fade",
    .paper = "Bui et al., Cache What Lasts (TRIM-KV), ICLR 2026, arXiv:2512.03324",
    .about =
        "A gate for each lane gives a token, when it comes, a retention beta between 0 and "
        "1, whose powers stand for what is left of it: score = (q + 1 - t) log beta. Age "
        "multiplies log beta, so that the order of two tokens changes with time (KVpop's "
        "does not). The best B (512) stay each time a lane has grown by 128 tokens; nothing "
        "is pinned.\n\n"
        "The gate (a network on the hidden state, 512 units) is trained inside the model: "
        "attention fades by beta to the power of the age, KL to the plain model and a "
        "penalty on what is held.\n\n"
        "Its values are read from the trace of a model with such gates (/decision/logit).",
    .differs =
        "ages as in the paper's formula; the published code counts one more, (q + 2 - t) "
        "after row q, and leaves a prompt below B + 128 whole, where here the prompt's "
        "end always cuts to B; without the variant that adds log |k| and without "
        "DBTrimKV's common budget of all lanes",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_DECISION,
               .exactness = KVT_OPEN_LOOP,
               .every = 128,
               .decision = "trim-kv"},
    .params_size = sizeof(trim_kv),
    .params = params,
    .fits = fits,
    .score = score,
    .work = work,
};
