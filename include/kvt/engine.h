/* engine.h - the pushed engine: a policy's decisions on one sequence, for any number of budgets.
 *
 * It knows neither files nor models. replay/pass.c drives it from a trace, live/ from a running
 * model, a user's program from anything:
 *
 *   kvt_engine_new(&e, &spec, &err);
 *   for each layer:
 *       kvt_engine_prompt(e, layer, &feed, &err);    learns: step() with the last prompt rows
 *   kvt_engine_decide(e, &err);                      step 0: ranks, shares out, selects
 *   for each response token:
 *       for each layer: kvt_engine_token(e, layer, &feed, &err);
 *       kvt_engine_decide(e, &err);
 *   kvt_engine_held(e, budget, layer, lane, &pos, &n);
 *
 * Layers of a policy whose scope is no larger than a layer are independent: kvt_engine_layer_*
 * runs one layer through its whole life, so that threads can take layers. Under one_ranking only
 * the ranking is computed and a budget is a cut of it. */
#ifndef KVT_ENGINE_H
#define KVT_ENGINE_H

#include "kvt/ctx.h"
#include "kvt/replay.h"

typedef struct kvt_engine kvt_engine;

typedef struct kvt_engine_spec {
    const kvt_use *use;
    const kvt_sequence *seq;
    const int64_t *budget; /* [n_budget] slots per lane, rising */
    int n_budget;
    bool decode;           /* it acts in decode, too */
    int64_t every;         /* decides every K response tokens; at least 1 */
    uint64_t seed;
    const char *trace_digest; /* keys the random streams */
} kvt_engine_spec;

/* One layer's prompt, or one token of it. Views that the policy does not need may be empty. */
typedef struct kvt_feed {
    kvt_view rows;       /* f32 [H Q T'] full-cache softmax rows of the last prompt queries (prompt),
                          * or [H 1 T'] of this token; T' tokens have arrived */
    kvt_view logits;     /* f32 [H Q T'] */
    kvt_view future;     /* f32 [H Q N or T'] rows of later queries, for oracles */
    kvt_view keys, values;        /* f32 [G T' D] */
    kvt_view queries;             /* f32 [H Q D] */
    kvt_view col_sum, col_max;    /* f32 [H N] */
    kvt_view blocks;              /* f32 [H J N] */
    kvt_view query_mean, query_cov, query_freq_abs;
    kvt_view wo_l1, wo_l2;        /* f32 [H T'] */
    kvt_view hidden;              /* f32 [T' E] */
    kvt_view decision;            /* f32 [G T'] */
    kvt_view scores;              /* f32 [A N] */
    kvt_view scores_pinned;       /* u8 [A N] */
} kvt_feed;

KVT_API KVT_CHECKED kvt_code kvt_engine_new(kvt_engine **out, const kvt_engine_spec *spec,
                                            kvt_err *err);
KVT_API void kvt_engine_free(kvt_engine *e);
KVT_API KVT_CHECKED kvt_code kvt_engine_prompt(kvt_engine *e, int layer, const kvt_feed *feed,
                                               kvt_err *err);
KVT_API KVT_CHECKED kvt_code kvt_engine_token(kvt_engine *e, int layer, const kvt_feed *feed,
                                              kvt_err *err);
/* Decides for every layer that was fed since (`layer` -1), or for one. */
KVT_API KVT_CHECKED kvt_code kvt_engine_decide(kvt_engine *e, int layer, kvt_err *err);
/* Positions held by a lane, ascending; borrowed until the next call. */
KVT_API void kvt_engine_held(const kvt_engine *e, int budget, int layer, int lane,
                             const int64_t **pos, int64_t *n);
/* The ranking of a lane at step 0: score [N], pinned [N]; NULL where there is none. */
KVT_API void kvt_engine_ranking(const kvt_engine *e, int layer, int lane, const float **score,
                                const bool **pinned);

#endif
