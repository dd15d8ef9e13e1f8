/* matvec_avx2.c - blocks times a vector for processors with AVX2 and FMA: weights are decoded
 * in registers (blocks256.h), one row behind the other, as they lie in memory. */
#include "compute/backend.h"
#include "compute/cpu/matvec_priv.h"
#include "compute/simd.h"

#if SIMD_X86

#include "compute/cpu/blocks256.h"

#define INLINE_FMA SIMD_AVX2 static inline __attribute__((always_inline))

enum {
    ROWS = 4,    /* whose sums are added up together */
    AHEAD = 2048 /* bytes that are fetched early: the hardware alone is too late by half */
};

/* A row's sum in 8 lanes, still apart. */
typedef __m256 row_fn(const uint8_t *b, const float *x, int64_t n_col);

INLINE_FMA void fetch(const uint8_t *b, int n_byte)
{
#pragma GCC unroll 8
    for (int i = 0; i < n_byte; i += 64)
        _mm_prefetch((const char *)b + AHEAD + i, _MM_HINT_T0);
}

/* The sums of four vectors, each in the same order. */
INLINE_FMA void put(float *y, const __m256 s[ROWS], int64_t n)
{
    __m256 a = _mm256_hadd_ps(s[0], s[1]), b = _mm256_hadd_ps(s[2], s[3]);
    a = _mm256_hadd_ps(a, b);
    float t[ROWS];
    _mm_storeu_ps(t, _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)));
    memcpy(y, t, (size_t)n * sizeof *y);
}

INLINE_FMA void rows(float *y, const matvec_in *in, row_fn *row)
{
    for (int64_t i = 0; i < in->n; i += ROWS) {
        int64_t n = in->n - i < ROWS ? in->n - i : ROWS;
        __m256 s[ROWS] = {0};
        for (int64_t r = 0; r < n; r++)
            s[r] = row(in->rows + (i + r) * in->row_bytes, in->x, in->n_col);
        put(y + i, s, n);
    }
}

/* 32 weights: without minimums d (q . x), with them (q d + m) . x. */
INLINE_FMA void add_part(__m256 s[2], __m256 v[4], const float *const d[2], const float *x,
                         bool two, bool min)
{
    if (min) {
#pragma GCC unroll 4
        for (int e = 0; e < 4; e++) {
            __m256 w =
                _mm256_fmadd_ps(v[e], _mm256_set1_ps(d[e / 2][0]), _mm256_set1_ps(d[e / 2][1]));
            s[e % 2] = _mm256_fmadd_ps(w, _mm256_loadu_ps(x + 8 * e), s[e % 2]);
        }
        return;
    }
    __m256 t = _mm256_mul_ps(v[0], _mm256_loadu_ps(x));
    __m256 u = _mm256_mul_ps(v[2], _mm256_loadu_ps(x + 16));
    t = _mm256_fmadd_ps(v[1], _mm256_loadu_ps(x + 8), t);
    u = _mm256_fmadd_ps(v[3], _mm256_loadu_ps(x + 24), u);
    if (!two)
        t = _mm256_add_ps(t, u);
    s[0] = _mm256_fmadd_ps(t, _mm256_set1_ps(d[0][0]), s[0]);
    if (two)
        s[1] = _mm256_fmadd_ps(u, _mm256_set1_ps(d[1][0]), s[1]);
}

/* n: parts of the span. */
INLINE_FMA void add_span(__m256 s[2], const uint8_t *b, const float *x, const block_kind k,
                         int n)
{
    span_scales scale;
    k.scales(&scale, b, k.n_byte, n);
    fetch(b, n * 32 / k.n_weight * k.n_byte);
#pragma GCC unroll 8
    for (int g = 0; g < n; g++) {
        __m256 v[4];
        const float *d[2];
        span_part(v, d, &scale, b, k, g);
        add_part(s, v, d, x + 32 * g, k.two, k.min);
    }
}

INLINE_FMA __m256 row_of_blocks(const uint8_t *b, const float *x, int64_t n_col,
                                const block_kind k)
{
    __m256 s[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    int64_t i = 0;
    for (; i + SPAN <= n_col; i += SPAN, b += SPAN / k.n_weight * k.n_byte)
        add_span(s, b, x + i, k, SPAN_BLOCKS);
    if (i < n_col)
        add_span(s, b, x + i, k, (int)(n_col - i) / 32);
    return _mm256_add_ps(s[0], s[1]);
}

typedef __m256 widen_fn(__m128i h);

INLINE_FMA __m256 widen_f16(__m128i h)
{
    return _mm256_cvtph_ps(h);
}

INLINE_FMA __m256 widen_bf16(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

INLINE_FMA __m256 row_of_16_bits(const uint8_t *b, const float *x, int64_t n_col,
                                 widen_fn *widen)
{
    __m256 s[4] = {0};
    int64_t k = 0;
    for (; k + 32 <= n_col; k += 32) {
        fetch(b + 2 * k, 64);
#pragma GCC unroll 4
        for (int e = 0; e < 4; e++)
            s[e] = _mm256_fmadd_ps(widen(load16(b + 2 * k + 16 * e)),
                                   _mm256_loadu_ps(x + k + 8 * e), s[e]);
    }
    for (; k < n_col; k += 8) { /* fewer than 8: and zeros */
        size_t n = n_col - k < 8 ? (size_t)(n_col - k) : 8;
        uint8_t last[16] = {0};
        float last_x[8] = {0};
        memcpy(last, b + 2 * k, 2 * n);
        memcpy(last_x, x + k, n * sizeof *last_x);
        s[0] = _mm256_fmadd_ps(widen(load16(last)), _mm256_loadu_ps(last_x), s[0]);
    }
    return _mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3]));
}

#define ROW(name, call)                                                                    \
    SIMD_AVX2 static inline __m256 row_##name(const uint8_t *b, const float *x, int64_t n) \
    {                                                                                      \
        return call;                                                                       \
    }                                                                                      \
    SIMD_AVX2 static void name(float *y, const matvec_in *in)                              \
    {                                                                                      \
        rows(y, in, row_##name);                                                           \
    }
#define OF(name, scales, two, min)                                            \
    static const block_kind kind_##name = BLOCK_KIND(name, scales, two, min); \
    ROW(name, row_of_blocks(b, x, n, kind_##name))
ROW(f16, row_of_16_bits(b, x, n, widen_f16))
ROW(bf16, row_of_16_bits(b, x, n, widen_bf16))
BLOCKS256(OF)

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
