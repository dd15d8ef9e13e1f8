/* device_priv.h - what the files of compute/cuda/ share. Compiles as C17 and as C++17. */
#ifndef COMPUTE_CUDA_DEVICE_PRIV_H
#define COMPUTE_CUDA_DEVICE_PRIV_H

#ifdef __cplusplus
extern "C" {
#endif

#include "compute/device.h"

/* Of device.c: the stream of kernels, and what cudaGetLastError() says behind a launch. */
void *cuda_stream(kvt_device *d);
kvt_code cuda_launched(kvt_device *d, const char *kernel, kvt_err *err);

/* The smallest kernel (probe.cu): out[0] = x. A GPU that this build has no kernels for says so
 * at its launch. */
typedef struct cuda_probe_args {
    int32_t *out;
    int32_t x;
} cuda_probe_args;
kvt_code cuda_probe(kvt_device *d, const cuda_probe_args *a, kvt_err *err);

/* cuBLAS, opened at run time (cublas.c), on the stream of kernels and with a workspace of its
 * own, so that a product gives the same bits each time. */
typedef struct cublas cublas;
cublas *cuda_blas(kvt_device *d);
KVT_CHECKED kvt_code cublas_open(cublas **out, kvt_device *d, kvt_err *err);
void cublas_close(cublas *b, kvt_device *d);
const char *cublas_name(const cublas *b); /* "cuBLAS 13.1.0" */

#define DEVICE_KERNEL(name) \
    kvt_code cuda_##name(kvt_device *d, const dev_##name##_args *a, kvt_err *err);
#include "compute/device.def"
#undef DEVICE_KERNEL

#ifdef __cplusplus
}
#endif

#endif
