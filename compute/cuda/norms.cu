/* norms.cu - sums of absolute values and lengths of rows.
 *
 * grid: (n_row)   block: 256   shared: two floats a warp
 * Reads each value once: 4 E bytes a row. */
#include "compute/cuda/typed.h"
#include "compute/cuda/warp.h"

enum { THREADS = 256, EACH = 4 };

KERNEL(norms_kernel, dev_norms_args)
{
    SHARED(float, part);
    int64_t n = a.n_hidden;
    const float *x = a.x + BLOCK_X * n;
    float l1 = 0, square = 0;
    if (n % EACH == 0 && quad_fits(DEV_F32, a.x))
        for (int64_t e = THREAD_X * EACH; e < n; e += THREADS * EACH) {
            quad v = quad_of(x + e);
            l1 += fabsf(v.x) + fabsf(v.y) + (fabsf(v.z) + fabsf(v.w));
            square += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
        }
    else
        for (int64_t e = THREAD_X; e < n; e += THREADS) {
            l1 += fabsf(x[e]);
            square += x[e] * x[e];
        }
    l1 = block_sum(l1, part);
    square = block_sum(square, part + THREADS / WARP);
    if (THREAD_X == 0) {
        a.l1[BLOCK_X] = l1;
        a.l2[BLOCK_X] = sqrtf(square);
    }
}

LAUNCHERS_BEGIN
kvt_code cuda_norms(kvt_device *d, const dev_norms_args *a, kvt_err *err)
{
    if (a->n_row <= 0)
        return KVT_OK;
    return LAUNCH(d, norms_kernel, *a, grid3(a->n_row, 1, 1), THREADS,
                  2 * (THREADS / WARP) * sizeof(float), err);
}
LAUNCHERS_END
