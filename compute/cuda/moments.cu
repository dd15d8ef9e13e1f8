/* moments.cu - sums over queries before rotation.
 *
 * grid: (n_head D / 2 / 8)   block: 256: 8 pairs of channels x 32 slices of the rows, so that
 * a model of 32 heads has more blocks than a GPU has processors; 8 floats are a whole sector
 * shared: 3 x 256 doubles
 * A slice adds its rows in their order, and the slices are added in theirs. Reads each query
 * and writes it centred once: 8 bytes a value. */
#include "compute/cuda/typed.h"

enum { PAIRS = 8, SLICES = 32 };

/* A pair of channels, and what it adds up to. */
typedef struct pair_sum {
    int64_t at_x, at_y;
    float pivot_x, pivot_y;
    double x, y, magnitude;
} pair_sum;

DEVICE_FN void row_add(pair_sum *s, float *centred, float u, float w)
{
    float x = u - s->pivot_x, y = w - s->pivot_y;
    centred[s->at_x] = x;
    centred[s->at_y] = y;
    s->x += (double)x;
    s->y += (double)y;
    s->magnitude += (double)sqrtf(u * u + w * w);
}

/* Rows begin .. end. Eight loads are on their way before the first value is stored. */
DEVICE_FN void slice_add(pair_sum *s, const dev_moments_args *a, int64_t begin, int64_t end)
{
    int64_t r = begin, x = s->at_x, y = s->at_y, all = a->n_head * a->head_dim;
    s->pivot_x = a->pivot[x];
    s->pivot_y = a->pivot[y];
    for (; r + 4 <= end; r += 4) {
        const float *q0 = a->q + r * a->ld, *q1 = q0 + a->ld, *q2 = q1 + a->ld,
                    *q3 = q2 + a->ld;
        float u0 = q0[x], u1 = q1[x], u2 = q2[x], u3 = q3[x];
        float w0 = q0[y], w1 = q1[y], w2 = q2[y], w3 = q3[y];
        row_add(s, a->centred + r * all, u0, w0);
        row_add(s, a->centred + (r + 1) * all, u1, w1);
        row_add(s, a->centred + (r + 2) * all, u2, w2);
        row_add(s, a->centred + (r + 3) * all, u3, w3);
    }
    for (; r < end; r++)
        row_add(s, a->centred + r * all, a->q[r * a->ld + x], a->q[r * a->ld + y]);
}

KERNEL(moments_kernel, dev_moments_args)
{
    SHARED(double, part); /* [3 SLICES PAIRS] */
    int64_t half = a.head_dim / 2, pair = BLOCK_X * PAIRS + THREAD_X % PAIRS;
    int64_t slice = THREAD_X / PAIRS, rows = (a.n_row + SLICES - 1) / SLICES;
    bool mine = pair < a.n_head * half;
    int64_t begin = slice * rows, end = begin + rows < a.n_row ? begin + rows : a.n_row;
    pair_sum s;
    s.at_x = pair / half * a.head_dim + pair % half;
    s.at_y = s.at_x + half;
    s.x = s.y = s.magnitude = 0;
    if (mine)
        slice_add(&s, &a, begin, end);
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
        a.sum[s.at_x] += s.x;
        a.sum[s.at_y] += s.y;
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
