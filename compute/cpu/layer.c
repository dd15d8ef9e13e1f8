/* layer.c - norm, rotation, gate, sum (compute/layer.h). */
#include "compute/layer.h"

#include <math.h>

#include "compute/backend.h"
#include "compute/cpu/exp8.h"

void cpu_rmsnorm(float *out, const float *x, const float *gain, int64_t n_row, int64_t n_hidden,
                 double eps)
{
    for (int64_t r = 0; r < n_row; r++, x += n_hidden, out += n_hidden) {
        double lane[4] = {0};
        int64_t e = 0;
        for (; e + 4 <= n_hidden; e += 4)
            for (int i = 0; i < 4; i++)
                lane[i] += (double)x[e + i] * (double)x[e + i];
        for (; e < n_hidden; e++)
            lane[0] += (double)x[e] * (double)x[e];
        double square = (lane[0] + lane[1]) + (lane[2] + lane[3]);
        float factor = (float)(1.0 / sqrt(square / (double)n_hidden + eps));
        for (e = 0; e < n_hidden; e++)
            out[e] = x[e] * factor * gain[e];
    }
}

void rope_table(float *table, const double *freq, double factor, int64_t begin, int64_t n_row,
                int64_t head_dim)
{
    int64_t half = head_dim / 2;
    for (int64_t r = 0; r < n_row; r++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)(begin + r) * freq[i];
            table[r * head_dim + i] = (float)(cos(angle) * factor);
            table[r * head_dim + half + i] = (float)(sin(angle) * factor);
        }
}

void cpu_rope(float *x, int64_t ld, const float *table, int64_t n_row, int64_t n_head,
              int64_t head_dim)
{
    int64_t half = head_dim / 2;
    for (int64_t r = 0; r < n_row; r++) {
        const float *c = table + r * head_dim, *s = c + half;
        for (int64_t h = 0; h < n_head; h++) {
            float *a = x + r * ld + h * head_dim, *b = a + half;
            for (int64_t i = 0; i < half; i++) {
                float u = a[i], w = b[i];
                a[i] = u * c[i] - w * s[i];
                b[i] = w * c[i] + u * s[i];
            }
        }
    }
}

static void silu_base(float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        gate[i] = gate[i] / (1.0f + exp1(-gate[i])) * up[i];
}

#if SIMD_X86
SIMD_AVX2 static void silu_avx2(float *gate, const float *up, int64_t n)
{
    __m256 one = _mm256_set1_ps(1.0f), minus = _mm256_set1_ps(-0.0f);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 g = _mm256_loadu_ps(gate + i);
        __m256 e = exp8(_mm256_xor_ps(g, minus));
        g = _mm256_div_ps(g, _mm256_add_ps(one, e));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(g, _mm256_loadu_ps(up + i)));
    }
    silu_base(gate + i, up + i, n - i);
}
#endif

void cpu_silu_mul(float *gate, const float *up, int64_t n)
{
#if SIMD_X86
    if (simd_avx2()) {
        silu_avx2(gate, up, n);
        return;
    }
#endif
    silu_base(gate, up, n);
}

/* 1 + tanh(u) = 2 / (1 + exp(-2u)): the gate of silu with another exponent. */
#define GELU_A -1.59576912160573071f   /* -2 sqrt(2 / pi) */
#define GELU_B -0.0713548162726002527f /* times 0.044715 */

static void gelu_base(float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float z = gate[i];
        gate[i] = z / (1.0f + exp1(z * (GELU_A + GELU_B * (z * z)))) * up[i];
    }
}

#if SIMD_X86
SIMD_AVX2 static void gelu_avx2(float *gate, const float *up, int64_t n)
{
    __m256 one = _mm256_set1_ps(1.0f), a = _mm256_set1_ps(GELU_A), b = _mm256_set1_ps(GELU_B);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 z = _mm256_loadu_ps(gate + i);
        __m256 e = exp8(_mm256_mul_ps(z, _mm256_fmadd_ps(b, _mm256_mul_ps(z, z), a)));
        z = _mm256_div_ps(z, _mm256_add_ps(one, e));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(z, _mm256_loadu_ps(up + i)));
    }
    gelu_base(gate + i, up + i, n - i);
}
#endif

void cpu_gelu_mul(float *gate, const float *up, int64_t n)
{
#if SIMD_X86
    if (simd_avx2()) {
        gelu_avx2(gate, up, n);
        return;
    }
#endif
    gelu_base(gate, up, n);
}

void cpu_add(float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] += y[i];
}
