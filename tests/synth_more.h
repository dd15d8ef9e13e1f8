/* synth_more.h - what policies that look ahead read, made of random numbers: probes, scorers.
 *
 *   synth *s = synth_new(&spec);
 *   synth_probes(s);                       one of every kind, drafts at each draft_budget
 *   kvt_code code = synth_write(s, path, &err);
 *   ...
 *   code = synth_scorer("kvpop-mlp", &spec, "pop.h5", &err);
 *
 * Queries and keys of probes are random halves; their lse and what an evicted cache holds are
 * computed from them by plain loops in double. */
#ifndef TESTS_SYNTH_MORE_H
#define TESTS_SYNTH_MORE_H

#include "kvt/scorer.h"
#include "tests/synth.h"

void synth_probes(synth *s);
const kvt_probe_data *synth_probe_of(const synth *s, kvt_probe_kind kind, int64_t budget);

/* Whether prompt token j is seen by row i of a probe in that query head of the model's layer.
 */
bool synth_probe_sees(const synth *s, const kvt_probe_data *p, int layer, int head, int64_t i,
                      int64_t j);
/* Whether row i sees row k of its own probe. */
bool synth_probe_sees_own(const synth *s, const kvt_probe_data *p, int layer, int64_t i,
                          int64_t k);
/* Scaled logit of row i on prompt token j of the trace's layer, or on row k of the probe. */
double synth_probe_logit(const synth *s, const kvt_probe_data *p, int layer, int head,
                         int64_t i, int64_t j);
double synth_probe_own(const synth *s, const kvt_probe_data *p, int layer, int head, int64_t i,
                       int64_t k);

/* Kinds of scorers, ended by NULL. */
extern const char *const synth_scorers[];
/* Sinks 2, window 3, 4 further slots; every tensor random. */
KVT_CHECKED kvt_code synth_scorer(const char *kind, const synth_spec *spec, const char *path,
                                  kvt_err *err);

#endif
