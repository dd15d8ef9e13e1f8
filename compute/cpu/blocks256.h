/* blocks256.h - blocks of weights taken apart in registers of 256 bits, for quant_avx2.c and
 * matvec_avx2.c: 32 weights at a time as signed bytes, with the scales that stand beside them.
 * A block of 32 weights is its part 0, one of 256 has eight parts in order. */
#ifndef COMPUTE_CPU_BLOCKS256_H
#define COMPUTE_CPU_BLOCKS256_H

#include "compute/cpu/quant_priv.h"
#include "compute/quant.h"
#include "compute/simd.h"

#include <immintrin.h>
#include <string.h>

/* Without FMA, so that no compiler setting can fuse what quant.c rounds twice. Inlined into the
 * loops that call them by pointer, at every level of optimisation. */
#define TARGET256 __attribute__((target("avx2,f16c")))
#define INLINE256 TARGET256 static inline __attribute__((always_inline))

/* Weight i is q[i] d + m, by d[0] and m[0] in the first half and d[1] and m[1] in the second; a
 * type without minimums leaves m alone. */
typedef struct block_part {
    __m256i q;
    float d[2], m[2];
} block_part;

typedef void block_part_fn(block_part *o, const uint8_t *b, int g);

INLINE256 float half_of(const uint8_t *b)
{
    uint16_t h;
    memcpy(&h, b, sizeof h);
    return _cvtsh_ss(h);
}

INLINE256 __m256 eight(__m128i q)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
}

/* The 32 bytes as floats. */
INLINE256 void floats_of(__m256 v[4], __m256i q)
{
    __m128i lo = _mm256_castsi256_si128(q), hi = _mm256_extracti128_si256(q, 1);
    v[0] = eight(lo);
    v[1] = eight(_mm_srli_si128(lo, 8));
    v[2] = eight(hi);
    v[3] = eight(_mm_srli_si128(hi, 8));
}

INLINE256 __m256i load32(const uint8_t *b)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)b);
}

/* Bits `shift` and above of each byte, as many as `mask` has. */
INLINE256 __m256i field(__m256i bytes, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift)),
                            _mm256_set1_epi8((char)mask));
}

/* 16 bytes: the low nibbles, then the high ones. */
INLINE256 __m256i nibbles(const uint8_t *b)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)b);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* Byte i is 16 where bit i of the 32 is set, else 0. */
INLINE256 __m256i fifths(const uint8_t *b)
{
    int bits;
    memcpy(&bits, b, sizeof bits);
    __m256i byte =
        _mm256_shuffle_epi8(_mm256_set1_epi32(bits),
                            _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2,
                                             2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
    __m256i one = _mm256_set1_epi64x((long long)0x8040201008040201ULL);
    __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(byte, one), one);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

INLINE256 __m256i minus(__m256i q, int n)
{
    return _mm256_sub_epi8(q, _mm256_set1_epi8((char)n));
}

INLINE256 void scale_of_all(block_part *o, float d)
{
    o->d[0] = o->d[1] = d;
}

INLINE256 void min_of_all(block_part *o, float m)
{
    o->m[0] = o->m[1] = m;
}

/* ---- 32 weights ----------------------------------------------------------------------------
 */

INLINE256 void part_q4_0(block_part *o, const uint8_t *b, int g)
{
    (void)g;
    o->q = minus(nibbles(b + 2), 8);
    scale_of_all(o, half_of(b));
}

INLINE256 void part_q4_1(block_part *o, const uint8_t *b, int g)
{
    (void)g;
    o->q = nibbles(b + 4);
    scale_of_all(o, half_of(b));
    min_of_all(o, half_of(b + 2));
}

INLINE256 void part_q5_0(block_part *o, const uint8_t *b, int g)
{
    (void)g;
    o->q = minus(_mm256_or_si256(nibbles(b + 6), fifths(b + 2)), 16);
    scale_of_all(o, half_of(b));
}

INLINE256 void part_q5_1(block_part *o, const uint8_t *b, int g)
{
    (void)g;
    o->q = _mm256_or_si256(nibbles(b + 8), fifths(b + 4));
    scale_of_all(o, half_of(b));
    min_of_all(o, half_of(b + 2));
}

INLINE256 void part_q8_0(block_part *o, const uint8_t *b, int g)
{
    (void)g;
    o->q = load32(b + 2);
    scale_of_all(o, half_of(b));
}

INLINE256 void part_iq4_nl(block_part *o, const uint8_t *b, int g)
{
    (void)g;
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)quant_iq4_nl_value);
    o->q = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), nibbles(b + 2));
    scale_of_all(o, half_of(b));
}

