/* warp.h - sums and maxima over a warp or a block, in an order that the shape alone decides.
 *
 * All lanes, or all threads, call and all get the result. */
#ifndef COMPUTE_CUDA_WARP_H
#define COMPUTE_CUDA_WARP_H

#include "compute/cuda/kernel.h"

enum { WARP = 32 };

/* Each lane adds the same two numbers as its partner: all have the same bits. */
DEVICE_FN float warp_sum(float x)
{
    for (int n = WARP / 2; n > 0; n /= 2)
        x += SHUFFLE_XOR(x, n);
    return x;
}

DEVICE_FN float warp_max(float x)
{
    for (int n = WARP / 2; n > 0; n /= 2) {
        float other = SHUFFLE_XOR(x, n);
        x = other > x ? other : x;
    }
    return x;
}

/* part: a float a warp of shared memory, which may be used again behind the next barrier. */
DEVICE_FN float block_sum(float x, float *part)
{
    x = warp_sum(x);
    if (THREAD_X % WARP == 0)
        part[THREAD_X / WARP] = x;
    BARRIER();
    float sum = 0;
    for (int i = 0; i < BLOCK_DIM_X / WARP; i++)
        sum += part[i];
    return sum;
}

DEVICE_FN float block_max(float x, float *part)
{
    x = warp_max(x);
    if (THREAD_X % WARP == 0)
        part[THREAD_X / WARP] = x;
    BARRIER();
    float max = part[0];
    for (int i = 1; i < BLOCK_DIM_X / WARP; i++)
        max = part[i] > max ? part[i] : max;
    return max;
}

#endif
