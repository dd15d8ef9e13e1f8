/* bench_priv.h - what the files of the measurement of this machine share.
 *
 *   bench_clock.c     tasks, repeated in turn
 *   bench_weights.c   weights of a shape, where no model is at hand
 *   bench_prefill.c   products and rows as prefill runs them
 *   bench_attention.c attention as prefill runs it
 *   bench_decode.c    weights, keys and values, and the fixed time of a decode step
 *   bench_narrow.c    steps of models with hardly anything to read
 *   bench_memory.c    what memory gives, and a call of all threads
 *   bench_device.c    the same on a device
 *   bench_fields.c    from times to the fields of a machine
 *   bench_machine.c   all of it
 *   bench_model.c     a model's own passes beside their prediction */
#ifndef LIVE_BENCH_PRIV_H
#define LIVE_BENCH_PRIV_H

#include "capture/forward.h"
#include "capture/model.h"
#include "compute/backend.h"
#include "kvt/live.h"

/* ---- bench_clock.c ---- */

enum { BENCH_SAMPLES = 64, BENCH_TASKS = 24 };

typedef struct bench_task {
    const char *name, *unit; /* "FLOP/s", "B/s", "1/s", "s" */
    double amount;           /* of one run: FLOP, bytes, values; 1 for seconds */
    kvt_code (*run)(void *arg, kvt_err *err);
    void *arg;
    /* Seconds of one run, filled by bench_run(). */
    double best, median;
    int n_sample;
    double sample[BENCH_SAMPLES];
    double spent;
    int64_t repeats;
} bench_task;

/* Behind task[*n]; *slot points to it. */
void bench_add(bench_task *task, int *n, const bench_task **slot, const char *name,
               const char *unit, double amount, kvt_code (*run)(void *arg, kvt_err *err),
               void *arg);
/* All tasks in turn, again and again, until each had `seconds`: what disturbs the machine for a
 * while disturbs a sample of each, and the best ones are of quiet moments. */
KVT_CHECKED kvt_code bench_run(bench_task *task, int n, double seconds, const kvt_ctx *ctx,
                               kvt_err *err);
/* The best in the task's unit, for a row of the table. */
kvt_bench_row bench_row_of(const bench_task *t);

/* ---- bench_weights.c ---- */

typedef struct bench_weights {
    kvt_weights w;
    void *bytes;
    float *vector;
} bench_weights;

/* Weights of these shapes, every matrix of one type of compute/quants.def, all values alike. */
KVT_CHECKED kvt_code bench_weights_new(bench_weights **out, const kvt_geometry *g, int type,
                                       kvt_err *err);
void bench_weights_free(bench_weights *b); /* NULL is fine */
/* SmolLM2-135M, what is measured where no model is given. */
void bench_default_geometry(kvt_geometry *g);
/* The heads of g in layers that are as narrow as they can be: what is left of a step is what
 * does not depend on the sizes. */
void bench_narrow_geometry(kvt_geometry *out, const kvt_geometry *g, int64_t n_layer);

/* ---- what tasks work on ---- */

#define BENCH_RATE 3e10 /* FLOP/s of a thread, to choose sizes by */

typedef struct bench_case {
    const kvt_backend *backend;
    const kvt_weights *weights;
    const device_weights *device; /* the same on the device that is measured, or NULL */
    const kvt_geometry *g;
    const kvt_ctx *ctx;
    int n_thread;
    double seconds; /* of a task */
} bench_case;

/* Makes its tasks behind task[*n]; `own` is its memory, until its free(). */
typedef struct bench_prefill bench_prefill;
typedef struct bench_attention bench_attention;
typedef struct bench_decode bench_decode;
typedef struct bench_memory bench_memory;

