/* train_priv.h - what every trainer shares.
 *
 *   train.c       parses what is asked, opens and checks the traces, runs the trainer
 *   adamw.c       the optimiser, the schedule
 *   journal.c     the curve (CSV), the printed lines, checkpoints
 *   NAME.c        one trainer each
 */
#ifndef TRAIN_PRIV_H
#define TRAIN_PRIV_H

#include "kvt/arena.h"
#include "kvt/scorer.h"
#include "kvt/train.h"

/* One run, as a trainer sees it. Traces are opened when they are needed: only what is listed
 * here is kept of each. */
typedef struct train_trace {
    char path[1024], name[128], digest[KVT_DIGEST_TEXT];
    int64_t n_prompt, n_response, n_token;
    bool has[KVT_DS_COUNT];
} train_trace;

typedef struct train_run {
    const kvt_train_spec *spec;
    const kvt_trainer *trainer;
    const void *params; /* the trainer's struct */
    char params_text[1024];
    const kvt_ctx *ctx;
    kvt_train_counts *counts;
    kvt_trace_info info;  /* of the first training trace: geometry, layers, level */
    train_trace *trace;   /* [n_trace] sorted by digest, so that order of arguments
                           * changes nothing */
    train_trace *heldout; /* [n_heldout] the same */
    char set_digest[KVT_DIGEST_TEXT], heldout_digest[KVT_DIGEST_TEXT]; /* over each set */
    struct train_journal *journal;
} train_run;

/* ---- adamw.c -------------------------------------------------------------------------------
 */

typedef struct adamw_spec {
    double beta1, beta2, eps, decay; /* 0.9, 0.95, 1e-8, 0 */
} adamw_spec;

/* One step, t from 1: m and v [n] start at zero. f32 throughout, element by element, so that
 * the result does not depend on threads. */
void adamw_step(const adamw_spec *s, float *param, const float *grad, float *m, float *v,
                int64_t n, int64_t t, double rate);
/* Scales grad so that its norm (over all parts) is at most `most`; returns the norm before. */
double adamw_clip(float *const *grad, const int64_t *n, int n_part, double most);
/* Share of the rate at step t of n (t from 1): linear warm-up over warmup * n steps, then a
 * cosine that reaches 0 at step n + 1. */
double train_schedule(int64_t t, int64_t n, double warmup);

/* ---- journal.c -----------------------------------------------------------------------------
 */

typedef struct train_row {
    int64_t step;
    double loss, rate;                 /* mean training loss since the last row */
    double heldout_loss, recall, lost; /* NAN: not measured at this step */
    double seconds;
} train_row;

/* Appends to the CSV (rows that a resumed run repeats are not doubled) and reports one line
 * through the log (info). */
KVT_CHECKED kvt_code train_log(train_run *run, const train_row *row, kvt_err *err);

/* Everything that the next step depends on, as named arrays of bytes. */
typedef struct train_part {
    const char *name;
    void *data;
    int64_t bytes;
} train_part;

/* Fills the parts and *step where the run resumes and a checkpoint is there, else *step = 0.
 * FORMAT: of other traces, parameters, model or seed. */
KVT_CHECKED kvt_code train_resume(train_run *run, int64_t *step, const train_part *part, int n,
                                  kvt_err *err);

/* What ends a step: progress is told, a due checkpoint written, and, where the caller stops the
 * run before its last step, a checkpoint and STOPPED. A checkpoint comes by rename, with a
 * digest. `step`: how many are done. */
KVT_CHECKED kvt_code train_step_done(train_run *run, int64_t step, int64_t n_step,
                                     const train_part *part, int n, kvt_err *err);

/* ---- train.c -------------------------------------------------------------------------------
 */

/* Whether every trace, held out or not, has these; FORMAT names the first that lacks one. */
KVT_CHECKED kvt_code train_needs(const train_run *run, const kvt_ds *ds, int n, kvt_err *err);
/* How a file was made, as JSON: trainer, parameters, seed, the set's digest, counts, losses
 * (what run->counts has so far). Nothing in it depends on time or threads. */
KVT_CHECKED kvt_code train_recipe(const train_run *run, char *out, size_t cap, kvt_err *err);
/* The facts of a scorer's file that follow from the run: model, layers, recipe (JSON with the
 * trainer, its parameters, seed, the set's digest, counts, losses). */
void train_scorer_info(const train_run *run, const char *kind, kvt_scorer_info *out);
/* A stream of its own for a purpose: rng_init of (seed, trainer, purpose). */
void train_stream(const train_run *run, const char *purpose, uint64_t rng[4]);
/* The traces' order in an epoch: a permutation of n by the stream of (seed, epoch). */
KVT_CHECKED kvt_code train_order(const train_run *run, int64_t epoch, int32_t *order, int n,
                                 kvt_err *err);

#define KVT_TRAINER(id) extern const kvt_trainer kvt_trainer_##id;
#include "train/trainers.def"
#undef KVT_TRAINER

#endif
