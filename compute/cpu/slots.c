/* slots.c - sums over chosen tokens (compute/slots.h). */
#include "compute/slots.h"

#include <string.h>

#include "base/half.h"
#include "compute/simd.h"

#if SIMD_X86
#include <immintrin.h>
#endif

enum { TILE = 8, HEADS = 3, WIDE = 32, AHEAD = 256 };

/* ---- turning -------------------------------------------------------------------------------
 */

/* Rows first..last-1 of some tokens, one at a time. */
static void turn_plain(float *out, double *sum, const uint16_t *in, int64_t row_stride,
                       int64_t first, int64_t last, int64_t n_token, int64_t width)
{
    for (int64_t i = first; i < last; i++) {
        for (int64_t t = 0; t < n_token; t++) {
            float x = half_to_float(in[i * row_stride + t]);
            out[t * width + i] = x;
            if (sum)
                sum[t] += (double)x;
        }
    }
}

#if SIMD_X86
/* 8 rows of 8 tokens: decoded, turned in registers, written as 8 tokens of 8 rows. Returns
 * total plus their sums over the rows, which are exact where they stay below 1. */
SIMD_AVX2 __attribute__((always_inline)) static inline __m256
turn_8x8(float *out, const uint16_t *in, int64_t row_stride, int64_t width, __m256 total)
{
    __m256 r[8], a[8];
    for (int i = 0; i < 8; i++) {
        r[i] = _mm256_cvtph_ps(
            _mm_loadu_si128((const __m128i *)(const void *)(in + i * row_stride)));
        total = _mm256_add_ps(total, r[i]);
    }
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + i * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + (i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
    return total;
}

/* sum [8] += total, or where one of the sums is 1 or more, what 8 tokens of n rows add up to.
 */
SIMD_AVX2 static void add_total(double *sum, __m256 total, const float *out, int64_t n,
                                int64_t width)
{
    __m256 over = _mm256_cmp_ps(total, _mm256_set1_ps(1.0F), _CMP_NLT_UQ);
    if (_mm256_movemask_ps(over)) {
        for (int t = 0; t < TILE; t++)
            for (int64_t i = 0; i < n; i++)
                sum[t] += (double)out[t * width + i];
        return;
    }
    __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(total));
    __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(total, 1));
    _mm256_storeu_pd(sum, _mm256_add_pd(lo, _mm256_loadu_pd(sum)));
    _mm256_storeu_pd(sum + 4, _mm256_add_pd(hi, _mm256_loadu_pd(sum + 4)));
}

/* Two tiles of rows, as most blocks are; returns how many tokens. */
SIMD_AVX2 static int64_t turn_pairs(float *out, double *sum, const uint16_t *in,
                                    int64_t row_stride, int64_t n_token)
{
    int64_t t = 0;
    const uint16_t *below = in + TILE * row_stride;
    for (; t + TILE <= n_token; t += TILE, out += TILE * SLOTS_WIDTH) {
        if (t % 32 == 0 && t + AHEAD < n_token)
            for (int i = 0; i < SLOTS_WIDTH; i++)
                _mm_prefetch((const char *)(in + i * row_stride + t + AHEAD), _MM_HINT_T0);
        __m256 total = turn_8x8(out, in + t, row_stride, SLOTS_WIDTH, _mm256_setzero_ps());
        total = turn_8x8(out + TILE, below + t, row_stride, SLOTS_WIDTH, total);
        if (sum)
            add_total(sum + t, total, out, SLOTS_WIDTH, SLOTS_WIDTH);
    }
    return t;
}

SIMD_AVX2 static void turn_avx2(float *out, double *sum, const uint16_t *in, int64_t row_stride,
                                int64_t n_row, int64_t n_token, int64_t width)
{
    int64_t full = n_row / TILE * TILE, tokens = n_token / TILE * TILE, done = 0;
    if (n_row == SLOTS_WIDTH && width == SLOTS_WIDTH)
        done = turn_pairs(out, sum, in, row_stride, n_token);
    for (int64_t t = done; t < tokens; t += TILE) {
        __m256 total = _mm256_setzero_ps();
        for (int64_t i = 0; i < full; i += TILE)
            total = turn_8x8(out + t * width + i, in + i * row_stride + t, row_stride, width,
                             total);
        if (sum)
            add_total(sum + t, total, out + t * width, full, width);
        turn_plain(out + t * width, sum ? sum + t : NULL, in + t, row_stride, full, n_row, TILE,
                   width);
    }
    turn_plain(out + tokens * width, sum ? sum + tokens : NULL, in + tokens, row_stride, 0,
               n_row, n_token - tokens, width);
}
#endif

