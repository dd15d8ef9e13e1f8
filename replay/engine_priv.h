/* engine_priv.h - what the files of the engine share.
 *
 *   engine.c  the pushed calls: prompt, token, decide
 *   look.c    what it holds, found and refused
 *   fill.c    a kvt_lane from what was fed: whole, or gathered over the slots that are left
 *   weights.c learned weights: whether they fit, what a lane sees of them
 *   turn.c    a lane in a decision: its marks before, what is dropped after
 *   score.c   scores of the lanes of a decision; refusals
 *   choose.c  one decision: share out, select
 *
 * A layer is used by one thread at a time and owns its memory, so that threads can take layers.
 */
#ifndef REPLAY_ENGINE_PRIV_H
#define REPLAY_ENGINE_PRIV_H

#include "kvt/engine.h"

/* A lane at one budget, where the policy acts in decode (or skips). */
typedef struct engine_lane {
    int64_t n_slot;
    int64_t *pos; /* [S] rising; under SKIP what the last row saw */
    float *mark;  /* [S slot_width] */
    void *state;  /* [state_size] */
    float *row;   /* f32 [H S] the last row over these slots, NULL unless attn is needed */
    int32_t *evict_step; /* [T] -1: still there */
    uint8_t *pinned;     /* [T] by position, at the last decision */
    uint64_t rng[KVT_RNG_WORDS];
    bool begun;
} engine_lane;

typedef struct engine_layer {
    kvt_arena *memory, *work, *hook; /* until dropped; a decision's; a hook's */
    kvt_feed feed;                   /* borrowed until the next decision */
    int64_t n_arrived, step;
    bool fed, pending;   /* the prompt came; something came since the last decision */
    float *mark;         /* [A N slot_width] learned from the prompt, shared by all budgets */
    void *state;         /* [A state_size] */
    uint64_t *rng;       /* [A KVT_RNG_WORDS] */
    float *score;        /* [n_score A N] of the decision at the prompt's end */
    bool *pinned;        /* [n_score A N] */
    bool *ranked;        /* [n_score] */
    uint64_t *kept;      /* [A N] bit b: kept at budget b, where it acts on the prompt only */
    engine_lane *lane;   /* [n_budget A] where it acts in decode or skips, else NULL */
    kvt_engine_count *n; /* [n_budget A] */
    char (*refusal)[KVT_REFUSAL_MAX]; /* [n_budget] "": none */
    bool *failed, *recent;            /* [n_budget] failed; the latest kept (C005) */
    int64_t *held;                    /* [T] what kvt_engine_held() lends */
    bool drew;                        /* a random number was drawn */
} engine_layer;

struct kvt_engine {
    const kvt_use *use;
    const kvt_policy *policy;
    kvt_traits traits;     /* of the use */
    kvt_scope score_scope; /* of the policy alone: what select() sees together */
    kvt_sequence seq;
    kvt_geometry geometry;
    int64_t *budget; /* [n_budget] */
    int n_budget;
    bool decode, ranking; /* acts in decode; one ranking serves all budgets */
    int64_t every, n_prompt, n_token;
    int n_layer, n_lane, n_head, n_kv; /* L; A; query heads of a lane; kv heads */
    int slot_width;
    int n_score; /* rankings at the prompt's end: 1, or one for each budget */
    size_t state_size;
    uint64_t seed;
    char trace_digest[64];
    int64_t *identity;        /* [T] 0, 1, 2, ... */
    const kvt_scorer *scorer; /* of weights=, or NULL */
    kvt_view *weights;        /* [n_weight] its tensors, as in the policy's table */
    int n_weight;
    int *probe_of;     /* [n_budget] which of the feed's probes; NULL: the first */
    double *threshold; /* [n_budget] NULL: none */
    engine_layer *layer;
};

/* One lane in a decision: who it is, its view, what was found. */
typedef struct engine_turn {
    int layer, lane;
    kvt_lane view;
    float *score;
    bool *pinned, *keep;
    int64_t n_pinned;
} engine_turn;

static inline engine_lane *engine_lane_at(const kvt_engine *e, int budget, int layer, int lane)
{
    return e->layer[layer].lane + (int64_t)budget * e->n_lane + lane;
}

