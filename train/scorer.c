/* scorer.c - scorers in f32: products by BLAS, one thread. */
#include "train/scorer.h"

#include <math.h>

#include "compute/backend.h"

static void product(gemm_op op, float *c, const float *a, const float *b, int64_t m, int64_t n,
                    int64_t k, float beta)
{
    cpu_gemm(op, &(gemm_args){.c = c,
                              .a = a,
                              .b = b,
                              .m = m,
                              .n = n,
                              .k = k,
                              .lda = op == GEMM_TN ? m : k,
                              .ldb = op == GEMM_NT ? k : n,
                              .ldc = n,
                              .alpha = 1,
                              .beta = beta});
}

#define REAL                         float
#define NAME(x)                      x##_f32
#define EXP                          expf
#define ERF                          erff
#define SQRT                         sqrtf
#define LOG1P                        log1pf
#define VECTOR                       _Pragma("omp simd")
#define VECTOR_SUM(x)                _Pragma("omp simd reduction(+ : sum)")
#define PRODUCT_NT(c, a, b, m, n, k) product(GEMM_NT, c, a, b, m, n, k, 0)
#define PRODUCT_TN(c, a, b, m, n, k) product(GEMM_TN, c, a, b, m, n, k, 1)
#define PRODUCT_NN(c, a, b, m, n, k) product(GEMM_NN, c, a, b, m, n, k, 0)
#include "train/scorer_body.h"
