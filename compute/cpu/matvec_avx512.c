/* matvec_avx512.c - blocks times a vector for processors with AVX-512.
 *
 * Four rows at a time, so that x is loaded once for all of them, each with one sum of 16 lanes;
 * weights are decoded in registers (blocks512.h). Where fewer than four rows are left the last
 * one is computed again in their places: every row goes the same way. */
#include "compute/backend.h"
#include "compute/cpu/matvec_priv.h"
#include "compute/simd.h"

#if SIMD_X86

#include "compute/cpu/blocks512.h"

enum { ROWS = 4 };

/* The sums of four vectors, each in the same order. */
INLINE512 __m128 sums(const __m512 s[ROWS])
{
    __m128 t[ROWS];
    for (int r = 0; r < ROWS; r++) {
        __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(s[r]), 1));
        __m256 u = _mm256_add_ps(_mm512_castps512_ps256(s[r]), high);
        t[r] = _mm_add_ps(_mm256_castps256_ps128(u), _mm256_extractf128_ps(u, 1));
    }
    return _mm_hadd_ps(_mm_hadd_ps(t[0], t[1]), _mm_hadd_ps(t[2], t[3]));
}

INLINE512 void put(float *y, const __m512 s[ROWS], int64_t n)
{
    _mm_mask_storeu_ps(y, (__mmask8)((1u << (n < ROWS ? n : ROWS)) - 1), sums(s));
}

/* Where the four rows from row i on begin; behind row n the last one stands. */
INLINE512 void begin(const uint8_t *b[ROWS], const matvec_in *in, int64_t i)
{
    for (int64_t r = 0; r < ROWS; r++)
        b[r] = in->rows + (i + r < in->n ? i + r : in->n - 1) * in->row_bytes;
}

INLINE512 void of_32(float *y, const matvec_in *in, int n_byte, block32_fn *decode)
{
    for (int64_t i = 0; i < in->n; i += ROWS) {
        const uint8_t *b[ROWS];
        __m512 s[ROWS], v[2];
        begin(b, in, i);
        for (int r = 0; r < ROWS; r++)
            s[r] = _mm512_setzero_ps();
        for (int64_t k = 0; k < in->n_col; k += 32) {
            __m512 x0 = _mm512_loadu_ps(in->x + k), x1 = _mm512_loadu_ps(in->x + k + 16);
            for (int r = 0; r < ROWS; r++) {
                decode(v, b[r]);
                s[r] = _mm512_fmadd_ps(v[0], x0, s[r]);
                s[r] = _mm512_fmadd_ps(v[1], x1, s[r]);
                b[r] += n_byte;
            }
        }
        put(y + i, s, in->n - i);
    }
}

INLINE512 void of_256(float *y, const matvec_in *in, int n_byte, scales_fn *scales,
                      part_fn *part, place_fn *place)
{
    for (int64_t i = 0; i < in->n; i += ROWS) {
        const uint8_t *b[ROWS];
        __m512 s[ROWS], v[4], x[4];
        block_scales scale[ROWS];
        begin(b, in, i);
        for (int r = 0; r < ROWS; r++)
            s[r] = _mm512_setzero_ps();
        for (int64_t k = 0; k < in->n_col; k += 256) {
            for (int r = 0; r < ROWS; r++)
                scales(&scale[r], b[r]);
#pragma GCC unroll 4
            for (int p = 0; p < BLOCK_PARTS; p++) {
                for (int e = 0; e < 4; e++)
                    x[e] = _mm512_loadu_ps(in->x + k + place(p, e));
                for (int r = 0; r < ROWS; r++) {
                    part(v, b[r], &scale[r], p);
                    for (int e = 0; e < 4; e++)
                        s[r] = _mm512_fmadd_ps(v[e], x[e], s[r]);
                }
            }
            for (int r = 0; r < ROWS; r++)
                b[r] += n_byte;
        }
        put(y + i, s, in->n - i);
    }
}

INLINE512 void of_16_bits(float *y, const matvec_in *in, widen_fn *widen)
{
    int64_t whole = in->n_col / 16 * 16;
    __mmask16 rest = (__mmask16)((1u << (in->n_col - whole)) - 1);
    for (int64_t i = 0; i < in->n; i += ROWS) {
        const uint8_t *b[ROWS];
        __m512 s[ROWS];
        begin(b, in, i);
        for (int r = 0; r < ROWS; r++)
            s[r] = _mm512_setzero_ps();
        for (int64_t k = 0; k < whole; k += 16) {
            __m512 x = _mm512_loadu_ps(in->x + k);
            for (int r = 0; r < ROWS; r++) {
                s[r] = _mm512_fmadd_ps(widen(load_16_bits(b[r] + 2 * k)), x, s[r]);
            }
        }
        if (rest) {
            __m512 x = _mm512_maskz_loadu_ps(rest, in->x + whole);
            for (int r = 0; r < ROWS; r++) {
                __m256i h = _mm256_maskz_loadu_epi16(rest, b[r] + 2 * whole);
                s[r] = _mm512_fmadd_ps(widen(h), x, s[r]);
            }
        }
        put(y + i, s, in->n - i);
    }
}

#define OF_16_BITS(name)                                        \
    SIMD_AVX512 static void name(float *y, const matvec_in *in) \
    {                                                           \
        of_16_bits(y, in, widen_##name);                        \
    }
#define OF_32(name)                                             \
    SIMD_AVX512 static void name(float *y, const matvec_in *in) \
    {                                                           \
        of_32(y, in, QUANT_BYTES_##name, block_##name);         \
    }
#define OF_256(name, scales, place)                                    \
    SIMD_AVX512 static void name(float *y, const matvec_in *in)        \
    {                                                                  \
        of_256(y, in, QUANT_BYTES_##name, scales, part_##name, place); \
    }
BLOCKS512(OF_16_BITS, OF_32, OF_256)

static void f32(float *y, const matvec_in *in)
{
    cpu_gemv(y, (const float *)(const void *)in->rows, in->x, in->n, in->n_col);
}

bool matvec_avx512(float *y, int type, const matvec_in *in)
{
    if (!simd_avx512())
        return false;
    switch (type) {
#define QUANT(type, name, n_byte, n_weight, function) \
    case type:                                        \
        function(y, in);                              \
        return true;
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
    default: return false;
    }
}

#else

bool matvec_avx512(float *y, int type, const matvec_in *in)
{
    (void)y, (void)type, (void)in;
    return false;
}

#endif
