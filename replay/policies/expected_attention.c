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

typedef struct expected {
    int64_t future, sinks;
    double eps;
    int norm, compat;
    bool covariance;
} expected;

enum { NORM_V2, NORM_V1, NORM_WO1, NORM_WO2, NORM_NONE };
enum { IS_PAPER, IS_KVPRESS, IS_ADAKV, IS_LUKV };

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
    KVT_PARAM_COMPAT(expected, compats),
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
    return kvt_pinned_fits(p->sinks, "sinks", budget, n_token, why, cap);
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
    const float *v = kvt_row(&lane->values, s);
    if (p->norm == NORM_V2)
        return kvt_norm(v, lane->values.dim[1]);
    for (int64_t d = 0; d < lane->values.dim[1]; d++)
        sum += fabs((double)v[d]);
    return sum;
}

static void score(const void *params_, float *out, bool *pinned, const kvt_lane *lane)
{
    const expected *p = params_;
    int64_t n = lane->n_slot, H = lane->query_mean.dim[0];
    double *prob = kvt_arena_array(lane->scratch, n, sizeof *prob);
    bool good = prob != NULL;
    for (int64_t s = 0; s < n; s++) {
        pinned[s] = lane->pos[s] < p->sinks;
        out[s] = 0;
    }
    for (int64_t h = 0; good && h < H; h++) {
        good = kvt_expected_attention(prob, lane, h, pinned, p->future, p->covariance);
        for (int64_t s = 0; good && s < n; s++)
            out[s] += (float)((prob[s] + p->eps) * norm_of(p, lane, h, s) / (double)H);
    }
    if (!good)
        kvt_no_score(out, n);
}

const kvt_policy kvt_policy_expected_attention = {
    .abi = KVT_POLICY_ABI,
    .name = "expected-attention",
    .title = "keep what queries to come are expected to look at",
    .paper = "Devoto et al., Expected Attention, 2025, arXiv:2510.00636",
    .about =
        "Queries that are still to come cannot be seen, but their distribution can: before "
        "RoPE the queries of a head are nearly Gaussian, with a mean and a covariance that the "
        "prompt shows. Turned by the mean rotation of the next 512 positions they give the "
        "expected weight of every key in closed form. A token's score is its expected "
        "probability, mean over the query heads of the kv head, times the norm of its value. "
        "The first 4 tokens always stay; no question is needed and nothing is trained.\n\n"
        "Published settings: eps of 0; 0.01 in combination with Ada-KV, 0.02 under LU-KV. What "
        "the norm is taken of (the value, W_O v; L1, L2) changes little, eps more.",
    .differs =
        "the scale is the model's own where that is not 1 / sqrt(D); moments over a data set "
        "instead of the prompt are not here; a prompt of no more than the sinks is kept, where "
        "the published code stops; moments leave out the trace's first 4 tokens whatever sinks "
        "is",
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
