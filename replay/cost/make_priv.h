/* make_priv.h - what a table of costs is made of, between the files that make it.
 *
 *   make_uses.c   models and policies, each once
 *   make_plan.c   policies at budgets, or cells, into groups and items
 *   make_row.c    one item into its rows
 *   make.c        the call
 */
#ifndef REPLAY_COST_MAKE_PRIV_H
#define REPLAY_COST_MAKE_PRIV_H

#include "replay/cost/cost_priv.h"

/* A model, its usual draft beside it. */
typedef struct make_model {
    const char *trace_path; /* whose model it is; NULL: the spec's */
    kvt_cost_geometry geometry, draft;
    bool has_draft;
} make_model;

/* A policy in use; NULL where it cannot be read, and why. */
typedef struct make_use {
    kvt_use *use;
    const char *text; /* of a result; NULL: asked for */
    char why[256];
} make_use;

/* A trace (or none) at a length: its items stand together. */
typedef struct make_group {
    const make_model *model;
    const kvt_result *trace; /* any result of it; NULL: none */
    int64_t n_prompt, n_response;
    int64_t first_item, n_item, first_row;
} make_group;

/* A policy at a budget in a group: one row for each batch, machine and profile. */
typedef struct make_item {
    int group, use;
    int64_t budget; /* slots */
    char asked[32];
    const kvt_result *result; /* NULL: slots by the policy's own rule */
    int cell;
    int64_t order; /* as asked */
} make_item;

typedef struct make {
    const kvt_cost_spec *spec;
    const kvt_cost_profile *profile; /* [n_profile] */
    int n_profile;
    const int64_t *batch; /* [n_batch] */
    int n_batch;
    make_model **model;
    int n_model;
    make_use *use; /* use[0] is full */
    int n_use;
    kvt_published *constants; /* [n_use n_machine n_profile] */
    make_group *group;
    int n_group;
    make_item *item;
    int64_t n_item;
    int64_t n_row;
} make;

/* Adds a model, `given` or that of a trace. */
KVT_CHECKED kvt_code make_add_model(make *m, const kvt_cost_geometry *given,
                                    const char *trace_path, kvt_err *err);
/* The model of a result's trace. */
KVT_CHECKED kvt_code make_find_model(const make_model **out, make *m, const kvt_result *r,
                                     kvt_err *err);
/* Adds a policy unless it is there: *at is its place. One of a result that cannot be read any
 * more keeps the reason. */
KVT_CHECKED kvt_code make_add_use(int *at, make *m, const char *text, bool of_result,
                                  kvt_err *err);
KVT_CHECKED kvt_code make_add_list(make *m, const char *text, kvt_err *err);

/* Everything that the rows need; make_close() in any case. */
KVT_CHECKED kvt_code make_plan(make *m, const kvt_cost_spec *spec, kvt_err *err);
void make_close(make *m);
/* Rows of one item, each at its place in `row`. Runs beside others; allocates
 * nothing but the scratch of an allocator that is asked for its shares. */
void make_rows(kvt_cost_row *row, const make *m, const make_item *x);

static inline int make_per_item(const make *m)
{
    return m->spec->n_machine * m->n_profile;
}

#endif
