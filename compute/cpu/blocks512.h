/* blocks512.h - blocks of weights decoded in registers of 512 bits, for quant_avx512.c and
 * matvec_avx512.c.
 *
 * A type of few bits is read from a table: sixteen floats d q (+ m) are made once for a block
 * or a sub-block, and a permutation looks sixteen weights up by the low four bits of each
 * index, whatever stands above them. The values and their rounding are those of quant.c:
 * products and sums are never fused here.
 *
 * Blocks of 32 weights come as two vectors. A block of 256 is decoded in four parts of four
 * vectors, after its scales are unpacked; vector k of part p holds the 16 weights from
 *   strided (Q2_K, Q3_K, Q6_K)   128 (p / 2) + 16 (p % 2) + 32 k
 *   in line (Q4_K, Q5_K)         64 p + 16 k */
#ifndef COMPUTE_CPU_BLOCKS512_H
#define COMPUTE_CPU_BLOCKS512_H

#include "compute/cpu/quant_priv.h"
#include "compute/simd.h"

#include <immintrin.h>
#include <string.h>

/* Inlined into the loops that call them by pointer, at every level of optimisation. */
#define INLINE512 SIMD_AVX512 static inline __attribute__((always_inline))

enum { BLOCK_PARTS = 4 };

/* Of a block of 256: for 16 weights each, or for 32 each (the first eight). */
typedef struct block_scales {
    float d[16], m[16];
} block_scales;

typedef void block32_fn(__m512 v[2], const uint8_t *b);
typedef void scales_fn(block_scales *s, const uint8_t *b);
typedef void part_fn(__m512 v[4], const uint8_t *b, const block_scales *s, int p);
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

/* The half at b, sixteen times. */
INLINE512 __m512 halves(const uint8_t *b)
{
    int16_t h;
    memcpy(&h, b, sizeof h);
    return _mm512_cvtph_ps(_mm256_set1_epi16(h));
}

/* The halves at b and behind it, sixteen times each. */
INLINE512 void two_halves(__m512 *d, __m512 *m, const uint8_t *b)
{
    int32_t h;
    memcpy(&h, b, sizeof h);
    __m512 both = _mm512_cvtph_ps(_mm256_set1_epi32(h));
    *d = _mm512_moveldup_ps(both);
    *m = _mm512_movehdup_ps(both);
}

INLINE512 float half_at(const uint8_t *b)
{
    uint16_t h;
    memcpy(&h, b, sizeof h);
    return _cvtsh_ss(h);
}

/* ---- 32 weights ----------------------------------------------------------------------------
 */

INLINE512 void nibbles_of(__m512 v[2], const uint8_t *q, __m512 table)
{
    __m512i z = wide(q);
    v[0] = look(z, table);
    v[1] = look(_mm512_srli_epi32(z, 4), table);
}

INLINE512 void block_q4_0(__m512 v[2], const uint8_t *b)
{
    nibbles_of(v, b + 2, _mm512_mul_ps(count_from(-8), halves(b)));
}

INLINE512 void block_q4_1(__m512 v[2], const uint8_t *b)
{
    __m512 d, m;
    two_halves(&d, &m, b);
    nibbles_of(v, b + 4, _mm512_add_ps(_mm512_mul_ps(count_from(0), d), m));
}

INLINE512 void block_iq4_nl(__m512 v[2], const uint8_t *b)
{
    __m128i t = _mm_loadu_si128((const __m128i *)(const void *)quant_iq4_nl_value);
    nibbles_of(v, b + 2, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(t)), halves(b)));
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

INLINE512 void block_q5_0(__m512 v[2], const uint8_t *b)
{
    __m512 d = halves(b);
    fives_of(v, b + 6, b + 2, _mm512_mul_ps(count_from(-16), d),
             _mm512_mul_ps(count_from(0), d));
}

INLINE512 void block_q5_1(__m512 v[2], const uint8_t *b)
{
    __m512 d, m;
    two_halves(&d, &m, b);
    fives_of(v, b + 8, b + 4, _mm512_add_ps(_mm512_mul_ps(count_from(0), d), m),
             _mm512_add_ps(_mm512_mul_ps(count_from(16), d), m));
}

