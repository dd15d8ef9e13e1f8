/* fit.h - stochastic descent of many small scorers at once, one a unit (a lane, or a layer).
 *
 * A step reads a batch of traces, one after the other; the units of a trace are learned side by
 * side, each by one thread, so that threads change no byte. Inputs are standardised by each
 * unit's mean and deviation over the training set, measured in a first pass; fold_input() puts
 * that into the first weights before they are written. */
#ifndef TRAIN_FIT_H
#define TRAIN_FIT_H

#include "train/tracein.h"

/* Sums; a mean is sum / n. */
typedef struct fit_sum {
    double loss, n_loss;
    double recall, lost, n_recall; /* of the teacher's best 10 %; share of its mass missed */
} fit_sum;

/* One unit of one trace. */
typedef struct fit_at {
    const tracein *s;
    int unit, layer, lane; /* lane 0 where units are layers */
    const float *x;        /* [n n_in] standardised */
    int64_t n;
    const float *param;
    float *grad;     /* added to; NULL where it is judged */
    uint64_t rng[4]; /* of (seed, epoch, trace, unit) */
    kvt_arena *work;
    void *note; /* what input() left */
    bool first; /* judged before the first step */
} fit_at;

/* Optimiser and schedule: the parameters that every such trainer has. */
typedef struct fit_plan {
    int64_t steps, epochs, batch, eval_every;
    double rate, warmup, clip;
    double momentum; /* > 0: descent with momentum instead of Adam */
    bool half;       /* tensors are written as halves */
} fit_plan;

/* clang-format off */
#define FIT_FIELDS                                 \
    int64_t steps, epochs, batch, eval_every;      \
    double rate, warmup, clip;                     \
    bool half

#define FIT_PARAMS(S, epochs_, batch_, rate_)                                                    \
    KVT_PARAM(S, steps, 0, 0, 1 << 30, "1", "steps; 0: by epochs"),                              \
    KVT_PARAM(S, epochs, epochs_, 1, 1 << 20, "1", "passes over the traces"),                    \
    KVT_PARAM(S, batch, batch_, 1, 4096, "1", "traces a step"),                                  \
    KVT_PARAM(S, rate, rate_, 0, 10, "1", "learning rate after the warm-up"),                    \
    KVT_PARAM(S, warmup, 0.05, 0, 1, "frac", "share of the steps that warm up"),                 \
    KVT_PARAM(S, clip, 1, 0, 1e9, "1", "largest norm of a unit's gradient; 0: not clipped"),     \
    KVT_PARAM(S, eval_every, 0, 0, 1 << 30, "1", "steps between two rows of the curve; 0: ten rows"), \
    KVT_PARAM(S, half, 0, 0, 1, "", "the file holds halves")
/* clang-format on */

#define FIT_PLAN(p)                                                              \
    {                                                                            \
        .steps = (p)->steps, .epochs = (p)->epochs, .batch = (p)->batch,         \
        .eval_every = (p)->eval_every, .rate = (p)->rate, .warmup = (p)->warmup, \
        .clip = (p)->clip, .half = (p)->half                                     \
    }

typedef struct fit_spec {
    int64_t n_param, n_in;
    bool by_layer;
    bool raw; /* inputs are not standardised */
    const kvt_ds *ds;
    int n_ds;
    fit_plan plan;
    void *user;
    /* Checks a trace, makes s->extra. May be NULL; close frees it. */
    kvt_code (*open)(void *user, tracein *s, kvt_err *err);
    void (*close)(void *user, tracein *s);
    /* Inputs of a unit as they are, [n n_in]; NULL: no memory. What else learn and judge want
     * goes to *note. */
    float *(*input)(void *user, const tracein *s, int layer, int lane, int64_t *n, void **note,
                    kvt_arena *work);
    /* Sees each unit of each training trace once, traces in order. May be NULL. */
    bool (*meet)(void *user, const tracein *s, int unit, int layer, int lane, kvt_arena *work);
    void (*begin)(void *user, int unit, float *param, uint64_t rng[4]);
    /* False: no memory. */
    bool (*learn)(void *user, const fit_at *at, fit_sum *sum);
    bool (*judge)(void *user, const fit_at *at, fit_sum *sum);
    void (*first)(void *user, train_run *run); /* after the first judging; may be NULL */
} fit_spec;

/* param [n_unit n_param], mean and scale [n_unit n_in]: x' = (x - mean) * scale. */
typedef struct fit {
    const fit_spec *spec;
    int64_t n_unit, n_step;
    float *param, *grad, *m, *v, *mean, *scale;
    fit_sum *sum; /* [n_unit] */
    kvt_arena **work;
    int n_thread;
} fit;

KVT_CHECKED kvt_code fit_run(fit *f, train_run *run, const fit_spec *spec, kvt_err *err);
KVT_CHECKED kvt_code fit_counts(train_run *run, const fit_spec *spec, kvt_err *err); /* plan */
void fit_free(fit *f);

/* out [n] = draws of N(0, deviation^2). */
void fit_normal(float *out, int64_t n, double deviation, uint64_t rng[4]);

/* weight [rows n_in] and bias [rows] of unit u, made for inputs as they are. */
void fit_fold(const fit *f, int64_t u, float *weight, float *bias, int64_t rows);

/* A tensor of a file out of the units' vectors: element i of unit u is param[u][offset + i]. */
typedef struct fit_tensor {
    /* behind L (and G): "KW"; "HD" of a unit that is a kv head: L, its query heads, D */
    const char *name, *help, *axes;
    int64_t offset, dim[3];
} fit_tensor;

/* Writes a scorer: tensors of the units and single numbers. */
typedef struct fit_number {
    const char *name, *help;
    float value;
} fit_number;
KVT_CHECKED kvt_code fit_write(const fit *f, train_run *run, const char *kind,
                               const fit_tensor *tensor, int n_tensor, const fit_number *number,
                               int n_number, kvt_err *err);

/* Trainers whose unit is one small network (train/fit_mlp.c): runs, folds, writes. */
typedef struct fit_mlp_text {
    const char *kind, *in_weight, *out_weight; /* of the file; what the tensors are */
    bool by_layer; /* a network a layer, an output for each kv head */
} fit_mlp_text;

struct mlp_shape;
KVT_CHECKED kvt_code fit_mlp(train_run *run, const fit_spec *spec, const struct mlp_shape *s,
                             const fit_mlp_text *text, kvt_err *err);

#endif
