/* softmax.cu - rows of scaled scores to attention.
 *
 * grid: (n_head n_row)   block: 64 to 256, by the keys   shared: two floats a warp
 * Reads a row for its maximum and sum in one pass, and once more from the cache to write it: 8
 * n_key bytes a row from memory, 2 n_key more for the typed copy. */
#include "compute/cuda/typed.h"
#include "compute/cuda/warp.h"

enum { THREADS = 256, EACH = 4 };

/* max and sum of exp(z - max) of what came so far take z. exp(-|z - max|) is what the old sum
 * shrinks by or what the new value adds. A NAN goes into the sum. */
DEVICE_FN void online(float *max, float *sum, float z)
{
    float e = expf(-fabsf(z - *max));
    if (z > *max) {
        *sum = *sum * e + 1.0f;
        *max = z;
    } else if (z != -INFINITY) {
        *sum += e;
    }
}

DEVICE_FN float weight(float z, float max, float over, bool seen)
{
    return seen ? expf(z - max) * over : 0.0f;
}

KERNEL(softmax_kernel, dev_softmax_args)
{
    SHARED(float, part);
    int64_t h = BLOCK_X / a.n_row, r = BLOCK_X % a.n_row, pos = a.pos + r;
    int64_t lo = a.window > 0 ? pos - a.window + 1 - a.first : 0, hi = pos + 1 - a.first;
    lo = lo < 0 ? 0 : lo;
    hi = hi < a.n_key ? hi : a.n_key;
    float *p = a.p + BLOCK_X * a.ld;
    bool wide =
        a.ld % EACH == 0 && quad_fits(DEV_F32, a.p) && (!a.cast || quad_fits(a.type, a.cast));
    int64_t step = wide ? BLOCK_DIM_X * EACH : BLOCK_DIM_X;
    int64_t whole = wide ? a.n_key / EACH * EACH : 0; /* keys in quads, from 0 on */

    float max = -INFINITY, sum = 0;
    for (int64_t t = lo / EACH * EACH + THREAD_X * EACH; t < whole && t < hi; t += step) {
        quad z = quad_of(p + t);
        online(&max, &sum, t >= lo ? z.x : -INFINITY);
        online(&max, &sum, t + 1 >= lo && t + 1 < hi ? z.y : -INFINITY);
        online(&max, &sum, t + 2 >= lo && t + 2 < hi ? z.z : -INFINITY);
        online(&max, &sum, t + 3 >= lo && t + 3 < hi ? z.w : -INFINITY);
    }
    for (int64_t t = (whole > lo ? whole : lo) + THREAD_X; t < hi; t += BLOCK_DIM_X)
        online(&max, &sum, p[t]);
    float top = block_max(max, part);
    sum = block_sum(max == top ? sum : sum * expf(max - top), part + THREADS / WARP);
    if (THREAD_X == 0)
        a.lse[h * a.ld_lse + r] = top + logf(sum);

    float over = 1.0f / sum;
    hi = top == -INFINITY ? lo : hi; /* nothing to see */
    for (int64_t t = THREAD_X * EACH; t < whole; t += step) {
        quad z = quad_of(p + t);
        z.x = weight(z.x, top, over, t >= lo && t < hi);
        z.y = weight(z.y, top, over, t + 1 >= lo && t + 1 < hi);
        z.z = weight(z.z, top, over, t + 2 >= lo && t + 2 < hi);
        z.w = weight(z.w, top, over, t + 3 >= lo && t + 3 < hi);
        quad_put(p + t, z);
        if (a.cast)
            quad_store(a.type, a.cast, BLOCK_X * a.ld + t, z);
    }
    for (int64_t t = whole + THREAD_X; t < a.n_key; t += BLOCK_DIM_X) {
        p[t] = weight(p[t], top, over, t >= lo && t < hi);
        if (a.cast)
            typed_store(a.type, a.cast, BLOCK_X * a.ld + t, p[t]);
    }
}

LAUNCHERS_BEGIN
kvt_code cuda_softmax(kvt_device *d, const dev_softmax_args *a, kvt_err *err)
{
    int threads = a->n_key <= 256 ? THREADS / 4 : a->n_key <= 2048 ? THREADS / 2 : THREADS;
    if (a->n_head * a->n_row <= 0)
        return KVT_OK;
    return LAUNCH(d, softmax_kernel, *a, grid3(a->n_head * a->n_row, 1, 1), threads,
                  2 * (THREADS / WARP) * sizeof(float), err);
}
LAUNCHERS_END
