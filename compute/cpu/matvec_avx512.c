/* matvec_avx512.c - blocks times a vector for processors with AVX-512: weights are decoded in
 * registers (blocks512.h), one row behind the other, as they lie in memory. */
#include "compute/backend.h"
#include "compute/cpu/matvec_priv.h"
#include "compute/simd.h"

#if SIMD_X86

#include "compute/cpu/blocks512.h"

enum {
    ROWS = 4,    /* whose sums are added up together */
    AHEAD = 2048 /* bytes that are fetched early: the hardware alone is too late by half */
};

/* A row's sum in 16 lanes, still apart. */
typedef __m512 row_fn(const uint8_t *b, const float *x, int64_t n_col);

INLINE512 void fetch(const uint8_t *b, int n_byte)
{
#pragma GCC unroll 8
    for (int i = 0; i < n_byte; i += 64)
        _mm_prefetch((const char *)b + AHEAD + i, _MM_HINT_T0);
}

/* The sums of four vectors, each in the same order. */
INLINE512 __m128 sums(const __m512 s[ROWS])
{
    __m128 t[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(s[r]), 1));
        __m256 u = _mm256_add_ps(_mm512_castps512_ps256(s[r]), high);
        t[r] = _mm_add_ps(_mm256_castps256_ps128(u), _mm256_extractf128_ps(u, 1));
    }
    return _mm_hadd_ps(_mm_hadd_ps(t[0], t[1]), _mm_hadd_ps(t[2], t[3]));
}

INLINE512 void rows(float *y, const matvec_in *in, row_fn *row)
{
    for (int64_t i = 0; i < in->n; i += ROWS) {
        int64_t n = in->n - i < ROWS ? in->n - i : ROWS;
        __m512 s[ROWS] = {0};
        for (int64_t r = 0; r < n; r++)
            s[r] = row(in->rows + (i + r) * in->row_bytes, in->x, in->n_col);
        _mm_mask_storeu_ps(y + i, (__mmask8)((1u << n) - 1), sums(s));
    }
}

/* Two sums, so that each waits for itself only every other time. */
INLINE512 void add_blocks(__m512 s[2], const uint8_t *b, const float *x, int n, int n_byte,
                          scales_fn *scales, int per, block_fn *block)
{
    span_scales scale;
    scales(&scale, b, n_byte, n);
    fetch(b, n * n_byte);
    for (int i = 0; i < n; i++, b += n_byte, x += 32) {
        __m512 v[2];
        block(v, b, scale.d + i * per, true);
        s[0] = _mm512_fmadd_ps(v[0], _mm512_loadu_ps(x), s[0]);
        s[1] = _mm512_fmadd_ps(v[1], _mm512_loadu_ps(x + 16), s[1]);
    }
}

INLINE512 __m512 row_of_32(const uint8_t *b, const float *x, int64_t n_col, int n_byte,
                           scales_fn *scales, int per, block_fn *block)
{
    __m512 s[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    int64_t k = 0;
    for (; k + SPAN <= n_col; k += SPAN, b += SPAN_BLOCKS * n_byte)
        add_blocks(s, b, x + k, SPAN_BLOCKS, n_byte, scales, per, block);
    if (k < n_col)
        add_blocks(s, b, x + k, (int)(n_col - k) / 32, n_byte, scales, per, block);
    return _mm512_add_ps(s[0], s[1]);
}

INLINE512 __m512 row_of_256(const uint8_t *b, const float *x, int64_t n_col, int n_byte,
                            scales_fn *scales, part_fn *part, place_fn *place)
{
    __m512 s[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()}, v[4];
    for (int64_t k = 0; k < n_col; k += SPAN, b += n_byte) {
        span_scales scale;
        scales(&scale, b, n_byte, 1);
        fetch(b, n_byte);
#pragma GCC unroll 4
        for (int p = 0; p < SPAN_PARTS; p++) {
            part(v, b, &scale, p, true);
#pragma GCC unroll 4
            for (int e = 0; e < 4; e++)
                s[e % 2] =
                    _mm512_fmadd_ps(v[e], _mm512_loadu_ps(x + k + place(p, e)), s[e % 2]);
        }
    }
    return _mm512_add_ps(s[0], s[1]);
}

INLINE512 __m512 row_of_16_bits(const uint8_t *b, const float *x, int64_t n_col,
                                widen_fn *widen)
{
    __m512 s[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    int64_t k = 0;
    for (; k + 32 <= n_col; k += 32) {
        fetch(b + 2 * k, 64);
        s[0] = _mm512_fmadd_ps(widen(load_16_bits(b + 2 * k)), _mm512_loadu_ps(x + k), s[0]);
        s[1] = _mm512_fmadd_ps(widen(load_16_bits(b + 2 * k + 32)), _mm512_loadu_ps(x + k + 16),
                               s[1]);
    }
    for (; k < n_col; k += 16) {
        __mmask16 rest = (__mmask16)(n_col - k < 16 ? (1u << (n_col - k)) - 1 : 0xffffu);
        __m256i h = _mm256_maskz_loadu_epi16(rest, b + 2 * k);
        s[0] = _mm512_fmadd_ps(widen(h), _mm512_maskz_loadu_ps(rest, x + k), s[0]);
    }
    return _mm512_add_ps(s[0], s[1]);
}

#define ROW(name, call)                                                                      \
    SIMD_AVX512 static inline __m512 row_##name(const uint8_t *b, const float *x, int64_t n) \
    {                                                                                        \
        return call;                                                                         \
    }                                                                                        \
    SIMD_AVX512 static void name(float *y, const matvec_in *in)                              \
    {                                                                                        \
        rows(y, in, row_##name);                                                             \
    }
#define OF_16_BITS(name) ROW(name, row_of_16_bits(b, x, n, widen_##name))
#define OF_32(name, scales, per) \
    ROW(name, row_of_32(b, x, n, QUANT_BYTES_##name, scales, per, block_##name))
#define OF_256(name, scales, place) \
    ROW(name, row_of_256(b, x, n, QUANT_BYTES_##name, scales, part_##name, place))
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
