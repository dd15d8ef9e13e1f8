/* replay_priv.h - what the files of replay/ share beyond the engine.
 *
 *   set.c    the traces of a run, what they have in common, the table of relative positions
 *   rows.c   attention rows of a layer: read, or computed where the trace holds none
 *   truth.c  what the response looks at: remaining mass, its order, sums
 *   judge.c  kept sets against rows: mass lost, output error; judge_made.c rows made again
 *   assign.c the best schedule of irreversible eviction; schedule.c those of a layer
 *   pass.c   one trace through all its passes; live.c those that act row by row, join.c those
 *            that average slots, channels.c those that drop channels of the keys
 *   finish.c what was judged becomes cells and lanes
 *   plan.c   which passes there are: plan_ask.c of which policies, plan_cell.c their budgets
 *            and names, plan_probe.c and plan_weights.c what they read beside the trace,
 *            plan_reason.c what they lack
 *   threshold.c  the threshold that meets a budget on the other traces
 *   replay.c the whole run */
#ifndef REPLAY_PRIV_H
#define REPLAY_PRIV_H

#include "kvt/engine.h"
#include "kvt/metric.h"

/* Where a policy's plug-in has its digest; "" for built-in ones. */
const char *registry_digest(const kvt_registry *r, const kvt_policy *p);

/* Part of every run_id: a change of what a cell means makes old results unequal. */
enum { SEMANTICS = 4 };

/* ---- set.c ---------------------------------------------------------------------------------
 */

/* One trace of a run. What is asked of it before any pass runs is kept, so that it is opened
 * when its turn comes and closed behind it. */
typedef struct set_trace {
    char path[1024], name[128], digest[KVT_DIGEST_TEXT];
    char folder[160]; /* of its results: name and 8 digits of the digest */
    kvt_model_id model;
    char shape[KVT_DIGEST_TEXT]; /* digest of the model's name, heads and layers */
    int64_t n_prompt, n_response, slot_bytes, n_lane;
    bool has_future;
    unsigned probe_kinds; /* bit k: it has a probe of kind k */
} set_trace;

typedef struct trace_set {
    set_trace *trace;
    int n;
    int n_bad; /* traces that cannot be read and are left out */
} trace_set;

/* Reads the heads of all traces; result files are passed over, a trace named twice counts once.
 * One of several that cannot be read is reported and left out, unless `fail_fast`. */
KVT_CHECKED kvt_code set_open(trace_set *out, const char *const *path, int n, bool fail_fast,
                              const kvt_ctx *ctx, kvt_err *err);
void set_close(trace_set *s);
/* Traces with the same model and layers beside trace i that have a future. */
int set_others(const trace_set *s, int i);
/* Whether trace k is another one with the same model and layers. */
bool set_is_peer(const trace_set *s, int i, int k);
/* Digest over those others, for the identity of a pass that reads them; `peers`: with or
 * without a future. */
void set_digest(const trace_set *s, int i, bool peers, char out[KVT_DIGEST_TEXT]);
/* f32 [L G KVT_POSITION_BINS], kvt_free() it: mean future mass by relative position over the
 * others of trace i. */
KVT_CHECKED kvt_code set_positions(float **out, const trace_set *s, int i, size_t cache_bytes,
                                   kvt_err *err);

/* ---- rows.c --------------------------------------------------------------------------------
 */

/* f16 [H Q T] of a layer, queries from..to of the stored ones. */
typedef struct layer_rows {
    const uint16_t *data;
    int64_t n_head, n_query, n_token;
    int64_t head_stride, row_stride; /* elements */
    kvt_view borrowed;
    uint16_t *owned;
} layer_rows;

KVT_CHECKED kvt_code rows_read(layer_rows *out, kvt_trace *t, int layer, int64_t from,
                               int64_t to, kvt_err *err);
/* The same rows before the softmax, f32 [H to-from T], computed in any case; -INFINITY where a
 * query does not see. kvt_free() them. */
