/* quant_avx2.c - quant.c for processors with AVX2: the same values by the same products, 32
 * weights at a time. Multiply and add stay two roundings: the target has no fused instruction.
 */
#include "compute/quant.h"

#include "base/half.h"
#include "compute/cpu/quant_priv.h"
#include "compute/simd.h"

#if SIMD_X86

#include <immintrin.h>
#include <string.h>

/* Without FMA, so that no compiler setting can fuse. */
#define AVX2 __attribute__((target("avx2")))

typedef void decode_block(float *y, const uint8_t *b);

static float half(const uint8_t *b)
{
    return half_to_float((uint16_t)(b[0] | b[1] << 8));
}

AVX2 static inline __m256 eight(__m128i q)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
}

/* y[i] = q[i] * d, where d is d0 for the first 16 weights and d1 for the others. */
AVX2 static inline void put(float *y, __m256i q, float d0, float d1)
{
    __m128i lo = _mm256_castsi256_si128(q), hi = _mm256_extracti128_si256(q, 1);
    __m256 v0 = _mm256_set1_ps(d0), v1 = _mm256_set1_ps(d1);
    _mm256_storeu_ps(y, _mm256_mul_ps(eight(lo), v0));
    _mm256_storeu_ps(y + 8, _mm256_mul_ps(eight(_mm_srli_si128(lo, 8)), v0));
    _mm256_storeu_ps(y + 16, _mm256_mul_ps(eight(hi), v1));
    _mm256_storeu_ps(y + 24, _mm256_mul_ps(eight(_mm_srli_si128(hi, 8)), v1));
}

/* y[i] = q[i] * d + m, with d and m of the first 16 weights and of the others. */
AVX2 static inline void put_sum(float *y, __m256i q, const float d[2], const float m[2])
{
    __m128i lo = _mm256_castsi256_si128(q), hi = _mm256_extracti128_si256(q, 1);
    __m256 d0 = _mm256_set1_ps(d[0]), d1 = _mm256_set1_ps(d[1]);
    __m256 m0 = _mm256_set1_ps(m[0]), m1 = _mm256_set1_ps(m[1]);
    __m256 a = _mm256_mul_ps(eight(lo), d0);
    __m256 b = _mm256_mul_ps(eight(_mm_srli_si128(lo, 8)), d0);
    __m256 c = _mm256_mul_ps(eight(hi), d1);
    __m256 e = _mm256_mul_ps(eight(_mm_srli_si128(hi, 8)), d1);
    _mm256_storeu_ps(y, _mm256_add_ps(a, m0));
    _mm256_storeu_ps(y + 8, _mm256_add_ps(b, m0));
    _mm256_storeu_ps(y + 16, _mm256_add_ps(c, m1));
    _mm256_storeu_ps(y + 24, _mm256_add_ps(e, m1));
}

AVX2 static inline __m256i load(const uint8_t *b)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)b);
}

/* Bits `shift` and above of each byte, as many as `mask` has. */
AVX2 static inline __m256i field(__m256i bytes, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift)),
                            _mm256_set1_epi8((char)mask));
}

/* 16 bytes: the low nibbles, then the high ones. */
AVX2 static inline __m256i nibbles(const uint8_t *b)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)b);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* Byte i is 16 where bit i of the 32 is set, else 0. */
AVX2 static inline __m256i fifths(const uint8_t *b)
{
    int bits = (int)(b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
    __m256i byte =
        _mm256_shuffle_epi8(_mm256_set1_epi32(bits),
                            _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2,
                                             2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
    __m256i one = _mm256_set1_epi64x((long long)0x8040201008040201ULL);
    __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(byte, one), one);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

AVX2 static inline __m256i minus(__m256i q, int n)
{
    return _mm256_sub_epi8(q, _mm256_set1_epi8((char)n));
}

AVX2 static void q4_0(float *y, const uint8_t *b)
{
    float d = half(b);
    put(y, minus(nibbles(b + 2), 8), d, d);
}

AVX2 static void q4_1(float *y, const uint8_t *b)
{
    float d = half(b), m = half(b + 2);
    put_sum(y, nibbles(b + 4), (float[]){d, d}, (float[]){m, m});
}

AVX2 static void q5_0(float *y, const uint8_t *b)
{
    float d = half(b);
    put(y, minus(_mm256_or_si256(nibbles(b + 6), fifths(b + 2)), 16), d, d);
}

AVX2 static void q5_1(float *y, const uint8_t *b)
{
    float d = half(b), m = half(b + 2);
    __m256i q = _mm256_or_si256(nibbles(b + 8), fifths(b + 4));
    put_sum(y, q, (float[]){d, d}, (float[]){m, m});
}

AVX2 static void q8_0(float *y, const uint8_t *b)
{
    float d = half(b);
    put(y, load(b + 2), d, d);
}

AVX2 static void iq4_nl(float *y, const uint8_t *b)
{
    float d = half(b);
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)quant_iq4_nl_value);
    put(y, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), nibbles(b + 2)), d, d);
}

