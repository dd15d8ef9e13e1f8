/* lookahead_train.h - the run that LookaheadKV and Judge Q share: parameters, data, evaluation.
 *
 *   lookahead_train.c  the steps
 *   lookahead_data.c   prompts from traces, the start of the embeddings
 *   lookahead_eval.c   held-out loss, recall, lost mass
 *   lookahead_save.c   the adapter's file */
#ifndef TRAIN_LOOKAHEAD_TRAIN_H
#define TRAIN_LOOKAHEAD_TRAIN_H

#include "capture/weights.h"
#include "train/lookahead.h"
#include "train/train_priv.h"

enum { LOOK_MAPS_ALL, LOOK_MAPS_QV, LOOK_MAPS_QK, LOOK_MAPS_QKV, LOOK_MAPS_NONE };
enum { LOOK_INIT_RESPONSE, LOOK_INIT_RANDOM };
enum { LOOK_TARGET_MEAN, LOOK_TARGET_MAX };
enum { LOOK_OVER_SEQUENCE, LOOK_OVER_PROMPT };
enum { LOOK_CHUNK = 8 }; /* most samples whose rows are stacked */

typedef struct lookahead_params {
    int64_t tokens, rank, batch, epochs, steps, eval_every, eval_traces;
    double scale, rate_embed, rate_lora, warmup, clip;
    int maps, init, target, over;
    bool half;
} lookahead_params;

/* A prompt in memory: halves [L G N D], f32 [L H N]. */
typedef struct look_data {
    look_sample sample;
    uint16_t *k, *v;
    float *target, *mean; /* mean: of /future/mean, for the lost mass; may be target */
    int64_t cap;          /* tokens that there is room for */
} look_data;

typedef struct look_run {
    train_run *run;
    const lookahead_params *params;
    const kvt_geometry *geometry;
    look_layout layout;
    look_room room;
    look_layer *layer;
    look_pass *pass;
    float *param, *grad, *m, *v; /* [n_param] */
    look_data data[LOOK_CHUNK];
    int32_t *order;      /* [n_trace] */
    int64_t order_epoch; /* -1: none yet */
    int64_t n_step;
    double
        sum[4]; /* loss since the last row, its steps, the first step's loss, the last row's */
} look_run;

extern const kvt_choice look_inits[2], look_targets[2];

/* kind: "lookaheadkv" or "judgeq". */
KVT_CHECKED kvt_code lookahead_run(train_run *run, look_loss loss, const char *kind,
                                   kvt_err *err);
KVT_CHECKED kvt_code lookahead_plan(train_run *run, look_loss loss, kvt_err *err);

/* Weights whose matrices are f32 as the pass wants them; layer [n_layer]. */
void look_model_of(look_model *out, look_layer *layer, const kvt_weights *w);

/* Room for a prompt of n tokens; mean: /future/mean too, where the target is another. */
KVT_CHECKED kvt_code look_data_new(look_data *d, const look_run *r, int64_t n, kvt_err *err);
void look_data_free(look_data *d);
KVT_CHECKED kvt_code look_data_read(look_data *d, const look_run *r, const train_trace *t,
                                    bool heldout, kvt_err *err);
int64_t look_data_bytes(const kvt_geometry *g, int64_t n_prompt);
/* The embeddings and A at their start; B is 0. */
KVT_CHECKED kvt_code look_begin(look_run *r, kvt_err *err);

/* Loss, recall and lost mass at 10 % kept, means over the held-out traces (eval_traces of
 * them).
 */
KVT_CHECKED kvt_code look_evaluate(look_run *r, train_row *row, kvt_err *err);

KVT_CHECKED kvt_code look_save(const look_run *r, const char *kind, kvt_err *err);

/* How long and how it runs: the end of every table of lookahead_params. */
/* clang-format off */
#define LOOK_RUN_PARAMS \
    KVT_PARAM(lookahead_params, batch, 4, 1, 1024, "prompts", "prompts of a step"), \
    KVT_PARAM(lookahead_params, epochs, 3, 1, 1000, "", "passes over the traces, where steps is 0"), \
    KVT_PARAM(lookahead_params, steps, 0, 0, 1e7, "steps", "steps; 0: as many as the epochs need"), \
    KVT_PARAM(lookahead_params, warmup, 0.05, 0, 1, "frac", "share of the steps in which the rate rises"), \
    KVT_PARAM(lookahead_params, clip, 1, 0, 1e6, "", "largest norm of the gradient; 0: any"), \
    KVT_PARAM(lookahead_params, eval_every, 50, 1, 1e7, "steps", "steps between rows of the curve"), \
    KVT_PARAM(lookahead_params, eval_traces, 16, 0, 1e5, "prompts", "held-out prompts of a row, in order of digests"), \
    KVT_PARAM(lookahead_params, half, false, 0, 1, "", "store halves")
/* clang-format on */

#endif