/* ---- 256 weights ---------------------------------------------------------------------------
 */

INLINE256 void part_q2_k(block_part *o, const uint8_t *b, int g)
{
    float d = half_of(b + 80), dm = half_of(b + 82);
    o->q = field(load32(b + 16 + 32 * (g / 4)), 2 * (g % 4), 3);
    for (int e = 0; e < 2; e++) {
        int s = b[2 * g + e];
        o->d[e] = d * (float)(s & 15);
        o->m[e] = -(dm * (float)(s >> 4));
    }
}

INLINE256 void part_q3_k(block_part *o, const uint8_t *b, int g)
{
    const uint8_t *s = b + 96;
    float d = half_of(b + 108);
    __m256i q = field(load32(b + 32 + 32 * (g / 4)), 2 * (g % 4), 3);
    __m256i third = _mm256_slli_epi16(field(load32(b), g, 1), 2);
    o->q = minus(_mm256_or_si256(q, third), 4);
    for (int e = 0; e < 2; e++) {
        int i = 2 * g + e, low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
        o->d[e] = d * (float)(low + 16 * (s[8 + i % 4] >> 2 * (i / 4) & 3) - 32);
    }
}

INLINE256 void scales_with_min256(block_part *o, const uint8_t *b, int g)
{
    int scale, min;
    quant_scale_min(b + 4, g, &scale, &min);
    scale_of_all(o, half_of(b) * (float)scale);
    min_of_all(o, -(half_of(b + 2) * (float)min));
}

INLINE256 void part_q4_k(block_part *o, const uint8_t *b, int g)
{
    o->q = field(load32(b + 16 + 32 * (g / 2)), 4 * (g % 2), 15);
    scales_with_min256(o, b, g);
}

INLINE256 void part_q5_k(block_part *o, const uint8_t *b, int g)
{
    __m256i q = field(load32(b + 48 + 32 * (g / 2)), 4 * (g % 2), 15);
    o->q = _mm256_or_si256(q, _mm256_slli_epi16(field(load32(b + 16), g, 1), 4));
    scales_with_min256(o, b, g);
}

INLINE256 void part_q6_k(block_part *o, const uint8_t *b, int g)
{
    int h = g / 4, k = g % 4;
    __m256i q = field(load32(b + 64 * h + 32 * (k & 1)), 4 * (k / 2), 15);
    __m256i top = _mm256_slli_epi16(field(load32(b + 128 + 32 * h), 2 * k, 3), 4);
    o->q = minus(_mm256_or_si256(q, top), 32);
    for (int e = 0; e < 2; e++)
        o->d[e] = half_of(b + 208) * (float)(int8_t)b[192 + 2 * g + e];
}

/* Every quantised type, for the files that make one function of each, so that its part is
 * inlined there: does it have two scales in 32 weights, and minimums? */
#define BLOCKS256(OF)        \
    OF(q4_0, false, false)   \
    OF(q4_1, false, true)    \
    OF(q5_0, false, false)   \
    OF(q5_1, false, true)    \
    OF(q8_0, false, false)   \
    OF(iq4_nl, false, false) \
    OF(q2_k, true, true)     \
    OF(q3_k, true, false)    \
    OF(q4_k, false, true)    \
    OF(q5_k, false, true)    \
    OF(q6_k, true, false)

#endif
