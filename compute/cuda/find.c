/* find.c - see find.h. */
#include "compute/cuda/find.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "compute/device.h"

enum { OLDEST_DRIVER = CUDART_VERSION >= 13000 ? 580 : 525 };

/* "13.0" of 13000. */
static const char *version(int v, char out[16])
{
    snprintf(out, 16, "%d.%d", v / 1000, v % 1000 / 10);
    return out;
}

static kvt_code fail_none(cudaError_t e, kvt_err *err)
{
    char has[16], wants[16];
    int driver = 0;
    (void)cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    if (e == cudaErrorInsufficientDriver && driver == 0)
        return kvt_fail(err, KVT_DEVICE, "no NVIDIA driver was found");
    if (e == cudaErrorInsufficientDriver)
        return kvt_fail(err, KVT_DEVICE,
                        "the NVIDIA driver is too old: it knows CUDA %s, this build is of CUDA "
                        "%s and needs driver %d or newer",
                        version(driver, has), version(CUDART_VERSION, wants), OLDEST_DRIVER);
    if (e == cudaErrorNoDevice || e == cudaSuccess) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        return kvt_fail(err, KVT_DEVICE, "the NVIDIA driver shows no GPU%s%.60s%s",
                        visible ? " (CUDA_VISIBLE_DEVICES is '" : "", visible ? visible : "",
                        visible ? "')" : "");
    }
    return kvt_fail(err, KVT_DEVICE, "no GPU can be used: %s (CUDA error %d)",
                    cudaGetErrorString(e), (int)e);
}

static kvt_code look_at(cuda_card *out, int index, kvt_err *err)
{
    struct cudaDeviceProp prop; /* its name only: the rest changes between versions of CUDA */
    memset(out, 0, sizeof *out);
    out->index = index;
    cudaError_t e = cudaGetDeviceProperties(&prop, index);
    if (!e)
        e = cudaDeviceGetAttribute(&out->major, cudaDevAttrComputeCapabilityMajor, index);
    if (!e)
        e = cudaDeviceGetAttribute(&out->minor, cudaDevAttrComputeCapabilityMinor, index);
    if (!e)
        e = cudaDeviceGetPCIBusId(out->bus, sizeof out->bus, index);
    if (!e)
        e = cudaDriverGetVersion(&out->driver);
    if (e) {
        (void)cudaGetLastError();
        return kvt_fail(err, KVT_DEVICE, "GPU cuda:%d: %s (CUDA error %d)", index,
                        cudaGetErrorString(e), (int)e);
    }
    snprintf(out->name, sizeof out->name, "%.63s", prop.name);
    out->bytes = (int64_t)prop.totalGlobalMem;
    return KVT_OK;
}

const char *cuda_card_print(const cuda_card *c, char *out, size_t cap)
{
    char size[32], driver[16];
    snprintf(out, cap, "%s (cuda:%d, bus %s, %s, sm_%d%d, driver %s)", c->name, c->index,
             c->bus, size_print(c->bytes, size, sizeof size), c->major, c->minor,
             version(c->driver, driver));
    return out;
}

/* Names of all GPUs, for the message that there is no such one. */
static void list(char *out, size_t cap, int n)
{
    size_t at = 0;
    kvt_err ignored;
    out[0] = 0;
    for (int i = 0; i < n && at < cap; i++) {
        cuda_card c;
        if (look_at(&c, i, &ignored))
            snprintf(c.name, sizeof c.name, "unknown");
        at += (size_t)snprintf(out + at, cap - at, "%scuda:%d %s", i ? ", " : "", i, c.name);
    }
}

kvt_code cuda_find(cuda_card *out, int index, const kvt_ctx *ctx, kvt_err *err)
{
    int n = 0;
    char text[256];
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n <= 0)
        return fail_none(e, err);
    if (index < 0 || index >= n) {
        list(text, sizeof text, n);
        return kvt_fail(err, KVT_DEVICE, "there is no GPU cuda:%d; there %s %s", index,
                        n == 1 ? "is" : "are", text);
    }
    kvt_code code = look_at(out, index, err);
    if (code)
        return code;
    if (ctx)
        kvt_log(ctx, KVT_LOG_INFO, "compute", "%s%s", cuda_card_print(out, text, sizeof text),
                n > 1 && !getenv("CUDA_DEVICE_ORDER")
                    ? "; CUDA_DEVICE_ORDER=PCI_BUS_ID numbers GPUs as nvidia-smi does"
                    : "");
    return KVT_OK;
}

kvt_code cuda_no_kernels(const cuda_card *c, kvt_err *err)
{
    return kvt_within(err, "%s cannot run the kernels of this build (made for %s)", c->name,
                      KVT_CUDA_TARGETS);
}

const char *device_cuda_status(char *out, size_t cap)
{
    cuda_card c;
    kvt_err err;
    char card[160];
    if (cuda_find(&c, 0, NULL, &err))
        snprintf(out, cap, "no: %s", err.text);
    else
        snprintf(out, cap, "yes: %s, kernels for %s", cuda_card_print(&c, card, sizeof card),
                 KVT_CUDA_TARGETS);
    return out;
}

bool device_cuda_built(void)
{
    return true;
}
