/* half.h - IEEE half and brain floats, by our own code (HDF5 1.10 converts denormals and
 * overflow wrongly). To half: nearest, ties to even; beyond 65,504 + half an ulp: infinity; NaN
 * stays NaN. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include "kvt/api.h"

float half_to_float(uint16_t h);
uint16_t half_from_float(float f);
float bf16_to_float(uint16_t b);
uint16_t bf16_from_float(float f); /* nearest, ties to even */

/* Arrays; the fastest code that this processor has, the same bits. */
void half_to_floats(float *out, const uint16_t *in, int64_t n);
void half_from_floats(uint16_t *out, const float *in, int64_t n);

#endif
