/* blocks512.h - blocks of weights decoded in registers of 512 bits, for quant_avx512.c and
 * matvec_avx512.c.
 *
 * A type of few bits is read from a table: sixteen floats d q (+ m) are made once for a block
 * or a sub-block, and a permutation looks sixteen weights up by the low four bits of each
 * index, whatever stands above them. Unless `fused`, the values and their rounding are those of
 * quant.c; fused, d q + m is rounded once.
 *
 * A block of 32 is decoded as two vectors, one of 256 in four parts of four;
 * vector k of part p holds the 16 weights from strided (Q2_K, Q3_K, Q6_K)   128 (p / 2) + 16 (p
 * % 2) + 32 k in line (Q4_K, Q5_K)         64 p + 16 k */
#ifndef COMPUTE_CPU_BLOCKS512_H
#define COMPUTE_CPU_BLOCKS512_H

#include "compute/cpu/block_scales.h"

/* Inlined into the loops that call them by pointer, at every level of optimisation. */
#define INLINE512 SIMD_AVX512 static inline __attribute__((always_inline))

enum { SPAN_PARTS = 4 };

typedef void block_fn(__m512 v[2], const uint8_t *b, const float *d, bool fused);
typedef void part_fn(__m512 v[4], const uint8_t *b, const span_scales *s, int p, bool fused);
typedef int place_fn(int p, int k);
typedef __m512 widen_fn(__m256i h);

/* Where vector k of part p begins. */
INLINE512 int block_strided(int p, int k)
{
    return 128 * (p / 2) + 16 * (p % 2) + 32 * k;
}

INLINE512 int block_in_line(int p, int k)
{
    return 64 * p + 16 * k;
}

/* 0 to 15, from `first`. */
INLINE512 __m512 count_from(int first)
{
    const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_cvtepi32_ps(_mm512_add_epi32(i, _mm512_set1_epi32(first)));
}

/* 0, step, .. (n - 1) step from `first`, again and again: n is 4 or 8. */
INLINE512 __m512 count_again(int n, int step, int first)
{
    const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i q = _mm512_mullo_epi32(_mm512_and_si512(i, _mm512_set1_epi32(n - 1)),
                                   _mm512_set1_epi32(step));
    return _mm512_cvtepi32_ps(_mm512_add_epi32(q, _mm512_set1_epi32(first)));
}

/* 16 bytes as 16 integers. */
INLINE512 __m512i wide(const uint8_t *b)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)b));
}

/* table[i % 16] */
INLINE512 __m512 look(__m512i i, __m512 table)
{
    return _mm512_permutexvar_ps(i, table);
}

/* Of 32 floats in two tables, by i % 32. */
INLINE512 __m512 look32(__m512i i, __m512 low, __m512 high)
{
    return _mm512_permutex2var_ps(low, i, high);
}

/* The bits of a where mask is set, those of b elsewhere. */
INLINE512 __m512i bits_of(__m512i a, __m512i b, int mask)
{
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi32(mask), 0xE4);
}

INLINE512 __m512i turned(__m512i z, int right)
{
    return _mm512_rorv_epi32(z, _mm512_set1_epi32(right & 31));
}

/* table d[0] + d[1] */
INLINE512 __m512 plus(__m512 table, const float d[2], bool fused)
{
    if (fused)
        return _mm512_fmadd_ps(table, _mm512_set1_ps(d[0]), _mm512_set1_ps(d[1]));
    return _mm512_add_ps(_mm512_mul_ps(table, _mm512_set1_ps(d[0])), _mm512_set1_ps(d[1]));
}

INLINE512 __m512 times(__m512 table, float d)
{
    return _mm512_mul_ps(table, _mm512_set1_ps(d));
}

/* ---- 32 weights ----------------------------------------------------------------------------
 */

INLINE512 void nibbles_of(__m512 v[2], const uint8_t *q, __m512 table)
{
    __m512i z = wide(q);
    v[0] = look(z, table);
    v[1] = look(_mm512_srli_epi32(z, 4), table);
}

