/* sample.h - the next token from a row of logits, and what is recorded of that row.
 *
 *   sampler *s;
 *   sampler_new(&s, &spec, n_vocab, &err);
 *   sampler_pick(s, &id, logit, step, &err);
 *   sampler_describe(s, &row, logit, id, &err);
 *   sampler_free(s);
 *
 * Only the first n_vocab logits are read: rows of the embedding above the vocabulary are
 * padding. All sums are in double and in one fixed order: the same ids on every run. */
#ifndef CAPTURE_SAMPLE_H
#define CAPTURE_SAMPLE_H

#include "kvt/err.h"

enum { SAMPLE_TOP = 64 };

typedef struct sample_spec {
    double temperature; /* 0: greedy, the lowest id of equal logits */
    double top_p;       /* (0, 1]; 1: all */
    int64_t top_k;      /* 0: all */
    uint64_t seed;
    const char
        *digest; /* of the prompt: one stream of random numbers for each seed and prompt */
} sample_spec;

/* One row of /logit: the model's own distribution (temperature 1, nothing cut off). */
typedef struct sample_row {
    int32_t
        id[SAMPLE_TOP]; /* by falling logit, lower id first among equals; -1 beyond n_vocab */
    float logp[SAMPLE_TOP]; /* natural logarithm; -inf beyond n_vocab */
    float nll;              /* nats, of the token that was taken */
    float entropy;          /* nats */
} sample_row;

typedef struct sampler sampler;

/* Copies the spec. USAGE: temperature below 0 or not finite, top_p outside (0, 1], top_k below
 * 0. */
KVT_CHECKED kvt_code sampler_new(sampler **out, const sample_spec *spec, int64_t n_vocab,
                                 kvt_err *err);
void sampler_free(sampler *s);

/* The token of response step `step` from logit [>= n_vocab]: top-k, then top-p on what is left,
 * of the distribution at this temperature. It depends on seed, digest, step and logits only.
 * FORMAT: a logit that is NaN or +inf, or all are -inf. */
KVT_CHECKED kvt_code sampler_pick(sampler *s, int32_t *id, const float *logit, int64_t step,
                                  kvt_err *err);

/* Fills row; id: the token that was taken, in [0, n_vocab). FORMAT as above. */
KVT_CHECKED kvt_code sampler_describe(sampler *s, sample_row *row, const float *logit,
                                      int32_t id, kvt_err *err);

#endif
