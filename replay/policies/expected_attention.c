/* expected-attention - keep what queries to come are expected to look at.
 *
 *   Devoto, Jeblick, Jegou, "Expected Attention: KV Cache Compression by Estimating Attention
 *   from Future Queries Distribution", 2025, arXiv:2510.00636.
 *
 * Queries to come are taken for Gaussian: mean m and covariance C of the prompt's queries
 * before RoPE (its first 4 left out), turned by the mean rotation R over the next `future`
 * positions. With the scale c of the model (1 / sqrt(D)), keys after RoPE,
 *
 *   e[h, s]  = c (R m).k_s + c^2 / 2 k_s^T (R C R^T) k_s          log of E exp(c q.k)
 *   p[h, s]  = softmax of e over the slots that are not pinned
 *   score[s] = mean over H of (p[h, s] + eps) ||v_s||
 *
 * and the first `sinks` tokens are pinned; a prompt of no more tokens has nothing to rank (the
 * published code stops there).
 *
 * Differs: nothing in the kept set; means and covariances over a data set instead of the prompt
 * (a variant of the published code) are not here. Cost for each lane, once: O(H S D^2) time,
 * O(S D) memory. */
#include "kvt/pieces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct expected {
    int64_t future, sinks;
    double eps;
    int norm, compat;
    bool covariance;
} expected;

enum { NORM_V2, NORM_V1, NORM_WO1, NORM_WO2, NORM_NONE };
enum { IS_PAPER, IS_KVPRESS, IS_ADAKV, IS_LUKV };
enum { TILE = 256 };

static const kvt_choice norms[] = {
    [NORM_V2] = {"v2", "", "Euclidean norm of the value"},
    [NORM_V1] = {"v1", "", "sum of the value's magnitudes"},
    [NORM_WO1] = {"wo1", "", "sum of the magnitudes of W_O v, of each query head"},
    [NORM_WO2] = {"wo2", "", "Euclidean norm of W_O v, of each query head"},
    [NORM_NONE] = {"none", "", "1: the expected attention alone"},
};

static const kvt_choice compats[] = {
    [IS_PAPER] = {"paper", "future=512,sinks=4,eps=0,norm=v2,covariance=true", "the paper"},
    [IS_KVPRESS] = {"kvpress", "future=512,sinks=4,eps=0,norm=v2,covariance=true",
                    "NVIDIA/kvpress 8bb29b9 ExpectedAttentionPress: as the default"},
    [IS_ADAKV] =
        {"kvpress-adakv", "future=512,sinks=4,eps=0.01,norm=v2,covariance=true",
         "NVIDIA/kvpress 8bb29b9, its combination with Ada-KV: eps of 0.01 (take /ada)"},
    [IS_LUKV] = {"kvpress-lukv", "future=512,sinks=4,eps=0.02,norm=v2,covariance=true",
                 "NVIDIA/kvpress 8bb29b9, under LU-KV: eps of 0.02"},
};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(expected, compat, IS_PAPER, compats, "published implementation to follow"),
    KVT_PARAM(expected, future, 512, 1, 65536, "tokens", "positions to come"),
    KVT_PARAM(expected, sinks, 4, 0, 65536, "tokens", "first tokens that are always kept"),
    KVT_PARAM(expected, eps, 0, 0, 1, "1", "added to the probability before the norm"),
    KVT_PARAM_CHOICE(expected, norm, NORM_V2, norms, "what the probability is weighed by"),
    KVT_PARAM(expected, covariance, true, 0, 1, "",
              "counts how queries differ, not their mean alone"),
    {0},
};

static void vary(const void *params_, kvt_traits *traits)
{
    const expected *p = params_;
    traits->mass_scores = p->norm == NORM_NONE && !(p->eps > 0);
    if (p->norm != NORM_WO1 && p->norm != NORM_WO2)
        traits->needs &= ~(unsigned)KVT_NEED_WO_NORM;
    if (p->norm != NORM_V1 && p->norm != NORM_V2)
        traits->needs &= ~(unsigned)KVT_NEED_VALUES;
}

static bool fits(const void *params_, int64_t budget, int64_t n_token, char *why, size_t cap)
{
    const expected *p = params_;
    int64_t need = kvt_min(p->sinks, n_token);
    if (budget >= need)
        return true;
    snprintf(why, cap, "%lld sinks need a budget of %lld or more, got %lld", (long long)need,
             (long long)need, (long long)budget);
    return false;
}

/* The mean rotation, and room. */
typedef struct room {
    double *re, *im;     /* [D / 2] */
    float *mean, *cov;   /* [D], [D D] turned, times the scale and half its square */
    float *key, *turned; /* [TILE D] */
    double *prob;        /* [S] */
} room;

static bool open_room(room *r, const expected *p, const kvt_lane *lane)
{
    kvt_arena *a = lane->scratch;
    int64_t D = lane->keys.dim[1];
    *r = (room){.re = kvt_arena_array(a, D, sizeof *r->re),
                .im = kvt_arena_array(a, D, sizeof *r->im),
                .mean = kvt_arena_array(a, D, sizeof *r->mean),
                .cov = kvt_arena_array(a, D * D, sizeof *r->cov),
                .key = kvt_arena_array(a, TILE * D, sizeof *r->key),
                .turned = kvt_arena_array(a, TILE * D, sizeof *r->turned),
                .prob = kvt_arena_array(a, lane->n_slot, sizeof *r->prob)};
    double *freq = kvt_arena_array(a, D, sizeof *freq);
    if (!r->re || !r->im || !r->mean || !r->cov || !r->key || !r->turned || !r->prob || !freq)
        return false;
    double factor = kvt_rope_freq(freq, lane->seq->geometry, lane->model_layer);
    kvt_mean_turn(r->re, r->im, freq, D, lane->now + 1, p->future, factor);
    return true;
}

