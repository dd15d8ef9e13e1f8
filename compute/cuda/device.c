/* device.c - a GPU as a device (compute/device.h): memory, streams, copies.
 *
 * Two streams: kernels, cuBLAS and uploads on one, downloads on the other. copy_begin() makes
 * the second wait for what is on the first, copy_hold() the first for the second. cudart is
 * linked statically and finds the driver itself, so that this program runs where there is none.
 */
#include "compute/cuda/device_priv.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

#include "base/size.h"
#include "compute/cuda/find.h"
#include "kvt/arena.h"

/* Memory that was given out. */
typedef struct held {
    struct held *next;
    void *p;
    int64_t bytes;
} held;

typedef struct cuda_device {
    kvt_device base;
    int index;
    cudaStream_t kernels, copies;
    cudaEvent_t ready[DEV_SLOTS]; /* on kernels: what a group of downloads may read */
    cudaEvent_t done[DEV_SLOTS];  /* on copies: the group is in host memory */
    held *memory, *locked;        /* of the device; of the host */
    cublas *blas;
} cuda_device;

/* CUDA keeps a current device for each thread, the first one where nobody said; launches and
 * memory go there. What fails here fails in the call behind, too. */
static cuda_device *of(kvt_device *d)
{
    cuda_device *c = d->self;
    int current = -1;
    if (cudaGetDevice(&current) != cudaSuccess || current != c->index)
        (void)cudaSetDevice(c->index);
    return c;
}

void *cuda_stream(kvt_device *d)
{
    return of(d)->kernels;
}

cublas *cuda_blas(kvt_device *d)
{
    return of(d)->blas;
}

static kvt_code check(cudaError_t e, const char *call, kvt_err *err)
{
    if (e == cudaSuccess)
        return KVT_OK;
    (void)cudaGetLastError(); /* said once */
    return kvt_fail(err, e == cudaErrorMemoryAllocation ? KVT_NOMEM : KVT_DEVICE,
                    "GPU: %s: %s (CUDA error %d)", call, cudaGetErrorString(e), (int)e);
}

kvt_code cuda_launched(kvt_device *d, const char *kernel, kvt_err *err)
{
    (void)d;
    return check(cudaGetLastError(), kernel, err);
}

/* ---- memory ---- */

static kvt_code hold(held **list, void *p, int64_t bytes, kvt_err *err)
{
    held *h = kvt_alloc(1, sizeof *h);
    if (!h)
        return kvt_fail_memory(err, sizeof *h);
    *h = (held){*list, p, bytes};
    *list = h;
    return KVT_OK;
}

/* Bytes of p, which is taken off the list; -1: it is not there. */
static int64_t let_go(held **list, const void *p)
{
    for (held **at = list; *at; at = &(*at)->next)
        if ((*at)->p == p) {
            held *h = *at;
            int64_t bytes = h->bytes;
            *at = h->next;
            kvt_free(h);
            return bytes;
        }
    return -1;
}

static double mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static kvt_code fail_short(const char *name, int64_t bytes, kvt_err *err)
{
    size_t is_free = 0, all = 0;
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&is_free, &all) != cudaSuccess)
        return kvt_fail(err, KVT_NOMEM, "out of device memory: %s needs %.1f MiB", name,
                        mib(bytes));
    int64_t lacks = bytes - (int64_t)is_free;
    if (lacks <= 0)
        return kvt_fail(err, KVT_NOMEM,
                        "out of device memory: %s needs %.1f MiB in one piece (%.1f MiB are "
                        "free in pieces)",
                        name, mib(bytes), mib((int64_t)is_free));
    return kvt_fail(
        err, KVT_NOMEM,
        "out of device memory: %s needs %.1f MiB, %.1f MiB short (%.1f MiB are free)", name,
        mib(bytes), mib(lacks), mib((int64_t)is_free));
}

static kvt_code cuda_take(kvt_device *d, void **out, int64_t bytes, const char *name,
                          kvt_err *err)
{
    *out = NULL;
    void *p = NULL;
    cuda_device *c = of(d);
    cudaError_t e = cudaMalloc(&p, bytes > 0 ? (size_t)bytes : 1);
    if (e == cudaErrorMemoryAllocation)
        return fail_short(name, bytes, err);
    kvt_code code = check(e, "cudaMalloc", err);
    if (code)
        return code;
    code = hold(&c->memory, p, bytes, err);
    if (code) {
        cudaFree(p);
        return code;
    }
    d->taken += bytes;
    d->peak = d->taken > d->peak ? d->taken : d->peak;
    *out = p;
    return KVT_OK;
}

