/* rope.cu - norm and rotation of heads, into the layout of the cache.
 *
 * grid: (n_row n_head / 8)   block: 256, a head of one row a warp   shared: none
 * Reads a head once from memory (the norm's second reading is from the cache), writes it once
 * as it is stored and, with a gain, once more normed. */
#include "compute/cuda/typed.h"
#include "compute/cuda/warp.h"

enum { THREADS = 256 };

/* The factor of the norm: 1 / sqrt(mean square + eps). */
DEVICE_FN float head_factor(const float *x, int64_t n, float eps, int lane)
{
    float sum = 0;
    for (int64_t i = lane; i < n; i += WARP)
        sum += x[i] * x[i];
    sum = warp_sum(sum);
    WARP_BARRIER(); /* all have read what is written in place from here on */
    return 1.0f / sqrtf(sum / (float)n + eps);
}

KERNEL(rope_kernel, dev_rope_args)
{
    int lane = THREAD_X % WARP;
    int64_t at = BLOCK_X * (THREADS / WARP) + THREAD_X / WARP; /* r n_head + h */
    if (at >= a.n_row * a.n_head)
        return; /* a whole warp; there is no barrier */
    int64_t r = at / a.n_head, h = at % a.n_head, n = a.head_dim, half = n / 2;
    int64_t to = h * a.head_stride + r * a.row_stride;
    float *x = a.x + r * a.ld + h * n;
    const float *c = a.table ? a.table + r * n : (const float *)0;
    float factor = a.gain ? head_factor(x, n, a.eps, lane) : 1.0f;
    if (!c) {
        for (int64_t i = lane; i < n; i += WARP) {
            float u = a.gain ? x[i] * factor * a.gain[i] : x[i];
            if (a.gain)
                x[i] = u;
            if (a.out)
                typed_store(a.type, a.out, to + i, u);
        }
        return;
    }
    for (int64_t i = lane; i < half; i += WARP) {
        float u = x[i], w = x[i + half];
        if (a.gain) {
            u *= factor * a.gain[i];
            w *= factor * a.gain[i + half];
            x[i] = u;
            x[i + half] = w;
        }
        if (a.out) {
            typed_store(a.type, a.out, to + i, u * c[i] - w * c[i + half]);
            typed_store(a.type, a.out, to + i + half, w * c[i] + u * c[i + half]);
        }
    }
}

LAUNCHERS_BEGIN
kvt_code cuda_rope(kvt_device *d, const dev_rope_args *a, kvt_err *err)
{
    int64_t n = a->n_row * a->n_head;
    if (n <= 0)
        return KVT_OK;
    return LAUNCH(d, rope_kernel, *a, grid3(blocks_of(n, THREADS / WARP), 1, 1), THREADS, 0,
                  err);
}
LAUNCHERS_END
