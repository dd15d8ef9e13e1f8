/* backend.h - a back end: where the numbers of a forward pass are computed.
 *
 * A struct of function pointers, filled from the CPU set and overridden by what a device has;
 * compute/kernels.def is the list. `--device cpu` is always there. */
#ifndef KVT_BACKEND_H
#define KVT_BACKEND_H

#include "kvt/ctx.h"

typedef struct kvt_backend kvt_backend;

/* "auto" (NULL, too), "cpu", "cuda" (its first GPU) or "cuda:N", numbered as CUDA does. DEVICE
 * with one line of reason where a GPU was asked for and is not usable: built without CUDA, no
 * driver or too old a one, no such GPU, no kernels for it, no cuBLAS. auto takes the CPU then
 * and logs the reason once. NOMEM: the GPU has no memory left; auto does not hide that. */
KVT_API KVT_CHECKED kvt_code kvt_backend_open(kvt_backend **out, const char *device,
                                              const kvt_ctx *ctx, kvt_err *err);
KVT_API void kvt_backend_close(kvt_backend *b);
KVT_API const char *kvt_backend_name(const kvt_backend *b); /* "cpu", "NVIDIA H200 (...)" */

/* What this build and machine have, for `kvt doctor` and /attn attributes. */
KVT_API const char *kvt_blas_name(char *out, size_t cap);   /* "OpenBLAS 0.3.21, kernel Zen" */
KVT_API const char *kvt_cuda_status(char *out, size_t cap); /* "no: built without CUDA (...)" */
KVT_API bool kvt_cuda_built(void);
KVT_API const char *kvt_simd_name(void); /* "avx512", "avx2" or "baseline" */

#endif
