/* fake_cuda.c - the calls of the CUDA runtime that compute/cuda/ makes (fake.h). */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, setenv */

#include "tests/gpu/fake.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "compute/cuda/device_priv.h"
#include "tests/gpu/shim.h"

#if defined(__SANITIZE_ADDRESS__)
#define EXACT 1 /* the sanitizer guards each piece; others are guarded by pages */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EXACT 1
#endif
#endif

enum { PAGE = 4096, ALIGN = 256, MAX_COPIES = 4096, FILL_MOST = 64 << 20 };

const fake_options fake_plain = {1, 13000, 9, 0, (int64_t)4 << 30, false, 130002};

typedef struct piece {
    struct piece *next;
    char *map, *p;
    int64_t bytes, mapped;
    int device;
} piece;

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
} copy;

struct CUstream_st {
    int device;
    bool late; /* not the first */
    int64_t n_asked, n_done;
    copy copies[MAX_COPIES]; /* those from n_done on, modulo */
};

struct CUevent_st {
    int device;
    cudaStream_t stream;
    int64_t at; /* copies of the stream in front of it */
};

static fake_options now;
static int64_t n_call, fail_at, n_held, n_byte, n_peak, n_product;
static const char *failed;
static cudaError_t last;
static piece *pieces;
static cudaStream_t streams[8];
static int depth;
static _Thread_local int current; /* device */

/* ---- failing ---- */

static bool fails(const char *call)
{
    n_call++;
    if (n_call != fail_at)
        return false;
    failed = call;
    return true;
}

static cudaError_t answer(cudaError_t e)
{
    if (e != cudaSuccess)
        last = e;
    return e;
}

#define MAY_FAIL()                           \
    do {                                     \
        if (fails(__func__))                 \
            return answer(cudaErrorUnknown); \
    } while (0)

/* ---- device memory ---- */

static void guard(int mode)
{
#ifndef EXACT
    for (piece *m = pieces; m; m = m->next)
        mprotect(m->map, (size_t)(m->mapped - PAGE), mode);
#else
    (void)mode;
#endif
}

static void begin(void)
{
    if (depth++ == 0)
        guard(PROT_READ | PROT_WRITE);
}

static void end(void)
{
    if (--depth == 0)
        guard(PROT_NONE);
}

static kvt_code launched(kvt_device *d, const char *kernel, kvt_err *err)
{
    end();
    if (fails("launch"))
        last = cudaErrorLaunchFailure;
    if (now.no_image)
        last = cudaErrorNoKernelImageForDevice;
    cudaStream_t s = d ? cuda_stream(d) : NULL; /* which the launch of nvcc asks for first */
    if (s && s->device != current)
        last = cudaErrorInvalidResourceHandle;
    return d ? cuda_launched(d, kernel, err) : KVT_OK;
}

