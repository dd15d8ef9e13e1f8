/* naive.h - the forward pass of all architectures in double, written from their formulas and
 * from nothing else: no tiles, no cache, every query against every key. What capture/ is
 * compared with on tiny models, whose matrices may be of any type. */
#ifndef TESTS_NAIVE_H
#define TESTS_NAIVE_H

#include "capture/weights.h"

typedef struct naive {
    const kvt_geometry *g;
    int64_t T;
    double *x;      /* f64 [L + 1, T, E] residual before each layer, and behind the last */
    double *q0, *q; /* f64 [L H T D] before RoPE, behind the norm of q; after RoPE */
    double *k, *v;  /* f64 [L G T D] k after RoPE */
    double *p;      /* f64 [L H T T] */
    double *lse;    /* f64 [L H T] */
    double *logit;  /* f64 [T V] */
} naive;

/* Runs T ids at positions start, start + 1, ... */
naive *naive_run(const kvt_weights *w, const int32_t *id, int64_t T, int64_t start);
void naive_free(naive *n);

#endif
