/* engine_priv.h - what the files of the engine share.
 *
 *   engine.c  the pushed calls: prompt, token, decide
 *   again.c   decisions anew of policies of the prompt only (every=K)
 *   engine_memory.c  what a layer holds
 *   look.c    what it holds, found and refused
 *   fill.c    a kvt_lane from what was fed: whole, or gathered over the slots that are left
 *   weights.c learned weights: whether they fit, what a lane sees of them
 *   stage.c   the hooks of a policy, and of the base that scores in front of it
 *   turn.c    a lane in a decision: its marks before, what is dropped after
 *   score.c   scores of the lanes of a decision; refusals
 *   choose.c  one decision: share out, select
 *
 * A layer is used by one thread at a time and owns its memory, so that threads can take layers.
 */
#ifndef REPLAY_ENGINE_PRIV_H
#define REPLAY_ENGINE_PRIV_H

#include "kvt/engine.h"

/* What a base remembers of a lane: marks [S base_width], state [base_state]. */
typedef struct engine_memo {
    float *mark;
    void *state;
} engine_memo;

/* The tensors of a file of learned weights, as in the table that asks for them. */
typedef struct engine_table {
    const kvt_scorer *scorer; /* NULL: there is none */
    kvt_view *view;           /* [n] */
    int n;
} engine_table;

/* What the allocator says of its own sharing out at a budget, over groups of lanes. */
typedef struct engine_gap {
    double sum;
    int n;
} engine_gap;

/* A lane at one budget, where the policy acts in decode (or skips). */
typedef struct engine_lane {
    int64_t n_slot;
    int64_t *pos; /* [S] rising; under SKIP what the last row saw */
    float *mark;  /* [S slot_width] */
    void *state;  /* [state_size] */
    engine_memo base;
    float *row; /* f32 [H S] the last row over these slots, NULL unless attn is needed */
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
    engine_memo base;    /* the same of the base: [A N base_width], [A base_state] */
    uint64_t *rng;       /* [A KVT_RNG_WORDS] */
    float *score;        /* [n_score A N] of the decision at the prompt's end */
    bool *pinned;        /* [n_score A N] */
    float *share_mark;   /* [n_score A N mark_width] what learn() wrote, NULL: there is none */
    bool *ranked;        /* [n_score] */
    int32_t *order;      /* [A N] of the one ranking: what is pinned, then by falling score */
    bool ordered;        /* it is there */
    uint64_t *kept;      /* [A N] bit b: kept at budget b, where it acts on the prompt only */
    engine_lane *lane;   /* [n_budget A] where it acts in decode or skips, else NULL */
    kvt_engine_count *n; /* [n_budget A] */
    char (*refusal)[KVT_REFUSAL_MAX]; /* [n_budget] "": none */
    bool *failed, *recent;            /* [n_budget] failed; the latest kept (C005) */
    engine_gap *gap;                  /* [n_budget] */
    int64_t *held;                    /* [T] what kvt_engine_held() lends */
    bool drew;                        /* a random number was drawn */
} engine_layer;

struct kvt_engine {
    const kvt_use *use;
    const kvt_policy *policy;
    const kvt_use *base;   /* the policy that scores first, or NULL */
    kvt_traits traits;     /* of the use */
    kvt_scope score_scope; /* of the policy alone: what select() sees together */
    kvt_sequence seq;
    kvt_geometry geometry;
    int64_t *budget; /* [n_budget] */
    int n_budget;
    bool decode, ranking; /* acts in decode; one ranking serves all budgets */
    int64_t every, n_prompt, n_token;
    int n_layer, n_lane, n_head, n_kv; /* L; A; query heads of a lane; kv heads */
    int slot_width, base_width;
    int n_score; /* rankings at the prompt's end: 1, or one for each budget */
    size_t state_size, base_state;
    uint64_t seed;
    char trace_digest[64];
    int64_t *identity;           /* [T] 0, 1, 2, ... */
    engine_table weights, table; /* of the policy; of its allocator */
    const kvt_share *learner;    /* the allocator, where it learns of each lane; or NULL */
    int *probe_of;               /* [n_budget] which of the feed's probes; NULL: the first */
    double *threshold;           /* [n_budget] NULL: none */
    engine_layer *layer;
};

