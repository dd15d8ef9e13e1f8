/* engine.h - the pushed engine: a policy's decisions on one sequence, for any number of
 * budgets.
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
 * Where the policy's scope is no larger than a layer, calls for different layers may come from
 * different threads, and kvt_engine_decide(e, layer) decides for one; kvt_engine_drop() frees
 * it. Under one_ranking only the ranking is computed, once, and a budget is a cut of it. */
#ifndef KVT_ENGINE_H
#define KVT_ENGINE_H

#include "kvt/ctx.h"
#include "kvt/replay.h"
#include "kvt/scorer.h"

typedef struct kvt_engine kvt_engine;

typedef struct kvt_engine_spec {
    const kvt_use *use;
    const kvt_sequence
        *seq; /* copied; what it points to stays until free. N + M tokens at most */
    const int64_t *budget; /* [n_budget] slots per lane, rising; at most KVT_BUDGETS_MAX */
    int n_budget;
    bool decode;   /* it acts in decode, too: stays inside its budget */
    int64_t every; /* decides every K response tokens; at least 1 */
    uint64_t seed;
    const char *trace_digest;  /* keys the random streams */
    const kvt_scorer *weights; /* of weights=, already checked by kvt_use_check_weights(); NULL:
                                * none. Stays until free */
    const int *probe_of;       /* [n_budget] index into kvt_feed.probe; NULL: all 0 */
    const double *threshold;   /* [n_budget] under by_threshold */
    const kvt_scorer *table;   /* of table=, the allocator's; as weights */
} kvt_engine_spec;

/* One layer of a probe, as the engine cuts it for its lanes. */
typedef struct kvt_probe_feed {
    kvt_view attn;    /* f32 [H P N], data NULL: see kvt_probe */
    kvt_view queries; /* f32 [H P D] */
    kvt_view keys;    /* f32 [G P D] */
    kvt_view lse;     /* f32 [H P] */
    kvt_view norm;    /* f32 [P] */
    kvt_view pos;     /* i32 [P] */
    int64_t budget;
    int n_segment;
    const int32_t *segment, *begin, *end, *from; /* as kvt_probe */
} kvt_probe_feed;

/* One layer's prompt, or one token of it. T' tokens have arrived. Views that the policy does
 * not declare may be empty. Borrowed until the next kvt_engine_decide() or _drop() of the
 * layer. */
typedef struct kvt_feed {
    /* f32 [H Q T'] full-cache softmax rows of the last prompt queries; of a token its own row
     * last, and before it those of the queries in front of it where the policy decides anew
     * (kvt_use.again) at this token: the last window() ones. So are logits and queries. */
    kvt_view rows;
    kvt_view logits;           /* f32 [H Q T'] the same before the softmax */
    kvt_view future;           /* f32 [H Q T'] rows of later queries, for oracles; [H Q T]
                                * where they are known of tokens that have not arrived */
    kvt_view future_rest;      /* f32 [H Q D] what tokens behind T' add to their outputs */
    kvt_view keys, values;     /* f32 [G T' D] */
    kvt_view queries;          /* f32 [H Q D] */
    kvt_view col_sum, col_max; /* f32 [H N] */
    kvt_view blocks;           /* f32 [H J N] */
    kvt_view query_mean, query_cov, query_freq_abs;
    kvt_view wo_l1, wo_l2;       /* f32 [H T'] */
    kvt_view hidden;             /* f32 [T' E] */
    kvt_view decision;           /* f32 [G T'] */
    kvt_view decision_weight;    /* f32 [G T'], of joins */
    kvt_view decision_gamma;     /* f32 [G] */
    const kvt_probe_feed *probe; /* of the prompt only */
    int n_probe;
    kvt_view drop_step;     /* i32 [B A T'], B the engine's budgets */
    kvt_view scores;        /* f32 [A N] */
    kvt_view scores_pinned; /* u8 [A N] */
} kvt_feed;

KVT_API KVT_CHECKED kvt_code kvt_engine_new(kvt_engine **out, const kvt_engine_spec *spec,
                                            kvt_err *err);
KVT_API void kvt_engine_free(kvt_engine *e); /* NULL is fine */
KVT_API KVT_CHECKED kvt_code kvt_engine_prompt(kvt_engine *e, int layer, const kvt_feed *feed,
                                               kvt_err *err);
/* What was fed for that layer is gone before it decided (over a whole model layers are read one
 * at a time). Lanes that compete over the model were scored in kvt_engine_prompt(), unless the
 * policy decides while decoding: then score() sees none of the views. */
