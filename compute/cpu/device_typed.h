/* device_typed.h - memory of a dev_type, one value at a time, for the definitions. */
#ifndef COMPUTE_CPU_DEVICE_TYPED_H
#define COMPUTE_CPU_DEVICE_TYPED_H

#include "base/half.h"
#include "compute/device.h"

static inline float typed_get(dev_type type, const void *from, int64_t i)
{
    if (type == DEV_F32)
        return ((const float *)from)[i];
    uint16_t x = ((const uint16_t *)from)[i];
    return type == DEV_F16 ? half_to_float(x) : bf16_to_float(x);
}

static inline void typed_put(dev_type type, void *to, int64_t i, float x)
{
    if (type == DEV_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = type == DEV_F16 ? half_from_float(x) : bf16_from_float(x);
}

#endif
