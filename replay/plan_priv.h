/* plan_priv.h - what a run is asked for. */
#ifndef REPLAY_PLAN_PRIV_H
#define REPLAY_PLAN_PRIV_H

#include "replay/replay_priv.h"

typedef struct plan_use {
    kvt_use *use; /* of plan.owned */
    uint64_t seed;
    bool asked; /* the user named it: not only a control */
} plan_use;

typedef struct plan {
    const kvt_replay_spec *spec;
    const kvt_ctx *ctx;
    kvt_registry *registry;
    trace_set set;
    kvt_budget budget[KVT_BUDGETS_MAX];
    int n_budget;
    kvt_use **owned;
    int n_owned;
    plan_use *use; /* controls first; a pass is one of these on one trace */
    int n_use;
    bool layers[KVT_LAYERS_MAX]; /* of the trace at hand */
} plan;

KVT_CHECKED kvt_code plan_open(plan *out, const kvt_replay_spec *spec, const kvt_ctx *ctx,
                               kvt_err *err);
void plan_close(plan *p);
/* Which layers of a trace are replayed. */
KVT_CHECKED kvt_code plan_layers(bool *out, const plan *p, const kvt_trace_info *info,
                                 kvt_err *err);
/* Whether use i % n_use on trace i / n_use is this process's. */
bool plan_in_shard(const plan *p, int64_t i);
/* A pass with its cells named, nothing allocated for running. pass_free() it. */
KVT_CHECKED kvt_code plan_pass(pass **out, const plan *p, const plan_use *u, int trace,
                               kvt_trace *t, kvt_err *err);

#endif