INLINE512 __m512 signed_bytes(const uint8_t *b)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)b);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
}

INLINE512 void block_q8_0(__m512 v[2], const uint8_t *b)
{
    __m512 d = halves(b);
    v[0] = _mm512_mul_ps(signed_bytes(b + 2), d);
    v[1] = _mm512_mul_ps(signed_bytes(b + 18), d);
}

/* ---- 256 weights ---------------------------------------------------------------------------
 */

/* table d - m */
INLINE512 __m512 with_min(__m512 table, float d, float m)
{
    return _mm512_sub_ps(_mm512_mul_ps(table, _mm512_set1_ps(d)), _mm512_set1_ps(m));
}

INLINE512 void scales_q2_k(block_scales *s, const uint8_t *b)
{
    __m512i z = wide(b);
    __m512 scale = _mm512_cvtepi32_ps(_mm512_and_si512(z, _mm512_set1_epi32(15)));
    __m512 min = _mm512_cvtepi32_ps(_mm512_srli_epi32(z, 4));
    _mm512_storeu_ps(s->d, _mm512_mul_ps(halves(b + 80), scale));
    _mm512_storeu_ps(s->m, _mm512_mul_ps(halves(b + 82), min));
}

INLINE512 void part_q2_k(__m512 v[4], const uint8_t *b, const block_scales *s, int p)
{
    const __m512 table = count_again(4, 1, 0);
    __m512i z = wide(b + 16 + 16 * p);
    const float *d = s->d + 8 * (p / 2) + p % 2, *m = s->m + 8 * (p / 2) + p % 2;
    v[0] = look(z, with_min(table, d[0], m[0]));
    v[1] = look(_mm512_srli_epi32(z, 2), with_min(table, d[2], m[2]));
    v[2] = look(_mm512_srli_epi32(z, 4), with_min(table, d[4], m[4]));
    v[3] = look(_mm512_srli_epi32(z, 6), with_min(table, d[6], m[6]));
}

/* Four bits of each scale in eight bytes, the two above them in four: quant.c's q3_k_scale. */
INLINE512 void scales_q3_k(block_scales *s, const uint8_t *b)
{
    int64_t low;
    int32_t high;
    memcpy(&low, b + 96, sizeof low);
    memcpy(&high, b + 104, sizeof high);
    __m128i l = _mm_and_si128(_mm_set_epi64x(low >> 4, low), _mm_set1_epi8(15));
    __m128i h = _mm_srlv_epi32(_mm_set1_epi32(high), _mm_setr_epi32(0, 2, 4, 6));
    h = _mm_slli_epi16(_mm_and_si128(h, _mm_set1_epi8(3)), 4);
    __m128i q = _mm_sub_epi8(_mm_or_si128(l, h), _mm_set1_epi8(32));
    __m512 scale = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
    _mm512_storeu_ps(s->d, _mm512_mul_ps(halves(b + 108), scale));
}

/* The third bit is brought above the two of `pair`, which sixteen entries hold twice. */
INLINE512 __m512 three_bits(__m512i pair, __m512i third, int right, float d)
{
    __m512 table = _mm512_mul_ps(count_again(8, 1, -4), _mm512_set1_ps(d));
    return look(bits_of(pair, turned(third, right), 3), table);
}

INLINE512 void part_q3_k(__m512 v[4], const uint8_t *b, const block_scales *s, int p)
{
    __m512i z = wide(b + 32 + 16 * p), third = wide(b + 16 * (p % 2));
    const float *d = s->d + 8 * (p / 2) + p % 2;
    int bit = 4 * (p / 2) - 2;
    v[0] = three_bits(z, third, bit, d[0]);
    v[1] = three_bits(_mm512_srli_epi32(z, 2), third, bit + 1, d[2]);
    v[2] = three_bits(_mm512_srli_epi32(z, 4), third, bit + 2, d[4]);
    v[3] = three_bits(_mm512_srli_epi32(z, 6), third, bit + 3, d[6]);
}