INLINE512 void block_q4_0(__m512 v[2], const uint8_t *b, const float *d, bool fused)
{
    (void)fused;
    nibbles_of(v, b + 2, times(count_from(-8), d[0]));
}

INLINE512 void block_q4_1(__m512 v[2], const uint8_t *b, const float *d, bool fused)
{
    nibbles_of(v, b + 4, plus(count_from(0), d, fused));
}

INLINE512 void block_iq4_nl(__m512 v[2], const uint8_t *b, const float *d, bool fused)
{
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)quant_iq4_nl_value);
    (void)fused;
    nibbles_of(v, b + 2, times(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(t)), d[0]));
}

/* Fifth bits: bit i of the word at `fifth` is turned to where an index has its bit 4. */
INLINE512 void fives_of(__m512 v[2], const uint8_t *q, const uint8_t *fifth, __m512 low,
                        __m512 high)
{
    const __m512i turn =
        _mm512_setr_epi32(28, 29, 30, 31, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    int32_t word;
    memcpy(&word, fifth, sizeof word);
    __m512i z = wide(q), f = _mm512_rorv_epi32(_mm512_set1_epi32(word), turn);
    v[0] = look32(bits_of(z, f, 15), low, high);
    z = _mm512_srli_epi32(z, 4);
    v[1] = look32(bits_of(z, _mm512_srli_epi32(f, 16), 15), low, high);
}

INLINE512 void block_q5_0(__m512 v[2], const uint8_t *b, const float *d, bool fused)
{
    (void)fused;
    fives_of(v, b + 6, b + 2, times(count_from(-16), d[0]), times(count_from(0), d[0]));
}

INLINE512 void block_q5_1(__m512 v[2], const uint8_t *b, const float *d, bool fused)
{
    fives_of(v, b + 8, b + 4, plus(count_from(0), d, fused), plus(count_from(16), d, fused));
}

INLINE512 __m512 signed_bytes(const uint8_t *b)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)b);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
}

INLINE512 void block_q8_0(__m512 v[2], const uint8_t *b, const float *d, bool fused)
{
    (void)fused;
    v[0] = times(signed_bytes(b + 2), d[0]);
    v[1] = times(signed_bytes(b + 18), d[0]);
}

/* ---- 256 weights ---------------------------------------------------------------------------
 */

INLINE512 void part_q2_k(__m512 v[4], const uint8_t *b, const span_scales *s, int p, bool fused)
{
    const __m512 table = count_again(4, 1, 0);
    __m512i z = wide(b + 16 + 16 * p);
    const float *d = s->d + 16 * (p / 2) + 2 * (p % 2);
    v[0] = look(z, plus(table, d, fused));
    v[1] = look(_mm512_srli_epi32(z, 2), plus(table, d + 4, fused));
    v[2] = look(_mm512_srli_epi32(z, 4), plus(table, d + 8, fused));
    v[3] = look(_mm512_srli_epi32(z, 6), plus(table, d + 12, fused));
}

/* The third bit is brought above the two of `pair`, which sixteen entries hold twice. */
INLINE512 __m512 three_bits(__m512i pair, __m512i third, int right, float d)
{
    __m512 table = times(count_again(8, 1, -4), d);
    return look(bits_of(pair, turned(third, right), 3), table);
}

INLINE512 void part_q3_k(__m512 v[4], const uint8_t *b, const span_scales *s, int p, bool fused)
{
    (void)fused;
    __m512i z = wide(b + 32 + 16 * p), third = wide(b + 16 * (p % 2));
    const float *d = s->d + 8 * (p / 2) + p % 2;
    int bit = 4 * (p / 2) - 2;
    v[0] = three_bits(z, third, bit, d[0]);
    v[1] = three_bits(_mm512_srli_epi32(z, 2), third, bit + 1, d[2]);
    v[2] = three_bits(_mm512_srli_epi32(z, 4), third, bit + 2, d[4]);
    v[3] = three_bits(_mm512_srli_epi32(z, 6), third, bit + 3, d[6]);
}

