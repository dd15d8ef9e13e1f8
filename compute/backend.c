/* backend.c - opening a back end, and what this build and machine have. */
#include "compute/backend.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "kvt/arena.h"

bool kvt_cuda_built(void)
{
    return device_cuda_built();
}

const char *kvt_cuda_status(char *out, size_t cap)
{
    return device_cuda_status(out, cap);
}

typedef enum choice { AUTO, CPU, CUDA } choice;

static kvt_code parse(choice *out, int *index, const char *device, kvt_err *err)
{
    int64_t n = 0;
    *index = 0;
    *out = CUDA;
    if (!device || strcmp(device, "auto") == 0) {
        *out = AUTO;
    } else if (strcmp(device, "cpu") == 0) {
        *out = CPU;
    } else if (strncmp(device, "cuda:", 5) == 0) {
        if (int_parse(&n, device + 5, err) || n < 0 || n > INT_MAX)
            return kvt_fail(err, KVT_USAGE,
                            "device '%s': expected cuda: and the number of a GPU, as in cuda:0",
                            device);
        *index = (int)n;
    } else if (strcmp(device, "cuda") != 0) {
        return kvt_fail(err, KVT_USAGE, "no device '%s'; there are auto, cpu and cuda:N",
                        device);
    }
    return KVT_OK;
}

/* auto takes the CPU where there is no usable GPU, and says why once; never because a GPU has
 * too little memory. */
static kvt_code open_device(kvt_backend *b, choice what, int index, const char *device,
                            const kvt_ctx *ctx, kvt_err *err)
{
    if (what == CPU)
        return KVT_OK;
    kvt_code code = device_open_cuda(&b->device, index, ctx, err);
    if (code == KVT_DEVICE && what == AUTO) {
        if (ctx)
            kvt_log(ctx, KVT_LOG_INFO, "compute", "running on the CPU: %s", err->text);
        return KVT_OK;
    }
    if (code == KVT_DEVICE)
        return kvt_within(err, "device '%s' is not usable", device);
    return code;
}

kvt_code kvt_backend_open(kvt_backend **out, const char *device, const kvt_ctx *ctx,
                          kvt_err *err)
{
    choice what;
    int index;
    *out = NULL;
    kvt_code code = parse(&what, &index, device, err);
    if (code)
        return code;
    kvt_backend *b = kvt_alloc(1, sizeof *b);
    if (!b)
        return kvt_fail_memory(err, sizeof *b);
    code = open_device(b, what, index, device, ctx, err);
    if (code) {
        kvt_free(b);
        return code;
    }
    snprintf(b->name, sizeof b->name, "%s", b->device ? b->device->name : "cpu");
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
    if (b && b->device)
        b->device->close(b->device);
    kvt_free(b);
}

const char *kvt_backend_name(const kvt_backend *b)
{
    return b->name;
}
