/* cost_load.h - what tests of slots share: a small model, policies, what they do, and sums over
 * decode steps. */
#ifndef TESTS_UNIT_COST_LOAD_H
#define TESTS_UNIT_COST_LOAD_H

#include "kvt/cost.h"

/* 4 layers of 8 query heads on 2 kv heads; odd ones may have a window. */
kvt_cost_geometry model(int n_layer, int32_t window);
kvt_use *policy(const char *text); /* must parse; kvt_use_free() it */

extern const kvt_cost_setting plain;
extern const kvt_cost_work once, ever; /* evicts after the prompt; at every step too */

/* Runs are in order, and add up to the steps. */
void sums(const kvt_cost_load *x, double *steps, double *slots, double *held);

#endif