AVX2 static void q2_k(float *y, const uint8_t *b)
{
    float d = half(b + 80), dm = half(b + 82);
    for (int g = 0; g < 8; g++) {
        __m256i q = field(load(b + 16 + 32 * (g / 4)), 2 * (g % 4), 3);
        int s0 = b[2 * g], s1 = b[2 * g + 1];
        put_sum(y + 32 * g, q, (float[]){d * (float)(s0 & 15), d * (float)(s1 & 15)},
                (float[]){-(dm * (float)(s0 >> 4)), -(dm * (float)(s1 >> 4))});
    }
}

AVX2 static void q3_k(float *y, const uint8_t *b)
{
    float d = half(b + 108), scale[16];
    const uint8_t *s = b + 96;
    for (int g = 0; g < 16; g++) {
        int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
        scale[g] = d * (float)(low + 16 * (s[8 + g % 4] >> 2 * (g / 4) & 3) - 32);
    }
    __m256i thirds = load(b);
    for (int g = 0; g < 8; g++) {
        __m256i q = field(load(b + 32 + 32 * (g / 4)), 2 * (g % 4), 3);
        __m256i third = _mm256_slli_epi16(field(thirds, g, 1), 2);
        put(y + 32 * g, minus(_mm256_or_si256(q, third), 4), scale[2 * g], scale[2 * g + 1]);
    }
}

/* Weights from nibbles at q and, where `fifth` is not NULL, a bit each above them. */
AVX2 static inline void with_mins(float *y, const uint8_t *b, const uint8_t *q,
                                  const uint8_t *fifth)
{
    float d = half(b), dm = half(b + 2);
    for (int g = 0; g < 8; g++) {
        __m256i v = field(load(q + 32 * (g / 2)), 4 * (g % 2), 15);
        if (fifth)
            v = _mm256_or_si256(v, _mm256_slli_epi16(field(load(fifth), g, 1), 4));
        int scale, min;
        quant_scale_min(b + 4, g, &scale, &min);
        float dg = d * (float)scale, mg = -(dm * (float)min);
        put_sum(y + 32 * g, v, (float[]){dg, dg}, (float[]){mg, mg});
    }
}

AVX2 static void q4_k(float *y, const uint8_t *b)
{
    with_mins(y, b, b + 16, NULL);
}

AVX2 static void q5_k(float *y, const uint8_t *b)
{
    with_mins(y, b, b + 48, b + 16);
}

AVX2 static void q6_k(float *y, const uint8_t *b)
{
    float d = half(b + 208);
    for (int g = 0; g < 8; g++) {
        int h = g / 4, k = g % 4;
        __m256i q = field(load(b + 64 * h + 32 * (k & 1)), 4 * (k / 2), 15);
        __m256i top = _mm256_slli_epi16(field(load(b + 128 + 32 * h), 2 * k, 3), 4);
        float d0 = d * (float)(int8_t)b[192 + 2 * g], d1 = d * (float)(int8_t)b[193 + 2 * g];
        put(y + 32 * g, minus(_mm256_or_si256(q, top), 32), d0, d1);
    }
}

AVX2 static void bf16s(float *y, const uint8_t *b, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(b + 2 * i));
        __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16);
        _mm256_storeu_si256((__m256i *)(void *)(y + i), wide);
    }
    quant_decode_plain(y + i, QUANT_BF16, b + 2 * i, n - i);
}

__attribute__((target("avx2,f16c"))) static void f16s(float *y, const uint8_t *b, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(b + 2 * i));
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(v));
    }
    quant_decode_plain(y + i, QUANT_F16, b + 2 * i, n - i);
}

bool quant_decode_avx2(float *out, int type, const void *in, int64_t n_weight)
{
    const quant_info *info = quant_find(type);
    if (!simd_avx2())
        return false;
    decode_block *decode = NULL;
    switch (type) {
    case QUANT_F16: f16s(out, in, n_weight); return true;
    case QUANT_BF16: bf16s(out, in, n_weight); return true;
    case QUANT_Q4_0: decode = q4_0; break;
    case QUANT_Q4_1: decode = q4_1; break;
    case QUANT_Q5_0: decode = q5_0; break;
    case QUANT_Q5_1: decode = q5_1; break;
    case QUANT_Q8_0: decode = q8_0; break;
    case QUANT_Q2_K: decode = q2_k; break;
    case QUANT_Q3_K: decode = q3_k; break;
    case QUANT_Q4_K: decode = q4_k; break;
    case QUANT_Q5_K: decode = q5_k; break;
    case QUANT_Q6_K: decode = q6_k; break;
    case QUANT_IQ4_NL: decode = iq4_nl; break;
    default: memcpy(out, in, (size_t)n_weight * sizeof *out); return true; /* f32 */
    }
    const uint8_t *b = in;
    for (int64_t i = 0; i < n_weight; i += info->n_weight, b += info->n_byte)
        decode(out + i, b);
    return true;
}

#else

bool quant_decode_avx2(float *out, int type, const void *in, int64_t n_weight)
{
    (void)out, (void)type, (void)in, (void)n_weight;
    return false;
}

#endif