/* Four pairs of six bits at a time: quant_scale_min(). */
INLINE512 void scales_with_min(block_scales *s, const uint8_t *b)
{
    uint32_t w[3];
    memcpy(w, b + 4, sizeof w);
    uint64_t d = w[0] & 0x3f3f3f3fu, m = w[1] & 0x3f3f3f3fu;
    d |= (uint64_t)((w[2] & 0x0f0f0f0fu) | (w[0] >> 2 & 0x30303030u)) << 32;
    m |= (uint64_t)((w[2] >> 4 & 0x0f0f0f0fu) | (w[1] >> 2 & 0x30303030u)) << 32;
    __m256 scale = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)d)));
    __m256 min = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)m)));
    _mm256_storeu_ps(s->d, _mm256_mul_ps(_mm256_set1_ps(half_at(b)), scale));
    _mm256_storeu_ps(s->m, _mm256_mul_ps(_mm256_set1_ps(half_at(b + 2)), min));
}

INLINE512 void part_q4_k(__m512 v[4], const uint8_t *b, const block_scales *s, int p)
{
    __m512i z0 = wide(b + 16 + 32 * p), z1 = wide(b + 32 + 32 * p);
    __m512 low = with_min(count_from(0), s->d[2 * p], s->m[2 * p]);
    __m512 high = with_min(count_from(0), s->d[2 * p + 1], s->m[2 * p + 1]);
    v[0] = look(z0, low);
    v[1] = look(z1, low);
    v[2] = look(_mm512_srli_epi32(z0, 4), high);
    v[3] = look(_mm512_srli_epi32(z1, 4), high);
}

INLINE512 void part_q5_k(__m512 v[4], const uint8_t *b, const block_scales *s, int p)
{
    __m512i z0 = wide(b + 48 + 32 * p), z1 = wide(b + 64 + 32 * p);
    __m512i f0 = wide(b + 16), f1 = wide(b + 32);
    const float *d = s->d + 2 * p, *m = s->m + 2 * p;
    __m512 low = with_min(count_from(0), d[0], m[0]);
    __m512 high = with_min(count_from(16), d[0], m[0]);
    v[0] = look32(bits_of(z0, turned(f0, 2 * p - 4), 15), low, high);
    v[1] = look32(bits_of(z1, turned(f1, 2 * p - 4), 15), low, high);
    low = with_min(count_from(0), d[1], m[1]);
    high = with_min(count_from(16), d[1], m[1]);
    z0 = _mm512_srli_epi32(z0, 4);
    z1 = _mm512_srli_epi32(z1, 4);
    v[2] = look32(bits_of(z0, turned(f0, 2 * p - 3), 15), low, high);
    v[3] = look32(bits_of(z1, turned(f1, 2 * p - 3), 15), low, high);
}

INLINE512 void scales_q6_k(block_scales *s, const uint8_t *b)
{
    _mm512_storeu_ps(s->d, _mm512_mul_ps(halves(b + 208), signed_bytes(b + 192)));
}

/* q - 32 is an exact sum of what the nibble and the pair stand for. */
INLINE512 __m512 six_bits(__m512i nibble, __m512i pair, float d)
{
    __m512 q = _mm512_add_ps(look(nibble, count_from(0)), look(pair, count_again(4, 16, -32)));
    return _mm512_mul_ps(q, _mm512_set1_ps(d));
}

INLINE512 void part_q6_k(__m512 v[4], const uint8_t *b, const block_scales *s, int p)
{
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
    OF_32(q4_0)                                  \
    OF_32(q4_1)                                  \
    OF_32(q5_0)                                  \
    OF_32(q5_1)                                  \
    OF_32(q8_0)                                  \
    OF_32(iq4_nl)                                \
    OF_256(q2_k, scales_q2_k, block_strided)     \
    OF_256(q3_k, scales_q3_k, block_strided)     \
    OF_256(q4_k, scales_with_min, block_in_line) \
    OF_256(q5_k, scales_with_min, block_in_line) \
    OF_256(q6_k, scales_q6_k, block_strided)

#endif