KVT_CHECKED kvt_code rows_before(float **out, kvt_trace *t, int layer, int64_t from, int64_t to,
                                 kvt_err *err);
void rows_done(layer_rows *r, kvt_trace *t);

/* ---- truth.c -------------------------------------------------------------------------------
 */

/* The future of one layer, shared by all passes. All sums of halves are exact in doubles. */
enum { HEAVY_MAX = 20 }; /* keys of more than 0.05 of a row */

typedef struct truth {
    int n_head, n_kv;
    int64_t n_prompt, n_response;
    double *head;  /* f64 [H N] sum over the response rows; from future/mean x M without rows */
    double *group; /* f64 [G N] the same, mean over the heads of the group */
    int32_t *order; /* i32 [G N] by falling group, ties by position */
    /* f64 [G N + 1] what the lane's rows and heads do not lose together where the best 0, 1, ..
     * N tokens stay: their mass, and what a row's loss would be above 1 */
    double *best;
    int32_t *head_order; /* i32 [H N], NULL until asked for */
    double *head_best;   /* f64 [H N + 1], NULL until asked for */
    float *future_mean;  /* f32 [H N] of the trace, NULL: not there */
    float *out_size;     /* f32 [H M] L2 norm of the full output, NULL: not asked for */
    int32_t *heavy;      /* i32 [H M HEAVY_MAX] heavy keys of the full rows, -1 behind the last;
                            NULL: not asked for */
    float *support;      /* f32 [H M KVT_SUPPORTS] of the full rows, NULL: not asked for */
} truth;

KVT_CHECKED kvt_code truth_new(truth *out, int n_head, int n_kv, int64_t n_prompt,
                               int64_t n_response, kvt_err *err);
KVT_CHECKED kvt_code truth_finish(truth *t, kvt_err *err); /* group sums and orders from head */
KVT_CHECKED kvt_code truth_by_head(truth *t, kvt_err *err); /* head_order, head_best, once */
/* Ends the loss of every row at 1 in best and head_best. prompt_sum f64 [H M]: attention of the
 * row to the whole prompt. */
void truth_cut(truth *t, const layer_rows *response, const double *prompt_sum);
void truth_free(truth *t);

/* prefix f64 [lanes N + 1], kvt_free() it: best where the best 0, 1, ... tokens of all lanes of
 * the layers together stay. */
KVT_CHECKED kvt_code truth_over_lanes(double **prefix, const truth *truths, const bool *layers,
                                      int n_layer, bool by_head, kvt_err *err);

/* A lane's remaining mass at step 0 and its order: of a kv head, or of a query head. */
static inline const double *truth_mass(const truth *t, int lane, bool by_head)
{
    return (by_head ? t->head : t->group) + lane * t->n_prompt;
}
static inline const double *truth_best(const truth *t, int lane, bool by_head)
{
    return (by_head ? t->head_best : t->best) + lane * (t->n_prompt + 1);
}
static inline const int32_t *truth_order(const truth *t, int lane, bool by_head)
{
    return (by_head ? t->head_order : t->order) + lane * t->n_prompt;
}

/* ---- a pass --------------------------------------------------------------------------------
 */

enum { LANE_METRICS_MAX = 24, REASON_MAX = 256 };

/* A token never left. Steps of all passes at once are most of what a run holds: 2 bytes. */
enum { STAYS = UINT16_MAX };

/* Errors of the output beside out_err. */
enum { OUT_L1, OUT_COS, OUT_UNNORM, OUT_MORE };

/* A budget of a pass. */
typedef struct pass_cell {
    const kvt_budget *asked;
    int64_t tokens;            /* slots per lane; below 1: the rule gives none */
    int probe;                 /* of the trace, -1: none is read */
    double threshold, matched; /* under by_threshold; the mean count that it gave elsewhere */
    kvt_exactness exactness;
    char run_id[KVT_RUN_ID];
    char reason[REASON_MAX]; /* skipped or failed, "": it runs */
    bool failed;
} pass_cell;

