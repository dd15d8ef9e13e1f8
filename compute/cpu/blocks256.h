/* blocks256.h - blocks of weights taken apart in registers of 256 bits, for quant_avx2.c and
 * matvec_avx2.c: 32 weights at a time as signed bytes. A block of 32 weights is its part 0, one
 * of 256 has eight parts in order. Scales: block_scales.h. */
#ifndef COMPUTE_CPU_BLOCKS256_H
#define COMPUTE_CPU_BLOCKS256_H

#include "compute/cpu/block_scales.h"

/* q: the first 16 weights and the others. */
typedef void bytes_fn(__m128i q[2], const uint8_t *b, int g);

INLINE256 __m128i load16(const uint8_t *b)
{
    return _mm_loadu_si128((const __m128i *)(const void *)b);
}

/* Bits `shift` and above of each byte, as many as `mask` has. */
INLINE256 __m128i field(const uint8_t *b, int shift, int mask)
{
    return _mm_and_si128(_mm_srl_epi16(load16(b), _mm_cvtsi32_si128(shift)),
                         _mm_set1_epi8((char)mask));
}

/* The same, moved up in the byte. */
INLINE256 __m128i field_at(const uint8_t *b, int shift, int mask, int up)
{
    return _mm_slli_epi16(field(b, shift, mask), up);
}

INLINE256 __m128i minus(__m128i q, int n)
{
    return _mm_sub_epi8(q, _mm_set1_epi8((char)n));
}

/* The 32 bytes as floats. */
INLINE256 void floats_of(__m256 v[4], const __m128i q[2])
{
    v[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q[0]));
    v[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q[0], 8)));
    v[2] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q[1]));
    v[3] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q[1], 8)));
}

/* ---- 32 weights ----------------------------------------------------------------------------
 */

/* 16 bytes: the low nibbles, then the high ones. */
INLINE256 void nibbles(__m128i q[2], const uint8_t *b)
{
    q[0] = field(b, 0, 15);
    q[1] = field(b, 4, 15);
}

/* Bit i of the 32 at `fifth` becomes bit 4 of byte i. */
INLINE256 void add_fifths(__m128i q[2], const uint8_t *fifth)
{
    const __m128i one = _mm_set1_epi64x((int64_t)0x8040201008040201ULL);
    for (int e = 0; e < 2; e++) {
        int16_t bits;
        memcpy(&bits, fifth + 2 * e, sizeof bits);
        __m128i byte =
            _mm_shuffle_epi8(_mm_set1_epi16(bits),
                             _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
        __m128i set = _mm_cmpeq_epi8(_mm_and_si128(byte, one), one);
        q[e] = _mm_or_si128(q[e], _mm_and_si128(set, _mm_set1_epi8(16)));
    }
}

INLINE256 void bytes_q4_0(__m128i q[2], const uint8_t *b, int g)
{
    (void)g;
    nibbles(q, b + 2);
    q[0] = minus(q[0], 8);
    q[1] = minus(q[1], 8);
}

INLINE256 void bytes_q4_1(__m128i q[2], const uint8_t *b, int g)
{
    (void)g;
    nibbles(q, b + 4);
}

INLINE256 void bytes_q5_0(__m128i q[2], const uint8_t *b, int g)
{
    (void)g;
    nibbles(q, b + 6);
    add_fifths(q, b + 2);
    q[0] = minus(q[0], 16);
    q[1] = minus(q[1], 16);
}

INLINE256 void bytes_q5_1(__m128i q[2], const uint8_t *b, int g)
{
    (void)g;
    nibbles(q, b + 8);
    add_fifths(q, b + 4);
}

INLINE256 void bytes_q8_0(__m128i q[2], const uint8_t *b, int g)
{
    (void)g;
    q[0] = load16(b + 2);
    q[1] = load16(b + 18);
}

INLINE256 void bytes_iq4_nl(__m128i q[2], const uint8_t *b, int g)
{
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)quant_iq4_nl_value);
    (void)g;
    nibbles(q, b + 2);
    q[0] = _mm_shuffle_epi8(t, q[0]);
    q[1] = _mm_shuffle_epi8(t, q[1]);
}