/* One lane in a decision: who it is, its view, what was found. */
typedef struct engine_turn {
    int layer, lane;
    kvt_lane view;
    engine_memo base;
    double odd_value; /* the score that is not finite, */
    bool odd_base;    /* which is the base's */
    float *score, *share_mark;
    bool *pinned, *keep;
    int64_t n_pinned;
    const int32_t *order; /* what is kept is its first n_kept; NULL: `keep` says */
    int64_t n_kept;
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

/* ---- engine_memory.c -----------------------------------------------------------------------
 */

/* Arenas take blocks as they need them; this only bounds a runaway. */
#define ENGINE_ARENA_LIMIT ((size_t)1 << 40)

bool engine_is_per_budget(const kvt_engine *e); /* a lane is another one at each budget */
bool engine_make_layer(kvt_engine *e, engine_layer *l); /* false: no memory */

/* ---- fill.c --------------------------------------------------------------------------------
 */

/* Fills `out` for the lane over the slots `pos` [n_slot]; all of them where n_slot is what has
 * arrived. Gathered copies are taken from the layer's work arena. budget -1: of all budgets
 * together, which see a probe only where it is the same one. */
KVT_CHECKED kvt_code engine_fill(const kvt_engine *e, kvt_lane *out, int budget, int layer,
                                 int lane, const int64_t *pos, int64_t n_slot, kvt_err *err);
/* Whether all budgets read the same probe. */
bool engine_one_probe(const kvt_engine *e);
/* The rows that were fed over the slots of a lane, each renormalised where something is
 * missing, into out f32 [H Q n_slot]; Q is 1 but where a policy decides anew. */
void engine_rows(const kvt_engine *e, float *out, int layer, int lane, const int64_t *pos,
                 int64_t n_slot);

/* ---- weights.c -----------------------------------------------------------------------------
 */

/* The tensors that a table (ended by {0}, or NULL) asks for, once a run; s NULL: none. */
KVT_CHECKED kvt_code engine_tensors(engine_table *out, const kvt_weight *list,
                                    const kvt_scorer *s, kvt_err *err);
/* A lane's part of them. */
KVT_CHECKED kvt_code engine_fill_tensors(const kvt_engine *e, const engine_table *t,
                                         const kvt_view **out, int layer, int lane,
                                         kvt_err *err);

/* ---- stage.c -------------------------------------------------------------------------------
 */

bool stage_has_window(const kvt_engine *e); /* one of the two has */
bool stage_learns(const kvt_engine *e);     /* one of the two has step() */
void stage_last(kvt_view *v, int64_t n);    /* the last n queries of a view [H Q ...] */
/* step(), begin() and score() of the base, then of the policy; `memo` is the base's of this
 * lane. `windowed`: the views hold a window of queries, of which each gets its own. */
void stage_step(const kvt_engine *e, kvt_lane *view, const engine_memo *memo, bool windowed);
void stage_begin(const kvt_engine *e, kvt_lane *view, const engine_memo *memo);
/* Sets `odd` to the slot whose score is neither pinned nor finite, -1: none. False: no memory.
 */
bool stage_score(kvt_engine *e, engine_turn *t, bool windowed, int64_t *odd);

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
/* The order in which budgets cut lanes of one ranking. False: no memory. */
bool turn_order(kvt_engine *e, engine_turn *turn, int n);
int64_t turn_kept(const engine_turn *t); /* slots that are kept */
/* again.c: clears what a lane remembers and has it learn from the last queries over the slots
 * that are left, as at the end of the prompt. */
KVT_CHECKED kvt_code again_learn(kvt_engine *e, engine_turn *t, int budget, kvt_err *err);
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
/* Under SKIP: begin() at the end of the prompt; which slots the newest row of a lane sees. */
KVT_CHECKED kvt_code engine_skip_begin(kvt_engine *e, int budget, int layer, int lane,
                                       kvt_err *err);
KVT_CHECKED kvt_code engine_skip(kvt_engine *e, int budget, int layer, int lane, kvt_err *err);

#endif