static inline kvt_engine_count *engine_count_at(const kvt_engine *e, int budget, int layer,
                                                int lane)
{
    return e->layer[layer].n + (int64_t)budget * e->n_lane + lane;
}

/* Where the scores of a lane at the prompt's end lie; budget -1: the one ranking. */
static inline int64_t engine_score_at(const kvt_engine *e, int budget, int lane)
{
    return ((int64_t)(e->ranking || budget < 0 ? 0 : budget) * e->n_lane + lane) * e->n_prompt;
}

/* ---- fill.c --------------------------------------------------------------------------------
 */

/* Fills `out` for the lane over the slots `pos` [n_slot]; all of them where n_slot is what has
 * arrived. Gathered copies are taken from the layer's work arena. budget -1: of all budgets
 * together, which see a probe only where it is the same one. */
KVT_CHECKED kvt_code engine_fill(const kvt_engine *e, kvt_lane *out, int budget, int layer,
                                 int lane, const int64_t *pos, int64_t n_slot, kvt_err *err);
/* Whether all budgets read the same probe. */
bool engine_one_probe(const kvt_engine *e);
/* The newest row over the slots of a lane, renormalised where something is missing, into
 * out f32 [H n_slot]. */
void engine_row(const kvt_engine *e, float *out, int layer, int lane, const int64_t *pos,
                int64_t n_slot);

/* ---- weights.c -----------------------------------------------------------------------------
 */

/* The policy's tensors, once a run; s NULL: none. */
KVT_CHECKED kvt_code engine_weights(kvt_engine *e, const kvt_scorer *s, kvt_err *err);
KVT_CHECKED kvt_code engine_fill_weights(const kvt_engine *e, kvt_lane *out, int layer,
                                         int lane, kvt_err *err);

/* ---- turn.c --------------------------------------------------------------------------------
 */

engine_turn *turn_new(kvt_engine *e, const int *layer, int n_layer, kvt_arena *work);
/* A lane at the end of the prompt, with marks of its own where a budget has them (-1: none). */
KVT_CHECKED kvt_code turn_start(kvt_engine *e, engine_turn *t, int budget, kvt_err *err);
/* A lane of the model that was scored with its layer's prompt. */
KVT_CHECKED kvt_code turn_scored(kvt_engine *e, engine_turn *t, int budget, kvt_err *err);
/* A lane in the middle of its life. */
KVT_CHECKED kvt_code turn_resume(kvt_engine *e, engine_turn *t, int budget, kvt_err *err);
bool turn_keep(kvt_engine *e, engine_turn *turn, int n); /* room for what is kept */
/* Drops what was not kept: slots, marks; counts it. */
void turn_evict(kvt_engine *e, int budget, const engine_turn *t);

/* ---- score.c -------------------------------------------------------------------------------
 */

void engine_refuse(kvt_engine *e, int budget, const int *layer, int n_layer, bool failed,
                   const char *fmt, ...) KVT_PRINTF(6, 7);
bool engine_is_refused(const kvt_engine *e, int budget, const int *layer, int n_layer);
/* Refuses a budget that the policy's rule cannot work with, before anything is scored. */
void engine_check_fit(kvt_engine *e, int budget, const int *layer, int n_layer);
/* Scores a group at a budget, -1: once for all; false where it is refused with that. */
bool engine_score(kvt_engine *e, engine_turn *turn, int n, int budget, const int *layer,
                  int n_layer);
/* Whether lanes are scored when their layer's prompt comes; scores them. */
bool engine_scores_early(const kvt_engine *e);
KVT_CHECKED kvt_code engine_score_early(kvt_engine *e, int layer, kvt_err *err);

/* ---- choose.c ------------------------------------------------------------------------------
 */

/* Scores the lanes of some layers once and cuts at every budget. */
KVT_CHECKED kvt_code engine_rank(kvt_engine *e, const int *layer, int n_layer, kvt_err *err);
/* Decides at one budget for some layers that are seen together. */
KVT_CHECKED kvt_code engine_choose(kvt_engine *e, int budget, const int *layer, int n_layer,
                                   kvt_err *err);
/* Under SKIP: which slots the newest row of a lane sees. */
KVT_CHECKED kvt_code engine_skip(kvt_engine *e, int budget, int layer, int lane, kvt_err *err);

#endif
