/* device_none.c - the CUDA device of a build without CUDA. */
#include "compute/device.h"

#include <stdio.h>

kvt_code device_open_cuda(kvt_device **out, int index, const kvt_ctx *ctx, kvt_err *err)
{
    (void)index, (void)ctx;
    *out = NULL;
    return kvt_fail(err, KVT_DEVICE, "built without CUDA (%s)", KVT_CUDA_WHY);
}

const char *device_cuda_status(char *out, size_t cap)
{
    snprintf(out, cap, "no: built without CUDA (%s)", KVT_CUDA_WHY);
    return out;
}

bool device_cuda_built(void)
{
    return false;
}
