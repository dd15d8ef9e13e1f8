/* quant_avx2.c - quant.c for processors with AVX2: the same values by the same products, 32
 * weights at a time (blocks256.h). Multiply and add stay two roundings: the target has no fused
 * instruction. */
#include "compute/quant.h"

#include "compute/cpu/quant_priv.h"
#include "compute/simd.h"

#if SIMD_X86

#include "compute/cpu/blocks256.h"

typedef struct span256 {
    float *out;
    const uint8_t *in;
    int64_t n_weight;
} span256;

/* n: parts of the span. */
INLINE256 void decode_span(float *out, const uint8_t *b, const block_kind k, int n)
{
    span_scales s;
    k.scales(&s, b, k.n_byte, n);
#pragma GCC unroll 8
    for (int g = 0; g < n; g++) {
        __m256 v[4];
        const float *d[2];
        span_part(v, d, &s, b, k, g);
#pragma GCC unroll 4
        for (int e = 0; e < 4; e++) {
            v[e] = _mm256_mul_ps(v[e], _mm256_set1_ps(d[e / 2][0]));
            if (k.min)
                v[e] = _mm256_add_ps(v[e], _mm256_set1_ps(d[e / 2][1]));
            _mm256_storeu_ps(out + 32 * g + 8 * e, v[e]);
        }
    }
}

INLINE256 void decode(const span256 *a, const block_kind k)
{
    const uint8_t *b = a->in;
    int64_t i = 0;
    for (; i + SPAN <= a->n_weight; i += SPAN, b += SPAN / k.n_weight * k.n_byte)
        decode_span(a->out + i, b, k, SPAN_BLOCKS);
    if (i < a->n_weight)
        decode_span(a->out + i, b, k, (int)(a->n_weight - i) / 32);
}

#define DECODE(name, scales, two, min)                           \
    TARGET256 static void name(const span256 *a)                 \
    {                                                            \
        const block_kind k = BLOCK_KIND(name, scales, two, min); \
        decode(a, k);                                            \
    }
BLOCKS256(DECODE)

TARGET256 static void bf16(const span256 *a)
{
    int64_t i = 0;
    for (; i + 8 <= a->n_weight; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(a->in + 2 * i));
        __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16);
        _mm256_storeu_si256((__m256i *)(void *)(a->out + i), wide);
    }
    quant_decode_plain(a->out + i, QUANT_BF16, a->in + 2 * i, a->n_weight - i);
}

TARGET256 static void f16(const span256 *a)
{
    int64_t i = 0;
    for (; i + 8 <= a->n_weight; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(a->in + 2 * i));
        _mm256_storeu_ps(a->out + i, _mm256_cvtph_ps(v));
    }
    quant_decode_plain(a->out + i, QUANT_F16, a->in + 2 * i, a->n_weight - i);
}

static void f32(const span256 *a)
{
    memcpy(a->out, a->in, (size_t)a->n_weight * sizeof *a->out);
}

bool quant_decode_avx2(float *out, int type, const void *in, int64_t n_weight)
{
    const span256 a = {out, in, n_weight};
    if (!simd_avx2())
        return false;
    switch (type) {
#define QUANT(type, name, n_byte, n_weight, function) \
    case type:                                        \
        function(&a);                                 \
        return true;
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
    default: return false;
    }
}

#else

bool quant_decode_avx2(float *out, int type, const void *in, int64_t n_weight)
{
    (void)out, (void)type, (void)in, (void)n_weight;
    return false;
}

#endif
