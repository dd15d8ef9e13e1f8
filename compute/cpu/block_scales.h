/* block_scales.h - scales and minimums of blocks, unpacked for the vector code of AVX2 and
 * AVX-512 (blocks256.h, blocks512.h).
 *
 * Work goes by spans of 256 weights, whose scales are unpacked together and stay in memory: to
 * broadcast from there takes a load, but from a register one of the few permutations that a
 * cycle has room for. A span is one block of 256 weights or eight blocks of 32 (fewer at the
 * end of a row). */
#ifndef COMPUTE_CPU_BLOCK_SCALES_H
#define COMPUTE_CPU_BLOCK_SCALES_H

#include "compute/cpu/quant_priv.h"
#include "compute/simd.h"

#include <immintrin.h>
#include <string.h>

/* Without FMA, so that no compiler setting can fuse what quant.c rounds twice. Inlined into the
 * loops that call them by pointer, at every level of optimisation. */
#define TARGET256 __attribute__((target("avx2,f16c")))
#define INLINE256 TARGET256 static inline __attribute__((always_inline))

/* What was stored is taken to be changed, so that it is read from memory. */
#define IN_MEMORY(object) __asm__("" : "+m"(object))

enum { SPAN = 256, SPAN_BLOCKS = 8 };

/* For each 16 weights of a block of 256, for each 32 of it or for each block of 32: a scale, or
 * a scale and what is added, in turn. */
typedef struct span_scales {
    float d[32];
} span_scales;

/* From the n blocks at b; one block of 256 weights has n = 1. */
typedef void scales_fn(span_scales *s, const uint8_t *b, int n_byte, int n);

/* Block i of n, or the last one: a register is filled whole. */
INLINE256 const uint8_t *block_at(const uint8_t *b, int n_byte, int n, int i)
{
    return b + (i < n ? i : n - 1) * n_byte;
}

/* Two bytes of each of two blocks. */
INLINE256 int32_t two_of_two(const uint8_t *b, int n_byte, int n, int i)
{
    uint16_t low, high;
    memcpy(&low, block_at(b, n_byte, n, i), sizeof low);
    memcpy(&high, block_at(b, n_byte, n, i + 1), sizeof high);
    return (int32_t)(low | (uint32_t)high << 16);
}

/* Four bytes of each of four blocks. */
INLINE256 __m128i four_of_four(const uint8_t *b, int n_byte, int n, int i)
{
    int32_t w[4];
    for (int e = 0; e < 4; e++)
        memcpy(&w[e], block_at(b, n_byte, n, i + e), sizeof *w);
    __m128i q = _mm_insert_epi32(_mm_cvtsi32_si128(w[0]), w[1], 1);
    return _mm_insert_epi32(_mm_insert_epi32(q, w[2], 2), w[3], 3);
}

/* The half that each block begins with. */
INLINE256 void one_half(span_scales *s, const uint8_t *b, int n_byte, int n)
{
    __m128i h = _mm_setr_epi32(two_of_two(b, n_byte, n, 0), two_of_two(b, n_byte, n, 2),
                               two_of_two(b, n_byte, n, 4), two_of_two(b, n_byte, n, 6));
    _mm256_storeu_ps(s->d, _mm256_cvtph_ps(h));
    IN_MEMORY(*s);
}

/* The two halves that each block begins with. */
INLINE256 void two_halves(span_scales *s, const uint8_t *b, int n_byte, int n)
{
    _mm256_storeu_ps(s->d, _mm256_cvtph_ps(four_of_four(b, n_byte, n, 0)));
    _mm256_storeu_ps(s->d + 8, _mm256_cvtph_ps(four_of_four(b, n_byte, n, 4)));
    IN_MEMORY(*s);
}

/* d [16] = 16 signed bytes times what repeats in eight lanes. */
INLINE256 void put_products(float *d, __m128i bytes, __m256 by)
{
    __m256i low = _mm256_cvtepi8_epi32(bytes);
    __m256i high = _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8));
    _mm256_storeu_ps(d, _mm256_mul_ps(by, _mm256_cvtepi32_ps(low)));
    _mm256_storeu_ps(d + 8, _mm256_mul_ps(by, _mm256_cvtepi32_ps(high)));
}

INLINE256 __m256 half_in_all(const uint8_t *b)
{
    int16_t h;
    memcpy(&h, b, sizeof h);
    return _mm256_cvtph_ps(_mm_set1_epi16(h));
}

/* The half at b and the negated one behind it, in turn. */
INLINE256 __m256 scale_and_minus_min(const uint8_t *b)
{
    uint32_t h;
    memcpy(&h, b, sizeof h);
    return _mm256_cvtph_ps(_mm_set1_epi32((int32_t)(h ^ 0x80000000u)));
}

/* Scale and minimum of 16 weights each. */
INLINE256 void scales_q2_k(span_scales *s, const uint8_t *b, int n_byte, int n)
{
    __m128i z = _mm_loadu_si128((const __m128i *)(const void *)b), mask = _mm_set1_epi8(15);
    __m128i scale = _mm_and_si128(z, mask), min = _mm_and_si128(_mm_srli_epi16(z, 4), mask);
    __m256 d = scale_and_minus_min(b + 80);
    (void)n_byte, (void)n;
    put_products(s->d, _mm_unpacklo_epi8(scale, min), d);
    put_products(s->d + 16, _mm_unpackhi_epi8(scale, min), d);
    IN_MEMORY(*s);
}

/* Four bits of each scale in eight bytes, the two above them in four: quant.c's q3_k_scale. */
INLINE256 void scales_q3_k(span_scales *s, const uint8_t *b, int n_byte, int n)
{
    int64_t low;
    int32_t high;
    (void)n_byte, (void)n;
    memcpy(&low, b + 96, sizeof low);
    memcpy(&high, b + 104, sizeof high);
    __m128i l = _mm_and_si128(_mm_set_epi64x(low >> 4, low), _mm_set1_epi8(15));
    __m128i h = _mm_srlv_epi32(_mm_set1_epi32(high), _mm_setr_epi32(0, 2, 4, 6));
    h = _mm_slli_epi16(_mm_and_si128(h, _mm_set1_epi8(3)), 4);
    __m128i q = _mm_sub_epi8(_mm_or_si128(l, h), _mm_set1_epi8(32));
    put_products(s->d, q, half_in_all(b + 108));
    IN_MEMORY(*s);
}

/* Scale and minimum of 32 weights each: quant_scale_min(), four pairs at a time. */
INLINE256 void scales_with_min(span_scales *s, const uint8_t *b, int n_byte, int n)
{
    uint32_t w[3];
    (void)n_byte, (void)n;
    memcpy(w, b + 4, sizeof w);
    uint64_t d = w[0] & 0x3f3f3f3fu, m = w[1] & 0x3f3f3f3fu;
    d |= (uint64_t)((w[2] & 0x0f0f0f0fu) | (w[0] >> 2 & 0x30303030u)) << 32;
    m |= (uint64_t)((w[2] >> 4 & 0x0f0f0f0fu) | (w[1] >> 2 & 0x30303030u)) << 32;
    __m128i pairs =
        _mm_unpacklo_epi8(_mm_cvtsi64_si128((int64_t)d), _mm_cvtsi64_si128((int64_t)m));
    put_products(s->d, pairs, scale_and_minus_min(b));
    IN_MEMORY(*s);
}

INLINE256 void scales_q6_k(span_scales *s, const uint8_t *b, int n_byte, int n)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)(b + 192));
    (void)n_byte, (void)n;
    put_products(s->d, q, half_in_all(b + 208));
    IN_MEMORY(*s);
}

#endif
