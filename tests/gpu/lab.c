/* lab.c - a kernel against its definition (tests/gpu/lab.h). */
#include "tests/gpu/lab.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "compute/quant.h"

enum { REGIONS = 16, EXACT = -1 };

/* Memory: as both begin, what the definition makes of it, what the device makes of it. */
typedef struct region {
    char *begin, *want, *got, *first; /* first: of the first order */
    void *device;
    int64_t bytes;
    int type;
    double rel, floor;
} region;

struct lab {
    kvt_device *host, *device;
    region region[REGIONS];
    int n;
    uint64_t state;
};

lab *lab_open(void)
{
    kvt_err err;
    lab *l = calloc(1, sizeof *l);
    assert_non_null(l);
    CHECK_OK(device_open_host(&l->host, &err), &err);
    l->device = test_device_open();
    l->state = 0x9e3779b97f4a7c15u;
    return l;
}

void lab_close(lab *l)
{
    for (int i = 0; i < l->n; i++) {
        region *r = &l->region[i];
        free(r->begin);
        free(r->want);
        free(r->got);
        free(r->first);
        l->device->free(l->device, r->device);
    }
    l->device->close(l->device);
    l->host->close(l->host);
    free(l);
}

static uint64_t next(lab *l)
{
    l->state ^= l->state << 13;
    l->state ^= l->state >> 7;
    l->state ^= l->state << 17;
    return l->state;
}

double lab_uniform(lab *l, double low, double high)
{
    return low + (high - low) * (double)(next(l) >> 11) * 0x1p-53;
}

void *lab_memory(lab *l, int64_t bytes)
{
    kvt_err err;
    assert_true(l->n < REGIONS);
    region *r = &l->region[l->n++];
    size_t n = bytes > 0 ? (size_t)bytes : 1;
    *r = (region){.bytes = bytes, .type = EXACT};
    r->begin = aligned_alloc(64, (n + 63) / 64 * 64);
    r->want = aligned_alloc(64, (n + 63) / 64 * 64);
    r->got = malloc(n);
    r->first = malloc(n);
    assert_true(r->begin && r->want && r->got && r->first);
    memset(r->begin, 0xff, n);
    CHECK_OK(l->device->alloc(l->device, &r->device, bytes, "test", &err), &err);
    return r->begin;
}

float *lab_floats(lab *l, int64_t n, double scale)
{
    float *x = lab_memory(l, n * 4);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)lab_uniform(l, -scale, scale);
    return x;
}

double *lab_doubles(lab *l, int64_t n)
{
    double *x = lab_memory(l, n * 8);
    for (int64_t i = 0; i < n; i++)
        x[i] = lab_uniform(l, -1, 1);
    return x;
}

void *lab_typed(lab *l, dev_type type, int64_t n, double scale)
{
    if (type == DEV_F32)
        return lab_floats(l, n, scale);
    uint16_t *x = lab_memory(l, n * 2);
    for (int64_t i = 0; i < n; i++) {
        float f = (float)lab_uniform(l, -scale, scale);
        x[i] = type == DEV_F16 ? half_from_float(f) : bf16_from_float(f);
    }
    return x;
}

int32_t *lab_ints(lab *l, int64_t n, int32_t below)
{
    int32_t *x = lab_memory(l, n * 4);
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)(next(l) % (uint64_t)below);
    return x;
}

/* Where a block has its halves; -1: nowhere. */
static void scales_of(int quant, int at[2])
{
    at[0] = 0;
    at[1] = -1;
    switch (quant) {
    case QUANT_Q4_1:
    case QUANT_Q5_1:
    case QUANT_Q4_K:
    case QUANT_Q5_K: at[1] = 2; break;
    case QUANT_Q2_K:
        at[0] = 80;
        at[1] = 82;
        break;
    case QUANT_Q3_K: at[0] = 108; break;
    case QUANT_Q6_K: at[0] = 208; break;
    default: break;
    }
}

void *lab_blocks(lab *l, int quant, int64_t n_weight)
{
    if (quant == QUANT_F32)
        return lab_floats(l, n_weight, 2);
    if (quant == QUANT_F16 || quant == QUANT_BF16)
        return lab_typed(l, quant == QUANT_F16 ? DEV_F16 : DEV_BF16, n_weight, 2);
    const quant_info *info = quant_find(quant);
    int64_t n = n_weight / info->n_weight;
    unsigned char *b = lab_memory(l, n * info->n_byte);
    int at[2];
    scales_of(quant, at);
    for (int64_t i = 0; i < n * info->n_byte; i++)
        b[i] = (unsigned char)(next(l) >> 32);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 2 && at[k] >= 0; k++) {
            uint16_t h = half_from_float((float)lab_uniform(l, -2, 2));
            memcpy(b + i * info->n_byte + at[k], &h, sizeof h);
        }
    return b;
}

