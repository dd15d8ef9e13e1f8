/* choose_join.h - rows of a cost table beside the cells that they were made of. */
#ifndef ANALYZE_CHOOSE_JOIN_H
#define ANALYZE_CHOOSE_JOIN_H

#include "kvt/analyze.h"

typedef struct join_entry {
    const kvt_cost_row *cost;
    const kvt_cell *cell;
} join_entry;

typedef struct join {
    join_entry *entry;     /* [n] by group, policy, budget, trace, seed */
    const kvt_cell **cell; /* [n] of the entries */
    int64_t n;
    bool lengths; /* each trace was asked at several lengths: they are groups of their own */
} join;

/* Rows without a replayed cell that is ok are left out. NOTFOUND where none is left. */
KVT_CHECKED kvt_code join_make(join *out, const kvt_results *results,
                               const kvt_cost_table *costs, kvt_err *err);
void join_free(join *j);

/* Whether entries a and b belong to one group; to one row of it. */
bool join_same_group(const join *j, int64_t a, int64_t b);
bool join_same_row(const join *j, int64_t a, int64_t b);
/* What n entries have in common: length and model, where they do. */
void join_describe(kvt_selection_row *row, const join *j, int64_t first, int64_t n);

#endif
