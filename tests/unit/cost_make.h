/* cost_make.h - what tests of the table of costs share: a spec, its table, and a check of every
 * row's sums. */
#ifndef TESTS_UNIT_COST_MAKE_H
#define TESTS_UNIT_COST_MAKE_H

#include "kvt/cost.h"

/* Set by spec_of(), which points to them. */
extern kvt_machine machine[2];        /* h100, rtx-4090 */
extern kvt_cost_geometry llama, smol; /* llama-3.1-8b, which it takes, and smollm2-135m */

/* 2 lengths, 2 batches, 2 machines, 2 profiles. */
kvt_cost_spec spec_of(const char *policies, const char *budgets);
kvt_cost_table make(const kvt_cost_spec *spec); /* must succeed */
void refuses(const kvt_cost_spec *spec, kvt_code want, const char *text);

/* Of a column of numbers. */
double value(const kvt_cost_row *r, const char *column);
/* The parts of every total of a row sum to it. */
void check_sums(const kvt_cost_row *r);

#endif
