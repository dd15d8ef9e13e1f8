/* plain.h - what a kept set loses, by the definitions and nothing else: loops over rows, tokens
 * and budgets. Tests hold kvt's numbers against it; bench/replay.c measures against it. */
#ifndef TESTS_PLAIN_H
#define TESTS_PLAIN_H

#include "kvt/result.h"

/* One layer of a trace, and which cell of a result is judged on it. */
typedef struct plain_spec {
    int n_head, n_kv;
    int64_t n_prompt, n_response, n_dim;
    const uint16_t *rows; /* f16 [H M T] of the response */
    int64_t head_stride;  /* elements from head to head; 0: M x T */
    const float *values;  /* f32 [G T D], NULL: no output error */
    const kvt_result *result;
    int cell, layer; /* of the result */
    bool inside, drop_first;
} plain_spec;

typedef struct plain_out {
    double *lost;    /* [H M] */
    double *out_err; /* [H M] NAN: undefined */
    double *recall;  /* [A] */
    double *best;    /* [A] on top: least mean loss with as many slots */
} plain_out;

/* Fills the arrays that are not NULL. */
void plain_judge(const plain_out *out, const plain_spec *s);

#endif
