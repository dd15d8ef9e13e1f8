/* group.h - the cells of a result set, gathered into one value a trace. */
#ifndef ANALYZE_GROUP_H
#define ANALYZE_GROUP_H

#include "kvt/analyze.h"

/* Cells that differ only in trace and seed: a policy with its parameters at one budget. */
typedef struct group {
    const kvt_cell **cell; /* [n] by trace, then seed */
    int64_t n;
    bool is_control;
} group;

typedef struct groups {
    group *group; /* [n] by policy (controls last), parameters, act, budget */
    int64_t n;
    const kvt_cell **cell; /* all of them, owned */
} groups;

KVT_CHECKED kvt_code groups_make(groups *out, const kvt_results *results, kvt_err *err);
void groups_free(groups *g);

/* A number of a cell by the name of its column; NAN where it has none or it is undefined. */
double group_value(const kvt_cell *cell, const kvt_schema *schema, const char *column);

/* One value a trace: the mean over its seeds. Traces whose value is undefined are left out;
 * trace[i] is the name of the i-th. Returns how many; x and trace hold at most g->n. */
int64_t group_traces(const group *g, const kvt_schema *schema, const char *column, double *x,
                     const char **trace);

/* Mean and interval of differences, one a trace: over prompts where there are enough, else
 * their range; NAN where there is neither. (analyze/compare.c) */
KVT_CHECKED kvt_code difference_measure(kvt_difference *out, const double *d, int64_t n,
                                        uint64_t seed, kvt_err *err);

/* Of a - b over the traces that both have; on one trace with the spread over its lanes.
 * (analyze/compare.c) */
KVT_CHECKED kvt_code groups_difference(kvt_difference *out, const kvt_results *results,
                                       const group *a, const group *b, const char *column,
                                       uint64_t seed, kvt_err *err);

/* What the worst of its numbers is worth: a name of kvt_exactness_name(). */
const char *group_exactness(const group *g);

#endif
