/* judge_priv.h - kept sets against rows: what pass.c hands to judge.c, judge_row.c,
 * judge_lane.c, and what those share that make rows again. */
#ifndef REPLAY_JUDGE_PRIV_H
#define REPLAY_JUDGE_PRIV_H

#include "replay/replay_priv.h"

/* Outputs over all tokens, for passes that are judged row by row. */
typedef struct layer_output {
    float *full; /* f32 [H M D] sum of p v */
    double *sum; /* f64 [H M] sum of p */
} layer_output;

/* ---- judge_made.c --------------------------------------------------------------------------
 */

/* Memory for a row that is made again. */
typedef struct made_row {
    uint16_t *half;     /* f16 [T] */
    float *row, *mixed; /* f32 [T], [D] */
    void *rows;         /* of rows_head() */
} made_row;

/* What it sees: n keys side by side, the newest last, and where their values lie. */
typedef struct made_slots {
    const float *query, *key, *value; /* f32 [D], [n D] */
    const int64_t *pos;               /* [n] value of slot s: at pos[s] value_stride */
    int64_t value_stride, n;
} made_slots;

bool made_row_new(made_row *r, int64_t n_token, int64_t n_dim, kvt_arena *memory);
/* Output errors of response row m of a query head, which attends to these slots. */
void judge_made(const made_row *r, pass *p, int cell, int layer, int head, int64_t m,
                const made_slots *s, const kvt_geometry *g, const layer_output *whole);

/* ---- reposition.c --------------------------------------------------------------------------
 */

/* Memory of a thread for rows whose keys take the position of their slot. */
typedef struct reposition {
    const kvt_geometry *geometry;
    kvt_arena *memory;
    double *freq; /* [D / 2] of the layer at hand */
    float *key;   /* f32 [T D] turned */
    int64_t *pos; /* [T] */
    made_row made;
} reposition;

/* One layer, all tokens. */
typedef struct reposition_feed {
    const kvt_view *keys, *queries, *values; /* f32 [G T D], [H Q D], [G T D] */
    const layer_output *whole;
    int64_t n_before; /* stored queries of the prompt */
    int model_layer;
} reposition_feed;

static inline bool repositions(const pass *p)
{
    return p->use->traits.cache_positions && p->out_err;
}
KVT_CHECKED kvt_code reposition_new(reposition *r, const kvt_geometry *g, int64_t n_token,
                                    kvt_err *err);
void reposition_free(reposition *r);
void reposition_begin(reposition *r, const reposition_feed *f); /* a layer */
/* Output error of the heads of a lane in response row m, which saw the n slots `pos`. */
void reposition_row(reposition *r, const reposition_feed *f, pass *p, int cell, int layer,
                    int lane, const int64_t *pos, int64_t n, int64_t m);
/* The same of all rows, lanes and cells of a pass on top. */
void reposition_top(reposition *r, const reposition_feed *f, pass *p, int layer);

/* ---- rows ----------------------------------------------------------------------------------
 */

/* Up to sixteen response rows of one query head, turned. */
typedef struct row_block {
    int head;
    int64_t first, n_row;                   /* response rows first..first + n_row - 1 */
    int64_t n_prompt, n_token, n_dim;       /* n_dim 0: no output error */
    float *turned;                          /* f32 [T 16] rows beyond the last are 0 */
    const float *value;                     /* f32 [T D] */
    float *full, *late, *kept;              /* f32 [16 D] p v over all, response, kept tokens */
    double sum[16], late_sum[16], left[16]; /* p over the same */
    float *lost;                            /* f32 [cells 16] before the cut at 1 */
    float prompt[16]; /* p over the prompt, exact below 1, where `summed` says so */
    bool summed;
    int32_t *token; /* [N] scratch */
} row_block;

KVT_CHECKED kvt_code row_block_new(row_block *b, int64_t n_prompt, int64_t n_token,
                                   int64_t n_dim, kvt_err *err);
void row_block_free(row_block *b);
/* token_sum f64 [T] += sums over the rows, NULL: not asked for. value NULL: no output error. */
void row_block_fill(row_block *b, double *token_sum, const layer_rows *rows, int head,
                    int64_t first, const float *value);
/* prompt_sum f64 [n_row] the attention of the rows to the whole prompt. Behind judge_block(),
 * which often adds it up. */
void row_block_prompt(const row_block *b, double *prompt_sum);
void row_block_output(const row_block *b, layer_output *out, int64_t n_row);
void row_block_size(const row_block *b, float *size); /* [n_row] L2 norms of full outputs */

/* In which order a lane's tokens go, for all budgets of a pass. */
typedef struct lane_order {
    const uint64_t *kept; /* [N] masks */
    bool nested;          /* larger budgets keep all that smaller ones keep */
    int32_t *bucket;      /* [N] tokens that fewest budgets keep first */
    int64_t start[KVT_BUDGETS_MAX + 2];
    int32_t *rank;    /* [N] tokens of the ranking, best first, where outputs are judged; NULL:
                         there is none */
    uint8_t *of_rank; /* [N] scratch: the bucket of each rank */
    const int32_t *cut; /* with it: how many of them a cell keeps */
} lane_order;

bool lane_order_new(lane_order *o, int64_t n_prompt, bool ranked, kvt_arena *work);
void lane_order_fill(lane_order *o, const pass *p, int layer, int lane);

/* On top: mass lost and output error of the block's rows at every cell. */
void judge_block(pass *p, int layer, row_block *b, const lane_order *o);
/* Lane metrics and kept mass of an on-top pass. */
KVT_CHECKED kvt_code judge_lanes(pass *p, int layer, const truth *t, kvt_arena *work,
                                 kvt_err *err);

/* Inside and SKIP: one response row over what each lane holds. */
typedef struct row_job {
    const float *rows; /* f32 [H T'] of the row */
    int64_t head_stride, row, n_arrived;
    const kvt_view *values; /* f32 [G T D], data NULL: not asked for */
    const layer_output *whole;
    const int32_t *heavy; /* of the truth, or NULL */
    float *line, *mixed;  /* scratch [H T], [H D] */
    reposition *turned;   /* where a pass turns its keys: its memory, and the layer */
    const reposition_feed *turned_feed;
} row_job;
void judge_row(pass *p, int layer, const row_job *j);

/* Lane metrics of an inside pass over what its lanes hold. Arrays are [A stride], of query
 * heads or of kv heads. */
typedef struct step_job {
    int64_t step, n_arrived, stride;
    const double *left_head, *left_group;
    const int32_t *order_head, *order_group;
    const truth *truth;
    kvt_arena *work;
} step_job;
KVT_CHECKED kvt_code judge_step(pass *p, int layer, const step_job *s, kvt_err *err);

/* What a row of a lane attended to, beside what the row before it did. */
void judge_turn(pass *p, int cell, int layer, int lane, int64_t row, const int64_t *pos,
                int64_t n);

/* How many of its heavy keys each head of that lane saw: behind judge_turn(). */
void judge_heavy(pass *p, int cell, int layer, int lane, int64_t row, const int32_t *heavy);

/* |kept / its mass - full / its mass| / |full / its mass|, NAN where one has no mass. */
float judge_relative(const float *kept, double kept_sum, const float *full, double full_sum,
                     int64_t n);
/* Puts all errors of an output that are asked for at [n_cell L H M] place `at`. kept [n] is the
 * sum of p v over what is held, full over all. */
void judge_output(pass *p, int64_t at, const float *kept, double kept_sum, const float *full,
                  double full_sum, int64_t n);

#endif
