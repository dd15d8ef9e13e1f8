/* quant.h - from blocks of quantised weights to f32.
 *
 * A row of weights is stored as blocks of quants.def; blocks never cross rows. Layouts and
 * values stand at each function of cpu/quant.c, which is the definition: each product is
 * rounded to f32 before it is used, (d x scale) x q - (dm x min), nothing is fused, so that
 * other implementations can agree in every bit. NaN equals NaN. */
#ifndef COMPUTE_QUANT_H
#define COMPUTE_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* QUANT_F32, QUANT_Q4_K, ...: the type's number. */
/* clang-format off */
enum {
#define QUANT(type, name, n_byte, n_weight, function) QUANT_##name = type,
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
};
/* clang-format on */

typedef struct quant_info {
    int type;
    const char *name; /* "Q4_K" */
    int n_byte;       /* of a block */
    int n_weight;     /* of a block */
} quant_info;

/* NULL: a type that is not read. */
const quant_info *quant_find(int64_t type);

/* "Q4_K", "IQ2_XS" also for types that are not read, "type 99" for unknown ones; returns out.
 */
const char *quant_name(int64_t type, char *out, size_t cap);

/* out f32 [n_weight] from whole blocks at `in`, which need not be aligned; `type` is one of
 * quants.def and n_weight a multiple of its block. The fastest code of this processor. */
void quant_decode(float *out, int type, const void *in, int64_t n_weight);

/* The definition, which the fast code equals bit for bit. */
void quant_decode_plain(float *out, int type, const void *in, int64_t n_weight);

/* Scale and minimum of sub-block g (0 to 7) of Q4_K and Q5_K from their 12 packed bytes. */
void quant_scale_min(const uint8_t s[12], int g, int *scale, int *min);

#endif