/* out[i ld] = scale R in, in and out of stride ld; out may be in. */
static void turn(float *out, const float *in, const room *r, int64_t D, int64_t ld,
                 double scale)
{
    for (int64_t f = 0, half = D / 2; f < half; f++) {
        double x = (double)in[f * ld], y = (double)in[(f + half) * ld];
        out[f * ld] = (float)(scale * (r->re[f] * x - r->im[f] * y));
        out[(f + half) * ld] = (float)(scale * (r->im[f] * x + r->re[f] * y));
    }
}

static void turn_moments(const room *r, const kvt_lane *lane, int64_t head)
{
    int64_t D = lane->keys.dim[1];
    double c = lane->seq->geometry->attn_scale;
    kvt_view cov = kvt_view_at(&lane->query_cov, head);
    turn(r->mean, kvt_view_at(&lane->query_mean, head).data, r, D, 1, c);
    for (int64_t i = 0; i < D; i++) /* C R^T, row by row, then R of that, column by column */
        turn(r->cov + i * D, (const float *)cov.data + i * cov.stride[0], r, D, 1, c * c / 2);
    for (int64_t i = 0; i < D; i++)
        turn(r->cov + i, r->cov + i, r, D, D, 1);
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += (double)a[d] * (double)b[d];
    return sum;
}

/* r->prob [S]: the exponents of one head, then their softmax over what is not pinned. */
static void probabilities(const room *r, const expected *p, const bool *pinned,
                          const kvt_lane *lane)
{
    int64_t n = lane->n_slot, D = lane->keys.dim[1];
    double most = -INFINITY, sum = 0;
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t m = kvt_min(TILE, n - at);
        for (int64_t i = 0; i < m; i++)
            memcpy(r->key + i * D,
                   (const float *)lane->keys.data + (at + i) * lane->keys.stride[0],
                   (size_t)D * sizeof *r->key);
        if (p->covariance)
            kvt_affine(r->turned, r->key, D, m, D, r->cov, NULL, D);
        for (int64_t i = 0; i < m; i++) {
            r->prob[at + i] = dot(r->key + i * D, r->mean, D) +
                              (p->covariance ? dot(r->key + i * D, r->turned + i * D, D) : 0);
            if (!pinned[at + i])
                most = fmax(most, r->prob[at + i]);
        }
    }
    for (int64_t s = 0; s < n; s++) {
        r->prob[s] = pinned[s] ? 0 : exp(r->prob[s] - most);
        sum += r->prob[s];
    }
    for (int64_t s = 0; s < n && sum > 0; s++)
        r->prob[s] /= sum;
}

static double norm_of(const expected *p, const kvt_lane *lane, int64_t head, int64_t s)
{
    double sum = 0;
    if (p->norm == NORM_NONE)
        return 1;
    if (p->norm == NORM_WO1 || p->norm == NORM_WO2) {
        const kvt_view *v = p->norm == NORM_WO1 ? &lane->wo_l1 : &lane->wo_l2;
        return (double)((const float *)v->data)[head * v->stride[0] + s * v->stride[1]];
    }
    const float *v = (const float *)lane->values.data + s * lane->values.stride[0];
    for (int64_t d = 0; d < lane->values.dim[1]; d++)
        sum += p->norm == NORM_V1 ? fabs((double)v[d]) : (double)v[d] * (double)v[d];
    return p->norm == NORM_V1 ? sum : sqrt(sum);
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const expected *p = params_;
    int64_t n = lane->n_slot, H = lane->query_mean.dim[0];
    room r;
    bool good = open_room(&r, p, lane);
    for (int64_t s = 0; s < n; s++) { /* NaN, which is refused: no memory */
        pinned[s] = lane->pos[s] < p->sinks;
        out[s] = good ? 0 : NAN;
    }
    for (int64_t h = 0; good && h < H; h++) {
        turn_moments(&r, lane, h);
        probabilities(&r, p, pinned, lane);
        for (int64_t s = 0; s < n; s++)
            out[s] += (float)((r.prob[s] + p->eps) * norm_of(p, lane, h, s) / (double)H);
    }
}

const kvt_policy kvt_policy_expected_attention = {
    .abi = KVT_POLICY_ABI,
    .name = "expected-attention",
    .title = "keep what queries to come are expected to look at",
    .paper = "Devoto et al., Expected Attention, 2025, arXiv:2510.00636",
    .about =
        "Queries that are still to come cannot be seen, but their distribution can: before "
        "RoPE "
        "the queries of a head are nearly Gaussian, with a mean and a covariance that the "
        "prompt shows. Turned by the mean rotation of the next 512 positions they give the "
        "expected weight of every key in closed form. A token's score is its expected "
        "probability, mean over the query heads of the kv head, times the norm of its value. "
        "The first 4 tokens always stay; no question is needed and nothing is trained.\n\n"
        "Published settings: eps of 0; 0.01 in combination with Ada-KV, 0.02 under LU-KV. What "
        "the norm is taken of (the value, W_O v; L1, L2) changes little, eps more.",
    .differs =
        "the scale is the model's own where that is not 1 / sqrt(D); moments over a data "
        "set instead of the prompt are not here; a prompt of no more than the sinks is "
        "kept, where the published code stops",
    .traits = {.phases = KVT_PREFILL,
               .needs = KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_MOMENTS | KVT_NEED_WO_NORM,
               .exactness = KVT_EXACT,
               .mass_scores = true,
               .one_ranking = true},
    .params_size = sizeof(expected),
    .params = params,
    .vary = vary,
    .fits = fits,
    .score = score,
};
