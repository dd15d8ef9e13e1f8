/* quant_dot.h - products of quantised blocks with a vector, the blocks decoded in registers.
 *
 *   dot_q4_k(w, u, x)    unit u (16 weights) of the row of blocks at w, times x f32 in shared
 *                        memory
 *
 * A unit is what one lane takes of a row: bytes that lie side by side, so that neighbours read
 * neighbours, and the two to four runs of weights that they hold. Four bytes become floats at a
 * time: a byte put into the mantissa of 2^23 is a float, less 2^23 and the type's offset. */
#ifndef COMPUTE_CUDA_QUANT_DOT_H
#define COMPUTE_CUDA_QUANT_DOT_H

#include "compute/cuda/quant.h"
#include "compute/cuda/typed.h"

enum { DOT_UNIT = 16 }; /* weights */

/* The byte `b` less `offset`. */
DEVICE_FN float dot_value(unsigned b, float offset)
{
    unsigned bits = 0x4b000000u | b;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f - (8388608.0f + offset);
}

/* Sum over the four bytes of v of (byte - offset) x. */
DEVICE_FN float dot4(unsigned v, float offset, const float *x)
{
    quad y = quad_of(x);
    return dot_value(v & 255, offset) * y.x + dot_value(v >> 8 & 255, offset) * y.y +
           dot_value(v >> 16 & 255, offset) * y.z + dot_value(v >> 24, offset) * y.w;
}

/* Eight bytes, in two words. */
DEVICE_FN float dot8(unsigned v, unsigned w, float offset, const float *x)
{
    return dot4(v, offset, x) + dot4(w, offset, x + 4);
}

DEVICE_FN float sum4(const float *x)
{
    quad y = quad_of(x);
    return y.x + y.y + (y.z + y.w);
}

DEVICE_FN float sum8(const float *x)
{
    return sum4(x) + sum4(x + 4);
}

/* Bit k of the lowest four of `bits` becomes bit 0 of byte k. */
DEVICE_FN unsigned spread(unsigned bits)
{
    return (bits & 15) * 0x00204081u & 0x01010101u;
}

enum { LOW = 0x0f0f0f0f, ONES = 0x01010101, PAIRS = 0x03030303 };

/* Blocks of 32: unit u is half u % 2 of block u / 2: nibble bytes 8 h to 8 h + 8, which are
 * weights 8 h and on (low) and 16 + 8 h and on (high). */
DEVICE_FN float dot_q4_0(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 2 * 18;
    unsigned v = quant_word(b + 2 + u % 2 * 8), v2 = quant_word(b + 6 + u % 2 * 8);
    x += u / 2 * 32 + u % 2 * 8;
    return quant_half(b) *
           (dot8(v & LOW, v2 & LOW, 8, x) + dot8(v >> 4 & LOW, v2 >> 4 & LOW, 8, x + 16));
}

DEVICE_FN float dot_q4_1(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 2 * 20;
    unsigned v = quant_word32(b + 4 + u % 2 * 8), v2 = quant_word32(b + 8 + u % 2 * 8);
    x += u / 2 * 32 + u % 2 * 8;
    return quant_half(b) *
               (dot8(v & LOW, v2 & LOW, 0, x) + dot8(v >> 4 & LOW, v2 >> 4 & LOW, 0, x + 16)) +
           quant_half(b + 2) * (sum8(x) + sum8(x + 16));
}

/* As dot8, twice, of five bits: `fifth` has bit i of weight i of the half. */
DEVICE_FN float dot_five(unsigned v, unsigned v2, unsigned fifth, float offset, const float *x)
{
    return dot8((v & LOW) | spread(fifth) << 4, (v2 & LOW) | spread(fifth >> 4) << 4, offset,
                x) +
           dot8((v >> 4 & LOW) | spread(fifth >> 16) << 4,
                (v2 >> 4 & LOW) | spread(fifth >> 20) << 4, offset, x + 16);
}

DEVICE_FN float dot_q5_0(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 2 * 22;
    unsigned v = quant_word(b + 6 + u % 2 * 8), v2 = quant_word(b + 10 + u % 2 * 8);
    return quant_half(b) *
           dot_five(v, v2, quant_word(b + 2) >> u % 2 * 8, 16, x + u / 2 * 32 + u % 2 * 8);
}

DEVICE_FN float dot_q5_1(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 2 * 24;
    unsigned v = quant_word32(b + 8 + u % 2 * 8), v2 = quant_word32(b + 12 + u % 2 * 8);
    x += u / 2 * 32 + u % 2 * 8;
    return quant_half(b) * dot_five(v, v2, quant_word32(b + 4) >> u % 2 * 8, 0, x) +
           quant_half(b + 2) * (sum8(x) + sum8(x + 16));
}

/* 16 signed bytes: with the sign bit turned they are 128 too large. */
DEVICE_FN float dot_q8_0(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 2 * 34, *q = b + 2 + u % 2 * 16;
    const unsigned sign = 0x80808080u;
    x += u * 16;
    return quant_half(b) *
           (dot8(quant_word(q) ^ sign, quant_word(q + 4) ^ sign, 128, x) +
            dot8(quant_word(q + 8) ^ sign, quant_word(q + 12) ^ sign, 128, x + 8));
}

DEVICE_FN float dot4_table(unsigned v, const float *x)
{
    quad y = quad_of(x);
    return (float)quant_iq4_nl_table[v & 15] * y.x +
           (float)quant_iq4_nl_table[v >> 8 & 15] * y.y +
           (float)quant_iq4_nl_table[v >> 16 & 15] * y.z +
           (float)quant_iq4_nl_table[v >> 24 & 15] * y.w;
}

