/* backend.c - opening a back end, and what this build and machine have. */
#include "compute/backend.h"

#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

bool kvt_cuda_built(void)
{
    return false;
}

const char *kvt_cuda_status(char *out, size_t cap)
{
#ifdef KVT_HAVE_CUDA
    snprintf(out, cap, "no: this version of kvt has no CUDA kernels yet; it runs on the CPU");
#else
    snprintf(out, cap, "no: built without CUDA (%s)", KVT_CUDA_WHY);
#endif
    return out;
}

kvt_code kvt_backend_open(kvt_backend **out, const char *device, const kvt_ctx *ctx,
                          kvt_err *err)
{
    *out = NULL;
    if (device && strncmp(device, "cuda", 4) == 0 && (device[4] == ':' || device[4] == 0)) {
        char why[200];
        return kvt_fail(err, KVT_DEVICE, "device '%s' is not usable: %s", device,
                        kvt_cuda_status(why, sizeof why));
    }
    if (device && strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0)
        return kvt_fail(err, KVT_USAGE, "no device '%s'; there are auto, cpu and cuda:N",
                        device);
    kvt_backend *b = kvt_alloc(1, sizeof *b);
    if (!b)
        return kvt_fail_memory(err, sizeof *b);
    snprintf(b->name, sizeof b->name, "cpu");
#define KVT_KERNEL(type, kernel) b->kernel = cpu_##kernel;
#include "compute/kernels.def"
#undef KVT_KERNEL
    if (!gemm_one_thread() && ctx)
        kvt_log(ctx, KVT_LOG_WARN, "compute",
                "this BLAS cannot be held at one thread from inside: bytes may depend on the "
                "number of threads");
    *out = b;
    return KVT_OK;
}

void kvt_backend_close(kvt_backend *b)
{
    kvt_free(b);
}

const char *kvt_backend_name(const kvt_backend *b)
{
    return b->name;
}
