/* table_fit.h - tables that are computed from traces, a layer at a time, without an optimiser.
 */
#ifndef TRAIN_TABLE_FIT_H
#define TRAIN_TABLE_FIT_H

#include "train/fit.h"

typedef struct table_spec {
    const char *kind;
    const kvt_ds *ds;
    int n_ds;
    int64_t n_param; /* numbers of a lane */
    void *user;
    /* Checks a trace before its first layer; may be NULL. */
    kvt_code (*check)(void *user, const tracein *s, kvt_err *err);
    /* One layer: begin, each trace in order, then param [G n_param]. */
    kvt_code (*begin)(void *user, kvt_err *err);
    kvt_code (*add)(void *user, const tracein *s, int layer, kvt_arena *work, kvt_err *err);
    kvt_code (*end)(void *user, int layer, float *param, kvt_err *err);
} table_spec;

KVT_CHECKED kvt_code table_run(train_run *run, const table_spec *spec, const fit_tensor *tensor,
                               int n_tensor, kvt_err *err);
KVT_CHECKED kvt_code table_plan(train_run *run, const table_spec *spec, kvt_err *err);

#endif