void slots_turn(float *out, double *sum, const uint16_t *in, int64_t row_stride, int64_t n_row,
                int64_t n_token, int64_t width)
{
    for (int64_t t = 0; n_row < width && t < n_token; t++)
        memset(out + t * width + n_row, 0, (size_t)(width - n_row) * sizeof *out);
#if SIMD_X86
    if (simd_avx2()) {
        turn_avx2(out, sum, in, row_stride, n_row, n_token, width);
        return;
    }
#endif
    for (int64_t t = 0; t < n_token; t += TILE) {
        int64_t n = n_token - t < TILE ? n_token - t : TILE;
        turn_plain(out + t * width, sum ? sum + t : NULL, in + t, row_stride, 0, n_row, n,
                   width);
    }
}

/* ---- masses --------------------------------------------------------------------------------
 */

static void add_plain(float *sum, const float *p, const int32_t *token, int64_t from, int64_t n)
{
    for (int64_t i = from; i < n; i++)
        for (int k = 0; k < SLOTS_WIDTH; k++)
            sum[k] += p[(token ? token[i] : i) * SLOTS_WIDTH + k];
}

#if SIMD_X86
/* Four sums at a time, so that an addition need not wait for the one before it. */
SIMD_AVX2 static int64_t add_avx2(float *sum, const float *p, const int32_t *token, int64_t n)
{
    __m256 lo[4], hi[4];
    lo[0] = _mm256_loadu_ps(sum), hi[0] = _mm256_loadu_ps(sum + 8);
    lo[1] = lo[2] = lo[3] = hi[1] = hi[2] = hi[3] = _mm256_setzero_ps();
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const float *x = p + (token ? token[i + k] : i + k) * SLOTS_WIDTH;
            lo[k] = _mm256_add_ps(lo[k], _mm256_loadu_ps(x));
            hi[k] = _mm256_add_ps(hi[k], _mm256_loadu_ps(x + 8));
        }
    }
    lo[0] = _mm256_add_ps(_mm256_add_ps(lo[0], lo[1]), _mm256_add_ps(lo[2], lo[3]));
    hi[0] = _mm256_add_ps(_mm256_add_ps(hi[0], hi[1]), _mm256_add_ps(hi[2], hi[3]));
    _mm256_storeu_ps(sum, lo[0]);
    _mm256_storeu_ps(sum + 8, hi[0]);
    return i;
}
#endif

void slots_add(float *sum, const float *p, const int32_t *token, int64_t n)
{
    int64_t done = 0;
#if SIMD_X86
    if (simd_avx2())
        done = add_avx2(sum, p, token, n);
#endif
    add_plain(sum, p, token, done, n);
}

static void pile_plain(double *sum, const float *row, int64_t stride, int64_t first,
                       int64_t last, int64_t from, int64_t n)
{
    for (int64_t i = first; i < last; i++)
        for (int64_t s = from; s < n; s++)
            sum[s] += (double)row[i * stride + s];
}

#if SIMD_X86
/* Four rows at a time, so that a sum is loaded and stored once for them. */
SIMD_AVX2 static void pile_avx2(double *sum, const float *row, int64_t stride, int64_t n_row,
                                int64_t n)
{
    for (int64_t i = 0; i + 4 <= n_row; i += 4) {
        const float *x = row + i * stride;
        for (int64_t s = 0; s < n; s += 4) {
            __m256d a = _mm256_loadu_pd(sum + s);
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                a = _mm256_add_pd(a, _mm256_cvtps_pd(_mm_loadu_ps(x + k * stride + s)));
            _mm256_storeu_pd(sum + s, a);
        }
    }
}
#endif

