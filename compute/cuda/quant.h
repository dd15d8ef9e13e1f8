/* quant.h - a weight of a block, in kernels: the layouts of compute/cpu/quant.c.
 *
 *   quant_q4_k(b, i)     weight i of the block at b: the bits of quant_decode()
 *
 * b is even; a multiple of 4 for blocks of a multiple of 4 bytes. The order of the products is
 * the definition's. Nothing is lost where a compiler fuses them with the sum behind: a scale
 * has 11 bits, its 6-bit factor and the quantum 5 more, so that each product is exact in f32.
 */
#ifndef COMPUTE_CUDA_QUANT_H
#define COMPUTE_CUDA_QUANT_H

#include "compute/cuda/kernel.h"
#include "compute/quant.h"

DEVICE_TABLE int8_t quant_iq4_nl_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

DEVICE_FN unsigned quant_word16(const uint8_t *b)
{
    return *(const uint16_t *)(const void *)b;
}

/* Four bytes at an even address, and at a multiple of 4. */
DEVICE_FN unsigned quant_word(const uint8_t *b)
{
    return quant_word16(b) | quant_word16(b + 2) << 16;
}

DEVICE_FN unsigned quant_word32(const uint8_t *b)
{
    return *(const uint32_t *)(const void *)b;
}

DEVICE_FN float quant_half(const uint8_t *b)
{
    return half_of((uint16_t)quant_word16(b));
}

DEVICE_FN float quant_f32(const uint8_t *b, unsigned i)
{
    return ((const float *)(const void *)b)[i];
}

DEVICE_FN float quant_f16(const uint8_t *b, unsigned i)
{
    return quant_half(b + 2 * i);
}

DEVICE_FN float quant_bf16(const uint8_t *b, unsigned i)
{
    return bf16_of((uint16_t)quant_word16(b + 2 * i));
}

DEVICE_FN int quant_nibble(const uint8_t *q, unsigned i)
{
    return q[i & 15] >> (i < 16 ? 0 : 4) & 15;
}

DEVICE_FN float quant_q4_0(const uint8_t *b, unsigned i)
{
    return (float)(quant_nibble(b + 2, i) - 8) * quant_half(b);
}

DEVICE_FN float quant_q4_1(const uint8_t *b, unsigned i)
{
    return (float)quant_nibble(b + 4, i) * quant_half(b) + quant_half(b + 2);
}

DEVICE_FN float quant_q5_0(const uint8_t *b, unsigned i)
{
    int fifth = (int)(quant_word(b + 2) >> i & 1) << 4;
    return (float)((quant_nibble(b + 6, i) | fifth) - 16) * quant_half(b);
}

DEVICE_FN float quant_q5_1(const uint8_t *b, unsigned i)
{
    int fifth = (int)(quant_word32(b + 4) >> i & 1) << 4;
    return (float)(quant_nibble(b + 8, i) | fifth) * quant_half(b) + quant_half(b + 2);
}

DEVICE_FN float quant_q8_0(const uint8_t *b, unsigned i)
{
    return (float)(int8_t)b[2 + i] * quant_half(b);
}

DEVICE_FN float quant_iq4_nl(const uint8_t *b, unsigned i)
{
    return quant_half(b) * (float)quant_iq4_nl_table[quant_nibble(b + 2, i)];
}

DEVICE_FN int quant_pair(const uint8_t *q, unsigned i)
{
    return q[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
}

DEVICE_FN float quant_q2_k(const uint8_t *b, unsigned i)
{
    int s = b[i / 16];
    return quant_half(b + 80) * (float)(s & 15) * (float)quant_pair(b + 16, i) -
           quant_half(b + 82) * (float)(s >> 4);
}

/* Signed scale g (0 to 15) of Q3_K from its 12 bytes. */
DEVICE_FN int quant_q3_k_scale(const uint8_t *s, unsigned g)
{
    int low = s[g & 7] >> (g < 8 ? 0 : 4) & 15;
    return low + 16 * (s[8 + g % 4] >> 2 * (g / 4) & 3) - 32;
}

DEVICE_FN float quant_q3_k(const uint8_t *b, unsigned i)
{
    int third = b[i % 32] >> (4 * (i / 128) + i % 128 / 32) & 1;
    return quant_half(b + 108) * (float)quant_q3_k_scale(b + 96, i / 16) *
           (float)(quant_pair(b + 32, i) - (third ? 0 : 4));
}

/* Scale and minimum g (0 to 7) of Q4_K and Q5_K from their 12 bytes, a multiple of 4. */
DEVICE_FN unsigned quant_scale_of(const uint8_t *s, unsigned g)
{
    return g < 4 ? s[g] & 63u : (s[g + 4] & 15u) + 16u * (s[g - 4] >> 6);
}

DEVICE_FN unsigned quant_min_of(const uint8_t *s, unsigned g)
{
    return g < 4 ? s[g + 4] & 63u : (s[g + 4] >> 4) + 16u * (s[g] >> 6);
}

DEVICE_FN int quant_wide_nibble(const uint8_t *q, unsigned i)
{
    return q[32 * (i / 64) + i % 32] >> 4 * (i / 32 % 2) & 15;
}

DEVICE_FN float quant_q4_k(const uint8_t *b, unsigned i)
{
    unsigned g = i / 32;
    return quant_half(b) * (float)quant_scale_of(b + 4, g) *
               (float)quant_wide_nibble(b + 16, i) -
           quant_half(b + 2) * (float)quant_min_of(b + 4, g);
}

DEVICE_FN float quant_q5_k(const uint8_t *b, unsigned i)
{
    unsigned g = i / 32;
    int q = quant_wide_nibble(b + 48, i) + 16 * (b[16 + i % 32] >> g & 1);
    return quant_half(b) * (float)quant_scale_of(b + 4, g) * (float)q -
           quant_half(b + 2) * (float)quant_min_of(b + 4, g);
}

DEVICE_FN float quant_q6_k(const uint8_t *b, unsigned i)
{
    unsigned h = i / 128, k = i % 128 / 32, l = i % 32;
    int low = b[64 * h + 32 * (k & 1) + l] >> 4 * (k / 2) & 15;
    int q = low + 16 * (b[128 + 32 * h + l] >> 2 * k & 3) - 32;
    return quant_half(b + 208) * (float)(int8_t)b[192 + i / 16] * (float)q;
}

#endif
