/* merge.cu - heads side by side.
 *
 * grid: (n_row n_head D / 1024)   block: 256, four values of one head a thread   shared: none
 * Reads and writes each value once; neighbours read neighbours. */
#include "compute/cuda/typed.h"

enum { THREADS = 256, EACH = 4 };

KERNEL(merge_kernel, dev_merge_args)
{
    int64_t quads = (a.head_dim + EACH - 1) / EACH; /* of a head; the last may be shorter */
    int64_t at = BLOCK_X * BLOCK_DIM_X + THREAD_X;
    int64_t row = at / quads, i = at % quads * EACH; /* row: h n_row + r */
    if (row >= a.n_head * a.n_row)
        return;
    int64_t h = row / a.n_row, r = row % a.n_row;
    int64_t from = row * a.head_dim + i, to = r * a.ld + h * a.head_dim + i;
    if (a.head_dim % EACH == 0 && a.ld % EACH == 0 && quad_fits(DEV_F32, a.x) &&
        quad_fits(a.type, a.out)) {
        quad_store(a.type, a.out, to, quad_of(a.x + from));
        return;
    }
    for (int k = 0; k < EACH; k++)
        if (i + k < a.head_dim)
            typed_store(a.type, a.out, to + k, a.x[from + k]);
}

LAUNCHERS_BEGIN
kvt_code cuda_merge(kvt_device *d, const dev_merge_args *a, kvt_err *err)
{
    int64_t n = a->n_row * a->n_head * ((a->head_dim + EACH - 1) / EACH);
    if (n <= 0)
        return KVT_OK;
    return LAUNCH(d, merge_kernel, *a, grid3(blocks_of(n, THREADS), 1, 1), THREADS, 0, err);
}
LAUNCHERS_END
