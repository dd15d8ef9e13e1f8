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

#endif
