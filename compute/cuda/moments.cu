/* moments.cu - sums over queries before rotation.
 *
 * grid: (n_head D / 2 / 32)   block: 256: 32 pairs of channels x 8 slices of the rows
 * shared: 3 x 256 doubles
 * A slice adds its rows in their order, and the slices are added in theirs. Reads each query
 * and writes it centred once: 8 bytes a value. */
#include "compute/cuda/typed.h"

enum { PAIRS = 32, SLICES = 8 };

/* Row by row of one pair: x, y its channels. */
typedef struct pair_sum {
    double x, y, magnitude;
} pair_sum;

DEVICE_FN pair_sum slice_of(const dev_moments_args *a, int64_t x, int64_t y, int64_t begin,
                            int64_t end)
{
    int64_t all = a->n_head * a->head_dim;
    float pivot_x = a->pivot[x], pivot_y = a->pivot[y];
    pair_sum s;
    s.x = s.y = s.magnitude = 0;
    for (int64_t r = begin; r < end; r++) {
        float u = a->q[r * a->ld + x], w = a->q[r * a->ld + y];
        float cx = u - pivot_x, cy = w - pivot_y;
        a->centred[r * all + x] = cx;
        a->centred[r * all + y] = cy;
        s.x += (double)cx;
        s.y += (double)cy;
        s.magnitude += (double)sqrtf(u * u + w * w);
    }
    return s;
}

KERNEL(moments_kernel, dev_moments_args)
{
    SHARED(double, part); /* [3 SLICES PAIRS] */
    int64_t half = a.head_dim / 2, pair = BLOCK_X * PAIRS + THREAD_X % PAIRS;
    int64_t slice = THREAD_X / PAIRS, rows = (a.n_row + SLICES - 1) / SLICES;
    bool mine = pair < a.n_head * half;
    int64_t x = pair / half * a.head_dim + pair % half, y = x + half;
    int64_t begin = slice * rows, end = begin + rows < a.n_row ? begin + rows : a.n_row;
    pair_sum s;
    s.x = s.y = s.magnitude = 0;
    if (mine)
        s = slice_of(&a, x, y, begin, end);
    part[THREAD_X] = s.x;
    part[THREAD_X + SLICES * PAIRS] = s.y;
    part[THREAD_X + 2 * SLICES * PAIRS] = s.magnitude;
    BARRIER();
    if (mine && slice == 0) {
        for (int i = 1; i < SLICES; i++) {
            s.x += part[THREAD_X + i * PAIRS];
            s.y += part[THREAD_X + (SLICES + i) * PAIRS];
            s.magnitude += part[THREAD_X + (2 * SLICES + i) * PAIRS];
        }
        a.sum[x] += s.x;
        a.sum[y] += s.y;
        a.magnitude[pair] += s.magnitude;
    }
}

LAUNCHERS_BEGIN
kvt_code cuda_moments(kvt_device *d, const dev_moments_args *a, kvt_err *err)
{
    int64_t pairs = a->n_head * (a->head_dim / 2);
    if (pairs <= 0 || a->n_row <= 0)
        return KVT_OK;
    return LAUNCH(d, moments_kernel, *a, grid3(blocks_of(pairs, PAIRS), 1, 1), PAIRS * SLICES,
                  3 * SLICES * PAIRS * sizeof(double), err);
}
LAUNCHERS_END
