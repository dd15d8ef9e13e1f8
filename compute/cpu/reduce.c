/* reduce.c - sums and maxima of tiles (compute/reduce.h). */
#include "compute/reduce.h"

#include <math.h>
#include <string.h>

#include "compute/backend.h"
#include "compute/cpu/exp8.h"

static void columns_base(float *sum, float *max, const float *p, int64_t ld, int64_t n_row,
                         int64_t begin, int64_t n_col)
{
    for (int64_t r = 0; r < n_row; r++)
        for (int64_t t = begin; t < n_col; t++) {
            float x = p[r * ld + t];
            sum[t] = r == 0 ? x : sum[t] + x;
            if (max)
                max[t] = r == 0 || x > max[t] ? x : max[t];
        }
}

#if SIMD_X86
/* 32 columns at a time stay in registers while the rows go by. */
SIMD_AVX2 static int64_t columns_avx2(float *sum, float *max, const float *p, int64_t ld,
                                      int64_t n_row, int64_t n_col)
{
    int64_t t = 0;
    for (; t + 32 <= n_col; t += 32) {
        __m256 s[4], m[4];
        for (int i = 0; i < 4; i++)
            s[i] = m[i] = _mm256_loadu_ps(p + t + 8 * i);
        for (int64_t r = 1; r < n_row; r++)
            for (int i = 0; i < 4; i++) {
                __m256 x = _mm256_loadu_ps(p + r * ld + t + 8 * i);
                s[i] = _mm256_add_ps(s[i], x);
                m[i] = _mm256_max_ps(m[i], x);
            }
        for (int i = 0; i < 4; i++) {
            _mm256_storeu_ps(sum + t + 8 * i, s[i]);
            if (max)
                _mm256_storeu_ps(max + t + 8 * i, m[i]);
        }
    }
    return t;
}

SIMD_AVX2 static void norm_avx2(float *l1, float *l2, const float *x, int64_t n)
{
    __m256 low = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, s0 = a0, s1 = a0;
    int64_t e = 0;
    for (; e + 16 <= n; e += 16) {
        __m256 x0 = _mm256_loadu_ps(x + e), x1 = _mm256_loadu_ps(x + e + 8);
        a0 = _mm256_add_ps(a0, _mm256_and_ps(low, x0));
        a1 = _mm256_add_ps(a1, _mm256_and_ps(low, x1));
        s0 = _mm256_fmadd_ps(x0, x0, s0);
        s1 = _mm256_fmadd_ps(x1, x1, s1);
    }
    float a = sum8(_mm256_add_ps(a0, a1)), s = sum8(_mm256_add_ps(s0, s1));
    for (; e < n; e++) {
        a += fabsf(x[e]);
        s += x[e] * x[e];
    }
    *l1 = a;
    *l2 = sqrtf(s);
}
#endif

void cpu_columns(float *sum, float *max, const float *p, int64_t ld, int64_t n_row,
                 int64_t n_col)
{
    int64_t done = 0;
    if (n_row == 0) {
        memset(sum, 0, (size_t)n_col * sizeof *sum);
        if (max)
            memset(max, 0, (size_t)n_col * sizeof *max);
        return;
    }
#if SIMD_X86
    if (simd_avx2())
        done = columns_avx2(sum, max, p, ld, n_row, n_col);
#endif
    columns_base(sum, max, p, ld, n_row, done, n_col);
}

static void norm_base(float *l1, float *l2, const float *x, int64_t n)
{
    double a = 0, s = 0;
    for (int64_t e = 0; e < n; e++) {
        a += fabs((double)x[e]);
        s += (double)x[e] * (double)x[e];
    }
    *l1 = (float)a;
    *l2 = (float)sqrt(s);
}

void cpu_norms(float *l1, float *l2, const float *x, int64_t ld, int64_t n_row, int64_t n_col)
{
#if SIMD_X86
    if (simd_avx2()) {
        for (int64_t r = 0; r < n_row; r++)
            norm_avx2(l1 + r, l2 + r, x + r * ld, n_col);
        return;
    }
#endif
    for (int64_t r = 0; r < n_row; r++)
        norm_base(l1 + r, l2 + r, x + r * ld, n_col);
}
