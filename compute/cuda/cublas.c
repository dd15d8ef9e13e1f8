/* cublas.c - products by cuBLAS, the only file that calls it.
 *
 * The library is 600 MB and is opened at run time: what KVT_CUBLAS names (the file, or the
 * folder that holds it, as Python packages have one), then libcublas.so.13, libcublas.so.12. Of
 * one that does not start (13 needs a newer driver than 12) the next is tried.
 *
 * cuBLAS is column-major, we are row-major. A row-major matrix [m, n] with leading dimension ld
 * is, in the same bytes, the column-major matrix [n, m] with ld: its transpose. So for C =
 * op(A) op(B) cuBLAS is asked for C^T = op(B)^T op(A)^T: operands and m, n change places, each
 * transposition and each leading dimension stays. */
#include "compute/cuda/device_priv.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "kvt/arena.h"

enum {
    WORKSPACE = 32 << 20, /* what NVIDIA advises for sm_90, enough for all */
    OLDEST = 120000       /* version 12.0.0 */
};

typedef struct calls {
    cublasStatus_t (*create)(cublasHandle_t *);
    cublasStatus_t (*destroy)(cublasHandle_t);
    cublasStatus_t (*version)(cublasHandle_t, int *);
    cublasStatus_t (*stream)(cublasHandle_t, cudaStream_t);
    cublasStatus_t (*workspace)(cublasHandle_t, void *, size_t);
    cublasStatus_t (*math)(cublasHandle_t, cublasMath_t);
    const char *(*text)(cublasStatus_t);
    cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                           const void *, const void *, cudaDataType, int, const void *,
                           cudaDataType, int, const void *, void *, cudaDataType, int,
                           cublasComputeType_t, cublasGemmAlgo_t);
    cublasStatus_t (*gemms)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                            const void *, const void *, cudaDataType, int, long long,
                            const void *, cudaDataType, int, long long, const void *, void *,
                            cudaDataType, int, long long, int, cublasComputeType_t,
                            cublasGemmAlgo_t);
} calls;

/* The header says the same types, or this does not compile; nothing is linked. */
#define SAME(member, call) \
    _Static_assert(sizeof(((calls *)0)->member == call) > 0, "of another type")
SAME(create, cublasCreate_v2);
SAME(destroy, cublasDestroy_v2);
SAME(version, cublasGetVersion_v2);
SAME(stream, cublasSetStream_v2);
SAME(workspace, cublasSetWorkspace_v2);
SAME(math, cublasSetMathMode);
SAME(text, cublasGetStatusString);
SAME(gemm, cublasGemmEx);
SAME(gemms, cublasGemmStridedBatchedEx);

static const struct call {
    const char *name;
    size_t at;
} names[] = {
    {"cublasCreate_v2", offsetof(calls, create)},
    {"cublasDestroy_v2", offsetof(calls, destroy)},
    {"cublasGetVersion_v2", offsetof(calls, version)},
    {"cublasSetStream_v2", offsetof(calls, stream)},
    {"cublasSetWorkspace_v2", offsetof(calls, workspace)},
    {"cublasSetMathMode", offsetof(calls, math)},
    {"cublasGetStatusString", offsetof(calls, text)},
    {"cublasGemmEx", offsetof(calls, gemm)},
    {"cublasGemmStridedBatchedEx", offsetof(calls, gemms)},
};

struct cublas {
    void *library;
    cublasHandle_t handle;
    void *memory; /* the workspace */
    char name[32];
    calls call;
};

static kvt_code check(const cublas *b, cublasStatus_t s, const char *call, kvt_err *err)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return KVT_OK;
    return kvt_fail(err, s == CUBLAS_STATUS_ALLOC_FAILED ? KVT_NOMEM : KVT_DEVICE,
                    "cuBLAS: %s: %s (status %d)", call, b->call.text(s), (int)s);
}

static kvt_code find_calls(cublas *b, const char *path, kvt_err *err)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *f = dlsym(b->library, names[i].name);
        if (!f)
            return kvt_fail(err, KVT_DEVICE, "cuBLAS '%.200s' is too old: it has no %s", path,
                            names[i].name);
        memcpy((char *)&b->call + names[i].at, &f, sizeof f);
    }
    return KVT_OK;
}

