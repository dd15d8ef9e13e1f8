/* laws.h - a policy's choice against scores that a test computed in double. */
#ifndef TESTS_PROPERTY_LAWS_H
#define TESTS_PROPERTY_LAWS_H

#include "../toy_more.h"
#include "../mini.h"

extern kvt_arena *laws_memory; /* of main() */

/* Runs it and fails the test where that is impossible or the toy lacks something. */
mini_result laws_run(const toy *t, const char *policy, const char *params, int64_t budget,
                     bool prefill_only);
/* The same, where it may be refused. */
mini_result laws_try(const toy *t, const char *policy, const char *params, int64_t budget,
                     bool prefill_only);

/* After `step` response tokens the lane holds the `budget` best of n tokens, what is pinned
 * (NULL: nothing) among them; of equal scores the lower position. Scores that are nearer than
 * 1e-4 of their size may change places. */
void laws_holds(const toy *t, const mini_result *r, int64_t step, int layer, int lane,
                const double *score, const bool *pinned, int64_t n, int64_t budget);
/* The scores at the end of the prompt are these, times one factor of the lane where `scaled`.
 */
void laws_scores(const toy *t, const mini_result *r, int layer, int lane, const double *score,
                 const bool *pinned, bool scaled);
/* The k best of n. */
void laws_best(uint8_t *best, const double *score, int64_t n, int64_t k);
/* The largest of `width` values around each of n; what lies outside is left out. */
void laws_pool(double *out, const double *in, int64_t n, int64_t width);
/* Their mean; what lies outside counts as 0, or where `inside` not at all. */
void laws_pool_mean(double *out, const double *in, int64_t n, int64_t width, bool inside);

/* A number of the toy's layer: keys, values [G T D], queries [H T D], hidden [T E]. */
static inline double laws_at(const kvt_view *v, int64_t i, int64_t k, int64_t d)
{
    const float *x = v->data;
    return (double)(v->rank == 3 ? x[(i * v->dim[1] + k) * v->dim[2] + d]
                                 : x[i * v->dim[1] + k]);
}

#endif