KVT_API void kvt_engine_forget(kvt_engine *e, int layer);
/* Appends a token and lets its row attend: until the next decision kvt_engine_held() is what
 * that row saw. With drop_first the row attends in the decision: what it saw is held after it.
 */
KVT_API KVT_CHECKED kvt_code kvt_engine_token(kvt_engine *e, int layer, const kvt_feed *feed,
                                              kvt_err *err);
/* Decides for every layer that was fed since (`layer` -1), or for one (scope no larger than a
 * layer). A budget that is refused is no failure: see kvt_engine_refused(). */
KVT_API KVT_CHECKED kvt_code kvt_engine_decide(kvt_engine *e, int layer, kvt_err *err);
/* Frees what a layer holds; it may not be asked for anything afterwards but its refusals. */
KVT_API void kvt_engine_drop(kvt_engine *e, int layer);

/* Positions held by a lane, ascending; borrowed until the next call for that layer. */
KVT_API void kvt_engine_held(const kvt_engine *e, int budget, int layer, int lane,
                             const int64_t **pos, int64_t *n);
/* The scores of a lane at step 0 and what is pinned, [N]; NULL where there was nothing to
 * score. Under one ranking the same for all budgets. */
KVT_API void kvt_engine_ranking(const kvt_engine *e, int budget, int layer, int lane,
                                const float **score, const bool **pinned);
/* u8 [T] by position: always kept by the rule at the lane's last decision. NULL where it acts
 * on the prompt only, or skips. */
KVT_API const uint8_t *kvt_engine_pinned(const kvt_engine *e, int budget, int layer, int lane);
/* One ranking: the order in which tokens go, 0 is the last: pinned ones first, then by falling
 * score, the lower position first among equals. rank i32 [N]. */
KVT_API KVT_CHECKED kvt_code kvt_engine_rank(const kvt_engine *e, int layer, int lane,
                                             int32_t *rank, kvt_err *err);
/* Step at which each token left, [T], -1 never; NULL where the policy acts on the prompt only.
 */
KVT_API const int32_t *kvt_engine_evict_step(const kvt_engine *e, int budget, int layer,
                                             int lane);
/* Where it acts on the prompt only: bit b of [N] is set where budget b keeps that token. */
KVT_API const uint64_t *kvt_engine_kept(const kvt_engine *e, int layer, int lane);

/* What a lane did at one budget. */
typedef struct kvt_engine_count {
    int64_t budget;       /* slots that the allocator gave it */
    int64_t kept, pinned; /* after the decision at the prompt's end */
    int64_t most;         /* slots that its fullest row saw; 0: no row yet */
    int64_t acted;        /* decisions that dropped something */
    int64_t evicted_prefill, evicted_decode;
} kvt_engine_count;
KVT_API kvt_engine_count kvt_engine_counts(const kvt_engine *e, int budget, int layer,
                                           int lane);

enum { KVT_REFUSAL_MAX = 224 };
/* Why a layer's budget was refused, NULL: it was not. `failed`: the policy did something wrong,
 * else its rule is impossible at that budget. */
KVT_API const char *kvt_engine_refused(const kvt_engine *e, int budget, int layer,
                                       bool *failed);
/* The prompt was no longer than the observation window, so that the latest tokens were kept. */
KVT_API bool kvt_engine_kept_latest(const kvt_engine *e, int budget, int layer);
KVT_API bool kvt_engine_drew(const kvt_engine *e, int layer); /* it drew random numbers */
/* What kvt_share.gap() says of a budget, mean over its groups; NAN: nothing. */
KVT_API double kvt_engine_gap(const kvt_engine *e, int budget);
/* Prompt queries that step() gets. */
KVT_API int64_t kvt_use_window(const kvt_use *u, int64_t n_prompt);
/* Kind, model, layers, tensors and their shapes; FORMAT with what, expected and got.
 * model NULL: any. */
KVT_API KVT_CHECKED kvt_code kvt_use_check_weights(const kvt_use *u, const kvt_scorer *s,
                                                   const kvt_geometry *g,
                                                   const kvt_model_id *model,
                                                   const int32_t *layer_id, int n_layer,
                                                   kvt_err *err);
/* The same for the allocator's table=FILE. */
KVT_API KVT_CHECKED kvt_code kvt_use_check_table(const kvt_use *u, const kvt_scorer *s,
                                                 const kvt_geometry *g,
                                                 const kvt_model_id *model,
                                                 const int32_t *layer_id, int n_layer,
                                                 kvt_err *err);

#endif
