/* exp8.h - the exponential in f32, by polynomial: eight at a time and one at a time.
 *
 * exp(x) = 2^n exp(r), n = round(x / ln 2), r = x - n ln 2 in two parts (Cody and Waite),
 * exp(r) = 1 + r + r^2 P(r) with P of degree 5 on [-ln2/2, ln2/2] (coefficients of Cephes); 2^n
 * in two factors, so that denormal results are right and large ones become infinite. Within 2
 * ulp (tests/unit/test_kernels.c). NaN stays NaN, -inf gives 0. */
#ifndef COMPUTE_CPU_EXP8_H
#define COMPUTE_CPU_EXP8_H

#include <math.h>
#include <string.h>

#include "compute/simd.h"

#define EXP_LOW    -104.0f /* below: 0 */
#define EXP_HIGH   89.0f   /* above: infinite */
#define EXP_LOG2E  1.44269504088896341f
#define EXP_LN2_HI 0.693359375f
#define EXP_LN2_LO -2.12194440e-4f
#define EXP_P0     1.9875691500e-4f
#define EXP_P1     1.3981999507e-3f
#define EXP_P2     8.3334519073e-3f
#define EXP_P3     4.1665795894e-2f
#define EXP_P4     1.6666665459e-1f
#define EXP_P5     5.0000001201e-1f

static inline float exp_power(int n) /* 2^n, -126 <= n <= 127 */
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float exp1(float x)
{
    if (isnan(x))
        return x;
    x = x < EXP_LOW ? EXP_LOW : x > EXP_HIGH ? EXP_HIGH : x;
    float fn = rintf(x * EXP_LOG2E);
    float r = x - fn * EXP_LN2_HI;
    r = r - fn * EXP_LN2_LO;
    float p = EXP_P0;
    p = p * r + EXP_P1;
    p = p * r + EXP_P2;
    p = p * r + EXP_P3;
    p = p * r + EXP_P4;
    p = p * r + EXP_P5;
    p = p * (r * r) + r + 1.0f;
    int n = (int)fn, half = n >> 1;
    return p * exp_power(half) * exp_power(n - half);
}

#if SIMD_X86
#include <immintrin.h>

SIMD_AVX2 static inline __m256 exp8_power(__m256i n)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

SIMD_AVX2 static inline __m256 exp8(__m256 x)
{
    /* The operand order lets NaN through: both return the second where one is NaN. */
    x = _mm256_max_ps(_mm256_set1_ps(EXP_LOW), x);
    x = _mm256_min_ps(_mm256_set1_ps(EXP_HIGH), x);
    __m256 fn = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(EXP_LOG2E)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(fn, _mm256_set1_ps(EXP_LN2_HI), x);
    r = _mm256_fnmadd_ps(fn, _mm256_set1_ps(EXP_LN2_LO), r);
    __m256 p = _mm256_set1_ps(EXP_P0);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_P5));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));
    __m256i n = _mm256_cvtps_epi32(fn), half = _mm256_srai_epi32(n, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, exp8_power(half)),
                         exp8_power(_mm256_sub_epi32(n, half)));
}

SIMD_AVX2 static inline float sum8(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

SIMD_AVX2 static inline float max8(__m256 v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
#endif

#endif
