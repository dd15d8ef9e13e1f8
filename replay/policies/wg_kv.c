/* wg-kv - admit to the cache what a gate lets in.
 *
 *   Huang et al., "KV Admission: Learning What to Write for Efficient Long-Context Inference"
 *   (write-gated KV), 2025, arXiv:2512.17452.
 *
 * A gate for each lane reads the key before and after RoPE,
 *
 *   g_t = clamp(sigma(MLP([RMSNorm(k_pre,t) ; RMSNorm(k_t)])), 1e-3, 1)
 *
 * Every token is in a local window of 256; one that leaves it stays only if g_t > .1. Lanes are
 * ragged.
 *
 * The gate belongs to a model that was trained with it, so that its decisions are read: from
 * /decision/logit of policy wg-kv, what sigma is taken of. Asked for a budget the threshold is
 * the one whose mean kept count on the other traces of the set meets it; threshold=0.1 is the
 * published rule. A row sees what is left after the drop.
 *
 * Differs: while the model runs, log g is added to the logits of tokens outside the window,
 * too; rows here are those of the trace, cut to what was admitted. Cost for each lane: none on
 * top of the gate (EMCLab-Sinica/WG-KV a694389). */
#include "kvt/pieces.h"

#include <math.h>

typedef struct wg_kv {
    int64_t window;
} wg_kv;

static const kvt_param params[] = {
    KVT_PARAM(wg_kv, window, 256, 1, 1048576, "tokens", "local window that holds every token"),
    {0},
};

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const wg_kv *p = params_;
    const float *logit = lane->decision.data;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        /* g without its clamp, which moves nothing across a threshold inside it. No f32 is 0.1:
         * that g is above it and that it reaches it are the same. */
        out[s] = (float)(1 / (1 + exp(-(double)logit[s])));
        pinned[s] = lane->now - lane->pos[s] < p->window;
    }
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    double n_in = 2 * (double)work->head_dim, K = 4 * (double)work->head_dim; /* published */
    work->state_bytes_slot = sizeof(float);
    work->network_params = (n_in + 2) * K + 1;
}

const kvt_policy kvt_policy_wg_kv = {
    .abi = KVT_POLICY_ABI,
    .name = "wg-kv",
    .title = "admit to the cache what a gate lets in",
    .paper = "Huang et al., KV Admission (WG-KV), 2025, arXiv:2512.17452",
    .about =
        "Decide what is written instead of what is removed: a gate for each lane reads a "
        "token's key before and after RoPE. Every token is in a local window of 256; one "
        "that leaves it is admitted to the long cache only if its gate is above 0.1. Lanes "
        "are ragged.\n\n"
        "The gate (GELU, 4 D units) is trained on a frozen model: log g is added to the "
        "logits of tokens outside the window; squared error of the last hidden states plus a "
        "price on what is admitted. Reported to save 46 to 68 % of the memory.\n\n"
        "Its values are read from the trace of a model with such gates (/decision/logit).",
    .differs =
        "at a budget the threshold is matched, threshold=0.1 is the published one; the bias "
        "log g on what was admitted is only in the trace's own rows",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_DECISION,
               .exactness = KVT_OPEN_LOOP,
               .drop_first = true,
               .by_threshold = true,
               .decision = "wg-kv"},
    .params_size = sizeof(wg_kv),
    .params = params,
    .score = score,
    .work = work,
};
