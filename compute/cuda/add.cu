/* add.cu - a residual or a bias.
 *
 * grid: (n / 1024)   block: 256, four values a thread   shared: none
 * Reads x and y and writes x once: 12 n bytes; a bias stays in the cache: 8 n. */
#include "compute/cuda/typed.h"

enum { THREADS = 256, EACH = 4 };

KERNEL(add_kernel, dev_add_args)
{
    int64_t i = (BLOCK_X * BLOCK_DIM_X + THREAD_X) * EACH;
    int64_t from = i < a.period ? i : i % a.period; /* a division only where there is a bias */
    if (i + EACH <= a.n && (a.period >= a.n || a.period % EACH == 0) &&
        quad_fits(DEV_F32, a.x) && quad_fits(DEV_F32, a.y)) {
        quad x = quad_of(a.x + i), y = quad_of(a.y + from);
        x.x += y.x;
        x.y += y.y;
        x.z += y.z;
        x.w += y.w;
        quad_put(a.x + i, x);
        return;
    }
    for (int k = 0; k < EACH; k++) {
        if (i + k < a.n)
            a.x[i + k] += a.y[from];
        from = from + 1 < a.period ? from + 1 : 0;
    }
}

LAUNCHERS_BEGIN
kvt_code cuda_add(kvt_device *d, const dev_add_args *a, kvt_err *err)
{
    if (a->n <= 0)
        return KVT_OK;
    return LAUNCH(d, add_kernel, *a, grid3(blocks_of(a->n, THREADS * EACH), 1, 1), THREADS, 0,
                  err);
}
LAUNCHERS_END
