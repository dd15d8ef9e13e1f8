/* attend.c - attention of one head over a tile of queries (compute/attend.h). */
#include "compute/attend.h"

#include <math.h>
#include <string.h>

#include "compute/backend.h"
#include "compute/cpu/exp8.h"

static float softmax_base(float *x, int64_t n, int64_t lo, int64_t hi)
{
    float top = -INFINITY;
    double sum = 0;
    for (int64_t t = lo; t < hi; t++)
        top = x[t] > top ? x[t] : top;
    if (top == -INFINITY) {
        memset(x, 0, (size_t)n * sizeof *x);
        return -INFINITY;
    }
    for (int64_t t = lo; t < hi; t++) {
        x[t] = exp1(x[t] - top);
        sum += (double)x[t];
    }
    float factor = (float)(1.0 / sum);
    for (int64_t t = lo; t < hi; t++)
        x[t] *= factor;
    memset(x, 0, (size_t)lo * sizeof *x);
    memset(x + hi, 0, (size_t)(n - hi) * sizeof *x);
    return top + (float)log(sum);
}

#if SIMD_X86
/* Two sums of 8 lanes each, the tail by lane masks: a row of 32,768 adds 2,048 numbers a lane,
 * which keeps 6 digits. */
SIMD_AVX2 static float softmax_avx2(float *x, int64_t n, int64_t lo, int64_t hi)
{
    __m256 top0 = _mm256_set1_ps(-INFINITY), top1 = top0;
    float top = -INFINITY, tail = 0;
    int64_t t = lo;
    for (; t + 16 <= hi; t += 16) {
        top0 = _mm256_max_ps(top0, _mm256_loadu_ps(x + t));
        top1 = _mm256_max_ps(top1, _mm256_loadu_ps(x + t + 8));
    }
    for (; t < hi; t++)
        top = x[t] > top ? x[t] : top;
    top0 = _mm256_max_ps(top0, top1);
    float wide = max8(top0);
    top = wide > top ? wide : top;
    if (top == -INFINITY) {
        memset(x, 0, (size_t)n * sizeof *x);
        return -INFINITY;
    }
    __m256 shift = _mm256_set1_ps(top), sum0 = _mm256_setzero_ps(), sum1 = sum0;
    for (t = lo; t + 16 <= hi; t += 16) {
        __m256 a = exp8(_mm256_sub_ps(_mm256_loadu_ps(x + t), shift));
        __m256 b = exp8(_mm256_sub_ps(_mm256_loadu_ps(x + t + 8), shift));
        _mm256_storeu_ps(x + t, a);
        _mm256_storeu_ps(x + t + 8, b);
        sum0 = _mm256_add_ps(sum0, a);
        sum1 = _mm256_add_ps(sum1, b);
    }
    for (; t < hi; t++) {
        x[t] = exp1(x[t] - top);
        tail += x[t];
    }
    double sum = (double)sum8(_mm256_add_ps(sum0, sum1)) + (double)tail;
    float factor = (float)(1.0 / sum);
    __m256 wide_factor = _mm256_set1_ps(factor);
    for (t = lo; t + 8 <= hi; t += 8)
        _mm256_storeu_ps(x + t, _mm256_mul_ps(_mm256_loadu_ps(x + t), wide_factor));
    for (; t < hi; t++)
        x[t] *= factor;
    memset(x, 0, (size_t)lo * sizeof *x);
    memset(x + hi, 0, (size_t)(n - hi) * sizeof *x);
    return top + (float)log(sum);
}
#endif

float cpu_softmax(float *x, int64_t n, int64_t lo, int64_t hi)
{
    if (lo >= hi) {
        memset(x, 0, (size_t)n * sizeof *x);
        return -INFINITY;
    }
#if SIMD_X86
    if (simd_avx2())
        return softmax_avx2(x, n, lo, hi);
#endif
    return softmax_base(x, n, lo, hi);
}

void cpu_attend(const attend_args *a)
{
    int64_t first = attend_first(a->pos, a->window), n_key = a->pos + a->n_row - first;
    int64_t d = a->head_dim;
    cpu_gemm(GEMM_NT, &(gemm_args){.c = a->p,
                                   .a = a->q,
                                   .b = a->k + first * d,
                                   .m = a->n_row,
                                   .n = n_key,
                                   .k = d,
                                   .lda = d,
                                   .ldb = d,
                                   .ldc = n_key,
                                   .alpha = a->scale});
    for (int64_t r = 0; r < a->n_row; r++) {
        int64_t lo = attend_first(a->pos + r, a->window) - first;
        a->lse[r] = cpu_softmax(a->p + r * n_key, n_key, lo, a->pos + r + 1 - first);
    }
    cpu_gemm(GEMM_NN, &(gemm_args){.c = a->out,
                                   .a = a->p,
                                   .b = a->v + first * d,
                                   .m = a->n_row,
                                   .n = d,
                                   .k = n_key,
                                   .lda = n_key,
                                   .ldb = d,
                                   .ldc = a->ld_out,
                                   .alpha = 1.0f});
}