static kvt_code start(cublas *b, kvt_device *d, kvt_err *err)
{
    int v = 0;
    kvt_code code = check(b, b->call.create(&b->handle), "cublasCreate", err);
    if (!code)
        code = check(b, b->call.version(b->handle, &v), "cublasGetVersion", err);
    if (!code && v < OLDEST)
        code = kvt_fail(err, KVT_DEVICE, "cuBLAS %d.%d is too old; 12.0 and newer are used",
                        v / 10000, v / 100 % 100);
    if (!code)
        code = check(b, b->call.stream(b->handle, cuda_stream(d)), "cublasSetStream", err);
    if (!code)
        code = d->alloc(d, &b->memory, WORKSPACE, "the workspace of cuBLAS", err);
    if (!code)
        code = check(b, b->call.workspace(b->handle, b->memory, WORKSPACE),
                     "cublasSetWorkspace", err);
    if (!code) /* no TF32, and what is summed in parts stays f32 */
        code =
            check(b,
                  b->call.math(b->handle, CUBLAS_DEFAULT_MATH |
                                              CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                  "cublasSetMathMode", err);
    snprintf(b->name, sizeof b->name, "cuBLAS %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return code;
}

void cublas_close(cublas *b, kvt_device *d)
{
    if (!b)
        return;
    if (b->handle)
        b->call.destroy(b->handle);
    d->free(d, b->memory);
    if (b->library)
        dlclose(b->library);
    kvt_free(b);
}

/* NOTFOUND where the library itself cannot be opened. */
static kvt_code try_one(cublas **out, kvt_device *d, const char *path, kvt_err *err)
{
    cublas *b = kvt_alloc(1, sizeof *b);
    if (!b)
        return kvt_fail_memory(err, sizeof *b);
    kvt_code code = KVT_OK;
    /* It stays in the process: nobody tests that it can be taken out again. */
    b->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!b->library)
        code = kvt_fail(err, KVT_NOTFOUND, "%s", dlerror());
    if (!code)
        code = find_calls(b, path, err);
    if (!code)
        code = start(b, d, err);
    if (code) {
        cublas_close(b, d);
        return code;
    }
    *out = b;
    return KVT_OK;
}

static kvt_code try_folder(cublas **out, kvt_device *d, const char *folder, kvt_err *err)
{
    static const char *const files[] = {"libcublas.so.13", "libcublas.so.12"};
    kvt_err first;
    kvt_code code = KVT_NOTFOUND;
    for (int i = 0; i < 2; i++) {
        char path[1024];
        kvt_err later;
        int n = snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", files[i]);
        if (n >= (int)sizeof path)
            return kvt_fail(err, KVT_DEVICE, "KVT_CUBLAS is too long a path");
        kvt_code now = try_one(out, d, path, &later);
        if (!now || now == KVT_NOMEM) {
            *err = later;
            return now;
        }
        /* That one is there and does not work says more than that one is missing. */
        if (i == 0 || (code == KVT_NOTFOUND && now != KVT_NOTFOUND)) {
            first = later;
            code = now;
        }
    }
    *err = first;
    return code;
}

kvt_code cublas_open(cublas **out, kvt_device *d, kvt_err *err)
{
    const char *named = getenv("KVT_CUBLAS");
    *out = NULL;
    kvt_code code;
    if (named && named[0])
        code =
            file_is_dir(named) ? try_folder(out, d, named, err) : try_one(out, d, named, err);
    else
        code = try_folder(out, d, "", err);
    if (code != KVT_NOTFOUND)
        return code;
    char why[200];
    snprintf(why, sizeof why, "%.199s", err->text);
    return kvt_fail(
        err, KVT_DEVICE,
        "cuBLAS was not found (%s); KVT_CUBLAS=FILE or KVT_CUBLAS=FOLDER says where "
        "libcublas.so.13 or .12 is",
        why);
}

const char *cublas_name(const cublas *b)
{
    return b->name;
}

static bool fits(int64_t x)
{
    return x >= 0 && x <= INT_MAX;
}

kvt_code cuda_gemm(kvt_device *d, const dev_gemm_args *a, kvt_err *err)
{
    static const cudaDataType types[] = {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF};
    cublas *b = cuda_blas(d);
    const cudaDataType type = types[a->type];
    const cublasOperation_t op_a = a->op == DEV_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = a->op == DEV_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (a->m == 0 || a->n == 0 || a->n_batch == 0)
        return KVT_OK;
    if (!fits(a->m) || !fits(a->n) || !fits(a->k) || !fits(a->lda) || !fits(a->ldb) ||
        !fits(a->ldc) || !fits(a->n_batch))
        return kvt_fail(
            err, KVT_DEVICE,
            "cuBLAS: a product of %lld x %lld x %lld (%lld times) has a side beyond "
            "2^31 - 1",
            (long long)a->m, (long long)a->n, (long long)a->k, (long long)a->n_batch);
    const int m = (int)a->m, n = (int)a->n, k = (int)a->k;
    const int lda = (int)a->lda, ldb = (int)a->ldb, ldc = (int)a->ldc;
    if (a->n_batch == 1)
        return check(b,
                     b->call.gemm(b->handle, op_b, op_a, n, m, k, &a->alpha, a->b, type, ldb,
                                  a->a, type, lda, &a->beta, a->c, CUDA_R_32F, ldc,
                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                     "cublasGemmEx", err);
    return check(b,
                 b->call.gemms(b->handle, op_b, op_a, n, m, k, &a->alpha, a->b, type, ldb,
                               a->stride_b, a->a, type, lda, a->stride_a, &a->beta, a->c,
                               CUDA_R_32F, ldc, a->stride_c, (int)a->n_batch,
                               CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmStridedBatchedEx", err);
}
