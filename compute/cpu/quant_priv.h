/* quant_priv.h - between the plain and the vector code of the dequantisers. */
#ifndef COMPUTE_CPU_QUANT_PRIV_H
#define COMPUTE_CPU_QUANT_PRIV_H

#include <stdbool.h>
#include <stdint.h>

/* QUANT_BYTES_q4_0, QUANT_WEIGHTS_q4_0, ...: of a block. */
/* clang-format off */
enum {
#define QUANT(type, name, n_byte, n_weight, function) \
    QUANT_BYTES_##function = n_byte, QUANT_WEIGHTS_##function = n_weight,
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
};
/* clang-format on */

/* What a nibble of IQ4_NL stands for. */
extern const int8_t quant_iq4_nl_value[16];

/* Decode like quant_decode_plain(), or return false where this build or processor has no AVX2
 * or AVX-512, or the type no code for it (nothing is written then). */
bool quant_decode_avx2(float *out, int type, const void *in, int64_t n_weight);
bool quant_decode_avx512(float *out, int type, const void *in, int64_t n_weight);

#endif
