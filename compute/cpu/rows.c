/* rows.c - attention rows from stored halves (compute/rows.h).
 *
 * Keys are packed into panels of 16 with the channel outermost, so that a block of 6 queries
 * keeps its 6 x 16 sums in registers; each sum runs over the channels in their order, whatever
 * block it is in. Sums of exponentials run in 8 lanes (lane = key mod 8, keys counted from 0)
 * that are added as a tree. */
#include "compute/rows.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "compute/cpu/exp8.h"

enum { PANEL = 16, BLOCK = 6, LANES = 8 };

typedef struct rows_job {
    const float *q, *k;
    const int32_t *pos;
    int64_t n_token, n_dim, window;
    float scale;
    float *panels; /* f32 [panels D PANEL], keys beyond the last are 0 */
    float *block;  /* f32 [D BLOCK], queries of a block, absent ones are 0 */
    float *score;  /* f32 [BLOCK panels*PANEL] */
} rows_job;

static int64_t padded(int64_t n)
{
    return (n + PANEL - 1) / PANEL * PANEL;
}

size_t rows_scratch_bytes(int64_t n_token, int64_t head_dim)
{
    int64_t n = padded(n_token) * head_dim + BLOCK * head_dim + 16 + BLOCK * padded(n_token);
    return (size_t)n * sizeof(float);
}

static void pack_keys(const rows_job *j)
{
    for (int64_t t0 = 0; t0 < j->n_token; t0 += PANEL) {
        float *panel = j->panels + t0 * j->n_dim;
        int64_t n = j->n_token - t0 < PANEL ? j->n_token - t0 : PANEL;
        if (n < PANEL)
            memset(panel, 0, (size_t)(PANEL * j->n_dim) * sizeof *panel);
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = 0; d < j->n_dim; d++)
                panel[d * PANEL + i] = j->k[(t0 + i) * j->n_dim + d];
    }
}

static void pack_queries(const rows_job *j, int64_t q0, int64_t n)
{
    memset(j->block, 0, (size_t)(BLOCK * j->n_dim) * sizeof *j->block);
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < j->n_dim; d++)
            j->block[d * BLOCK + i] = j->q[(q0 + i) * j->n_dim + d];
}

/* score[i][t] = sum over d of block[d][i] panel[d][t], for panels begin..end. */
static void scores_base(const rows_job *j, int64_t begin, int64_t end)
{
    int64_t stride = padded(j->n_token);
    for (int64_t t0 = begin; t0 < end; t0 += PANEL) {
        float sum[BLOCK][PANEL] = {{0}};
        const float *panel = j->panels + t0 * j->n_dim;
        for (int64_t d = 0; d < j->n_dim; d++)
            for (int i = 0; i < BLOCK; i++)
                for (int t = 0; t < PANEL; t++)
                    sum[i][t] += j->block[d * BLOCK + i] * panel[d * PANEL + t];
        for (int i = 0; i < BLOCK; i++)
            memcpy(j->score + i * stride + t0, sum[i], sizeof sum[i]);
    }
}

/* Scores [lo, pos] become probabilities, in place. */
static void softmax_base(float *z, int64_t lo, int64_t pos, float scale)
{
    float top = -INFINITY, lane[LANES] = {0};
    for (int64_t t = lo; t <= pos; t++) {
        z[t] *= scale;
        top = z[t] > top ? z[t] : top;
    }
    for (int64_t t = lo; t <= pos; t++) {
        z[t] = exp1(z[t] - top);
        lane[t % LANES] += z[t];
    }
    float a = lane[0] + lane[4], b = lane[1] + lane[5], c = lane[2] + lane[6],
          d = lane[3] + lane[7];
    float sum = (a + c) + (b + d);
    for (int64_t t = lo; t <= pos; t++)
        z[t] /= sum;
}

#if SIMD_X86
SIMD_AVX2 static void scores_avx2(const rows_job *j, int64_t begin, int64_t end)
{
    int64_t stride = padded(j->n_token);
    for (int64_t t0 = begin; t0 < end; t0 += PANEL) {
        const float *panel = j->panels + t0 * j->n_dim, *block = j->block;
        __m256 lo[BLOCK], hi[BLOCK];
        for (int i = 0; i < BLOCK; i++)
            lo[i] = hi[i] = _mm256_setzero_ps();
        for (int64_t d = 0; d < j->n_dim; d++, panel += PANEL, block += BLOCK) {
            __m256 p = _mm256_loadu_ps(panel), r = _mm256_loadu_ps(panel + LANES);
#pragma GCC unroll 6
            for (int i = 0; i < BLOCK; i++) {
                __m256 b = _mm256_broadcast_ss(block + i);
                lo[i] = _mm256_fmadd_ps(b, p, lo[i]);
                hi[i] = _mm256_fmadd_ps(b, r, hi[i]);
            }
        }
        for (int i = 0; i < BLOCK; i++) {
            _mm256_storeu_ps(j->score + i * stride + t0, lo[i]);
            _mm256_storeu_ps(j->score + i * stride + t0 + LANES, hi[i]);
        }
    }
}

