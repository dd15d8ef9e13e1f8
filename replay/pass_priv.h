/* pass_priv.h - what pass.c and live.c share: a run over one trace, a thread's memory. */
#ifndef REPLAY_PASS_PRIV_H
#define REPLAY_PASS_PRIV_H

#include "replay/feed_priv.h"
#include "replay/judge_priv.h"

typedef struct run {
    pass *const *list;
    int n;
    kvt_trace *t;
    const kvt_trace_info *info;
    const bool *layers;
    truth *truths; /* [L] */
    feed_wants want;
    bool by_head, output, support, heavy;
    const kvt_ctx *ctx;
    int *done, total; /* layers that are through, for progress */
} run;

static inline bool runs(const pass *p)
{
    return !p->reason[0];
}
/* Acts while the response is written, row by row. */
static inline bool is_live(const pass *p)
{
    return runs(p) && !pass_is_on_top(p) && !pass_is_apart(p);
}
/* pass_room.c: what its metrics ask of the rows of the full cache. */
bool pass_wants_support(const pass *p);
bool pass_wants_heavy(const pass *p);
/* Whether a pass of that growth and scope runs. */
bool pass_any(const run *r, bool top, bool whole);
/* Copies the scores of a lane's decision at the prompt's end. */
KVT_CHECKED kvt_code pass_copy_ranking(pass *p, int layer, int lane, kvt_err *err);

/* Memory of one thread, used by layer after layer. */
typedef struct desk {
    row_block block;
    lane_order *order; /* [n] of each on-top pass, of the lane at hand */
    double *sum;       /* f64 [H T] attention to each token over all response rows */
    double *prompt;    /* f64 [H M] attention of each response row to the whole prompt */
    layer_output whole;
    float *line, *mixed;
    reposition turned; /* where a pass turns its keys */
    kvt_arena *work, *orders;
} desk;

/* Where the layer's keys, queries and values lie. */
static inline reposition_feed turned_feed(const run *r, const layer_feed *f,
                                          const layer_output *whole, int layer)
{
    return (reposition_feed){.keys = &f->all.keys,
                             .queries = &f->all.queries,
                             .values = &f->all.values,
                             .whole = whole,
                             .n_before = f->n_before,
                             .model_layer = r->info->layer_id[layer]};
}

KVT_CHECKED kvt_code desk_init(desk *d, const run *r, kvt_err *err);
void desk_fini(desk *d);

/* All rows of a layer through the passes that live within it. */
KVT_CHECKED kvt_code live_layer(const run *r, layer_feed *f, desk *d, int layer, kvt_err *err);
/* Passes that trade slots over the whole model while they decode. */
KVT_CHECKED kvt_code live_wholes(const run *r, kvt_err *err);
/* join.c: a layer of the passes that average slots; the outputs of all rows lie on the desk. */
KVT_CHECKED kvt_code join_layer(const run *r, const layer_feed *f, desk *d, int layer,
                                kvt_err *err);
/* channels.c: a layer of the passes that drop channels of the keys. */
KVT_CHECKED kvt_code channels_layer(const run *r, const layer_feed *f, desk *d, int layer,
                                    kvt_err *err);
/* STOPPED where the user wants it; from any thread. */
KVT_CHECKED kvt_code pass_stop(const run *r, kvt_err *err);

#endif
