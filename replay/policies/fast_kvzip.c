/* fast-kvzip - rank the prompt by a small gate that has learned KVzip's scores.
 *
 *   Kim et al., "Fast KVzip: Efficient and Accurate LLM Inference with Gated KV Eviction",
 *   2026, arXiv:2601.17668.
 *
 * With h_t the input of the attention projections, d = 16, query heads u of a kv head's group
 * and 16 learned base keys e of the kv head,
 *
 *   q_{t,u} = RMSNorm(W_q h_t + b)           kk_t = RMSNorm(W_k h_t)
 *   a = q_{t,u} . kk_t / sqrt(d) + b_u       a_e = q_{t,u} . kbase_e / sqrt(d)
 *   score_t = mean over u of 1 / (1 + sum over e of exp(a_e - a))
 *
 * that is the share of attention that a token's own gate key wins against the base keys. The
 * first `sinks` and the last `recent` of the prompt are kept (4,096 tokens from 32,768 on); of
 * all layers and kv heads together the best are kept, so that lanes differ in length.
 *
 * Not specified: the norm's eps (1e-6 here). b_u is added once, as inference does (the
 * published training adds it twice); Janghyun1230/FastKVzip 7d78b34.
 *
 * Differs: the prompt only; the published code may go on while decoding. kvpress 0.5.5 keeps
 * one last token at least. Cost for each lane:
 * O(d (R + 1) E) a token, once; one float a slot. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>

typedef struct fast_kvzip {
    int64_t sinks;
    double recent;
} fast_kvzip;

enum { LONG_PROMPT = 32768, LONG_RECENT = 4096, TILE = 64 };

static const kvt_param params[] = {
    KVT_PARAM(fast_kvzip, sinks, 4, 0, 65536, "tokens", "first tokens that are always kept"),
    KVT_PARAM(fast_kvzip, recent, 0.02, 0, 1, "frac",
              "share of the prompt at its end that is always kept"),
    {0},
};

enum { Q_WEIGHT, Q_BIAS, Q_GAIN, K_WEIGHT, K_GAIN, BASE, LOGIT_BIAS };

static const kvt_weight weights[] = {
    [Q_WEIGHT] = {"query/weight", "LHOE", "W_q, of the input of the projections"},
    [Q_BIAS] = {"query/bias", "LHO", "b"},
    [Q_GAIN] = {"query/gain", "LO", "gain of the norm of queries"},
    [K_WEIGHT] = {"key/weight", "LGOE", "W_k"},
    [K_GAIN] = {"key/gain", "LO", "gain of the norm of keys"},
    [BASE] = {"base", "LGKO", "base keys"},
    [LOGIT_BIAS] = {"logit/bias", "LH", "b_u"},
    {0},
};

static int64_t recent(const fast_kvzip *p, int64_t n_prompt)
{
    return n_prompt >= LONG_PROMPT ? LONG_RECENT : (int64_t)(p->recent * (double)n_prompt);
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const fast_kvzip *p = params_;
    int64_t last = recent(p, n_token), need = p->sinks + last;
    if (budget >= n_token || budget >= need)
        return true;
    snprintf(why, cap,
             "%lld first and %lld last tokens need a budget of %lld or more, got %lld",
             (long long)p->sinks, (long long)last, (long long)need, (long long)budget);
    return false;
}

/* The rows of x [n d], each divided by its RMS and scaled. */
static void norm(float *x, int64_t n, int64_t d, const float *gain)
{
    for (int64_t i = 0; i < n; i++, x += d) {
        double square = 0;
        for (int64_t j = 0; j < d; j++)
            square += (double)x[j] * (double)x[j];
        double scale = 1 / sqrt(square / (double)d + 1e-6);
        for (int64_t j = 0; j < d; j++)
            x[j] = (float)((double)x[j] * scale * (double)gain[j]);
    }
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

/* Of one query head and token. */
static double gate(const kvt_lane *lane, const float *query, const float *key, double bias)
{
    const kvt_view *base = &lane->weights[BASE];
    int64_t d = base->dim[1];
    double a = dot(query, key, d) / sqrt((double)d) + bias, others = 0;
    for (int64_t e = 0; e < base->dim[0]; e++)
        others += exp(dot(query, (const float *)base->data + e * d, d) / sqrt((double)d) - a);
    return 1 / (1 + others);
}

/* The mean over the query heads, of the slots at..at + n - 1. */
static void score_tile(float *out, const kvt_lane *lane, int64_t at, int64_t n, float *key,
                       float *query)
{
    const kvt_view *w = lane->weights;
    int64_t n_head = w[Q_WEIGHT].dim[0], d = w[Q_WEIGHT].dim[1], E = w[Q_WEIGHT].dim[2];
    int64_t ld = lane->hidden.stride[0];
    const float *x = (const float *)lane->hidden.data + at * ld, *bias = w[Q_BIAS].data;
    double sum[TILE] = {0};
    kvt_affine(key, x, ld, n, E, w[K_WEIGHT].data, NULL, d);
    norm(key, n, d, w[K_GAIN].data);
    for (int64_t u = 0; u < n_head; u++) {
        kvt_affine(query, x, ld, n, E, (const float *)w[Q_WEIGHT].data + u * d * E,
                   bias + u * d, d);
        norm(query, n, d, w[Q_GAIN].data);
        for (int64_t i = 0; i < n; i++)
            sum[i] += gate(lane, query + i * d, key + i * d,
                           (double)((const float *)w[LOGIT_BIAS].data)[u]);
    }
    for (int64_t i = 0; i < n; i++)
        out[at + i] = (float)(sum[i] / (double)n_head);
}

/* Once, with the prompt: lanes of all layers compete when what this one was fed is gone. */
static void step(const void *params_, kvt_lane *lane)
{
    int64_t d = lane->weights[BASE].dim[1];
    float *key = kvt_arena_array(lane->scratch, TILE * d, sizeof *key);
    float *query = kvt_arena_array(lane->scratch, TILE * d, sizeof *query);
    (void)params_;
    if (lane->now >= lane->seq->n_prompt)
        return; /* it ranks the prompt only */
    for (int64_t at = 0; key && query && at < lane->n_slot; at += TILE)
        score_tile(lane->mark, lane, at, kvt_min(TILE, lane->n_slot - at), key, query);
    if (!key || !query)
        kvt_no_score(lane->mark, lane->n_slot);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const fast_kvzip *p = params_;
    int64_t last = recent(p, lane->n_slot);
    for (int64_t s = 0; s < lane->n_slot; s++) {
        out[s] = lane->mark[s];
        pinned[s] = lane->pos[s] < p->sinks || lane->now - lane->pos[s] < last;
    }
}

static void choose(const void *params_, bool *const *keep, const kvt_lane *lane, int n_lane,
                   const float *const *scores, const bool *const *pinned, const int64_t *budget)
{
    (void)params_;
    kvt_keep_best_of_all(keep, lane, n_lane, scores, pinned, budget);
}

static void work(const void *params_, kvt_work *work)
{
    (void)params_;
    const double d = 16, n_base = 16; /* as published */
    double u = (double)work->lane_heads;
    /* W_q and b of each query head, W_k, base keys, b_u */
    work->network_params = d * (u + 1) * (double)work->n_hidden + d * u + n_base * d + u;
}

const kvt_policy kvt_policy_fast_kvzip = {
    .abi = KVT_POLICY_ABI,
    .name = "fast-kvzip",
    .title = "rank the prompt by a small gate that has learned KVzip's scores",
    .paper = "Kim et al., Fast KVzip, 2026, arXiv:2601.17668",
    .about =
        "KVzip's scores from a small gate, without repeating the prompt. For each query head "
        "the gate makes a query of 16 channels from the input of the attention projections, "
        "for each kv head a key of the same token and 16 base keys that are learned; score = "
        "the share of a softmax that the token's own key wins against the base keys, mean "
        "over the group.\n\n"
        "It decides at the end of the prompt: the first 4 and the last 2 % (4,096 tokens "
        "from 32,768 on) stay, and the best of all layers and heads together. The published "
        "code may go on while decoding.\n\n"
        "Trained on KVzip's scores by cross entropy: SGD with momentum 0.9, rate 0.2, 5,000 "
        "steps of 1,000 tokens, less than an hour on one H100.",
    .differs =
        "the prompt only. Not specified there: the eps of its norms (1e-6 here). The logit's "
        "bias is added once, as the published inference does (the training code adds it "
        "twice)",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_HIDDEN | KVT_NEED_WEIGHTS,
               .scope = KVT_BY_MODEL,
               .exactness = KVT_EXACT,
               .one_ranking = true},
    .slot_width = 1,
    .params_size = sizeof(fast_kvzip),
    .params = params,
    .weights = weights,
    .fits = fits,
    .step = step,
    .score = score,
    .select = choose,
    .work = work,
};
