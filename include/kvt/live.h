/* live.h - where a model and a policy meet: probes, extra tokens run on a prompt that was
 * recorded.
 *
 *   const char *text[] = {"look=lookaheadkv:look.safetensors", "laq=draft:tokens=8@10%,25%"};
 *   kvt_probes *p;
 *   kvt_probes_open(&p, model, text, 2, &ctx, &err);  parses, opens adapters and draft models
 *   kvt_probes_add(p, "a.h5", false, &counts, &ctx, &err);   to a trace that is there
 *   spec.probes = kvt_probes_capture, spec.probes_user = p;  or while it is captured
 *   kvt_probes_close(p);
 *
 * Probes always run on the stored halves of the prompt's keys and values, in both cases: the
 * bytes are the same. */
#ifndef KVT_LIVE_H
#define KVT_LIVE_H

#include "kvt/capture.h"
#include "kvt/cost.h"

typedef struct kvt_probes kvt_probes;

typedef struct kvt_probe_counts {
    int64_t traces, added, present; /* present: a probe of that name and digest was there */
    int64_t n_row;                  /* rows that ran, over all probes */
    double seconds;
} kvt_probe_counts;

/* USAGE: text that is no probe, a name twice; NOTFOUND, FORMAT: an adapter of another model, a
 * draft model with another vocabulary. The model stays the caller's until close. */
KVT_API KVT_CHECKED kvt_code kvt_probes_open(kvt_probes **out, kvt_model *m,
                                             const char *const *text, int n, const kvt_ctx *ctx,
                                             kvt_err *err);
KVT_API void kvt_probes_close(kvt_probes *p); /* NULL is fine */

/* Runs every probe that the trace lacks and stores them all with one rename. FORMAT: a trace of
 * another model, or without the keys of all layers. `force` replaces those of that name. */
KVT_API KVT_CHECKED kvt_code kvt_probes_add(kvt_probes *p, const char *trace, bool force,
                                            kvt_probe_counts *counts, const kvt_ctx *ctx,
                                            kvt_err *err);

/* USAGE: what cannot run while capturing so, before a model runs: a draft with --layers, or any
 * probe at a level that holds no keys. */
KVT_API KVT_CHECKED kvt_code kvt_probes_check(const kvt_probes *p, const kvt_capture_spec *spec,
                                              kvt_err *err);

/* What they take of a prompt, at most: facts say the model, the prompt's tokens and the most of
 * the response; n_layer is of the file. For kvt_capture_spec.probes_cost. */
KVT_API void kvt_probes_cost(void *probes, const kvt_trace_facts *facts, int n_layer,
                             const kvt_ctx *ctx, kvt_probe_cost *out);

/* For kvt_capture_spec.probes. */
KVT_API KVT_CHECKED kvt_code kvt_probes_capture(void *probes, const kvt_prompt *prompt,
                                                kvt_writer *w, const kvt_ctx *ctx,
                                                kvt_err *err);

/* ---- this machine --------------------------------------------------------------------------
 *
 * Measures what kvt's own passes are made of and writes it as a machine of the cost model; then
 * predictions of those passes stand beside their measurement. (live/bench*.c) */

typedef struct kvt_bench_spec {
    int device;       /* -1: the processor; else the GPU of that number */
    double seconds;   /* of each measurement; 0: 0.5 */
    kvt_model *model; /* its shapes are measured; NULL: those of SmolLM2-135M */
} kvt_bench_spec;

/* One thing measured: "sgemm of a feed-forward, 2,048 tokens", 98.2e9, "FLOP/s". */
typedef struct kvt_bench_row {
    char name[64], unit[16];
    double value, spread_frac; /* best of the repetitions; (median - best) / best */
} kvt_bench_row;
enum { KVT_BENCH_ROWS_MAX = 32 };

/* Every field of `out` has an origin; what cannot be measured keeps a default and says so. */
KVT_API KVT_CHECKED kvt_code kvt_bench_machine(kvt_machine *out, kvt_bench_row *row, int *n_row,
                                               const kvt_bench_spec *spec, const kvt_ctx *ctx,
                                               kvt_err *err);

typedef struct kvt_bench_point {
    char quantity[16]; /* prefill, decode */
    int64_t tokens;    /* of the prompt; of the cache that a step reads */
    double measured_s, predicted_s, error_frac; /* predicted / measured - 1 */
    kvt_band band;                              /* of the prediction */
} kvt_bench_point;

/* Runs the model without recording at these prompt lengths (those that its context holds) and
 * some decode steps behind each, and predicts the same on `machine`: the prefills, then the
 * steps. Lengths that `cap` points have no room for are left out. USAGE: no length fits, or the
 * model was opened without its weights. */
KVT_API KVT_CHECKED kvt_code kvt_bench_model(kvt_bench_point *out, int cap, int *n,
                                             kvt_model *m, const kvt_machine *machine,
                                             const int64_t *length, int n_length,
                                             const kvt_ctx *ctx, kvt_err *err);

#endif
