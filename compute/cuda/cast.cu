/* cast.cu - from one type to another.
 *
 * grid: (n / 1024)   block: 256, four values a thread   shared: none
 * Reads and writes each value once. */
#include "compute/cuda/typed.h"

enum { THREADS = 256, EACH = 4 };

KERNEL(cast_kernel, dev_cast_args)
{
    int64_t i = (BLOCK_X * BLOCK_DIM_X + THREAD_X) * EACH;
    if (i + EACH <= a.n && quad_fits(a.from, a.in) && quad_fits(a.to, a.out)) {
        quad_store(a.to, a.out, i, quad_load(a.from, a.in, i));
        return;
    }
    for (int k = 0; k < EACH; k++)
        if (i + k < a.n)
            typed_store(a.to, a.out, i + k, typed_load(a.from, a.in, i + k));
}

LAUNCHERS_BEGIN
kvt_code cuda_cast(kvt_device *d, const dev_cast_args *a, kvt_err *err)
{
    if (a->n <= 0)
        return KVT_OK;
    return LAUNCH(d, cast_kernel, *a, grid3(blocks_of(a->n, THREADS * EACH), 1, 1), THREADS, 0,
                  err);
}
LAUNCHERS_END
