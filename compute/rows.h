/* rows.h - the one origin of attention rows: what capture stores in attn/rows, and what replay
 * computes where that cache is absent.
 *
 *   z[q, t]   = scale * sum over d of q[q, d] k[t, d]
 *   out[q, t] = half(exp(z[q, t] - m[q]) / sum over visible t' of exp(z[q, t'] - m[q]))
 *   out[q, t] = 0 exactly where the query does not see t
 *
 * A query at pos sees t <= pos, and with a window only pos - t < window (the current token
 * counts). Each value is computed in f32 in an order that depends on nothing but (d, t): the
 * same bits whether a head is computed in one call, row by row, by capture or by replay, by any
 * number of threads (on one kind of processor). q and k are the stored halves, decoded.
 *
 * Tolerance against the formula in double: half an ulp of the half plus 2e-6 relative. */
#ifndef COMPUTE_ROWS_H
#define COMPUTE_ROWS_H

#include "kvt/api.h"

/* Bytes of scratch for one call; 64-byte aligned memory of the caller, one for each thread. */
size_t rows_scratch_bytes(int64_t n_token, int64_t head_dim);

/* out f16 [Q T]; q f32 [Q D]; k f32 [T D] of the query head's kv head; pos i32 [Q], each in
 * 0..n_token-1, in any order; window 0: none. */
void rows_head(uint16_t *out, const float *q, const float *k, const int32_t *pos,
               int64_t n_query, int64_t n_token, int64_t head_dim, float scale, int64_t window,
               void *scratch);

/* The same before the softmax: out f32 [Q T], z[q, t] where the query sees t, -INFINITY where
 * it does not. rows_head() is the softmax of these, bit for bit, rounded to halves. */
void rows_logits(float *out, const float *q, const float *k, const int32_t *pos,
                 int64_t n_query, int64_t n_token, int64_t head_dim, float scale,
                 int64_t window, void *scratch);

#endif
