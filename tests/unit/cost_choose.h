/* cost_choose.h - what tests of the choice share: results and costs that are built by hand, and
 * the choice among them. */
#ifndef TESTS_UNIT_COST_CHOOSE_H
#define TESTS_UNIT_COST_CHOOSE_H

#include <stdbool.h>

#include "kvt/analyze.h"

#define MS  1e-3
#define GIB 1073741824.

/* One set of cells with their costs. */
typedef struct world {
    kvt_results *results;
    kvt_cost_table costs;
} world;

world begin(void); /* room for 256 costs */
void finish(world *w, kvt_selection *s);

/* A cell of a policy at a budget on a trace. */
const kvt_cell *add_cell(world *w, const char *policy, const char *budget, int trace,
                         double lost);
/* A cost row of that cell; more of it is set by the caller. */
kvt_cost_row *add_cost(world *w, const kvt_cell *c, double ttft, double tpot, double peak);
/* Both. */
void add(world *w, const char *policy, const char *budget, int trace, double lost, double ttft,
         double tpot, double peak);

/* The choice and the winner of its first group; both must succeed. */
void choose(kvt_selection *out, kvt_winner *won, const world *w, const char *limits,
            kvt_cost_axis axis);
/* Fails where there is none. */
const kvt_selection_row *row_of(const kvt_selection *s, const char *policy, const char *budget);
bool is(const kvt_selection *s, int64_t row, const char *policy, const char *budget);

#endif
