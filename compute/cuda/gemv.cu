/* gemv.cu - a matrix as it lies times a vector: the products of a decode step.
 *
 * grid: (n_row / 16)   block: 256, two rows a warp   shared: TILE floats of x
 * A kernel a type. Reads each block of the matrix once, which is all its traffic; x is read by
 * each block of threads, from the cache. Two rows at a time use a value of x that was loaded
 * once, and keep twice as many loads on their way. */
#include "compute/cuda/quant_dot.h"
#include "compute/cuda/warp.h"

enum { THREADS = 256, ROWS = 2, TILE = 4096 }; /* TILE: whole blocks of every type */

/* x[k .. k + n) to shared memory. Everybody has read what was there. */
DEVICE_FN void stage(float *to, const dev_gemv_args *a, int64_t k, int n)
{
    BARRIER();
    if (quad_fits(a->type, a->x))
        for (int i = THREAD_X * 4; i + 4 <= n; i += THREADS * 4)
            quad_put(to + i, quad_load(a->type, a->x, k + i));
    int rest = quad_fits(a->type, a->x) ? n / 4 * 4 : 0;
    for (int i = rest + THREAD_X; i < n; i += THREADS)
        to[i] = typed_load(a->type, a->x, k + i);
    BARRIER();
}

/* The rows of a warp: the second is the first again where there is none. */
typedef struct gemv_rows {
    int64_t first, second;
} gemv_rows;

DEVICE_FN gemv_rows rows_of(const dev_gemv_args *a)
{
    gemv_rows r;
    int64_t row = (BLOCK_X * (THREADS / WARP) + THREAD_X / WARP) * ROWS;
    r.first = row < a->n_row ? row : a->n_row - 1;
    r.second = row + 1 < a->n_row ? row + 1 : a->n_row - 1;
    return r;
}

DEVICE_FN void rows_put(const dev_gemv_args *a, gemv_rows r, float first, float second)
{
    int64_t row = (BLOCK_X * (THREADS / WARP) + THREAD_X / WARP) * ROWS;
    first = warp_sum(first);
    second = warp_sum(second);
    if (THREAD_X % WARP == 0 && row < a->n_row)
        a->y[r.first] = first;
    if (THREAD_X % WARP == 0 && row + 1 < a->n_row)
        a->y[r.second] = second;
}

DEVICE_FN int tile_of(const dev_gemv_args *a, int64_t k)
{
    return a->n_col - k < TILE ? (int)(a->n_col - k) : TILE;
}

/* clang-format off */
#define GEMV_BLOCKS(function, n_byte, n_weight)                                             \
    KERNEL(gemv_##function, dev_gemv_args)                                                  \
    {                                                                                       \
        SHARED(float, x);                                                                   \
        gemv_rows r = rows_of(&a);                                                          \
        const uint8_t *w0 = (const uint8_t *)a.w + r.first * a.row_bytes;                   \
        const uint8_t *w1 = (const uint8_t *)a.w + r.second * a.row_bytes;                  \
        float s0 = 0, s1 = 0;                                                               \
        for (int64_t k = 0; k < a.n_col; k += TILE) {                                       \
            int n = tile_of(&a, k);                                                         \
            stage(x, &a, k, n);                                                             \
            for (int u = THREAD_X % WARP; u < n / DOT_UNIT; u += WARP) {                    \
                s0 += dot_##function(w0, u, x);                                             \
                s1 += dot_##function(w1, u, x);                                             \
            }                                                                               \
            w0 += TILE / (n_weight) * (n_byte);                                             \
            w1 += TILE / (n_weight) * (n_byte);                                             \
        }                                                                                   \
        rows_put(&a, r, s0, s1);                                                            \
    }
/* clang-format on */

/* Values that are no blocks: four at a time where rows lie so, one at a time behind them. */
DEVICE_FN float dot_values(dev_type type, const uint8_t *row, int64_t k, int n, const float *x)
{
    float sum = 0;
    int whole = quad_fits(type, row) && k % 4 == 0 ? n / 4 * 4 : 0;
    for (int i = THREAD_X % WARP * 4; i < whole; i += WARP * 4) {
        quad w = quad_load(type, row, k + i), y = quad_of(x + i);
        sum += w.x * y.x + w.y * y.y + (w.z * y.z + w.w * y.w);
    }
    for (int i = whole + THREAD_X % WARP; i < n; i += WARP)
        sum += typed_load(type, row, k + i) * x[i];
    return sum;
}

/* clang-format off */
#define GEMV_VALUES(function, type_)                                                        \
    KERNEL(gemv_##function, dev_gemv_args)                                                  \
    {                                                                                       \
        SHARED(float, x);                                                                   \
        gemv_rows r = rows_of(&a);                                                          \
        const uint8_t *w0 = (const uint8_t *)a.w + r.first * a.row_bytes;                   \
        const uint8_t *w1 = (const uint8_t *)a.w + r.second * a.row_bytes;                  \
        float s0 = 0, s1 = 0;                                                               \
        for (int64_t k = 0; k < a.n_col; k += TILE) {                                       \
            int n = tile_of(&a, k);                                                         \
            stage(x, &a, k, n);                                                             \
            s0 += dot_values(type_, w0, k, n, x);                                           \
            s1 += dot_values(type_, w1, k, n, x);                                           \
        }                                                                                   \
        rows_put(&a, r, s0, s1);                                                            \
    }

GEMV_VALUES(f32, DEV_F32)
GEMV_VALUES(f16, DEV_F16)
GEMV_VALUES(bf16, DEV_BF16)
GEMV_BLOCKS(q4_0, 18, 32)
GEMV_BLOCKS(q4_1, 20, 32)
GEMV_BLOCKS(q5_0, 22, 32)
GEMV_BLOCKS(q5_1, 24, 32)
GEMV_BLOCKS(q8_0, 34, 32)
GEMV_BLOCKS(q2_k, 84, 256)
GEMV_BLOCKS(q3_k, 110, 256)
GEMV_BLOCKS(q4_k, 144, 256)
GEMV_BLOCKS(q5_k, 176, 256)
GEMV_BLOCKS(q6_k, 210, 256)
GEMV_BLOCKS(iq4_nl, 18, 32)

LAUNCHERS_BEGIN
kvt_code cuda_gemv(kvt_device *d, const dev_gemv_args *a, kvt_err *err)
{
    if (a->n_row <= 0)
        return KVT_OK;
    int64_t blocks = blocks_of(a->n_row, THREADS / WARP * ROWS);
    int64_t tile = TILE, n = a->n_col < tile ? a->n_col : tile;
    switch (a->quant) {
#define QUANT(type, NAME, n_byte, n_weight, function)                                       \
    case QUANT_##NAME:                                                                      \
        return LAUNCH(d, gemv_##function, *a, grid3(blocks, 1, 1), THREADS,                 \
                      n * (int64_t)sizeof(float), err);
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
    default: return kvt_fail(err, KVT_FORMAT, "gemv: no kernel for blocks of type %d", a->quant);
    }
}
LAUNCHERS_END
/* clang-format on */
