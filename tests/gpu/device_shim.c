/* device_shim.c - kernels in the host shim (tests/gpu/device.h). */
#include "tests/gpu/device.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/cuda/kernel.h"

/* Exactly the bytes that were asked for, so that the address sanitizer sees their end. */
static kvt_code take(kvt_device *d, void **out, int64_t bytes, const char *name, kvt_err *err)
{
    (void)d, (void)name;
    if (posix_memalign(out, 256, bytes > 0 ? (size_t)bytes : 1))
        return kvt_fail_memory(err, bytes);
    return KVT_OK;
}

static void give(kvt_device *d, void *p)
{
    (void)d;
    free(p);
}

/* Host memory and the kernels of compute/cuda/; products are of cuBLAS and not looked at here.
 */
kvt_device *test_device_open(void)
{
    kvt_device *d;
    kvt_err err;
    if (device_open_host(&d, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    if (shim_tsan())
        omp_set_num_threads(1); /* the sanitizer does not know this OpenMP */
    d->alloc = take;
    d->free = give;
    d->gemv = cuda_gemv;
    d->dequant = cuda_dequant;
    d->cast = cuda_cast;
    d->embed = cuda_embed;
    d->rmsnorm = cuda_rmsnorm;
    d->rope = cuda_rope;
    d->add = cuda_add;
    d->act = cuda_act;
    d->softmax = cuda_softmax;
    d->merge = cuda_merge;
    d->record = cuda_record;
    d->moments = cuda_moments;
    d->norms = cuda_norms;
    d->top = cuda_top;
    return d;
}

int test_orders(void)
{
    return shim_tsan() ? 1 : 5; /* races show in any order */
}

void test_order(int i)
{
    shim_clear();
    shim_set_order(i < 2 ? (shim_order)i : SHIM_RANDOM, (uint64_t)i);
    omp_set_num_threads(shim_tsan() ? 1 : 1 + i % 2);
}

const char *test_report(void)
{
    return shim_report();
}

bool test_tiny(void)
{
    return shim_tsan();
}