/* Works on whole groups of 8 from lo/8*8; keys outside [lo, pos] are -inf first and 0 after. */
SIMD_AVX2 static void softmax_avx2(float *z, int64_t lo, int64_t pos, float scale)
{
    int64_t begin = lo / LANES * LANES, end = pos / LANES * LANES + LANES;
    __m256 top = _mm256_set1_ps(-INFINITY), sum = _mm256_setzero_ps(),
           s = _mm256_set1_ps(scale);
    for (int64_t t = begin; t < end; t += LANES)
        _mm256_storeu_ps(z + t, _mm256_mul_ps(_mm256_loadu_ps(z + t), s));
    for (int64_t t = begin; t < lo; t++)
        z[t] = -INFINITY;
    for (int64_t t = pos + 1; t < end; t++)
        z[t] = -INFINITY;
    for (int64_t t = begin; t < end; t += LANES)
        top = _mm256_max_ps(_mm256_loadu_ps(z + t), top);
    top = _mm256_set1_ps(max8(top));
    for (int64_t t = begin; t < end; t += LANES) {
        __m256 e = exp8(_mm256_sub_ps(_mm256_loadu_ps(z + t), top));
        /* Of -inf it is exactly 0: EXP_LOW underflows. */
        _mm256_storeu_ps(z + t, e);
        sum = _mm256_add_ps(sum, e);
    }
    sum = _mm256_set1_ps(sum8(sum));
    for (int64_t t = begin; t < end; t += LANES)
        _mm256_storeu_ps(z + t, _mm256_div_ps(_mm256_loadu_ps(z + t), sum));
}
#endif

/* Products [lo, pos] of a query become logits in out [T]. */
static void put_logits(float *out, const float *z, int64_t lo, int64_t pos, const rows_job *j)
{
    for (int64_t t = 0; t < j->n_token; t++)
        out[t] = t < lo || t > pos ? -INFINITY : z[t] * j->scale;
}

/* Products [lo, pos] of a query become a row of halves in out [T]. */
static void put_row(uint16_t *out, float *z, int64_t lo, int64_t pos, const rows_job *j)
{
#if SIMD_X86
    if (simd_avx2())
        softmax_avx2(z, lo, pos, j->scale);
    else
#endif
        softmax_base(z, lo, pos, j->scale);
    memset(out, 0, (size_t)j->n_token * sizeof *out);
    half_from_floats(out + lo, z + lo, pos - lo + 1);
}

/* Rows into `out`, or logits into `logit`; the other one is NULL. */
static void run(uint16_t *out, float *logit, rows_job j, int64_t n_query, void *scratch)
{
    bool avx2 = simd_avx2();
    int64_t stride = padded(j.n_token), n_token = j.n_token, window = j.window;
    const int32_t *pos = j.pos;
    j.panels = scratch;
    j.score = j.panels + stride * j.n_dim;
    j.block = j.score + BLOCK * stride;
    pack_keys(&j);
    for (int64_t q0 = 0; q0 < n_query; q0 += BLOCK) {
        int64_t n = n_query - q0 < BLOCK ? n_query - q0 : BLOCK;
        int64_t begin = n_token, end = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t p = pos[q0 + i], lo = window && p >= window ? p - window + 1 : 0;
            begin = lo < begin ? lo : begin;
            end = p + 1 > end ? p + 1 : end;
        }
        begin = begin / PANEL * PANEL;
        pack_queries(&j, q0, n);
#if SIMD_X86
        if (avx2)
            scores_avx2(&j, begin, padded(end));
        else
#endif
            scores_base(&j, begin, padded(end));
        for (int64_t i = 0; i < n; i++) {
            int64_t p = pos[q0 + i], lo = window && p >= window ? p - window + 1 : 0;
            if (logit)
                put_logits(logit + (q0 + i) * n_token, j.score + i * stride, lo, p, &j);
            else
                put_row(out + (q0 + i) * n_token, j.score + i * stride, lo, p, &j);
        }
    }
}

void rows_head(uint16_t *out, const float *q, const float *k, const int32_t *pos,
               int64_t n_query, int64_t n_token, int64_t head_dim, float scale, int64_t window,
               void *scratch)
{
    rows_job j = {.q = q,
                  .k = k,
                  .pos = pos,
                  .n_token = n_token,
                  .n_dim = head_dim,
                  .window = window,
                  .scale = scale};
    run(out, NULL, j, n_query, scratch);
}

void rows_logits(float *out, const float *q, const float *k, const int32_t *pos,
                 int64_t n_query, int64_t n_token, int64_t head_dim, float scale,
                 int64_t window, void *scratch)
{
    rows_job j = {.q = q,
                  .k = k,
                  .pos = pos,
                  .n_token = n_token,
                  .n_dim = head_dim,
                  .window = window,
                  .scale = scale};
    run(NULL, out, j, n_query, scratch);
}