static bool piece_map(piece *m)
{
#ifdef EXACT
    void *p = NULL;
    if (posix_memalign(&p, ALIGN, (size_t)m->bytes))
        return false;
    m->map = m->p = p;
#else
    int64_t bytes = (m->bytes + ALIGN - 1) / ALIGN * ALIGN;
    m->mapped = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    void *p = mmap(NULL, (size_t)m->mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    m->map = p;
    m->p = m->map + m->mapped - PAGE - bytes;
    mprotect(m->map + m->mapped - PAGE, PAGE, PROT_NONE);
#endif
    if (m->bytes <= FILL_MOST)
        memset(m->p, 0xFF, (size_t)m->bytes);
    return true;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    if (fails(__func__) || n_byte + (int64_t)bytes > now.memory)
        return answer(cudaErrorMemoryAllocation);
    piece *m = calloc(1, sizeof *m);
    if (!m)
        return answer(cudaErrorMemoryAllocation);
    m->bytes = (int64_t)bytes;
    m->device = current;
    if (!piece_map(m)) {
        free(m);
        return answer(cudaErrorMemoryAllocation);
    }
    m->next = pieces;
    pieces = m;
    n_held++;
    n_byte += m->bytes;
    n_peak = n_byte > n_peak ? n_byte : n_peak;
    if (!depth)
        guard(PROT_NONE);
    *out = m->p;
    return cudaSuccess;
}

static void flush(cudaStream_t s, int64_t until);

static void flush_all(void)
{
    for (int i = 0; i < 8; i++)
        if (streams[i])
            flush(streams[i], streams[i]->n_asked);
}

cudaError_t cudaFree(void *p)
{
    flush_all(); /* it waits for the device */
    for (piece **at = &pieces; *at; at = &(*at)->next)
        if ((*at)->p == p) {
            piece *m = *at;
            *at = m->next;
            n_held--;
            n_byte -= m->bytes;
#ifdef EXACT
            free(m->map);
#else
            munmap(m->map, (size_t)m->mapped);
#endif
            free(m);
            return cudaSuccess;
        }
    return answer(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *is_free, size_t *all)
{
    MAY_FAIL();
    *is_free = (size_t)(now.memory - n_byte);
    *all = (size_t)now.memory;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    *out = fails(__func__) ? NULL : malloc(bytes);
    if (!*out)
        return answer(cudaErrorMemoryAllocation);
    n_held++;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    flush_all();
    free(p);
    n_held--;
    return cudaSuccess;
}

/* ---- streams ---- */

static void flush(cudaStream_t s, int64_t until)
{
    begin();
    for (; s->n_done < until; s->n_done++) {
        const copy *c = &s->copies[s->n_done % MAX_COPIES];
        memcpy(c->to, c->from, c->bytes);
    }
    end();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    MAY_FAIL();
    int i = 0, n = 0;
    for (int j = 0; j < 8; j++)
        n += streams[j] != NULL;
    while (i < 8 && streams[i])
        i++;
    cudaStream_t s = i < 8 ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return answer(cudaErrorMemoryAllocation);
    s->late = n > 0;
    s->device = current;
    streams[i] = s;
    n_held++;
    *out = s;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    flush(s, s->n_asked);
    for (int i = 0; i < 8; i++)
        if (streams[i] == s)
            streams[i] = NULL;
    free(s);
    n_held--;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    MAY_FAIL();
    flush(s, s->n_asked);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    MAY_FAIL();
    *out = calloc(1, sizeof **out);
    if (!*out)
        return answer(cudaErrorMemoryAllocation);
    (*out)->device = current;
    n_held++;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    n_held--;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    MAY_FAIL();
    if (e->device != s->device)
        return answer(cudaErrorInvalidResourceHandle);
    e->stream = s;
    e->at = s->n_asked;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    MAY_FAIL();
    if (e->stream)
        flush(e->stream, e->at);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    (void)flags;
    MAY_FAIL();
    if (e->stream && e->stream != s)
        flush(e->stream, e->at);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    (void)kind;
    MAY_FAIL();
    if (s->n_asked - s->n_done == MAX_COPIES)
        flush(s, s->n_asked);
    s->copies[s->n_asked++ % MAX_COPIES] = (copy){to, from, bytes};
    if (!s->late)
        flush(s, s->n_asked);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    (void)s;
    MAY_FAIL();
    begin();
    memset(p, value, bytes);
    end();
    return cudaSuccess;
}

/* ---- the GPUs ---- */

cudaError_t cudaDriverGetVersion(int *out)
{
    *out = now.driver;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *out)
{
    *out = 0;
    if (now.driver < CUDART_VERSION / 1000 * 1000)
        return answer(cudaErrorInsufficientDriver);
    if (now.n_gpu == 0)
        return answer(cudaErrorNoDevice);
    MAY_FAIL();
    *out = now.n_gpu;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int index)
{
    MAY_FAIL();
    if (index >= now.n_gpu)
        return answer(cudaErrorInvalidDevice);
    current = index;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *out)
{
    *out = current;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int index)
{
    MAY_FAIL();
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "Fake GPU %c", 'A' + index);
    out->totalGlobalMem = (size_t)now.memory;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr what, int index)
{
    (void)index;
    MAY_FAIL();
    *out = what == cudaDevAttrComputeCapabilityMajor ? now.major : now.minor;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int cap, int index)
{
    MAY_FAIL();
    snprintf(out, (size_t)cap, "0000:%02X:00.0", 0x1B + index);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;
    last = cudaSuccess;
    return e;
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoKernelImageForDevice:
        return "no kernel image is available for execution on the device";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    default: return "unknown error";
    }
}

/* ---- for tests ---- */

static void hold(int n)
{
    n_held += n;
    n_product += n == 0;
}

static fake_link link_to_cublas = {fails, begin, end, hold, 0};

const char *fake_cublas_path(void)
{
    return KVT_FAKE_CUBLAS;
}

const char *fake_cublas_folder(void)
{
    static char folder[1024];
    snprintf(folder, sizeof folder, "%s", KVT_FAKE_CUBLAS);
    *strrchr(folder, '/') = 0;
    return folder;
}

void fake_reset(const fake_options *o)
{
    static void *library; /* stays open: what it is linked to is its state */
    static const shim_hooks hooks = {begin, launched};
    now = o ? *o : fake_plain;
    n_call = fail_at = n_peak = n_product = 0;
    failed = NULL;
    last = cudaSuccess;
    shim_set_hooks(&hooks);
    shim_clear();
    setenv("KVT_CUBLAS", KVT_FAKE_CUBLAS, 1);
    if (!library)
        library = dlopen(KVT_FAKE_CUBLAS, RTLD_NOW | RTLD_LOCAL);
    void *set = library ? dlsym(library, "fake_cublas_link") : NULL;
    if (!set) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    link_to_cublas.version = now.cublas;
    *(const fake_link **)set = &link_to_cublas;
}

void fake_fail_at(int64_t n)
{
    fail_at = n ? n_call + n : 0;
    failed = NULL;
}

int64_t fake_calls(void)
{
    return n_call;
}

const char *fake_failed(void)
{
    return failed;
}

int fake_device_of(const void *p)
{
    for (const piece *m = pieces; m; m = m->next)
        if (m->p == p)
            return m->device;
    return -1;
}

int64_t fake_held(void)
{
    return n_held;
}

int64_t fake_bytes(void)
{
    return n_byte;
}

int64_t fake_peak(void)
{
    return n_peak;
}

int64_t fake_products(void)
{
    return n_product;
}

kvt_code fake_device_open(kvt_device **out, kvt_err *err)
{
    fake_reset(NULL);
    return device_open_cuda(out, 0, NULL, err);
}