/* ---- 256 weights ---------------------------------------------------------------------------
 */

INLINE256 void bytes_q2_k(__m128i q[2], const uint8_t *b, int g)
{
    for (int e = 0; e < 2; e++)
        q[e] = field(b + 16 + 32 * (g / 4) + 16 * e, 2 * (g % 4), 3);
}

INLINE256 void bytes_q3_k(__m128i q[2], const uint8_t *b, int g)
{
    for (int e = 0; e < 2; e++) {
        __m128i pair = field(b + 32 + 32 * (g / 4) + 16 * e, 2 * (g % 4), 3);
        q[e] = minus(_mm_or_si128(pair, field_at(b + 16 * e, g, 1, 2)), 4);
    }
}

INLINE256 void bytes_q4_k(__m128i q[2], const uint8_t *b, int g)
{
    for (int e = 0; e < 2; e++)
        q[e] = field(b + 16 + 32 * (g / 2) + 16 * e, 4 * (g % 2), 15);
}

INLINE256 void bytes_q5_k(__m128i q[2], const uint8_t *b, int g)
{
    for (int e = 0; e < 2; e++) {
        __m128i low = field(b + 48 + 32 * (g / 2) + 16 * e, 4 * (g % 2), 15);
        q[e] = _mm_or_si128(low, field_at(b + 16 + 16 * e, g, 1, 4));
    }
}

INLINE256 void bytes_q6_k(__m128i q[2], const uint8_t *b, int g)
{
    int h = g / 4, k = g % 4;
    for (int e = 0; e < 2; e++) {
        __m128i low = field(b + 64 * h + 32 * (k & 1) + 16 * e, 4 * (k / 2), 15);
        __m128i high = field_at(b + 128 + 32 * h + 16 * e, 2 * k, 3, 4);
        q[e] = minus(_mm_or_si128(low, high), 32);
    }
}

/* Every quantised type, for the files that make one function of each, so that its parts are
 * inlined there: its scales; are there two in 32 weights, and minimums? */
#define BLOCKS256(OF)                      \
    OF(q4_0, one_half, false, false)       \
    OF(q4_1, two_halves, false, true)      \
    OF(q5_0, one_half, false, false)       \
    OF(q5_1, two_halves, false, true)      \
    OF(q8_0, one_half, false, false)       \
    OF(iq4_nl, one_half, false, false)     \
    OF(q2_k, scales_q2_k, true, true)      \
    OF(q3_k, scales_q3_k, true, false)     \
    OF(q4_k, scales_with_min, false, true) \
    OF(q5_k, scales_with_min, false, true) \
    OF(q6_k, scales_q6_k, true, false)

typedef struct block_kind {
    int n_byte, n_weight; /* of a block */
    scales_fn *scales;
    bytes_fn *bytes;
    bool two, min;
} block_kind;

#define BLOCK_KIND(name, scales, two, min)                                       \
    {                                                                            \
        QUANT_BYTES_##name, QUANT_WEIGHTS_##name, scales, bytes_##name, two, min \
    }

/* Part g of a span, and the scale of its first and second half. */
INLINE256 void span_part(__m256 v[4], const float *d[2], const span_scales *s, const uint8_t *b,
                         const block_kind k, int g)
{
    int each = k.min ? 2 : 1;
    __m128i q[2];
    if (k.n_weight == SPAN)
        k.bytes(q, b, g);
    else
        k.bytes(q, b + g * k.n_byte, 0);
    floats_of(v, q);
    d[0] = s->d + each * (k.two ? 2 * g : g);
    d[1] = k.two ? d[0] + each : d[0];
}

#endif