static void cuda_give(kvt_device *d, void *p)
{
    if (!p)
        return;
    int64_t bytes = let_go(&of(d)->memory, p);
    if (bytes < 0)
        return;
    d->taken -= bytes;
    cudaFree(p);
}

static kvt_code cuda_lock(kvt_device *d, void **out, int64_t bytes, kvt_err *err)
{
    *out = NULL;
    void *p = NULL;
    cuda_device *c = of(d);
    cudaError_t e = cudaHostAlloc(&p, bytes > 0 ? (size_t)bytes : 1, cudaHostAllocDefault);
    if (e == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return kvt_fail(err, KVT_NOMEM, "out of page-locked host memory: %.1f MiB", mib(bytes));
    }
    kvt_code code = check(e, "cudaHostAlloc", err);
    if (!code)
        code = hold(&c->locked, p, bytes, err);
    if (code) {
        if (p)
            cudaFreeHost(p);
        return code;
    }
    *out = p;
    return KVT_OK;
}

static void cuda_unlock(kvt_device *d, void *p)
{
    if (p && let_go(&of(d)->locked, p) >= 0)
        cudaFreeHost(p);
}

/* ---- copies ---- */

static kvt_code cuda_upload(kvt_device *d, void *to, const void *from, int64_t bytes,
                            kvt_err *err)
{
    if (bytes <= 0)
        return KVT_OK;
    kvt_code code =
        check(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, of(d)->kernels),
              "upload", err);
    /* Page-locked memory is read later than the call; the caller may reuse it at once. */
    return code ? code : check(cudaStreamSynchronize(of(d)->kernels), "upload", err);
}

static kvt_code cuda_clear(kvt_device *d, void *to, int64_t bytes, kvt_err *err)
{
    if (bytes <= 0)
        return KVT_OK;
    return check(cudaMemsetAsync(to, 0, (size_t)bytes, of(d)->kernels), "clear", err);
}

static kvt_code cuda_copy(kvt_device *d, void *to, const void *from, int64_t bytes,
                          kvt_err *err)
{
    if (bytes <= 0)
        return KVT_OK;
    return check(
        cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, of(d)->kernels),
        "copy", err);
}

static kvt_code cuda_copy_begin(kvt_device *d, int slot, kvt_err *err)
{
    cuda_device *c = of(d);
    kvt_code code = check(cudaEventRecord(c->ready[slot], c->kernels), "event", err);
    return code ? code : check(cudaStreamWaitEvent(c->copies, c->ready[slot], 0), "event", err);
}

static kvt_code cuda_download(kvt_device *d, void *to, const void *from, int64_t bytes,
                              kvt_err *err)
{
    if (bytes <= 0)
        return KVT_OK;
    return check(
        cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, of(d)->copies),
        "download", err);
}

static kvt_code cuda_copy_end(kvt_device *d, int slot, kvt_err *err)
{
    return check(cudaEventRecord(of(d)->done[slot], of(d)->copies), "event", err);
}

static kvt_code cuda_copy_wait(kvt_device *d, int slot, kvt_err *err)
{
    return check(cudaEventSynchronize(of(d)->done[slot]), "waiting for a download", err);
}

static kvt_code cuda_copy_hold(kvt_device *d, int slot, kvt_err *err)
{
    return check(cudaStreamWaitEvent(of(d)->kernels, of(d)->done[slot], 0), "event", err);
}

static kvt_code cuda_sync(kvt_device *d, kvt_err *err)
{
    kvt_code code = check(cudaStreamSynchronize(of(d)->kernels), "waiting for kernels", err);
    return code ? code
                : check(cudaStreamSynchronize(of(d)->copies), "waiting for downloads", err);
}

/* ---- opening and closing ---- */

static void cuda_close(kvt_device *d)
{
    cuda_device *c = d->self; /* which may be of no GPU */
    if (c->kernels)
        (void)of(d);
    if (c->kernels)
        cudaStreamSynchronize(c->kernels);
    if (c->copies)
        cudaStreamSynchronize(c->copies);
    cublas_close(c->blas, d);
    while (c->memory)
        cuda_give(d, c->memory->p);
    while (c->locked)
        cuda_unlock(d, c->locked->p);
    for (int i = 0; i < DEV_SLOTS; i++) {
        if (c->ready[i])
            cudaEventDestroy(c->ready[i]);
        if (c->done[i])
            cudaEventDestroy(c->done[i]);
    }
    if (c->copies)
        cudaStreamDestroy(c->copies);
    if (c->kernels)
        cudaStreamDestroy(c->kernels);
    kvt_free(c);
}

