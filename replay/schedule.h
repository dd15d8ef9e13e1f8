/* schedule.h - the best schedules of irreversible eviction of a layer: read by policies that
 * need a plan (KVT_NEED_PLAN), and what passes inside their budget are compared with. */
#ifndef REPLAY_SCHEDULE_H
#define REPLAY_SCHEDULE_H

#include "replay/pass_priv.h"

/* A lane at drop times, at some budgets. */
typedef struct lane_plan {
    bool by_head, drop_first;
    int64_t every;
    int lane, n_budget;
    int64_t *budget; /* [n_budget] rising */
    double *lost;    /* [n_budget] over all rows and heads, no row above 1; NAN: greedy */
    int32_t *drop;   /* [n_budget T], NULL: nobody reads it */
    struct lane_plan *next;
} lane_plan;

/* What one pass reads: i32 [n_cell A T]. */
typedef struct plan_fed {
    const pass *reader;
    int32_t *drop;
    struct plan_fed *next;
} plan_fed;

/* Of one layer; used by one thread. */
typedef struct schedules {
    layer_rows rows; /* of the response */
    int n_head, n_kv;
    int64_t n_prompt, n_response;
    double *all; /* f64 [H M] attention of each row to all tokens */
    kvt_arena *memory, *work;
    lane_plan *list;
    plan_fed *fed;
} schedules;

/* schedules_free() it, also where it is all zero. */
KVT_CHECKED kvt_code schedules_open(schedules *s, const truth *t, const layer_feed *f,
                                    kvt_err *err);
/* Solves what the passes that live within the layer read. */
KVT_CHECKED kvt_code schedules_solve(schedules *s, const run *r, int layer, kvt_err *err);
void schedules_free(schedules *s);
/* Shows a pass the steps of the first n_seen tokens, where it reads them. */
void schedules_feed(const schedules *s, const pass *p, kvt_feed *feed, int64_t n_seen);
/* What the best schedules lose at the budgets that the lanes of a pass had, which is through
 * with the layer: into p->best_lost. */
KVT_CHECKED kvt_code schedules_judge(schedules *s, pass *p, int layer, kvt_err *err);

#endif
