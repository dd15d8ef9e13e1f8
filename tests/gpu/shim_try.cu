/* shim_try.cu - see shim_try.h. Compiled as C by the tests only. */
#include "tests/gpu/shim_try.h"

#include "compute/cuda/kernel.h"

enum { LANES = 32 };

DEVICE_FN float warp_sum(float x)
{
    for (int n = LANES / 2; n > 0; n /= 2)
        x += SHUFFLE_DOWN(x, n);
    return x;
}

DEVICE_FN void sum_of_block(const try_args *a)
{
    SHARED(float, part);
    float x = 0;
    for (int64_t i = THREAD_X; i < a->n; i += BLOCK_DIM_X)
        x += a->in[BLOCK_X * a->n + i];
    x = warp_sum(x);
    if (THREAD_X % LANES == 0)
        part[THREAD_X / LANES] = x;
    BARRIER();
    if (THREAD_X == 0) {
        float all = 0;
        for (int w = 0; w < BLOCK_DIM_X / LANES; w++)
            all += part[w];
        a->out[BLOCK_X] = all;
    }
}

DEVICE_FN void reversed(const try_args *a)
{
    SHARED(float, keep);
    keep[THREAD_X] = a->in[BLOCK_X * a->n + THREAD_X];
    BARRIER();
    a->out[BLOCK_X * a->n + THREAD_X] = keep[BLOCK_DIM_X - 1 - THREAD_X];
}

/* Wrong ones. `half` of the block does one thing, the rest another. */
DEVICE_FN void wrong(const try_args *a)
{
    const int half = THREAD_X < BLOCK_DIM_X / 2;
    float x = (float)THREAD_X;
    if (a->what == TRY_DIVERGENT) {
        if (half)
            BARRIER();
    } else if (a->what == TRY_TWO) {
        if (half)
            BARRIER();
        else
            BARRIER();
    } else if (a->what == TRY_RETURNED) {
        if (THREAD_X != 5)
            BARRIER();
    } else if (a->what == TRY_ABSENT) {
        if (THREAD_X % 2 == 0)
            x = SHUFFLE_XOR(x, 1);
    } else if (THREAD_X == LANES - 1) {
        BARRIER();
    } else {
        x = SHUFFLE_XOR(x, 1);
    }
    a->out[THREAD_X] = x;
}

KERNEL(try_kernel, try_args)
{
    const int64_t thread = THREAD_X + (int64_t)BLOCK_DIM_X * THREAD_Y;
    const int64_t block = BLOCK_X + GRID_DIM_X * BLOCK_Y;
    if (a.what == TRY_SUM) {
        sum_of_block(&a);
    } else if (a.what == TRY_REVERSE) {
        reversed(&a);
    } else if (a.what == TRY_SHUFFLES) {
        float x = a.in[thread];
        a.out[thread] = SHUFFLE_XOR(x, 1) + SHUFFLE_DOWN(x, 3);
    } else if (a.what == TRY_PLACE) {
        a.out[block * a.n + thread] = (float)(1000 * block + thread);
    } else if (a.what == TRY_SHARED) {
        SHARED(float, fresh);
        a.out[thread] = fresh[thread] != fresh[thread] ? 1.0f : 0.0f;
    } else {
        wrong(&a);
    }
}

kvt_code try_launch(const try_args *a, int64_t grid_x, int64_t grid_y, int64_t x, int64_t y,
                    int64_t shared, kvt_err *err)
{
    return LAUNCH(NULL, try_kernel, *a, grid3(grid_x, grid_y, 1), grid3(x, y, 1), shared, err);
}
