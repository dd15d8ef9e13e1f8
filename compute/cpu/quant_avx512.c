/* quant_avx512.c - quant.c for processors with AVX-512: weights from tables in registers
 * (blocks512.h). */
#include "compute/quant.h"

#include "compute/cpu/quant_priv.h"
#include "compute/simd.h"

#if SIMD_X86

#include "compute/cpu/blocks512.h"

typedef struct span512 {
    float *out;
    const uint8_t *in;
    int64_t n_weight;
} span512;

/* per: floats of a block in its scales. */
INLINE512 void of_32(const span512 *a, int n_byte, scales_fn *scales, int per, block_fn *block)
{
    const uint8_t *b = a->in;
    float *out = a->out, *end = a->out + a->n_weight;
    while (out < end) {
        int n = end - out < SPAN ? (int)(end - out) / 32 : SPAN_BLOCKS;
        span_scales s;
        scales(&s, b, n_byte, n);
        for (int i = 0; i < n; i++, b += n_byte, out += 32) {
            __m512 v[2];
            block(v, b, s.d + i * per, false);
            _mm512_storeu_ps(out, v[0]);
            _mm512_storeu_ps(out + 16, v[1]);
        }
    }
}

INLINE512 void of_256(const span512 *a, int n_byte, scales_fn *scales, part_fn *part,
                      place_fn *place)
{
    const uint8_t *b = a->in;
    for (int64_t i = 0; i < a->n_weight; i += SPAN, b += n_byte) {
        span_scales s;
        __m512 v[4];
        scales(&s, b, n_byte, 1);
#pragma GCC unroll 4
        for (int p = 0; p < SPAN_PARTS; p++) {
            part(v, b, &s, p, false);
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                _mm512_storeu_ps(a->out + i + place(p, k), v[k]);
        }
    }
}

INLINE512 void of_16_bits(const span512 *a, widen_fn *widen)
{
    int64_t i = 0;
    for (; i + 16 <= a->n_weight; i += 16)
        _mm512_storeu_ps(a->out + i, widen(load_16_bits(a->in + 2 * i)));
    __mmask16 rest = (__mmask16)((1u << (a->n_weight - i)) - 1);
    if (rest)
        _mm512_mask_storeu_ps(a->out + i, rest,
                              widen(_mm256_maskz_loadu_epi16(rest, a->in + 2 * i)));
}

#define OF_16_BITS(name)                           \
    SIMD_AVX512 static void name(const span512 *a) \
    {                                              \
        of_16_bits(a, widen_##name);               \
    }
#define OF_32(name, scales, per)                                 \
    SIMD_AVX512 static void name(const span512 *a)               \
    {                                                            \
        of_32(a, QUANT_BYTES_##name, scales, per, block_##name); \
    }
#define OF_256(name, scales, place)                                \
    SIMD_AVX512 static void name(const span512 *a)                 \
    {                                                              \
        of_256(a, QUANT_BYTES_##name, scales, part_##name, place); \
    }
BLOCKS512(OF_16_BITS, OF_32, OF_256)

static void f32(const span512 *a)
{
    memcpy(a->out, a->in, (size_t)a->n_weight * sizeof *a->out);
}

bool quant_decode_avx512(float *out, int type, const void *in, int64_t n_weight)
{
    const span512 a = {out, in, n_weight};
    if (!simd_avx512())
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

bool quant_decode_avx512(float *out, int type, const void *in, int64_t n_weight)
{
    (void)out, (void)type, (void)in, (void)n_weight;
    return false;
}

#endif
