/* device_host.c - the host as a device (compute/device.h): memory of this process, and every
 * call is done when it returns, so that copies and waits have nothing to order. */
#include "compute/device.h"

#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

enum { ALIGN = 256 };

/* In front of each piece of memory. */
typedef struct piece {
    void *raw; /* what kvt_free() takes */
    int64_t bytes;
} piece;

static piece *piece_of(void *p)
{
    return (piece *)(void *)((char *)p - sizeof(piece));
}

static kvt_code host_take(kvt_device *d, void **out, int64_t bytes, const char *name,
                          kvt_err *err)
{
    *out = NULL;
    char *raw = kvt_alloc(bytes + 2 * ALIGN, 1);
    if (!raw)
        return kvt_fail(err, KVT_NOMEM, "out of memory: %s needs %lld bytes", name,
                        (long long)bytes);
    uintptr_t begin = ((uintptr_t)raw + 2 * ALIGN - 1) / ALIGN * ALIGN;
    char *p = raw + (begin - (uintptr_t)raw);
    *piece_of(p) = (piece){raw, bytes};
    memset(p, 0xff, (size_t)bytes); /* NANs: what nobody wrote is not to pass for zeros */
    d->taken += bytes;
    d->peak = d->taken > d->peak ? d->taken : d->peak;
    *out = p;
    return KVT_OK;
}

static void host_give(kvt_device *d, void *p)
{
    if (!p)
        return;
    d->taken -= piece_of(p)->bytes;
    kvt_free(piece_of(p)->raw);
}

/* Of the host on any device: not counted. */
static kvt_code host_locked(kvt_device *d, void **out, int64_t bytes, kvt_err *err)
{
    (void)d;
    *out = kvt_alloc(bytes, 1);
    return *out ? KVT_OK : kvt_fail_memory(err, bytes);
}

static void host_unlocked(kvt_device *d, void *p)
{
    (void)d;
    kvt_free(p);
}

static kvt_code host_move(kvt_device *d, void *to, const void *from, int64_t bytes,
                          kvt_err *err)
{
    (void)d, (void)err;
    if (bytes > 0)
        memmove(to, from, (size_t)bytes);
    return KVT_OK;
}

static kvt_code host_clear(kvt_device *d, void *to, int64_t bytes, kvt_err *err)
{
    (void)d, (void)err;
    if (bytes > 0)
        memset(to, 0, (size_t)bytes);
    return KVT_OK;
}

static kvt_code host_slot(kvt_device *d, int slot, kvt_err *err)
{
    (void)d, (void)slot, (void)err;
    return KVT_OK;
}

static kvt_code host_sync(kvt_device *d, kvt_err *err)
{
    (void)d, (void)err;
    return KVT_OK;
}

static void host_close(kvt_device *d)
{
    kvt_free(d);
}

kvt_code device_open_host(kvt_device **out, kvt_err *err)
{
    *out = NULL;
    kvt_device *d = kvt_alloc(1, sizeof *d);
    if (!d)
        return kvt_fail_memory(err, sizeof *d);
    snprintf(d->name, sizeof d->name, "host");
    snprintf(d->arithmetic, sizeof d->arithmetic, "plain loops, products added in f64");
    d->memory = INT64_MAX; /* no limit of its own */
    d->has_bf16 = true;
    d->alloc = host_take;
    d->free = host_give;
    d->host_alloc = host_locked;
    d->host_free = host_unlocked;
    d->upload = host_move;
    d->clear = host_clear;
    d->copy = host_move;
    d->copy_begin = host_slot;
    d->download = host_move;
    d->copy_end = host_slot;
    d->copy_wait = host_slot;
    d->copy_hold = host_slot;
    d->sync = host_sync;
    d->close = host_close;
#define DEVICE_KERNEL(kernel) d->kernel = host_##kernel;
#include "compute/device.def"
#undef DEVICE_KERNEL
    *out = d;
    return KVT_OK;
}