void slots_pile(double *sum, const float *row, int64_t stride, int64_t n_row, int64_t n)
{
    int64_t rows = 0, wide = 0;
#if SIMD_X86
    if (simd_avx2()) {
        rows = n_row / 4 * 4, wide = n / 4 * 4;
        pile_avx2(sum, row, stride, n_row, wide);
    }
#endif
    pile_plain(sum, row, stride, 0, rows, wide, n);
    pile_plain(sum, row, stride, rows, n_row, 0, n);
}

/* ---- outputs -------------------------------------------------------------------------------
 */

static void mix_plain(float *restrict out, const float *p, const int64_t *pos, int64_t n,
                      const float *v, int64_t v_stride, int64_t from, int64_t n_dim)
{
    for (int64_t s = 0; s < n; s++) {
        const float *x = v + pos[s] * v_stride;
        float w = p[s];
        for (int64_t d = from; d < n_dim; d++)
            out[d] += w * x[d];
    }
}

#if SIMD_X86
/* HEADS heads by WIDE channels stay in registers: 12 sums, a value and three weights. Written
 * out, so that no compiler keeps them on the stack. */
SIMD_AVX2 static void mix_block(float *out, const float *p, int64_t p_stride,
                                const int64_t *pos, int64_t n, const float *v, int64_t v_stride,
                                int n_head, int64_t n_dim)
{
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    __m256 b0 = a0, b1 = a0, b2 = a0, b3 = a0, c0 = a0, c1 = a0, c2 = a0, c3 = a0;
    const float *p1 = p + (n_head > 1 ? p_stride : 0),
                *p2 = p + (n_head > 2 ? 2 * p_stride : 0);
    for (int64_t s = 0; s < n; s++) {
        const float *x = v + pos[s] * v_stride;
        __m256 w0 = _mm256_set1_ps(p[s]), w1 = _mm256_set1_ps(p1[s]),
               w2 = _mm256_set1_ps(p2[s]);
        __m256 y = _mm256_loadu_ps(x);
        a0 = _mm256_fmadd_ps(w0, y, a0);
        b0 = _mm256_fmadd_ps(w1, y, b0);
        c0 = _mm256_fmadd_ps(w2, y, c0);
        y = _mm256_loadu_ps(x + 8);
        a1 = _mm256_fmadd_ps(w0, y, a1);
        b1 = _mm256_fmadd_ps(w1, y, b1);
        c1 = _mm256_fmadd_ps(w2, y, c1);
        y = _mm256_loadu_ps(x + 16);
        a2 = _mm256_fmadd_ps(w0, y, a2);
        b2 = _mm256_fmadd_ps(w1, y, b2);
        c2 = _mm256_fmadd_ps(w2, y, c2);
        y = _mm256_loadu_ps(x + 24);
        a3 = _mm256_fmadd_ps(w0, y, a3);
        b3 = _mm256_fmadd_ps(w1, y, b3);
        c3 = _mm256_fmadd_ps(w2, y, c3);
    }
    const __m256 sum[HEADS][4] = {{a0, a1, a2, a3}, {b0, b1, b2, b3}, {c0, c1, c2, c3}};
    for (int h = 0; h < n_head; h++)
        for (int k = 0; k < 4; k++)
            _mm256_storeu_ps(out + h * n_dim + 8 * k, sum[h][k]);
}
#endif

void slots_mix(float *out, const float *p, const int64_t *pos, int64_t n, const float *v,
               int64_t v_stride, int n_head, int64_t n_dim)
{
    int64_t done = 0;
    memset(out, 0, (size_t)(n_head * n_dim) * sizeof *out);
#if SIMD_X86
    if (simd_avx2()) {
        done = n_dim / WIDE * WIDE;
        for (int h = 0; h < n_head; h += HEADS)
            for (int64_t d = 0; d < done; d += WIDE)
                mix_block(out + h * n_dim + d, p + h * n, n, pos, n, v + d, v_stride,
                          n_head - h < HEADS ? n_head - h : HEADS, n_dim);
    }
#endif
    for (int h = 0; h < n_head && done < n_dim; h++)
        mix_plain(out + h * n_dim, p + h * n, pos, n, v, v_stride, done, n_dim);
}

