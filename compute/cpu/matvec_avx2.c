/* matvec_avx2.c - blocks times a vector for processors with AVX2 and FMA.
 *
 * Four rows at a time, so that x is loaded once for all of them, each with one sum of 8 lanes:
 * s += d (q . x) + m (sum of x), a scale's weights at a time (blocks256.h). Where fewer than
 * four rows are left the last one is computed again in their places: every row goes the same
 * way. */
#include "compute/backend.h"
#include "compute/cpu/matvec_priv.h"
#include "compute/simd.h"

#if SIMD_X86

#include "compute/cpu/blocks256.h"

#define INLINE_FMA SIMD_AVX2 static inline __attribute__((always_inline))

enum { ROWS = 4 };

/* The sums of four vectors, each in the same order. */
INLINE_FMA void put(float *y, const __m256 s[ROWS], int64_t n)
{
    __m256 a = _mm256_hadd_ps(s[0], s[1]), b = _mm256_hadd_ps(s[2], s[3]);
    a = _mm256_hadd_ps(a, b);
    float t[ROWS];
    _mm_storeu_ps(t, _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)));
#pragma GCC unroll 4
    for (int64_t r = 0; r < ROWS && r < n; r++)
        y[r] = t[r];
}

/* Where the four rows from row i on begin; behind row n the last one stands. */
INLINE_FMA void begin(const uint8_t *b[ROWS], __m256 s[ROWS], const matvec_in *in, int64_t i)
{
#pragma GCC unroll 4
    for (int64_t r = 0; r < ROWS; r++) {
        b[r] = in->rows + (i + r < in->n ? i + r : in->n - 1) * in->row_bytes;
        s[r] = _mm256_setzero_ps();
    }
}

/* 32 weights of a row. xs: x [0] + x [1] and x [2] + x [3]. */
INLINE_FMA __m256 add_part(__m256 s, const block_part *o, const __m256 x[4], const __m256 xs[2],
                           bool two, bool min)
{
    __m256 v[4];
    floats_of(v, o->q);
    __m256 t = _mm256_fmadd_ps(v[1], x[1], _mm256_mul_ps(v[0], x[0]));
    if (two) {
        s = _mm256_fmadd_ps(t, _mm256_set1_ps(o->d[0]), s);
        t = _mm256_mul_ps(v[2], x[2]);
    } else {
        t = _mm256_fmadd_ps(v[2], x[2], t);
    }
    t = _mm256_fmadd_ps(v[3], x[3], t);
    s = _mm256_fmadd_ps(t, _mm256_set1_ps(o->d[1]), s);
    if (min && two)
        s = _mm256_fmadd_ps(xs[1], _mm256_set1_ps(o->m[1]), s);
    if (min)
        s = _mm256_fmadd_ps(xs[0], _mm256_set1_ps(o->m[0]), s);
    return s;
}

INLINE_FMA void product(float *y, const matvec_in *in, int n_byte, int n_weight, bool two,
                        bool min, block_part_fn *part)
{
    for (int64_t i = 0; i < in->n; i += ROWS) {
        const uint8_t *b[ROWS];
        __m256 s[ROWS], x[4], xs[2];
        begin(b, s, in, i);
        for (int64_t k = 0; k < in->n_col; k += n_weight) {
#pragma GCC unroll 8
            for (int g = 0; g < n_weight / 32; g++) {
#pragma GCC unroll 4
                for (int e = 0; e < 4; e++)
                    x[e] = _mm256_loadu_ps(in->x + k + 32 * g + 8 * e);
                xs[0] = _mm256_add_ps(x[0], x[1]);
                xs[1] = _mm256_add_ps(x[2], x[3]);
                if (!two)
                    xs[0] = _mm256_add_ps(xs[0], xs[1]);
#pragma GCC unroll 4
                for (int r = 0; r < ROWS; r++) {
                    block_part o;
                    part(&o, b[r], g);
                    s[r] = add_part(s[r], &o, x, xs, two, min);
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++)
                b[r] += n_byte;
        }
        put(y + i, s, in->n - i);
    }
}

#define OF(name, two, min)                                                               \
    SIMD_AVX2 static void name(float *y, const matvec_in *in)                            \
    {                                                                                    \
        product(y, in, QUANT_BYTES_##name, QUANT_WEIGHTS_##name, two, min, part_##name); \
    }
BLOCKS256(OF)

typedef __m256 widen_fn(__m128i h);

INLINE_FMA __m256 widen_f16(__m128i h)
{
    return _mm256_cvtph_ps(h);
}

INLINE_FMA __m256 widen_bf16(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* The last n of a row (fewer than 8), and zeros. */
INLINE_FMA __m128i rest_of(const uint8_t *b, int64_t n)
{
    uint16_t h[8] = {0};
    memcpy(h, b, (size_t)n * sizeof *h);
    return _mm_loadu_si128((const __m128i *)(const void *)h);
}

INLINE_FMA void of_16_bits(float *y, const matvec_in *in, widen_fn *widen)
{
    int64_t whole = in->n_col / 8 * 8, rest = in->n_col - whole;
    float last[8] = {0};
    memcpy(last, in->x + whole, (size_t)rest * sizeof *last);
    for (int64_t i = 0; i < in->n; i += ROWS) {
        const uint8_t *b[ROWS];
        __m256 s[ROWS];
        begin(b, s, in, i);
        for (int64_t k = 0; k < whole; k += 8) {
            __m256 x = _mm256_loadu_ps(in->x + k);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(b[r] + 2 * k));
                s[r] = _mm256_fmadd_ps(widen(h), x, s[r]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; rest && r < ROWS; r++)
            s[r] = _mm256_fmadd_ps(widen(rest_of(b[r] + 2 * whole, rest)),
                                   _mm256_loadu_ps(last), s[r]);
        put(y + i, s, in->n - i);
    }
}

SIMD_AVX2 static void f16(float *y, const matvec_in *in)
{
    of_16_bits(y, in, widen_f16);
}

SIMD_AVX2 static void bf16(float *y, const matvec_in *in)
{
    of_16_bits(y, in, widen_bf16);
}

static void f32(float *y, const matvec_in *in)
{
    cpu_gemv(y, (const float *)(const void *)in->rows, in->x, in->n, in->n_col);
}

bool matvec_avx2(float *y, int type, const matvec_in *in)
{
    if (!simd_avx2())
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

bool matvec_avx2(float *y, int type, const matvec_in *in)
{
    (void)y, (void)type, (void)in;
    return false;
}

#endif
