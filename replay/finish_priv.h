/* finish_priv.h - what the files that make results share.
 *
 *   finish.c        cells, the whole result of a pass
 *   finish_lane.c   lanes: what each held and lost, and the oracle with as many slots
 *   finish_array.c  arrays, what a reader must know beside them */
#ifndef REPLAY_FINISH_PRIV_H
#define REPLAY_FINISH_PRIV_H

#include "replay/replay_priv.h"

typedef struct finisher {
    const pass *p;
    const kvt_trace_info *info;
    const bool *layers;
    const truth *truths;
    kvt_rule rule;
    kvt_result *r;
    int layer[KVT_LAYERS_MAX];         /* of the trace, by place in the result */
    const double *best;                /* truth_over_lanes() */
    double best_lost[KVT_BUDGETS_MAX]; /* of the best schedules of each cell, NAN: no bound */
} finisher;

/* ---- finish_lane.c -------------------------------------------------------------------------
 */

/* What a lane lost, and what it would lose where the best `count` of its tokens stay: all rows
 * and heads together. i: the layer's place in the result. */
double finish_lost(const finisher *f, int cell, int i, int a);
double finish_least(const finisher *f, int i, int a, int64_t count);
double finish_regret(double more);
double finish_best(const finisher *f, int cell);
void finish_empty_lane(kvt_lane_row *row);
/* total_over: the cell holds more slots than it was asked for. */
void finish_lane(const finisher *f, kvt_lane_row *row, int cell, int i, int a, bool total_over);

/* ---- finish_array.c ------------------------------------------------------------------------
 */

bool finish_arrays(finisher *f); /* false: no memory */
/* What a reader of the table must know besides its numbers; NULL: nothing. kvt_free() it. */
char *finish_note(const finisher *f);

#endif
