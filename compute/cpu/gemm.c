/* gemm.c - matrix products (compute/gemm.h): the only door to CBLAS, and vectorised dot
 * products for one row. */
#include "compute/gemm.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "compute/backend.h"
#include "compute/cpu/exp8.h"

/* Absent in a CBLAS that is not OpenBLAS. cblas.h declares the first where it is OpenBLAS's. */
#pragma weak openblas_set_num_threads
#pragma weak openblas_get_num_threads
#pragma weak openblas_get_config
#pragma weak openblas_get_corename
extern void openblas_set_num_threads(int n);
extern int openblas_get_num_threads(void);
extern char *openblas_get_config(void);
extern char *openblas_get_corename(void);

bool gemm_one_thread(void)
{
    if (!openblas_set_num_threads || !openblas_get_num_threads)
        return false;
    if (openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
    return true;
}

const char *kvt_blas_name(char *out, size_t cap)
{
    char library[48] = "a CBLAS that does not name itself";
    if (openblas_get_config) {
        const char *config = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
        size_t n = 0, words = 0;
        while (config[n] && n < sizeof library - 1 && (words += config[n] == ' ') < 2)
            n++;
        memcpy(library, config, n);
        library[n] = 0;
    }
    snprintf(out, cap, "%s%s%s", library, openblas_get_corename ? ", kernel " : "",
             openblas_get_corename ? openblas_get_corename() : "");
    return out;
}

void cpu_gemm(gemm_op op, const gemm_args *g)
{
    assert(g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX);
    assert(g->lda <= INT_MAX && g->ldb <= INT_MAX && g->ldc <= INT_MAX);
    if (g->m <= 0 || g->n <= 0)
        return;
    cblas_sgemm(CblasRowMajor, op == GEMM_TN ? CblasTrans : CblasNoTrans,
                op == GEMM_NT ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k,
                g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
}

static void gemv_base(float *y, const float *w, const float *x, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < n; i++, w += k) {
        float lane[8] = {0};
        for (int64_t j = 0; j < k; j++)
            lane[j % 8] += w[j] * x[j];
        y[i] = ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
               ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    }
}

static void mix_base(float *y, const float *p, const float *v, int64_t n_token, int64_t n_dim)
{
    for (int64_t t = 0; t < n_token; t++)
        for (int64_t d = 0; d < n_dim; d++)
            y[d] += p[t] * v[t * n_dim + d];
}

#if SIMD_X86
enum { AHEAD = 2048 }; /* bytes of a matrix that are fetched early */

/* One row: two sums of 8 lanes, so that the latency of fma is hidden; y depends on nothing
 * else. Rows are read one behind the other: that is what the hardware prefetches best. */
SIMD_AVX2 static float dot_avx2(const float *w, const float *x, int64_t k)
{
    __m256 s[4];
    for (int i = 0; i < 4; i++)
        s[i] = _mm256_setzero_ps();
    int64_t j = 0;
    for (; j + 32 <= k; j += 32) {
        _mm_prefetch((const char *)(w + j) + AHEAD, _MM_HINT_T0);
        _mm_prefetch((const char *)(w + j) + AHEAD + 64, _MM_HINT_T0);
#pragma GCC unroll 4 /* the sums stay in registers */
        for (int i = 0; i < 4; i++)
            s[i] = _mm256_fmadd_ps(_mm256_loadu_ps(w + j + 8 * i),
                                   _mm256_loadu_ps(x + j + 8 * i), s[i]);
    }
    for (; j + 8 <= k; j += 8)
        s[0] = _mm256_fmadd_ps(_mm256_loadu_ps(w + j), _mm256_loadu_ps(x + j), s[0]);
    float sum = sum8(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
    for (; j < k; j++)
        sum += w[j] * x[j];
    return sum;
}

SIMD_AVX2 static void gemv_avx2(float *y, const float *w, const float *x, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = dot_avx2(w + i * k, x, k);
}

SIMD_AVX2 static void mix_avx2(float *y, const float *p, const float *v, int64_t n_token,
                               int64_t n_dim)
{
    int64_t d = 0;
    for (; d + 32 <= n_dim; d += 32) {
        __m256 s[4];
        for (int i = 0; i < 4; i++)
            s[i] = _mm256_loadu_ps(y + d + 8 * i);
        for (int64_t t = 0; t < n_token; t++) {
            __m256 w = _mm256_broadcast_ss(p + t);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                s[i] = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + t * n_dim + d + 8 * i), s[i]);
        }
        for (int i = 0; i < 4; i++)
            _mm256_storeu_ps(y + d + 8 * i, s[i]);
    }
    for (int64_t t = 0; t < n_token; t++)
        for (int64_t e = d; e < n_dim; e++)
            y[e] += p[t] * v[t * n_dim + e];
}
#endif

void cpu_gemv(float *y, const float *w, const float *x, int64_t n, int64_t k)
{
#if SIMD_X86
    if (simd_avx2()) {
        gemv_avx2(y, w, x, n, k);
        return;
    }
#endif
    gemv_base(y, w, x, n, k);
}

void cpu_mix(float *y, const float *p, const float *v, int64_t n_token, int64_t n_dim)
{
#if SIMD_X86
    if (simd_avx2()) {
        mix_avx2(y, p, v, n_token, n_dim);
        return;
    }
#endif
    mix_base(y, p, v, n_token, n_dim);
}
