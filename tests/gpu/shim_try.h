/* shim_try.h - kernels that try the shim, right ones and wrong ones (shim_try.cu). */
#ifndef TESTS_GPU_SHIM_TRY_H
#define TESTS_GPU_SHIM_TRY_H

#include <stdint.h>

#include "kvt/err.h"

typedef enum try_what {
    TRY_SUM,       /* out[block] = sum of in[block], tree of shuffles, then shared memory */
    TRY_REVERSE,   /* out = in backwards within a block, through shared memory */
    TRY_SHUFFLES,  /* out = value of the neighbour (xor 1) + of the lane 3 up */
    TRY_PLACE,     /* out = number of the thread in its block and of the block in the grid */
    TRY_SHARED,    /* out = 1 where a float of shared memory is NaN at the start */
    TRY_DIVERGENT, /* a barrier that half of a block comes to */
    TRY_TWO,       /* two halves at two barriers */
    TRY_RETURNED,  /* one thread returns in front of the barrier */
    TRY_ABSENT,    /* a shuffle reads lanes that returned */
    TRY_MIXED,     /* one warp at a shuffle that its last lane never comes to */
} try_what;

typedef struct try_args {
    float *out;
    const float *in;
    int64_t n; /* of a block */
    int what;
} try_args;

/* block: x by y threads */
kvt_code try_launch(const try_args *a, int64_t grid_x, int64_t grid_y, int64_t x, int64_t y,
                    int64_t shared, kvt_err *err);

#endif
