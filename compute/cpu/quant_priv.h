/* quant_priv.h - between the plain and the AVX2 code of the dequantisers. */
#ifndef COMPUTE_CPU_QUANT_PRIV_H
#define COMPUTE_CPU_QUANT_PRIV_H

#include <stdbool.h>
#include <stdint.h>

/* What a nibble of IQ4_NL stands for. */
extern const int8_t quant_iq4_nl_value[16];

/* Decodes like quant_decode_plain(), or returns false where this build or processor has no AVX2
 * (nothing is written then). */
bool quant_decode_avx2(float *out, int type, const void *in, int64_t n_weight);

#endif
