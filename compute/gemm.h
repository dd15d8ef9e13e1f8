/* gemm.h - products of row-major f32 matrices, on the calling thread.
 *
 *   gemm  C[m, n] = alpha * sum over k of A[m, k] op(B)[k, n] + beta * C[m, n]
 *   gemv  y[n]    = sum over k of W[n, k] x[k]
 *   mix   y[d]   += sum over t of p[t] V[t, d]
 *
 * Same bytes on any number of threads: a product is cut into tiles by a grid that depends on
 * shapes only, each tile is one call on one thread, and OpenMP hands out the tiles. cpu/gemm.c
 * is the only file that calls CBLAS; the library is held at one thread.
 *
 * gemm with one row is not gemv: last bits differ. gemv's y[n] depends on row n and x only, so
 * any cut of the rows gives the same bits. Memory of C, y must not overlap the inputs. Leading
 * dimensions are in elements. Tolerance: 1e-6 relative to the sum of absolute products. */
#ifndef COMPUTE_GEMM_H
#define COMPUTE_GEMM_H

#include "kvt/api.h"

typedef enum gemm_op { GEMM_NN, GEMM_NT, GEMM_TN } gemm_op; /* T: stored transposed */

typedef struct gemm_args {
    float *c;
    const float *a, *b;
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
} gemm_args;

typedef void gemm_fn(gemm_op op, const gemm_args *g);
/* y [n], w f32 [n k], x [k] */
typedef void gemv_fn(float *y, const float *w, const float *x, int64_t n, int64_t k);
/* y [d] is added to; p [t], v f32 [t d] */
typedef void mix_fn(float *y, const float *p, const float *v, int64_t n_token, int64_t n_dim);

/* Holds OpenBLAS at one thread, whatever the environment or the host program said. False: this
 * CBLAS has no setter, and its own variable must do it. */
bool gemm_one_thread(void);

#endif