/* One policy on one trace at the budgets that are missing. Arrays are filled by layer, each in
 * a fixed place, by any number of threads. A = lanes of a layer, H = query heads of a layer. */
typedef struct pass {
    const kvt_use *use;
    int use_index; /* among the plan's */
    uint64_t seed;
    bool inside, skip, by_head, whole_model; /* growth; SKIP; a lane per query head; scope */
    bool together;                       /* select() decides by the scores of several lanes */
    bool by_score;                       /* the best scores of a lane are what stays */
    bool knows_response;                 /* its probe ran the response: a bound, no policy */
    bool fair;                           /* budgets are bytes */
    bool joins;                          /* slots are averaged: no engine, no mass */
    bool channels;                       /* channels of keys go: the same */
    bool ranked;                         /* one ranking gives all budgets */
    bool output;                         /* output error is asked for */
    uint64_t metrics;                    /* those of kvt_metrics() that are asked for */
    int n_cell, n_layer, n_lane, n_head; /* L, A, H */
    int lane_share; /* lanes that share the cache of a kv head: 1, or its query heads */
    int64_t n_prompt, n_response, every;
    pass_cell *cell;         /* [n_cell] rising */
    char reason[REASON_MAX]; /* why none of it can run, "": it can */
    kvt_engine *engine;
    kvt_exactness exactness;
    kvt_scores *scores;        /* of file=, or NULL */
    const kvt_scorer *weights; /* of weights=, or NULL; the plan's */
    const kvt_scorer *table;   /* of the allocator's table=; as weights */
    bool drew;                 /* random numbers were drawn */
    int64_t oracle_limit;      /* bytes that the best schedule of a lane may take */

    uint64_t *kept;       /* [L A N] on top: bit c, kept by cell c */
    float *score;         /* [L A N] NULL: there is none */
    uint8_t *pinned;      /* [L A N] */
    int32_t *rank;        /* [L A N] one ranking */
    int32_t *cut;         /* [n_cell L A] */
    uint16_t *evict_step; /* [n_cell L A T] STAYS: never; NULL: rank and cut say it */
    float *lost;          /* [n_cell L H M] */
    float *out_err;       /* [n_cell L H M] NULL: not asked for */
    float *out_more;      /* [n_cell L H M OUT_MORE] other errors; NULL: not asked for */
    int8_t *heavy;        /* [n_cell L H M] heavy keys that the row saw; NULL: not asked for */
    float *seen;          /* [n_cell L A M] slots that each row saw */
    double *kept_mass; /* [n_cell L A] without rows: mass of what is kept, sum over the heads */
    double *measure; /* [n_cell L A LANE_METRICS_MAX] sum over decisions of each lane metric */
    int32_t *measured; /* the same extents: over how many */
    kvt_ratio *part;   /* the same extents: sums of numerators and denominators */
    uint64_t *saw; /* [2 n_cell L A words of T bits] what even and odd rows attended to; NULL:
                      nothing asks for it */
    kvt_engine_count *count; /* [n_cell L A] */
    double *best_lost; /* [n_cell L A] of the best schedule, as lost; NAN: none. NULL: on top */
    /* Where the schedule that it reads is only greedy: how far below the best, at most. */
    double plan_gap[KVT_LAYERS_MAX];
    bool plan_greedy[KVT_LAYERS_MAX]; /* the best schedule took more than oracle_limit */
    int64_t *end;                     /* [n_cell L A] slots after the last decision */
    int64_t *lane_bytes;              /* [n_cell L A] NULL: as its slots say */
    int32_t *lane_channels;           /* [n_cell L A] of its keys; NULL: all */
    bool layer_drew[KVT_LAYERS_MAX], layer_scored[KVT_LAYERS_MAX];
    bool layer_odd[KVT_LAYERS_MAX]; /* a channel's score was no number */
    int64_t decisions;              /* slot updates */
} pass;