static region *region_of(const lab *l, const void *p)
{
    for (int i = 0; i < l->n; i++) {
        const region *r = &l->region[i];
        const char *c = p;
        if (c >= r->begin && c < r->begin + (r->bytes > 0 ? r->bytes : 1))
            return (region *)(uintptr_t)r;
    }
    fail_msg("a pointer that is not the lab's");
    return NULL;
}

void lab_near(lab *l, const void *p, int type, double rel, double floor)
{
    region *r = region_of(l, p);
    r->type = type;
    r->rel = rel;
    r->floor = floor;
}

void *lab_at(lab *l, lab_side side, const void *p)
{
    if (!p)
        return NULL;
    region *r = region_of(l, p);
    int64_t offset = (const char *)p - r->begin;
    return side == LAB_HOST ? r->want + offset : (char *)r->device + offset;
}

const void *lab_got(const lab *l, const void *p)
{
    const region *r = region_of(l, p);
    return r->got + ((const char *)p - r->begin);
}

const void *lab_want(const lab *l, const void *p)
{
    const region *r = region_of(l, p);
    return r->want + ((const char *)p - r->begin);
}

kvt_device *lab_device(lab *l, lab_side side)
{
    return side == LAB_HOST ? l->host : l->device;
}

void lab_begin(lab *l, int order)
{
    kvt_err err;
    for (int i = 0; i < l->n; i++) {
        region *r = &l->region[i];
        if (order < 0)
            memcpy(r->want, r->begin, (size_t)r->bytes);
        else
            CHECK_OK(l->device->upload(l->device, r->device, r->begin, r->bytes, &err), &err);
    }
    if (order >= 0)
        test_order(order);
}

void lab_failed(const char *kernel, const kvt_err *err)
{
    fail_msg("%s: %s", kernel, err->text);
}

void lab_end(lab *l, int order, const char *kernel)
{
    kvt_device *d = l->device;
    kvt_err err;
    if (order < 0)
        return;
    if (test_report())
        fail_msg("%s, order %d: %s", kernel, order, test_report());
    CHECK_OK(d->copy_begin(d, 0, &err), &err);
    for (int i = 0; i < l->n; i++) {
        region *r = &l->region[i];
        if (r->bytes > 0)
            CHECK_OK(d->download(d, r->got, r->device, r->bytes, &err), &err);
    }
    CHECK_OK(d->copy_end(d, 0, &err), &err);
    CHECK_OK(d->copy_wait(d, 0, &err), &err);
    for (int i = 0; i < l->n; i++) {
        region *r = &l->region[i];
        if (order == 0)
            memcpy(r->first, r->got, (size_t)r->bytes);
        else if (memcmp(r->first, r->got, (size_t)r->bytes) != 0)
            fail_msg("%s: order %d gives other bits than order 0 in memory %d", kernel, order,
                     i);
    }
}

static double value_of(const char *p, int type, int64_t i)
{
    double f64;
    float f32;
    uint16_t f16;
    switch (type) {
    case LAB_F64: memcpy(&f64, p + 8 * i, sizeof f64); return f64;
    case DEV_F32: memcpy(&f32, p + 4 * i, sizeof f32); return (double)f32;
    default:
        memcpy(&f16, p + 2 * i, sizeof f16);
        return (double)(type == DEV_F16 ? half_to_float(f16) : bf16_to_float(f16));
    }
}

static void compare_values(const region *r, int index, const char *kernel)
{
    int64_t size = r->type == LAB_F64 ? 8 : r->type == DEV_F32 ? 4 : 2;
    double ulp = r->type == DEV_F16 ? 0x1p-10 : r->type == DEV_BF16 ? 0x1p-7 : 0;
    double least = r->type == DEV_F16 && r->rel > 0 ? 0x1p-24 : 0;
    ulp = r->rel > 0 ? ulp : 0; /* 0 bits is 0 bits */
    for (int64_t i = 0; i < r->bytes / size; i++) {
        double got = value_of(r->got, r->type, i), want = value_of(r->want, r->type, i);
        if (got == want || (isnan(got) && isnan(want)))
            continue;
        if (!(fabs(got - want) <= (r->rel + ulp) * fabs(want) + r->floor + least))
            fail_msg("%s: memory %d, value %lld: expected %.9g, got %.9g", kernel, index,
                     (long long)i, want, got);
    }
}

void lab_compare(lab *l, const char *kernel)
{
    for (int i = 0; i < l->n; i++) {
        const region *r = &l->region[i];
        if (r->type != EXACT) {
            compare_values(r, i, kernel);
            continue;
        }
        for (int64_t k = 0; k < r->bytes; k++)
            if (r->got[k] != r->want[k])
                fail_msg("%s: memory %d, byte %lld of %lld: expected %02x, got %02x", kernel, i,
                         (long long)k, (long long)r->bytes, (unsigned)r->want[k] & 255,
                         (unsigned)r->got[k] & 255);
    }
}