static kvt_code make_streams(cuda_device *c, kvt_err *err)
{
    kvt_code code =
        check(cudaStreamCreateWithFlags(&c->kernels, cudaStreamNonBlocking), "stream", err);
    if (!code)
        code =
            check(cudaStreamCreateWithFlags(&c->copies, cudaStreamNonBlocking), "stream", err);
    for (int i = 0; i < DEV_SLOTS && !code; i++) {
        code =
            check(cudaEventCreateWithFlags(&c->ready[i], cudaEventDisableTiming), "event", err);
        if (!code)
            code = check(cudaEventCreateWithFlags(&c->done[i], cudaEventDisableTiming), "event",
                         err);
    }
    return code;
}

/* One kernel, there and back. */
static kvt_code try_kernel(kvt_device *d, const cuda_card *card, kvt_err *err)
{
    enum { ANSWER = 0x5eed };
    void *p;
    int32_t got = 0;
    kvt_code code = d->alloc(d, &p, sizeof got, "probe", err);
    if (code)
        return code;
    (void)cudaGetLastError();
    cuda_probe_args a = {p, ANSWER};
    code = cuda_probe(d, &a, err);
    if (!code)
        code =
            check(cudaMemcpyAsync(&got, p, sizeof got, cudaMemcpyDeviceToHost, of(d)->kernels),
                  "download", err);
    if (!code)
        code = check(cudaStreamSynchronize(of(d)->kernels), "the first kernel", err);
    d->free(d, p);
    if (!code && got != ANSWER)
        code = kvt_fail(err, KVT_DEVICE, "the first kernel returned %d instead of %d", got,
                        ANSWER);
    return code ? cuda_no_kernels(card, err) : KVT_OK;
}

static void fill(kvt_device *d)
{
    d->alloc = cuda_take;
    d->free = cuda_give;
    d->host_alloc = cuda_lock;
    d->host_free = cuda_unlock;
    d->upload = cuda_upload;
    d->clear = cuda_clear;
    d->copy = cuda_copy;
    d->copy_begin = cuda_copy_begin;
    d->download = cuda_download;
    d->copy_end = cuda_copy_end;
    d->copy_wait = cuda_copy_wait;
    d->copy_hold = cuda_copy_hold;
    d->sync = cuda_sync;
    d->close = cuda_close;
#define DEVICE_KERNEL(kernel) d->kernel = cuda_##kernel;
#include "compute/device.def"
#undef DEVICE_KERNEL
}

static kvt_code set_up(cuda_device *c, int index, const kvt_ctx *ctx, kvt_err *err)
{
    kvt_device *d = &c->base;
    cuda_card card;
    size_t is_free = 0, all = 0;
    kvt_code code = cuda_find(&card, index, ctx, err);
    if (!code)
        code = check(cudaSetDevice(index), "cudaSetDevice", err);
    if (!code)
        code = make_streams(c, err);
    if (!code)
        code = try_kernel(d, &card, err);
    if (!code)
        code = cublas_open(&c->blas, d, err);
    if (!code) /* behind what the context, the kernels and cuBLAS take for themselves */
        code = check(cudaMemGetInfo(&is_free, &all), "cudaMemGetInfo", err);
    if (code)
        return code;
    cuda_card_print(&card, d->name, sizeof d->name);
    d->memory = (int64_t)is_free;
    d->has_bf16 = card.major >= 8;
    snprintf(d->arithmetic, sizeof d->arithmetic, "%s, f32 sums, no TF32",
             cublas_name(c->blas));
    return KVT_OK;
}

kvt_code device_open_cuda(kvt_device **out, int index, const kvt_ctx *ctx, kvt_err *err)
{
    *out = NULL;
    cuda_device *c = kvt_alloc(1, sizeof *c);
    if (!c)
        return kvt_fail_memory(err, sizeof *c);
    c->base.self = c;
    c->index = index;
    fill(&c->base);
    kvt_code code = set_up(c, index, ctx, err);
    if (code) {
        cuda_close(&c->base);
        return code;
    }
    *out = &c->base;
    return KVT_OK;
}
