/* mass_body.h - the kernel of mass.h with the bug BUG, as MASS(kernel) and MASS(launch). */

DEVICE_FN void MASS(load)(float *tile, const float *from, int64_t first, int64_t n, int64_t dim,
                          int guard)
{
    for (int64_t i = THREAD_X; i < MASS_TILE * dim; i += MASS_THREADS)
        tile[i] = !guard || first + i / dim < n ? from[first * dim + i] : 0;
}

DEVICE_FN float MASS(warp_sum)(float x)
{
    for (int n = BUG == BUG_SHUFFLE ? 8 : 16; n > 0; n /= 2)
        x += SHUFFLE_XOR(x, n);
    return x;
}

/* One tile of queries, a lane each; a warp takes every fourth key. */
DEVICE_FN void MASS(add)(const mass_args *a, float *sum, const float *keys,
                         const float *queries, int64_t first_key, int64_t first_query)
{
    const int lane = THREAD_X % 32;
    const int64_t row = first_query + lane, off = BUG == BUG_SHARED_END;
    for (int i = THREAD_X / 32; i < MASS_TILE; i += MASS_THREADS / 32) {
        const int64_t key = first_key + i;
        float w = 0, dot = 0;
        if (row < a->n_query && key < a->n_key && key <= a->pos + row - (BUG == BUG_MASK)) {
            for (int64_t d = 0; d < a->dim; d++)
                dot += keys[i * a->dim + d] * queries[lane * a->dim + d + off];
            w = expf(a->scale * dot - a->lse[BLOCK_Y * a->n_query + row]);
        }
        w = MASS(warp_sum)(w);
        if (lane == 0)
            sum[i] += w;
    }
}

/* grid: (tiles of keys, H, n_split)   block: (MASS_THREADS)   shared: MASS_TILE (1 + 2 D)
 * floats */
KERNEL(MASS(kernel), mass_args)
{
    SHARED(float, sum);
    float *keys = sum + MASS_TILE, *queries = keys + MASS_TILE * a.dim;
    const int64_t first = BLOCK_X * MASS_TILE, head = BLOCK_Y;
    if (THREAD_X < MASS_TILE && BUG != BUG_UNSET)
        sum[THREAD_X] = 0;
    MASS(load)(keys, a.k + head * a.n_key * a.dim, first, a.n_key, a.dim, 1);
    for (int64_t at = BLOCK_Z * MASS_TILE; at < a.n_query; at += a.n_split * MASS_TILE) {
        MASS(load)
        (queries, a.q + head * a.n_query * a.dim, at, a.n_query, a.dim, BUG != BUG_NO_GUARD);
        if (BUG != BUG_NO_BARRIER_LOADED && (BUG != BUG_DIVERGENT || THREAD_X < 32))
            BARRIER();
        MASS(add)(&a, sum, keys, queries, first, at);
        if (BUG != BUG_NO_BARRIER_USED)
            BARRIER();
    }
    BARRIER();
    if (THREAD_X < MASS_TILE && first + THREAD_X < a.n_key) {
        const int64_t split = BUG == BUG_BLOCKS ? 0 : BLOCK_Z;
        float *out = a.mass + (split * a.n_head + head) * a.n_key + first + THREAD_X;
        if (BUG == BUG_BLOCKS)
            *out += sum[THREAD_X];
        else
            *out = sum[THREAD_X];
    }
}

static kvt_code MASS(launch)(const mass_args *a, kvt_err *err)
{
    return LAUNCH(NULL, MASS(kernel), *a,
                  grid3((a->n_key + MASS_TILE - 1) / MASS_TILE, a->n_head, a->n_split),
                  MASS_THREADS, MASS_TILE * (1 + 2 * a->dim) * (int64_t)sizeof(float), err);
}

#undef BUG
#undef MASS
