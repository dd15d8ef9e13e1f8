/* train.h - learning what policies read: adapters of lookahead tokens, scorers, tables.
 *
 *   kvt_train_spec spec = {.what = "lookaheadkv:rank=2,steps=2000", .trace = paths, .n_trace =
 * n, .model = m, .out = "look.safetensors"}; kvt_train(&spec, &counts, &ctx, &err);
 *
 * Training reads traces (level train or more) and, where it runs the model's layers, the model;
 * never a prompt again. The same traces, parameters and seed give the same bytes for any number
 * of threads (on one kind of processor); stopped at any moment it resumes to the same bytes. */
#ifndef KVT_TRAIN_H
#define KVT_TRAIN_H

#include "kvt/capture.h"
#include "kvt/param.h"

struct train_run;

/* What can be trained: a line of train/trainers.def. */
typedef struct kvt_trainer {
    const char *name;    /* "lookaheadkv", "kvpop": as typed */
    const char *title;   /* one line, no full stop */
    const char *paper;   /* authors, name, year, arXiv or DOI: one short line */
    const char *about;   /* target, loss, optimiser; "\n\n" between paragraphs */
    const char *differs; /* how it departs from the paper, or "" */
    const char *file;    /* "adapter" (safetensors) or "scorer" (HDF5) */
    const char *reads;   /* what its traces must hold, for the help: "level train" */
    bool needs_model;
    size_t params_size;
    const kvt_param *params;      /* ends with {0} */
    void (*settle)(void *params); /* fills in what was left open, for the recipe; or NULL */
    kvt_code (*run)(struct train_run *run, kvt_err *err);  /* train/train_priv.h */
    kvt_code (*plan)(struct train_run *run, kvt_err *err); /* counts only */
} kvt_trainer;

KVT_API const kvt_trainer *const *kvt_trainers(void); /* in the list's order, ends with NULL */
KVT_API const kvt_trainer *kvt_trainer_find(const char *name);

typedef struct kvt_train_spec {
    const char *what;         /* "kvpop:width=32,window=32" */
    const char *const *trace; /* training traces, one prompt each */
    int n_trace;
    const char *const *heldout; /* traces whose loss and recall are printed; never trained on */
    int n_heldout;
    kvt_model *model; /* NULL unless needs_model */
    const char *out;
    const char *log;        /* CSV of the curve; NULL: OUT.csv */
    const char *checkpoint; /* NULL: OUT.ckpt; removed when it is done */
    bool resume;            /* from the checkpoint, where there is one */
    bool force;
    int64_t checkpoint_every; /* steps; 0: about once a minute never changes a byte */
    const char *command;
} kvt_train_spec;

typedef struct kvt_train_counts {
    char trainer[32], params[1024]; /* canonical */
    int64_t n_trace, n_heldout, n_example, n_parameter, n_step, step;
    int64_t memory_bytes, file_bytes;
    double parameter_frac; /* of the model's; NAN where that is not known */
    double seconds, expected_s;
    double first_loss, last_loss, heldout_loss; /* NAN: not measured */
    double heldout_recall, heldout_lost;        /* at 10 % kept; NAN: not measured */
    double blas_s; /* seconds in matrix products, all threads; 0: not measured */
} kvt_train_counts;

/* USAGE: parameters, no traces; FORMAT: a trace of another model than the others, without what
 * the trainer reads, in both sets. STOPPED: the checkpoint is there. */
KVT_API KVT_CHECKED kvt_code kvt_train(const kvt_train_spec *spec, kvt_train_counts *counts,
                                       const kvt_ctx *ctx, kvt_err *err);
/* Parameters, memory, time; trains nothing. */
KVT_API KVT_CHECKED kvt_code kvt_train_plan(const kvt_train_spec *spec,
                                            kvt_train_counts *counts, const kvt_ctx *ctx,
                                            kvt_err *err);

#endif
