/* kvpop.h - the parts of the trainer kvpop: its parameters, its scorer, how it is judged. */
#ifndef TRAIN_KVPOP_H
#define TRAIN_KVPOP_H

#include "train/cutoff.h"
#include "train/fit.h"
#include "train/scorer.h"
#include "train/targets.h"

typedef struct kvpop_params {
    int scorer, decay, loss, boundary, target, read;
    int64_t width, window, protect, sinks, slots, decay_step, queries, future;
    double least, most, late, tau, margin, margin_scale, balance_least, balance_most, eps,
        forget;
    bool balance;
    FIT_FIELDS;
} kvpop_params;

typedef enum kvpop_scorer { KVPOP_MLP, KVPOP_LINEAR, KVPOP_MLSTM } kvpop_scorer;

enum { KVPOP_BINS = 40, KVPOP_CONTROLS = 3 };

/* Mean target by position in the trace: what a score without content reaches. */
typedef struct kvpop_bins {
    double sum[KVPOP_BINS], n[KVPOP_BINS];
} kvpop_bins;

typedef struct kvpop {
    const kvpop_params *p;
    cutoff_spec cutoff;
    mlp_shape mlp;
    mlstm_shape mlstm;
    int64_t n_scorer; /* parameters of the scorer; the decay's follows */
    kvpop_bins *bins; /* [n_unit] */
    fit_sum *control; /* [n_unit KVPOP_CONTROLS]: position, recent, the targets */
} kvpop;

/* Tokens that are ranked: sinks <= t < this. */
int64_t kvpop_end(const kvpop *k, const tracein *s);
double kvpop_decay(const kvpop *k, const float *param, double *slope); /* log gamma */

/* Scores of tokens, rising; keeps in *work what the backward wants. False: no memory. */
typedef struct kvpop_pass {
    const kvpop *k;
    const fit_at *at;
    const int32_t *token; /* [n] */
    int64_t n;
    bool learns;
    float *score, *slope, *rows, *work; /* rows: gathered inputs of the mlp */
} kvpop_pass;
bool kvpop_forward(kvpop_pass *pass);
void kvpop_backward(const kvpop_pass *pass);

bool kvpop_meet(void *user, const tracein *s, int unit, int layer, int lane, kvt_arena *work);
bool kvpop_judge(void *user, const fit_at *at, fit_sum *sum);
void kvpop_first(void *user, train_run *run);

#endif
