/* slots.h - sums over chosen tokens, for replay: rows of halves turned so that the rows of a
 * token lie together, and outputs over the slots that a lane holds.
 *
 * Always on the CPU. The order of every sum is that of the tokens, whatever the processor, but
 * where any order gives the same sum (slots_add()); with fused products the last bits of an
 * output differ from the portable code (simd.h). */
#ifndef COMPUTE_SLOTS_H
#define COMPUTE_SLOTS_H

#include "kvt/api.h"

enum { SLOTS_WIDTH = 16 }; /* rows that replay turns at a time */

/* out[t width + i] = in[i row_stride + t] for n_row rows of n_token halves, decoded; rows
 * beyond the last are 0. width is a multiple of 8, at least n_row and at most 64. sum f64
 * [n_token] unless NULL is added to: each token's sum over the rows, exact (halves of at most
 * 1). */
void slots_turn(float *out, double *sum, const uint16_t *in, int64_t row_stride, int64_t n_row,
                int64_t n_token, int64_t width);

/* sum f32 [SLOTS_WIDTH] += the attention of so many turned rows to each of n tokens (token
 * NULL: 0, 1, ...). In no order: for halves, whose sums are exact up to 1 and at least 1
 * beyond. */
void slots_add(float *sum, const float *p, const int32_t *token, int64_t n);

/* sum f64 [n] += each of n_row rows f32 [n] that lie `stride` apart, in their order. */
void slots_pile(double *sum, const float *row, int64_t stride, int64_t n_row, int64_t n);

/* out f32 [H D] = sum over s of p[h n + s] v[pos[s] v_stride + d]; p f32 [H n], pos [n]. */
void slots_mix(float *out, const float *p, const int64_t *pos, int64_t n, const float *v,
               int64_t v_stride, int n_head, int64_t n_dim);

/* out f32 [width D] += sum over i of p[token[i] width + r] v[token[i] D + d], strictly in the
 * order of i: cutting a list anywhere and going on with the rest changes no bit. width is a
 * multiple of 4; token NULL: 0, 1, 2, ... */
void slots_outer(float *out, const float *p, const float *v, const int32_t *token, int64_t n,
                 int64_t width, int64_t n_dim);

#endif
