/* plan_priv.h - what a run is asked for. */
#ifndef REPLAY_PLAN_PRIV_H
#define REPLAY_PLAN_PRIV_H

#include "replay/replay_priv.h"

/* What a policy that keeps by a threshold scored on one trace of the set. */
typedef struct plan_pool {
    bool read;
    float *score; /* [n] of what is not pinned, every lane of the layers that are replayed */
    int64_t n, n_pinned, n_lane;    /* n_lane 0: the trace cannot answer the policy */
    int64_t slots[KVT_BUDGETS_MAX]; /* per lane, at each budget of the run */
} plan_pool;

typedef struct plan_use {
    kvt_use *use;    /* of plan.owned */
    plan_pool *pool; /* [traces of the set], NULL until asked for */
    uint64_t seed;
    bool asked;  /* the user named it: not only a control */
    bool by_all; /* nobody typed its name */
} plan_use;

/* A file of learned weights. */
typedef struct plan_file {
    const char *path; /* the spec's, or a use's */
    kvt_scorer *scorer;
    bool offered; /* to every policy of its kind (--weights) */
    bool slots_said, base_said;
} plan_file;

typedef struct plan {
    const kvt_replay_spec *spec;
    const kvt_ctx *ctx;
    kvt_registry *registry;
    trace_set set;
    kvt_budget budget[KVT_BUDGETS_MAX];
    int n_budget;
    uint64_t metrics; /* bits of kvt_metrics_parse() */
    kvt_use **owned;
    int n_owned;
    plan_use *use; /* controls first; a pass is one of these on one trace */
    int n_use;
    plan_file *file;
    int n_file;
    char left_out[256];          /* policies of "all" that no trace has a probe for */
    char no_file[512];           /* those that read a file which was not named */
    char no_trace[1024];         /* and those that no trace can answer, with the reason */
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

/* ---- plan_ask.c ----------------------------------------------------------------------------
 */

/* Whether a comma list of policies holds that name. */
bool plan_lists(const char *text, const char *name);
/* Whether it decides while decoding: its habit, or what was asked where it has both. */
bool plan_acts_in_decode(const kvt_use *u, kvt_act act);
/* The uses of the run. Files that were offered are open. */
KVT_CHECKED kvt_code plan_ask(plan *p, kvt_err *err);
/* Of "all": takes out what no trace has a probe for, and names what else is missing. The set is
 * open. */
void plan_leave_out(plan *p);

/* ---- plan_cell.c, plan_reason.c ------------------------------------------------------------
 */

/* Budgets in whole slots, rising, equal ones once, each with its name. */
KVT_CHECKED kvt_code plan_cells(const plan *p, pass *x, int trace, const kvt_trace *t,
                                const bool *layers, kvt_err *err);
/* Bytes of the arrays that a pass writes. */
int64_t plan_bytes(const pass *x, const bool *layers);

/* plan_reason.c: into x->reason, "" where it can. */
void plan_reason(const plan *p, pass *x, int trace, kvt_trace *t);
/* Slots per lane of a pass at a budget; layers [L] are those that are replayed. */
int64_t plan_slots(const plan *p, const pass *x, int trace, const bool *layers,
                   const kvt_budget *b);

/* ---- threshold.c ---------------------------------------------------------------------------
 */

/* Finds the threshold of each cell, or a reason. Reads the other traces once a use. */
KVT_CHECKED kvt_code threshold_match(const plan *p, plan_use *u, int trace, pass *x,
                                     kvt_err *err);
void plan_pools_free(plan *p);

/* ---- plan_weights.c ------------------------------------------------------------------------
 */

const char *plan_weights_kind(const kvt_policy *p);
/* Opens the files of the spec; those that uses name. */
KVT_CHECKED kvt_code plan_weights_offered(plan *p, kvt_err *err);
KVT_CHECKED kvt_code plan_weights_named(plan *p, kvt_err *err);
bool plan_weights_offers(const plan *p, const kvt_policy *policy);
/* Finds the file of a pass, or its reason. */
void plan_weights(const plan *p, pass *x, const kvt_trace_info *info);
void plan_weights_close(plan *p);

/* ---- plan_probe.c --------------------------------------------------------------------------
 */

/* Finds the probe of each cell, or a reason. */
void plan_probe(pass *x, const kvt_trace *t);
/* Whether some trace of the run has a probe that the use may read. */
bool plan_probe_anywhere(const plan *p, const kvt_use *u);

#endif
