/* quant.c - what a block of each quantised type means, written to be read.
 *
 * b: the bytes of one block, little-endian; y: its weights; i: a weight's index in the block;
 * half(b + k): the IEEE half at byte k; "low" and "high" are the nibbles of a byte. */
#include "compute/quant.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "compute/cpu/quant_priv.h"

typedef void decode_block(float *y, const uint8_t *b);

static float half(const uint8_t *b)
{
    return half_to_float((uint16_t)(b[0] | b[1] << 8));
}

static uint32_t word(const uint8_t *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void f32(float *y, const uint8_t *b)
{
    uint32_t bits = word(b);
    memcpy(y, &bits, sizeof bits);
}

static void f16(float *y, const uint8_t *b)
{
    *y = half(b);
}

static void bf16(float *y, const uint8_t *b)
{
    *y = bf16_to_float((uint16_t)(b[0] | b[1] << 8));
}

/* Nibble i of 32 in 16 bytes: the low ones are weights 0 to 15, the high ones 16 to 31. */
static int nibble(const uint8_t *q, int i)
{
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

/* d | 16 nibble bytes */
static void q4_0(float *y, const uint8_t *b)
{
    float d = half(b);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(nibble(b + 2, i) - 8) * d;
}

/* d | m | 16 nibble bytes */
static void q4_1(float *y, const uint8_t *b)
{
    float d = half(b), m = half(b + 2);
    for (int i = 0; i < 32; i++)
        y[i] = (float)nibble(b + 4, i) * d + m;
}

/* d | fifth bits, weight i in bit i | 16 nibble bytes */
static void q5_0(float *y, const uint8_t *b)
{
    float d = half(b);
    uint32_t fifth = word(b + 2);
    for (int i = 0; i < 32; i++)
        y[i] = (float)((nibble(b + 6, i) | (int)(fifth >> i & 1) << 4) - 16) * d;
}

/* d | m | fifth bits | 16 nibble bytes */
static void q5_1(float *y, const uint8_t *b)
{
    float d = half(b), m = half(b + 2);
    uint32_t fifth = word(b + 4);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(nibble(b + 8, i) | (int)(fifth >> i & 1) << 4) * d + m;
}

/* d | 32 signed bytes */
static void q8_0(float *y, const uint8_t *b)
{
    float d = half(b);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(int8_t)b[2 + i] * d;
}

/* d | 16 nibble bytes, an index of a table of values */
static void iq4_nl(float *y, const uint8_t *b)
{
    float d = half(b);
    for (int i = 0; i < 32; i++)
        y[i] = d * (float)quant_iq4_nl_value[nibble(b + 2, i)];
}

/* Two bits of weight i of 256 in 64 bytes: byte 32 (i / 128) + i % 32, bits 2 ((i % 128) / 32).
 */
static int pair(const uint8_t *q, int i)
{
    return q[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
}

/* 16 bytes of scale (low) and min (high), one for 16 weights | 64 bytes of pairs | d | dm */
static void q2_k(float *y, const uint8_t *b)
{
    float d = half(b + 80), dm = half(b + 82);
    for (int i = 0; i < 256; i++) {
        int s = b[i / 16];
        y[i] = d * (float)(s & 15) * (float)pair(b + 16, i) - dm * (float)(s >> 4);
    }
}

/* Signed 6-bit scale g (0 to 15) of Q3_K: four bits in bytes 0 to 7, two bits in 8 to 11. */
static int q3_k_scale(const uint8_t *s, int g)
{
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    return low + 16 * (s[8 + g % 4] >> 2 * (g / 4) & 3) - 32;
}

/* 32 bytes of third bits (clear: minus 4) | 64 bytes of pairs | 12 bytes of scales | d */
static void q3_k(float *y, const uint8_t *b)
{
    float d = half(b + 108);
    for (int i = 0; i < 256; i++) {
        int third = b[i % 32] >> (4 * (i / 128) + i % 128 / 32) & 1;
        int q = pair(b + 32, i) - (third ? 0 : 4);
        y[i] = d * (float)q3_k_scale(b + 96, i / 16) * (float)q;
    }
}

void quant_scale_min(const uint8_t s[12], int g, int *scale, int *min)
{
    if (g < 4) {
        *scale = s[g] & 63;
        *min = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) + 16 * (s[g - 4] >> 6);
        *min = (s[g + 4] >> 4) + 16 * (s[g] >> 6);
    }
}

/* Nibble of weight i of 256 in 128 bytes: byte 32 (i / 64) + i % 32, low for even i / 32. */
static int wide_nibble(const uint8_t *q, int i)
{
    return q[32 * (i / 64) + i % 32] >> 4 * (i / 32 % 2) & 15;
}

/* d | dm | 12 bytes of scales and mins, one for 32 weights | 128 nibble bytes */
static void q4_k(float *y, const uint8_t *b)
{
    float d = half(b), dm = half(b + 2);
    for (int i = 0; i < 256; i++) {
        int scale, min;
        quant_scale_min(b + 4, i / 32, &scale, &min);
        y[i] = d * (float)scale * (float)wide_nibble(b + 16, i) - dm * (float)min;
    }
}

/* d | dm | 12 bytes as in Q4_K | 32 bytes of fifth bits, bit i / 32 of byte i % 32 | 128 bytes
 */
static void q5_k(float *y, const uint8_t *b)
{
    float d = half(b), dm = half(b + 2);
    for (int i = 0; i < 256; i++) {
        int scale, min;
        quant_scale_min(b + 4, i / 32, &scale, &min);
        int q = wide_nibble(b + 48, i) + 16 * (b[16 + i % 32] >> (i / 32) & 1);
        y[i] = d * (float)scale * (float)q - dm * (float)min;
    }
}

/* 128 bytes of nibbles | 64 bytes of pairs above them | 16 signed scales, one for 16 weights |
 * d. Of half H = i / 128, k = (i % 128) / 32 and l = i % 32: the nibble is in byte 64 H + 32 (k
 * & 1) + l, low for k < 2, the pair in byte 32 H + l at 2 k. */
static void q6_k(float *y, const uint8_t *b)
{
    float d = half(b + 208);
    for (int i = 0; i < 256; i++) {
        int h = i / 128, k = i % 128 / 32, l = i % 32;
        int low = b[64 * h + 32 * (k & 1) + l] >> 4 * (k / 2) & 15;
        int q = low + 16 * (b[128 + 32 * h + l] >> 2 * k & 3) - 32;
        y[i] = d * (float)(int8_t)b[192 + i / 16] * (float)q;
    }
}

const int8_t quant_iq4_nl_value[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};

static const struct kind {
    quant_info info;
    decode_block *decode;
} kinds[] = {
#define QUANT(type, name, n_byte, n_weight, function) \
    {{type, #name, n_byte, n_weight}, function},
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
};

static const struct refused {
    int type;
    const char *name;
} refused[] = {
#define QUANT(type, name, n_byte, n_weight, function)
#define QUANT_REFUSED(type, name) {type, name},
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
};

static const struct kind *find(int64_t type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].info.type == type)
            return &kinds[i];
    return NULL;
}

const quant_info *quant_find(int64_t type)
{
    const struct kind *k = find(type);
    return k ? &k->info : NULL;
}

const char *quant_name(int64_t type, char *out, size_t cap)
{
    const struct kind *k = find(type);
    snprintf(out, cap, "type %lld", (long long)type);
    if (k)
        snprintf(out, cap, "%s", k->info.name);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].type == type)
            snprintf(out, cap, "%s", refused[i].name);
    return out;
}

void quant_decode_plain(float *out, int type, const void *in, int64_t n_weight)
{
    const struct kind *k = find(type);
    assert(k && n_weight % k->info.n_weight == 0);
    const uint8_t *b = in;
    for (int64_t i = 0; i < n_weight; i += k->info.n_weight, b += k->info.n_byte)
        k->decode(out + i, b);
}

void quant_decode(float *out, int type, const void *in, int64_t n_weight)
{
    if (!quant_decode_avx512(out, type, in, n_weight) &&
        !quant_decode_avx2(out, type, in, n_weight))
        quant_decode_plain(out, type, in, n_weight);
}
