/* top.cu - the largest logits of a row, and what its distribution is like.
 *
 * grid: (n_row)   block: 256 or 1024, by the vocabulary   shared: a top_shared
 * Logit i is thread i % THREADS's. Each thread knows its best one that was not taken; the best
 * of all is taken DEV_TOP times, and the warp of the thread that lost it looks through that
 * thread's logits for the next. Reads a row twice, the second time from the cache, and 1 /
 * THREADS of it for each that is taken. */
#include "compute/cuda/typed.h"
#include "compute/cuda/warp.h"

enum { THREADS = 1024, THREADS_SMALL = 256, SMALL = 8192, WARPS_MAX = 32 };

/* id -1: none. */
typedef struct candidate {
    float z;
    int id;
} candidate;

/* The larger logit first, the lower id among equals. A NAN is never better. */
DEVICE_FN bool better(float z, int id, candidate than)
{
    return id >= 0 && (than.id < 0 || z > than.z || (z == than.z && id < than.id));
}

/* All lanes get the best of the warp. */
DEVICE_FN candidate warp_best(candidate c)
{
    for (int n = WARP / 2; n > 0; n /= 2) {
        float z = SHUFFLE_XOR(c.z, n);
        int id = SHUFFLE_XOR(c.id, n);
        if (better(z, id, c)) {
            c.z = z;
            c.id = id;
        }
    }
    return c;
}

/* Shared memory. Two sets of a warp's best: a warp that is ahead writes the other one. */
typedef struct top_shared {
    float z[2 * WARPS_MAX];
    int id[2 * WARPS_MAX];
    float part[2 * WARPS_MAX];
} top_shared;

/* All threads get the best of the block; `set` is 0 and 1 in turn. */
DEVICE_FN candidate block_best(candidate c, top_shared *shared, int set)
{
    int warp = THREAD_X / WARP, lane = THREAD_X % WARP;
    c = warp_best(c);
    if (lane == 0) {
        shared->z[set * WARPS_MAX + warp] = c.z;
        shared->id[set * WARPS_MAX + warp] = c.id;
    }
    BARRIER();
    c.z = -INFINITY;
    c.id = -1;
    if (lane < BLOCK_DIM_X / WARP) {
        c.z = shared->z[set * WARPS_MAX + lane];
        c.id = shared->id[set * WARPS_MAX + lane];
    }
    return warp_best(c);
}

/* c, or logit i where it is better and comes behind `taken`. */
DEVICE_FN candidate better_of(candidate c, float z, int64_t i, candidate taken)
{
    bool left = taken.id < 0 || z < taken.z || (z == taken.z && i > taken.id);
    if (left && !isnan(z) && better(z, (int)i, c)) {
        c.z = z;
        c.id = (int)i;
    }
    return c;
}

/* Of the logits first, first + step, ..., the best that comes behind `taken`. Four loads are on
 * their way at a time; a NAN stands for what is behind the end. */
DEVICE_FN candidate best_behind(const float *logit, int64_t n, int64_t first, int64_t step,
                                candidate taken)
{
    candidate c;
    c.z = -INFINITY;
    c.id = -1;
    for (int64_t i = first; i < n; i += 4 * step) {
        float z0 = logit[i], z1 = i + step < n ? logit[i + step] : NAN;
        float z2 = i + 2 * step < n ? logit[i + 2 * step] : NAN;
        float z3 = i + 3 * step < n ? logit[i + 3 * step] : NAN;
        c = better_of(c, z0, i, taken);
        c = better_of(c, z1, i + step, taken);
        c = better_of(c, z2, i + 2 * step, taken);
        c = better_of(c, z3, i + 3 * step, taken);
    }
    return c;
}

KERNEL_WIDE(top_kernel, dev_top_args)
{
    SHARED(top_shared, shared);
    const float *logit = a.logit + BLOCK_X * a.ld;
    int64_t threads = BLOCK_DIM_X;
    candidate none;
    none.z = -INFINITY;
    none.id = -1;
    candidate mine = best_behind(logit, a.n_vocab, THREAD_X, threads, none);
    candidate best = block_best(mine, shared, 1);

    /* With z from the largest one, which adds exactly 1: ln(1 + rest) and all that is added to
     * the entropy keep their digits where one token has nearly everything. */
    float rest = 0, moment = 0;
    for (int64_t i = THREAD_X; i < a.n_vocab; i += threads) {
        float z = logit[i] - best.z, e = expf(z);
        if (i != best.id) {
            rest += e;
            moment += e > 0.0f ? e * z : 0.0f;
        }
    }
    rest = block_sum(rest, shared->part);
    moment = block_sum(moment, shared->part + WARPS_MAX);
    if (THREAD_X == 0) {
        bool some = best.z > -INFINITY;
        a.lse[BLOCK_X] = some ? best.z + log1pf(rest) : NAN;
        a.entropy[BLOCK_X] = some ? log1pf(rest) - moment / (1.0f + rest) : NAN;
    }

    for (int k = 0; k < DEV_TOP; k++) {
        if (THREAD_X == 0) {
            a.id[BLOCK_X * DEV_TOP + k] = best.id;
            a.top[BLOCK_X * DEV_TOP + k] = best.z;
        }
        int owner = best.id < 0 ? -1 : (int)(best.id % threads);
        if (owner >= 0 && owner / WARP == THREAD_X / WARP) { /* a whole warp */
            int64_t first = owner + THREAD_X % WARP * threads;
            candidate next =
                warp_best(best_behind(logit, a.n_vocab, first, WARP * threads, best));
            if (owner == THREAD_X)
                mine = next;
        }
        best = block_best(mine, shared, k % 2);
    }
}

LAUNCHERS_BEGIN
kvt_code cuda_top(kvt_device *d, const dev_top_args *a, kvt_err *err)
{
    if (a->n_row <= 0)
        return KVT_OK;
    return LAUNCH(d, top_kernel, *a, grid3(a->n_row, 1, 1),
                  a->n_vocab <= SMALL ? THREADS_SMALL : THREADS, sizeof(top_shared), err);
}
LAUNCHERS_END