/* Whether a metric is asked for: its index in kvt_metrics(). */
static inline bool pass_measures(const pass *p, int metric)
{
    return p->metrics >> metric & 1;
}

static inline int64_t pass_lane(const pass *p, int cell, int layer, int lane)
{
    return ((int64_t)cell * p->n_layer + layer) * p->n_lane + lane;
}
static inline int64_t pass_head(const pass *p, int cell, int layer, int head)
{
    return ((int64_t)cell * p->n_layer + layer) * p->n_head + head;
}

/* Words that hold a bit for each token. */
static inline int64_t pass_words(const pass *p)
{
    return (p->n_prompt + p->n_response + 63) / 64;
}

/* It runs in a file of its own: no engine, no slot is lost. */
static inline bool pass_is_apart(const pass *p)
{
    return p->joins || p->channels;
}
/* It acts on the prompt only, and what it keeps stays. */
static inline bool pass_is_on_top(const pass *p)
{
    return !p->inside && !p->skip && !pass_is_apart(p);
}
/* Its rows are made again, so that masking those of the full cache means nothing. */
static inline bool pass_makes_rows(const pass *p)
{
    return pass_is_apart(p) || p->use->traits.cache_positions;
}

/* plan_reason.c: queries that a pass learns from with response row `row`: 1, or a window of
 * them where it decides anew; prompt queries that all its decisions together go back to. */
int64_t pass_queries(const pass *p, int64_t row);
int64_t pass_window(const pass *p);

/* Whether a use finds its threshold by the other traces of the set. */
static inline bool threshold_is_matched(const kvt_use *u)
{
    return u->traits.by_threshold && !u->traits.own_threshold && !u->own.threshold[0];
}

/* ---- support.c -----------------------------------------------------------------------------
 */

/* out [KVT_SUPPORTS] = fewest keys that hold 0.9, 0.95, 0.99 of the row, f16 [n] of values from
 * 0 to 1; NAN where the row is 0. */
void support_of(float *out, const uint16_t *row, int64_t n);
/* token [HEAVY_MAX] = keys with more than 0.05 of the row, -1 behind the last. */
void support_heavy(int32_t *token, const uint16_t *row, int64_t n);

/* ---- channels.c ----------------------------------------------------------------------------
 */

/* Gives each cell of such a pass that leaves none its reason. */
void channels_check(pass *x, int64_t n_dim);

/* ---- measure.c -----------------------------------------------------------------------------
 */

/* Metrics of lanes (lane(), ratio(), turn()): their index in kvt_metrics(), at most
 * LANE_METRICS_MAX. */
bool measure_is_lane(const kvt_metric *m);
int measure_lane_metrics(int out[LANE_METRICS_MAX]);
/* Type-7 quantile of x [n], which is put into another order; NAN for n = 0. */
double measure_quantile(double *x, int64_t n, double q);

/* ---- pass.c, finish.c, plan.c --------------------------------------------------------------
 */

typedef struct run_times {
    double read, rank, judge, write;
} run_times;

/* Runs all passes of a trace; each is filled, or has its reason. */
KVT_CHECKED kvt_code pass_run(pass *const *list, int n, kvt_trace *t, const bool *layers,
                              truth *truths, run_times *times, const kvt_ctx *ctx,
                              kvt_err *err);
KVT_CHECKED kvt_code pass_make(pass *p, const kvt_trace_info *info,
                               kvt_err *err); /* its arrays */
void pass_free(pass *p);                      /* NULL is fine */

/* The result of a pass. `layers` [L of the trace]; truths as pass_run() left them; best from
 * truth_over_lanes(), NULL where the pass is not compared with the oracle. */
KVT_CHECKED kvt_code finish_pass(kvt_result **out, const pass *p, const kvt_trace_info *info,
                                 const bool *layers, const truth *truths, const double *best,
                                 kvt_rule rule, const kvt_ctx *ctx, kvt_err *err);

#endif
