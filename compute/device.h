/* device.h - a processor with memory of its own, as the forward pass uses it.
 *
 *   kvt_device *d;
 *   device_open_cuda(&d, 0, ctx, &err);             or device_open_host(), the definition
 *   d->alloc(d, &x, bytes, "residual", &err);
 *   d->upload(d, x, host, bytes, &err);
 *   d->rmsnorm(d, &(dev_rmsnorm_args){...}, &err);  enqueued; runs behind all before it
 *   d->copy_begin(d, slot, &err);                   downloads see all that was enqueued before
 *   d->download(d, host, y, bytes, &err);
 *   d->copy_end(d, slot, &err);
 *   ... enqueue more ...
 *   d->copy_wait(d, slot, &err);                    host memory is filled
 *   d->close(d);
 *
 * A table of functions. The host device fills it with the definitions of compute/cpu/device_*.c
 * and runs each at once, in memory of the host; the CUDA device overrides all of it. Kernels
 * run one behind the other on one stream; downloads run beside them on a second one. Errors of
 * kernels that were enqueued may come with a later call: DEVICE, with the name of the call. One
 * thread uses a device. */
#ifndef COMPUTE_DEVICE_H
#define COMPUTE_DEVICE_H

#include "compute/device_args.h"
#include "kvt/ctx.h"

enum { DEV_SLOTS = 2 }; /* groups of downloads that can be on their way */

typedef struct kvt_device kvt_device;

struct kvt_device {
    char name[128];      /* "NVIDIA H200 (sm_90, driver 13.0)", "host" */
    char arithmetic[96]; /* "cuBLAS 13.0 f32 accumulation, no TF32": for /attn of a trace */
    int64_t memory;      /* bytes free when it was opened */
    int64_t taken, peak; /* bytes of alloc that are held, and the most that were */
    bool has_bf16;       /* products of bf16 */
    void *self;

    /* NOMEM: "out of device memory: NAME needs A MiB, B MiB short (C MiB are free)". Contents
     * are not defined. 256-byte aligned. */
    kvt_code (*alloc)(kvt_device *d, void **out, int64_t bytes, const char *name, kvt_err *err);
    void (*free)(kvt_device *d, void *p); /* NULL is fine */
    /* Page-locked memory of the host, which downloads fill while kernels run. */
    kvt_code (*host_alloc)(kvt_device *d, void **out, int64_t bytes, kvt_err *err);
    void (*host_free)(kvt_device *d, void *p);
    /* The host memory may be reused when it returns. */
    kvt_code (*upload)(kvt_device *d, void *to, const void *from, int64_t bytes, kvt_err *err);
    kvt_code (*clear)(kvt_device *d, void *to, int64_t bytes, kvt_err *err); /* zeros */
    kvt_code (*copy)(kvt_device *d, void *to, const void *from, int64_t bytes, kvt_err *err);

    kvt_code (*copy_begin)(kvt_device *d, int slot, kvt_err *err);
    kvt_code (*download)(kvt_device *d, void *to, const void *from, int64_t bytes,
                         kvt_err *err);
    kvt_code (*copy_end)(kvt_device *d, int slot, kvt_err *err);
    kvt_code (*copy_wait)(kvt_device *d, int slot, kvt_err *err); /* the host waits */
    kvt_code (*copy_hold)(kvt_device *d, int slot,
                          kvt_err *err);           /* later kernels wait: what
                                                      was downloaded may be overwritten */
    kvt_code (*sync)(kvt_device *d, kvt_err *err); /* the host waits for everything */
    void (*close)(kvt_device *d);

#define DEVICE_KERNEL(name) \
    kvt_code (*name)(kvt_device * d, const dev_##name##_args *a, kvt_err *err);
#include "compute/device.def"
#undef DEVICE_KERNEL
};

/* The definition: memory of this process, plain loops. For tests, and to read. */
KVT_CHECKED kvt_code device_open_host(kvt_device **out, kvt_err *err);

/* GPU `index` of this machine. DEVICE with one line of reason: built without CUDA, no driver,
 * too old a driver, no such GPU, no kernel image for it, cuBLAS not found. */
KVT_CHECKED kvt_code device_open_cuda(kvt_device **out, int index, const kvt_ctx *ctx,
                                      kvt_err *err);
/* "yes: NVIDIA H200 (...), kernels for sm_90", or "no: " and why; cuBLAS is not looked for. */
const char *device_cuda_status(char *out, size_t cap);
bool device_cuda_built(void);

static inline int64_t dev_type_size(dev_type t)
{
    return t == DEV_F32 ? 4 : 2;
}

#define DEVICE_KERNEL(name) \
    kvt_code host_##name(kvt_device *d, const dev_##name##_args *a, kvt_err *err);
#include "compute/device.def"
#undef DEVICE_KERNEL

#endif