INLINE512 void part_q4_k(__m512 v[4], const uint8_t *b, const span_scales *s, int p, bool fused)
{
    __m512i z0 = wide(b + 16 + 32 * p), z1 = wide(b + 32 + 32 * p);
    __m512 low = plus(count_from(0), s->d + 4 * p, fused);
    __m512 high = plus(count_from(0), s->d + 4 * p + 2, fused);
    v[0] = look(z0, low);
    v[1] = look(z1, low);
    v[2] = look(_mm512_srli_epi32(z0, 4), high);
    v[3] = look(_mm512_srli_epi32(z1, 4), high);
}

INLINE512 void part_q5_k(__m512 v[4], const uint8_t *b, const span_scales *s, int p, bool fused)
{
    __m512i z0 = wide(b + 48 + 32 * p), z1 = wide(b + 64 + 32 * p);
    __m512i f0 = wide(b + 16), f1 = wide(b + 32);
    const float *d = s->d + 4 * p;
    __m512 low = plus(count_from(0), d, fused), high = plus(count_from(16), d, fused);
    v[0] = look32(bits_of(z0, turned(f0, 2 * p - 4), 15), low, high);
    v[1] = look32(bits_of(z1, turned(f1, 2 * p - 4), 15), low, high);
    low = plus(count_from(0), d + 2, fused);
    high = plus(count_from(16), d + 2, fused);
    z0 = _mm512_srli_epi32(z0, 4);
    z1 = _mm512_srli_epi32(z1, 4);
    v[2] = look32(bits_of(z0, turned(f0, 2 * p - 3), 15), low, high);
    v[3] = look32(bits_of(z1, turned(f1, 2 * p - 3), 15), low, high);
}

/* q - 32 is an exact sum of what the nibble and the pair stand for. */
INLINE512 __m512 six_bits(__m512i nibble, __m512i pair, float d)
{
    __m512 q = _mm512_add_ps(look(nibble, count_from(0)), look(pair, count_again(4, 16, -32)));
    return times(q, d);
}

INLINE512 void part_q6_k(__m512 v[4], const uint8_t *b, const span_scales *s, int p, bool fused)
{
    (void)fused;
    const uint8_t *q = b + 64 * (p / 2) + 16 * (p % 2);
    __m512i z0 = wide(q), z1 = wide(q + 32), pair = wide(b + 128 + 16 * p);
    const float *d = s->d + 8 * (p / 2) + p % 2;
    v[0] = six_bits(z0, pair, d[0]);
    v[1] = six_bits(z1, _mm512_srli_epi32(pair, 2), d[2]);
    v[2] = six_bits(_mm512_srli_epi32(z0, 4), _mm512_srli_epi32(pair, 4), d[4]);
    v[3] = six_bits(_mm512_srli_epi32(z1, 4), _mm512_srli_epi32(pair, 6), d[6]);
}

/* ---- 16 weights of 16 bits -----------------------------------------------------------------
 */

INLINE512 __m256i load_16_bits(const uint8_t *b)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)b);
}

INLINE512 __m512 widen_f16(__m256i h)
{
    return _mm512_cvtph_ps(h);
}

INLINE512 __m512 widen_bf16(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* Every type, for the files that make one function of each, so that what decodes its blocks is
 * inlined there. */
#define BLOCKS512(OF_16_BITS, OF_32, OF_256)     \
    OF_16_BITS(f16)                              \
    OF_16_BITS(bf16)                             \
    OF_32(q4_0, one_half, 1)                     \
    OF_32(q4_1, two_halves, 2)                   \
    OF_32(q5_0, one_half, 1)                     \
    OF_32(q5_1, two_halves, 2)                   \
    OF_32(q8_0, one_half, 1)                     \
    OF_32(iq4_nl, one_half, 1)                   \
    OF_256(q2_k, scales_q2_k, block_strided)     \
    OF_256(q3_k, scales_q3_k, block_strided)     \
    OF_256(q4_k, scales_with_min, block_in_line) \
    OF_256(q5_k, scales_with_min, block_in_line) \
    OF_256(q6_k, scales_q6_k, block_strided)

#endif