/* What fields are made of: tasks of a machine, by what they are. NULL: not measured. */
typedef struct bench_times {
    const bench_task *product[4]; /* q k v; o; gate up; down: FLOP of the rows */
    const bench_task *decoding;   /* all layers' matrices as f32; amount: weights */
    const bench_task *square;     /* of a device: its best product; NULL: the best of product */
    const bench_task *square_32;  /* of a device: the same in f32 */
    const bench_task *near, *far; /* attention at two lengths */
    const bench_task *other;      /* with another head dimension */
    const bench_task *windowed;   /* with a window */
    const bench_task *rows;       /* norms, activations, residuals of a layer */
    const bench_task *softmax;    /* inside of attention; for the table */
    const bench_task *read, *copy;
    const bench_task *weights, *kv;   /* of a decode step; amount: bytes */
    const bench_task *round;          /* work handed to all threads, once */
    const bench_task *shallow, *deep; /* steps of narrow models of two depths */
    const bench_task *launch;         /* a host call; amount: calls */
    int64_t layer_rows;               /* rows of product and of rows */
    int64_t near_tokens, far_tokens, other_dim, window;
    int64_t weight_rounds, kv_rounds; /* rounds that are in the times of weights, kv */
    int64_t shallow_layers, deep_layers;
    double launches_layer;
    double act_bytes;
    double mem_bytes, runtime_bytes, alloc_round;
    int64_t tile; /* rows of an attention tile */
} bench_times;

enum { BENCH_SHALLOW = 2, BENCH_DEEP = 10 };

KVT_CHECKED kvt_code bench_prefill_new(bench_prefill **out, const bench_case *c,
                                       bench_task *task, int *n, bench_times *times,
                                       kvt_err *err);
void bench_prefill_free(bench_prefill *p);
KVT_CHECKED kvt_code bench_attention_new(bench_attention **out, const bench_case *c,
                                         bench_task *task, int *n, bench_times *times,
                                         kvt_err *err);
void bench_attention_free(bench_attention *p);
KVT_CHECKED kvt_code bench_decode_new(bench_decode **out, const bench_case *c, bench_task *task,
                                      int *n, bench_times *times, kvt_err *err);
void bench_decode_free(bench_decode *d);
KVT_CHECKED kvt_code bench_memory_new(bench_memory **out, const bench_case *c, bench_task *task,
                                      int *n, bench_times *times, kvt_err *err);
void bench_memory_free(bench_memory *m);

/* Steps of a narrow model; d NULL: on the processor. */
typedef struct bench_narrow bench_narrow;
KVT_CHECKED kvt_code bench_narrow_new(bench_narrow **out, const bench_case *c, kvt_device *d,
                                      int64_t n_layer, kvt_err *err);
void bench_narrow_add(bench_narrow *t, bench_task *task, int *n, const bench_task **slot,
                      const char *name);
void bench_narrow_free(bench_narrow *t);

/* Pairs of query and key of n causal rows, within a window (0: none). */
double bench_pairs(double n, double window);

/* ---- bench_device.c ---- */

/* Makes its tasks for a device; c->device are its weights, or NULL: they are uploaded. */
typedef struct bench_device bench_device;
KVT_CHECKED kvt_code bench_device_new(bench_device **out, const bench_case *c, kvt_device *d,
                                      bench_task *task, int *n, bench_times *times,
                                      kvt_err *err);
void bench_device_free(bench_device *b);

/* ---- bench_machine.c ---- */

/* Measures the processor, or a device. c->g is the geometry of c->weights. */
KVT_CHECKED kvt_code bench_measure(kvt_machine *out, kvt_bench_row *row, int *n_row,
                                   const bench_case *c, kvt_device *d, kvt_err *err);

/* ---- bench_fields.c ---- */

/* Every field of `out` but its texts. */
void bench_fields(kvt_machine *out, const bench_times *t, const kvt_geometry *g);

/* ---- bench_model.c ---- */

/* Bits of keys and values as the engine holds them. */
double bench_kv_bits(const kvt_model *m);

#endif
