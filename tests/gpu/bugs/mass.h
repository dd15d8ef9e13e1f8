/* mass.h - a kernel with nine bugs to choose from: what each key gets of attention.
 *
 *   mass[s, h, t] = sum over queries r of split s, pos + r >= t, of exp(scale q[h, r] . k[h, t]
 * - lse[h, r])
 *
 * Queries come in tiles; split s of n takes tiles s, s + n, ... The bugs are those of
 * engine.md 5.2: test_bugs.c says which way each is caught. */
#ifndef TESTS_GPU_BUGS_MASS_H
#define TESTS_GPU_BUGS_MASS_H

#include "kvt/err.h"

typedef struct mass_args {
    const float *q, *k, *lse; /* f32 [H Tq D], [H Tk D], [H Tq] */
    float *mass;              /* f32 [n_split H Tk], zeros */
    int64_t n_query, n_key, n_head, dim, pos, n_split;
    float scale;
} mass_args;

enum {
    BUG_NONE,
    BUG_NO_BARRIER_LOADED, /* none between loading a tile and using it */
    BUG_NO_BARRIER_USED,   /* none between using a tile and loading the next */
    BUG_SHARED_END,        /* reads one float behind shared memory */
    BUG_MASK,              /* the causal mask leaves out the query's own key */
    BUG_NO_GUARD,          /* loads queries that are not there; masked later */
    BUG_DIVERGENT,         /* a barrier for the first warp only */
    BUG_SHUFFLE,           /* the reduction leaves out its first step */
    BUG_UNSET,             /* sums in shared memory are not set to zero */
    BUG_BLOCKS,            /* blocks add to the same sums */
    N_BUG
};

typedef kvt_code mass_launch(const mass_args *a, kvt_err *err);
extern mass_launch *const mass_of_bug[N_BUG];

#endif
