/* typed.h - memory of a dev_type in kernels: one value, or four that lie side by side.
 *
 * Four values are one access of 16 bytes (8 for halves): it needs an address that is a multiple
 * of that, which quad_fits() says. Each kernel has a path without. */
#ifndef COMPUTE_CUDA_TYPED_H
#define COMPUTE_CUDA_TYPED_H

#include <math.h>
#include <stdalign.h>

#include "compute/cuda/kernel.h"

/* Four named members, not an array: an array in registers may end in local memory. */
typedef struct quad {
    alignas(16) float x;
    float y, z, w;
} quad;

typedef struct quad16 {
    alignas(8) uint16_t x;
    uint16_t y, z, w;
} quad16;

DEVICE_FN bool quad_fits(dev_type type, const void *p)
{
    return (uintptr_t)p % (type == DEV_F32 ? 16 : 8) == 0;
}

DEVICE_FN float typed_load(dev_type type, const void *from, int64_t i)
{
    if (type == DEV_F32)
        return ((const float *)from)[i];
    uint16_t x = ((const uint16_t *)from)[i];
    return type == DEV_F16 ? half_of(x) : bf16_of(x);
}

DEVICE_FN void typed_store(dev_type type, void *to, int64_t i, float x)
{
    if (type == DEV_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = type == DEV_F16 ? to_half(x) : to_bf16(x);
}

/* Values i .. i + 4; from + i fits. */
DEVICE_FN quad quad_of(const float *from)
{
    return *(const quad *)(const void *)from;
}

DEVICE_FN void quad_put(float *to, quad v)
{
    *(quad *)(void *)to = v;
}

DEVICE_FN quad quad_load(dev_type type, const void *from, int64_t i)
{
    if (type == DEV_F32)
        return quad_of((const float *)from + i);
    quad16 h = *(const quad16 *)(const void *)((const uint16_t *)from + i);
    quad v;
    v.x = type == DEV_F16 ? half_of(h.x) : bf16_of(h.x);
    v.y = type == DEV_F16 ? half_of(h.y) : bf16_of(h.y);
    v.z = type == DEV_F16 ? half_of(h.z) : bf16_of(h.z);
    v.w = type == DEV_F16 ? half_of(h.w) : bf16_of(h.w);
    return v;
}

DEVICE_FN void quad_store(dev_type type, void *to, int64_t i, quad v)
{
    if (type == DEV_F32) {
        quad_put((float *)to + i, v);
        return;
    }
    quad16 h;
    h.x = type == DEV_F16 ? to_half(v.x) : to_bf16(v.x);
    h.y = type == DEV_F16 ? to_half(v.y) : to_bf16(v.y);
    h.z = type == DEV_F16 ? to_half(v.z) : to_bf16(v.z);
    h.w = type == DEV_F16 ? to_half(v.w) : to_bf16(v.w);
    *(quad16 *)(void *)((uint16_t *)to + i) = h;
}

/* Blocks for n pieces of work of `each`; at least one. */
static inline int64_t blocks_of(int64_t n, int64_t each)
{
    return n > 0 ? (n + each - 1) / each : 1;
}

#endif
