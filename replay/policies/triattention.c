/* triattention - keep the keys that the mean query of each rotary frequency will look at.
 *
 *   Mao et al., "TriAttention: Efficient Long Reasoning with Trigonometric KV Compression",
 *   2026, arXiv:2604.04921; WeianMao/triattention c3744ee.
 *
 * A query head's mean query before RoPE is a complex number q_f for each rotary pair, with the
 * mean magnitude a_f >= |q_f|, both from a file (kvt train triattention). With the key before
 * RoPE as complex pairs k_f, D = now - position, and the factor s of cos and sin,
 *
 *   trig  = sum over F of s^2 |q_f| |k_f| cos((D + o) w_f + arg(q_f conj k_f)),
 *           mean over the offsets o = 1, 2, 4 .. 65536
 *   extra = sum over F of s^2 (a_f - |q_f|) |k_f|
 *   score = maximum over the query heads of the lane of trig + extra
 *
 * with znorm each head's numbers less their mean over their deviation (n) first. It decides at
 * the end of the prompt and every 128 tokens. In terms of the stored key K after RoPE the first
 * sum is the product of s K with q turned to now + o, so that the mean over o is taken once.
 *
 * Differs: see `differs`. Cost for each lane and decision: O(H S D). */
#include "kvt/pieces.h"

#include <math.h>

typedef struct tri {
    int64_t reach;
    int compat;
    bool znorm;
} tri;

enum { IS_PAPER, IS_OFFICIAL };

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "reach=65536,znorm=false",
                  "the published score, prompt and response compete alike"},
    [IS_OFFICIAL] = {"official", "reach=65536,znorm=false",
                     "WeianMao/triattention c3744ee: the prompt is kept whole"},
};

static const kvt_param params[] = {
    KVT_PARAM_COMPAT(tri, compats),
    KVT_PARAM(tri, reach, 65536, 1, 1 << 30, "tokens",
              "farthest offset: powers of two from 1 to it"),
    KVT_PARAM(tri, znorm, false, 0, 1, "", "each head's scores are standardised first"),
    {0},
};

static const kvt_weight weights[] = {
    {"mean", "LHD", "mean query before RoPE: real parts, then imaginary ones"},
    {"magnitude", "LHF", "mean magnitude of each rotary pair"},
    {0},
};

/* turned [D] = the mean query of a head at now + o, mean over the offsets, times the factor. */
static void turn(double *turned, const float *mean, const double *freq, const kvt_lane *lane,
                 int64_t reach, double factor)
{
    int64_t half = lane->keys.dim[1] / 2;
    for (int64_t f = 0; f < half; f++) {
        double re = 0, im = 0, n = 0;
        for (int64_t o = 1; o <= reach; o *= 2, n++) {
            re += cos((double)(lane->now + o) * freq[f]);
            im += sin((double)(lane->now + o) * freq[f]);
        }
        double x = (double)mean[f], y = (double)mean[f + half];
        turned[f] = factor * (re * x - im * y) / n;
        turned[f + half] = factor * (im * x + re * y) / n;
    }
}

/* out [S] of one head. */
static void score_head(double *out, const double *turned, const float *mean, const float *size,
                       double factor, const kvt_lane *lane)
{
    int64_t half = lane->keys.dim[1] / 2;
    for (int64_t s = 0; s < lane->n_slot; s++) {
        const float *k = kvt_row(&lane->keys, s);
        out[s] = 0;
        for (int64_t f = 0; f < half; f++) {
            double rest = (double)size[f] - hypot((double)mean[f], (double)mean[f + half]);
            out[s] += turned[f] * (double)k[f] + turned[f + half] * (double)k[f + half] +
                      factor * rest * hypot((double)k[f], (double)k[f + half]);
        }
    }
}

static void standardize(double *x, const bool *pinned, int64_t n)
{
    double mean = 0, square = 0, count = 0;
    for (int64_t s = 0; s < n; s++)
        mean += pinned[s] ? 0 : x[s], count += !pinned[s];
    mean /= fmax(count, 1);
    for (int64_t s = 0; s < n; s++)
        square += pinned[s] ? 0 : (x[s] - mean) * (x[s] - mean);
    double deviation = fmax(sqrt(square / fmax(count, 1)), 1e-6);
    for (int64_t s = 0; s < n; s++)
        x[s] = (x[s] - mean) / deviation;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const tri *p = params_;
    int64_t n = lane->n_slot, D = lane->keys.dim[1], H = lane->weights[0].dim[0];
    double *freq = kvt_arena_array(lane->scratch, D, sizeof *freq);
    double *turned = kvt_arena_array(lane->scratch, D, sizeof *turned);
    double *x = kvt_arena_array(lane->scratch, n, sizeof *x);
    bool good = freq && turned && x;
    double factor = good ? kvt_rope_freq(freq, lane->seq->geometry, lane->model_layer) : 1;
    for (int64_t s = 0; s < n; s++) { /* NaN, which is refused: no memory */
        pinned[s] = p->compat == IS_OFFICIAL && lane->pos[s] < lane->seq->n_prompt;
        out[s] = good ? -INFINITY : NAN;
    }
    for (int64_t h = 0; good && h < H; h++) {
        const float *mean = kvt_view_at(&lane->weights[0], h).data;
        const float *size = kvt_view_at(&lane->weights[1], h).data;
        turn(turned, mean, freq, lane, p->reach, factor);
        score_head(x, turned, mean, size, factor, lane);
        if (p->znorm)
            standardize(x, pinned, n);
        for (int64_t s = 0; s < n; s++)
            out[s] = fmaxf(out[s], (float)x[s]);
    }
}

const kvt_policy kvt_policy_triattention = {
    .abi = KVT_POLICY_ABI,
    .name = "triattention",
    .title = "keep the keys that the mean query of each rotary frequency will look at",
    .paper = "Mao et al., TriAttention, 2026, arXiv:2604.04921",
    .about =
        "Before RoPE the queries of a head lie close to one point, so that the mean query says "
        "how attention falls with distance: a sum of cosines, one for each rotary frequency. "
        "Keys are scored by that sum at distances of 1 to 65,536 tokens to come, plus what the "
        "spread of the queries adds (mean magnitude less magnitude of the mean, times the "
        "key's). The maximum over the query heads of a kv head counts; every 128 tokens the "
        "best B stay.\n\n"
        "Means and magnitudes come from a set of traces (kvt train triattention). Made for "
        "long reasoning: the published default keeps the whole prompt and cuts the response "
        "only (compat=official).",
    .differs =
        "the prompt competes, too (compat=official keeps it and needs a budget above it); one "
        "set for each kv head, by its own query heads, where the published default takes one "
        "set by sampled heads of the whole model; equal scores go by position, not by random "
        "numbers",
    .traits = {.phases = KVT_PREFILL | KVT_DECODE,
               .needs = KVT_NEED_KEYS | KVT_NEED_WEIGHTS,
               .exactness = KVT_EXACT,
               .every = 128},
    .params_size = sizeof(tri),
    .params = params,
    .weights = weights,
    .score = score,
};
