/* rmsnorm.cu - RMS norm of rows, and their lengths.
 *
 * grid: (n_row)   block: 256   shared: a float a warp
 * Reads a row twice, the second time from the cache, and writes it once: 8 E bytes a row, 6 E
 * where out is of halves. */
#include "compute/cuda/typed.h"
#include "compute/cuda/warp.h"

enum { THREADS = 256, EACH = 4 };

KERNEL(rmsnorm_kernel, dev_rmsnorm_args)
{
    SHARED(float, part);
    int64_t n = a.n_hidden, at = BLOCK_X * n;
    const float *x = a.x + at;
    bool wide = n % EACH == 0 && quad_fits(DEV_F32, a.x) && quad_fits(DEV_F32, a.gain) &&
                quad_fits(a.type, a.out);
    float sum = 0;
    if (wide)
        for (int64_t e = THREAD_X * EACH; e < n; e += THREADS * EACH) {
            quad v = quad_of(x + e);
            sum += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
        }
    else
        for (int64_t e = THREAD_X; e < n; e += THREADS)
            sum += x[e] * x[e];
    sum = block_sum(sum, part);
    float factor = 1.0f / sqrtf(sum / (float)n + a.eps);
    if (a.length && THREAD_X == 0)
        a.length[BLOCK_X] = sqrtf(sum);
    if (wide)
        for (int64_t e = THREAD_X * EACH; e < n; e += THREADS * EACH) {
            quad v = quad_of(x + e), gain = quad_of(a.gain + e);
            v.x *= factor * gain.x;
            v.y *= factor * gain.y;
            v.z *= factor * gain.z;
            v.w *= factor * gain.w;
            quad_store(a.type, a.out, at + e, v);
        }
    else
        for (int64_t e = THREAD_X; e < n; e += THREADS)
            typed_store(a.type, a.out, at + e, x[e] * factor * a.gain[e]);
}

LAUNCHERS_BEGIN
kvt_code cuda_rmsnorm(kvt_device *d, const dev_rmsnorm_args *a, kvt_err *err)
{
    if (a->n_row <= 0)
        return KVT_OK;
    return LAUNCH(d, rmsnorm_kernel, *a, grid3(a->n_row, 1, 1), THREADS,
                  THREADS / WARP * sizeof(float), err);
}
LAUNCHERS_END
