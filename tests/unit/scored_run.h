/* scored_run.h - small lanes with hand-made scorers and decisions, pushed through the engine.
 */
#ifndef TESTS_UNIT_SCORED_RUN_H
#define TESTS_UNIT_SCORED_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kvt/engine.h"

enum { G = 2, D = 8, O = D / 2, DM = 2 * O, N = 24, M = 40, T = N + M };

/* One layer of a model with G heads, each its own kv head. */
typedef struct lanes {
    kvt_geometry geometry;
    int32_t layer_id;
    float key[G][T][D], value[G][T][D], hidden[T][G * D], decision[G][T], gamma[G];
    int64_t shift; /* a token's decision comes with the one so far behind it */
} lanes;

/* A run: which policy, of what, and what each row saw. */
typedef struct run {
    const char *policy;
    const kvt_scorer *weights;
    int64_t n_prompt, budget;
    double threshold;
    bool forgets;           /* what the prompt was fed is gone before the decision */
    bool held[T + 1][G][T]; /* [tokens that came after the prompt][lane][position] */
    float score[G][T];      /* at the prompt's end */
    bool ranked;
    char why[KVT_REFUSAL_MAX]; /* of a refusal, "" none */
    bool failed;
} run;

/* Random ones; the same memory each time. */
lanes *make_lanes(uint64_t seed);
/* Decides at the end of the prompt and after each token. */
void run_on(run *r, const lanes *l);
int64_t run_count(const run *r, int64_t at, int lane); /* what a lane holds */

/* ---- scorers: random, the one that was made last can be looked into ------------------------
 */

typedef struct recipe {
    int64_t sinks, window, step, delay;
    double gate; /* scale of the gates' weights: exp() of large ones leaves f32 */
} recipe;

kvt_scorer *make_memory(const recipe *r);                 /* kvpop */
kvt_scorer *make_network(const recipe *r, int64_t width); /* kvpop-mlp */
kvt_scorer *make_gate(void);                              /* fast-kvzip */
const float *scorer_tensor(const char *name);

#endif