/* ---- outer products ------------------------------------------------------------------------
 */

enum {
    ROWS = 4,
    COLUMNS = 16,
    CHUNK = 128
}; /* tokens whose rows and values stay in the cache */

static void outer_plain(float *out, const float *p, const float *v, const int32_t *token,
                        int64_t n, int64_t width, int64_t from, int64_t n_dim)
{
    for (int64_t i = 0; i < n; i++) {
        const float *x = p + token[i] * width, *y = v + token[i] * n_dim;
        for (int64_t r = 0; r < width; r++)
            for (int64_t d = from; d < n_dim; d++)
                out[r * n_dim + d] += x[r] * y[d];
    }
}

#if SIMD_X86
SIMD_AVX2 static void outer_tile(float *out, const float *p, const float *v,
                                 const int32_t *token, int64_t n, int64_t width, int64_t n_dim)
{
    float *o1 = out + n_dim, *o2 = o1 + n_dim, *o3 = o2 + n_dim;
    __m256 a0 = _mm256_loadu_ps(out), b0 = _mm256_loadu_ps(out + 8);
    __m256 a1 = _mm256_loadu_ps(o1), b1 = _mm256_loadu_ps(o1 + 8);
    __m256 a2 = _mm256_loadu_ps(o2), b2 = _mm256_loadu_ps(o2 + 8);
    __m256 a3 = _mm256_loadu_ps(o3), b3 = _mm256_loadu_ps(o3 + 8);
    for (int64_t i = 0; i < n; i++) {
        const float *x = p + token[i] * width, *y = v + token[i] * n_dim;
        __m256 lo = _mm256_loadu_ps(y), hi = _mm256_loadu_ps(y + 8);
        __m256 w = _mm256_broadcast_ss(x);
        a0 = _mm256_fmadd_ps(w, lo, a0);
        b0 = _mm256_fmadd_ps(w, hi, b0);
        w = _mm256_broadcast_ss(x + 1);
        a1 = _mm256_fmadd_ps(w, lo, a1);
        b1 = _mm256_fmadd_ps(w, hi, b1);
        w = _mm256_broadcast_ss(x + 2);
        a2 = _mm256_fmadd_ps(w, lo, a2);
        b2 = _mm256_fmadd_ps(w, hi, b2);
        w = _mm256_broadcast_ss(x + 3);
        a3 = _mm256_fmadd_ps(w, lo, a3);
        b3 = _mm256_fmadd_ps(w, hi, b3);
    }
    _mm256_storeu_ps(out, a0);
    _mm256_storeu_ps(out + 8, b0);
    _mm256_storeu_ps(o1, a1);
    _mm256_storeu_ps(o1 + 8, b1);
    _mm256_storeu_ps(o2, a2);
    _mm256_storeu_ps(o2 + 8, b2);
    _mm256_storeu_ps(o3, a3);
    _mm256_storeu_ps(o3 + 8, b3);
}
#endif

static void outer_chunk(float *out, const float *p, const float *v, const int32_t *token,
                        int64_t n, int64_t width, int64_t n_dim)
{
    int64_t done = 0;
#if SIMD_X86
    if (simd_avx2()) {
        done = n_dim / COLUMNS * COLUMNS;
        for (int64_t r = 0; r < width; r += ROWS)
            for (int64_t d = 0; d < done; d += COLUMNS)
                outer_tile(out + r * n_dim + d, p + r, v + d, token, n, width, n_dim);
    }
#endif
    if (done < n_dim)
        outer_plain(out, p, v, token, n, width, done, n_dim);
}

void slots_outer(float *out, const float *p, const float *v, const int32_t *token, int64_t n,
                 int64_t width, int64_t n_dim)
{
    int32_t next[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t m = n - at < CHUNK ? n - at : CHUNK;
        for (int64_t i = 0; !token && i < m; i++)
            next[i] = (int32_t)(at + i);
        outer_chunk(out, p, v, token ? token + at : next, m, width, n_dim);
    }
}
