/* matvec_priv.h - between the definition and the vector code of matvec. */
#ifndef COMPUTE_CPU_MATVEC_PRIV_H
#define COMPUTE_CPU_MATVEC_PRIV_H

#include "compute/matrix.h"

typedef struct matvec_in {
    const uint8_t *rows; /* the first row */
    int64_t n, n_col, row_bytes;
    const float *x; /* f32 [n_col] */
} matvec_in;

/* y [n]. False where this build or processor has no AVX2 or AVX-512 (nothing is written then).
 */
bool matvec_avx2(float *y, int type, const matvec_in *in);
bool matvec_avx512(float *y, int type, const matvec_in *in);

/* The definition: decoded weights, sums in double. */
void matvec_plain(float *y, const kvt_matrix *w, int64_t row, int64_t n, const float *x);

#endif