DEVICE_FN float dot_iq4_nl(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 2 * 18;
    unsigned v = quant_word(b + 2 + u % 2 * 8), v2 = quant_word(b + 6 + u % 2 * 8);
    x += u / 2 * 32 + u % 2 * 8;
    return quant_half(b) * (dot4_table(v, x) + dot4_table(v2, x + 4) +
                            dot4_table(v >> 4, x + 16) + dot4_table(v2 >> 4, x + 20));
}

/* Blocks of 256. Q2_K and Q3_K: unit v of 16: half H = v / 8, bytes 4 j to 4 j + 4 of its 32, j
 * = v % 8: weights 128 H + 32 k + 4 j and on in bits 2 k. */
DEVICE_FN float dot_q2_k(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 16 * 84;
    int h = u % 16 / 8, j = u % 8;
    unsigned v = quant_word32(b + 16 + 32 * h + 4 * j);
    float sum = 0, min = 0;
    x += u / 16 * 256 + 128 * h + 4 * j;
    for (int k = 0; k < 4; k++, x += 32) {
        unsigned s = b[8 * h + 2 * k + j / 4];
        sum += (float)(s & 15) * dot4(v >> 2 * k & PAIRS, 0, x);
        min += (float)(s >> 4) * sum4(x);
    }
    return quant_half(b + 80) * sum - quant_half(b + 82) * min;
}

DEVICE_FN float dot_q3_k(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 16 * 110;
    int h = u % 16 / 8, j = u % 8;
    unsigned v = quant_word(b + 32 + 32 * h + 4 * j), third = quant_word(b + 4 * j) >> 4 * h;
    float sum = 0;
    x += u / 16 * 256 + 128 * h + 4 * j;
    for (int k = 0; k < 4; k++, x += 32)
        sum += (float)quant_q3_k_scale(b + 96, (unsigned)(8 * h + 2 * k + j / 4)) *
               dot4((v >> 2 * k & PAIRS) | (third >> k & ONES) << 2, 4, x);
    return quant_half(b + 108) * sum;
}

/* Q4_K and Q5_K: unit v of 16: chunk c = v / 4 of 64 weights, bytes 8 j to 8 j + 8 of its 32, j
 * = v % 4: weights 64 c + 8 j and on (low), and 32 behind them (high). */
DEVICE_FN float dot_q4_k(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 16 * 144;
    unsigned c = (unsigned)u % 16 / 4, j = (unsigned)u % 4;
    unsigned v = quant_word32(b + 16 + 32 * c + 8 * j),
             v2 = quant_word32(b + 20 + 32 * c + 8 * j);
    x += u / 16 * 256 + (int)(64 * c + 8 * j);
    return quant_half(b) *
               ((float)quant_scale_of(b + 4, 2 * c) * dot8(v & LOW, v2 & LOW, 0, x) +
                (float)quant_scale_of(b + 4, 2 * c + 1) *
                    dot8(v >> 4 & LOW, v2 >> 4 & LOW, 0, x + 32)) -
           quant_half(b + 2) * ((float)quant_min_of(b + 4, 2 * c) * sum8(x) +
                                (float)quant_min_of(b + 4, 2 * c + 1) * sum8(x + 32));
}

DEVICE_FN float dot_q5_k(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 16 * 176;
    unsigned c = (unsigned)u % 16 / 4, j = (unsigned)u % 4;
    unsigned v = quant_word32(b + 48 + 32 * c + 8 * j),
             v2 = quant_word32(b + 52 + 32 * c + 8 * j);
    unsigned f = quant_word32(b + 16 + 8 * j) >> 2 * c,
             f2 = quant_word32(b + 20 + 8 * j) >> 2 * c;
    x += u / 16 * 256 + (int)(64 * c + 8 * j);
    float low = dot8((v & LOW) | (f & ONES) << 4, (v2 & LOW) | (f2 & ONES) << 4, 0, x);
    float high = dot8((v >> 4 & LOW) | (f >> 1 & ONES) << 4,
                      (v2 >> 4 & LOW) | (f2 >> 1 & ONES) << 4, 0, x + 32);
    return quant_half(b) * ((float)quant_scale_of(b + 4, 2 * c) * low +
                            (float)quant_scale_of(b + 4, 2 * c + 1) * high) -
           quant_half(b + 2) * ((float)quant_min_of(b + 4, 2 * c) * sum8(x) +
                                (float)quant_min_of(b + 4, 2 * c + 1) * sum8(x + 32));
}

/* Q6_K: unit v of 16: half H = v / 8, run k = v / 4 % 2, columns 8 j to 8 j + 8, j = v % 4:
 * weights 128 H + 32 k + 8 j and on (low), and 64 behind them (high). */
DEVICE_FN float dot_q6_k(const uint8_t *w, int u, const float *x)
{
    const uint8_t *b = w + u / 16 * 210;
    int h = u % 16 / 8, k = u % 8 / 4, j = u % 4, g = 192 + 8 * h + 2 * k + j / 2;
    const uint8_t *low = b + 64 * h + 32 * k + 8 * j, *high = b + 128 + 32 * h + 8 * j;
    unsigned v = quant_word(low), v2 = quant_word(low + 4);
    unsigned p = quant_word(high) >> 2 * k, p2 = quant_word(high + 4) >> 2 * k;
    x += u / 16 * 256 + 128 * h + 32 * k + 8 * j;
    float first = dot8((v & LOW) | (p & PAIRS) << 4, (v2 & LOW) | (p2 & PAIRS) << 4, 32, x);
    float second = dot8((v >> 4 & LOW) | (p >> 4 & PAIRS) << 4,
                        (v2 >> 4 & LOW) | (p2 >> 4 & PAIRS) << 4, 32, x + 64);
    return quant_half(b + 208) *
           ((float)(int8_t)b[g] * first + (float)(int8_t)b[g + 4] * second);
}

#endif
