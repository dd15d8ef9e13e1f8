/* half.c - IEEE half and brain floats.
 *
 * The portable code is the definition; where the processor has F16C the arrays go through it,
 * with the same bits. So a NaN is made quiet and keeps the payload that fits, both ways, as
 * F16C does. */
#include "base/half.h"

#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define WITH_F16C 1
#include <immintrin.h>
#endif

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
    if (exponent == 0x1f)
        return float_of(sign | 0x7f800000u | (mantissa ? 0x400000u | mantissa << 13 : 0));
    if (exponent == 0) { /* zero or denormal: mantissa * 2^-24, exact in a float */
        float f = (float)mantissa * 0x1p-24f;
        return float_of(sign | bits_of(f));
    }
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t half_from_float(float f)
{
    uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520, half an ulp above 65504, and all beyond */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) { /* 2^-14: normal. A carry out of the mantissa is right. */
        uint32_t h = magnitude - (112u << 23);
        return (uint16_t)(sign | (h + 0xfffu + (h >> 13 & 1)) >> 13);
    }
    if (magnitude < 0x33000000u) /* below 2^-25, half of the smallest denormal */
        return (uint16_t)sign;
    /* Denormal: the mantissa with its hidden bit, in units of 2^-24, ties to even. */
    uint32_t shift = 126 - (magnitude >> 23); /* 14 to 24 */
    uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t h = mantissa >> shift, rest = mantissa & ((1u << shift) - 1),
             tie = 1u << (shift - 1);
    h += rest > tie || (rest == tie && (h & 1));
    return (uint16_t)(sign | h);
}

float bf16_to_float(uint16_t b)
{
    return float_of((uint32_t)b << 16);
}

uint16_t bf16_from_float(float f)
{
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

#ifdef WITH_F16C
/* Every processor with AVX2 has F16C; "avx2" is the name that all compilers know. */
static bool has_f16c(void)
{
    return __builtin_cpu_supports("avx2");
}

__attribute__((target("avx,f16c"))) static int64_t to_floats_f16c(float *out,
                                                                  const uint16_t *in, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(in + i))));
    return i;
}

__attribute__((target("avx,f16c"))) static int64_t from_floats_f16c(uint16_t *out,
                                                                    const float *in, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}
#endif

void half_to_floats(float *out, const uint16_t *in, int64_t n)
{
    int64_t i = 0;
#ifdef WITH_F16C
    if (has_f16c())
        i = to_floats_f16c(out, in, n);
#endif
    for (; i < n; i++)
        out[i] = half_to_float(in[i]);
}

void half_from_floats(uint16_t *out, const float *in, int64_t n)
{
    int64_t i = 0;
#ifdef WITH_F16C
    if (has_f16c())
        i = from_floats_f16c(out, in, n);
#endif
    for (; i < n; i++)
        out[i] = half_from_float(in[i]);
}
