/* fake_cublas.c - the calls of cuBLAS that compute/cuda/cublas.c makes, as plain loops over
 * column-major matrices, with the checks of the real one. A library of its own, opened by name.
 */
#include <cublas_v2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/fake.h"

#define EXPORT __attribute__((visibility("default")))

struct cublasContext {
    cudaStream_t stream;
    void *workspace;
    cublasMath_t math;
};

EXPORT const fake_link *fake_cublas_link;

#define MAY_FAIL(status)                       \
    do {                                       \
        if (fake_cublas_link->fails(__func__)) \
            return (status);                   \
    } while (0)

EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    MAY_FAIL(CUBLAS_STATUS_NOT_INITIALIZED);
    *out = calloc(1, sizeof **out);
    if (!*out)
        return CUBLAS_STATUS_ALLOC_FAILED;
    fake_cublas_link->hold(1);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t h)
{
    free(h);
    fake_cublas_link->hold(-1);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasGetVersion_v2(cublasHandle_t h, int *out)
{
    (void)h;
    MAY_FAIL(CUBLAS_STATUS_INTERNAL_ERROR);
    *out = fake_cublas_link->version;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s)
{
    MAY_FAIL(CUBLAS_STATUS_INTERNAL_ERROR);
    h->stream = s;
    h->workspace = NULL; /* as the real one: it goes back to its own */
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void *p, size_t bytes)
{
    MAY_FAIL(CUBLAS_STATUS_INTERNAL_ERROR);
    if ((uintptr_t)p % 256 || bytes == 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    h->workspace = p;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode)
{
    MAY_FAIL(CUBLAS_STATUS_INTERNAL_ERROR);
    h->math = mode;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT const char *cublasGetStatusString(cublasStatus_t s)
{
    switch (s) {
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "an internal operation failed";
    }
}

static float half_value(uint16_t h)
{
    const uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
    float x = exponent ? (float)(1024 + fraction) : (float)fraction;
    for (uint32_t e = exponent ? exponent : 1; e < 25; e++)
        x *= 0.5f;
    for (uint32_t e = 25; e < exponent; e++)
        x *= 2;
    return h >> 15 ? -x : x;
}

static double value(const void *p, cudaDataType type, int64_t i)
{
    if (type == CUDA_R_32F)
        return (double)((const float *)p)[i];
    uint16_t bits = ((const uint16_t *)p)[i];
    if (type == CUDA_R_16F)
        return (double)half_value(bits);
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return (double)x;
}

/* What both products take. */
typedef struct product {
    cublasOperation_t op_a, op_b;
    int m, n, k;
    const float *alpha, *beta;
    const void *a, *b;
    float *c;
    cudaDataType type_a, type_b, type_c;
    int lda, ldb, ldc;
    long long stride_a, stride_b, stride_c;
    int count;
    cublasComputeType_t compute;
} product;

static int most(int x, int y)
{
    return x > y ? x : y;
}

/* Of the documentation of cublasGemmEx. */
static cublasStatus_t refuse(const struct cublasContext *h, const product *p)
{
    if (p->m < 0 || p->n < 0 || p->k < 0 || p->count < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p->lda < most(1, p->op_a == CUBLAS_OP_N ? p->m : p->k) ||
        p->ldb < most(1, p->op_b == CUBLAS_OP_N ? p->k : p->n) || p->ldc < most(1, p->m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p->type_a != p->type_b || p->type_c != CUDA_R_32F || p->compute != CUBLAS_COMPUTE_32F ||
        (p->type_a != CUDA_R_32F && p->type_a != CUDA_R_16F && p->type_a != CUDA_R_16BF))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    /* Ours: the stream, the workspace and a math mode without TF32 are set. */
    if (!h->stream || !h->workspace || (h->math & CUBLAS_TF32_TENSOR_OP_MATH))
        return CUBLAS_STATUS_INTERNAL_ERROR;
    return CUBLAS_STATUS_SUCCESS;
}

static void multiply(const product *p, long long a0, long long b0, long long c0)
{
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            double sum = 0;
            for (int64_t e = 0; e < p->k; e++)
                sum += value(p->a, p->type_a,
                             a0 + (p->op_a == CUBLAS_OP_N ? i + e * p->lda : e + i * p->lda)) *
                       value(p->b, p->type_b,
                             b0 + (p->op_b == CUBLAS_OP_N ? e + j * p->ldb : j + e * p->ldb));
            float *c = &p->c[c0 + i + j * p->ldc];
            double old = *p->beta == 0.0f ? 0 : (double)*p->beta * (double)*c; /* NaN in C */
            *c = (float)((double)*p->alpha * sum + old);
        }
}

static cublasStatus_t run(cublasHandle_t h, const product *p)
{
    cublasStatus_t status = refuse(h, p);
    if (status)
        return status;
    fake_cublas_link->hold(0);
    fake_cublas_link->begin();
    for (int64_t i = 0; i < p->count; i++)
        multiply(p, i * p->stride_a, i * p->stride_b, i * p->stride_c);
    fake_cublas_link->end();
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t op_a,
                                   cublasOperation_t op_b, int m, int n, int k,
                                   const void *alpha, const void *a, cudaDataType type_a,
                                   int lda, const void *b, cudaDataType type_b, int ldb,
                                   const void *beta, void *c, cudaDataType type_c, int ldc,
                                   cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)algo;
    MAY_FAIL(CUBLAS_STATUS_EXECUTION_FAILED);
    product p = {op_a,   op_b,   m,   n,   k,   alpha, beta, a, b, c,      type_a,
                 type_b, type_c, lda, ldb, ldc, 0,     0,    0, 1, compute};
    return run(h, &p);
}

EXPORT cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
    const void *alpha, const void *a, cudaDataType type_a, int lda, long long stride_a,
    const void *b, cudaDataType type_b, int ldb, long long stride_b, const void *beta, void *c,
    cudaDataType type_c, int ldc, long long stride_c, int count, cublasComputeType_t compute,
    cublasGemmAlgo_t algo)
{
    (void)algo;
    MAY_FAIL(CUBLAS_STATUS_EXECUTION_FAILED);
    product p = {op_a, op_b, m,        n,        k,        alpha,  beta,
                 a,    b,    c,        type_a,   type_b,   type_c, lda,
                 ldb,  ldc,  stride_a, stride_b, stride_c, count,  compute};
    return run(h, &p);
}
