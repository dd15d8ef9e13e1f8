/* fake.h - a CUDA runtime and a cuBLAS on host memory, so that compute/cuda/device.c and
 * cublas.c run where there is no GPU; kernels run in the shim.
 *
 *   fake_reset(NULL);                              one GPU, nothing held, nothing fails
 *   kvt_backend_open(&b, "cuda:0", ...);           or fake_device_open()
 *   fake_fail_at(n);                               the n-th call from now on fails
 *   ... close ...
 *   assert_int_equal(fake_held(), 0);
 *
 * The memory of the device cannot be touched outside launches, products and copies, and holds
 * NaN when it is new. The first stream does all at once; copies on another one are done as late
 * as CUDA may do them: when the host waits for them, or the first stream does. */
#ifndef TESTS_GPU_FAKE_H
#define TESTS_GPU_FAKE_H

#include "compute/device.h"

typedef struct fake_options {
    int n_gpu;
    int driver;       /* 13000; older than the build's: too old; 0: none */
    int major, minor; /* of each GPU */
    int64_t memory;   /* bytes of each GPU */
    bool no_image;    /* launches fail as on a GPU that the build has no kernels for */
    int cublas;       /* its version */
} fake_options;

extern const fake_options fake_plain; /* one GPU, 13000, sm_90, 4 GiB, cuBLAS 13.0.2 */

/* NULL: fake_plain. Nothing may be held. KVT_CUBLAS is set to the fake. */
void fake_reset(const fake_options *o);
void fake_fail_at(int64_t n);  /* 0: none */
int64_t fake_calls(void);      /* calls that can fail, since fake_reset() */
const char *fake_failed(void); /* the call that was made to fail, or NULL */

int64_t fake_held(void);           /* memory, page-locked memory, streams, events, handles */
int fake_device_of(const void *p); /* the GPU of a piece of device memory; -1: it is none */
int64_t fake_bytes(void);          /* of device memory that are held */
int64_t fake_peak(void);
int64_t fake_products(void); /* of cuBLAS since fake_reset() */

const char *fake_cublas_path(void); /* .../libcublas.so.13 */
const char *fake_cublas_folder(void);

/* fake_reset(NULL) and the device of GPU 0. */
KVT_CHECKED kvt_code fake_device_open(kvt_device **out, kvt_err *err);

/* What fake_cublas.c needs of fake_cuda.c; it is opened at run time as the real one is. */
typedef struct fake_link {
    bool (*fails)(const char *call);
    void (*begin)(void), (*end)(void); /* device memory may be touched between the two */
    void (*hold)(int n);
    int version;
} fake_link;

#endif
