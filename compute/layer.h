/* layer.h - the small steps of a layer, row by row, on the calling thread.
 *
 *   rmsnorm   out[r, e] = x[r, e] / sqrt(mean over e of x[r, e]^2 + eps) * gain[e]
 *   rope      pair (i, i + D/2) of each head turned by pos * freq[i] (layout half, in place)
 *   silu_mul  gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i]
 *   gelu_mul  gate[i] = 0.5 gate[i] (1 + tanh(sqrt(2 / pi) (gate[i] + 0.044715 gate[i]^3))) *
 * up[i] add       x[i] += y[i]
 *
 * rmsnorm sums squares in double. rope takes a table of cosines and sines computed in double.
 * Tolerance: 1e-6 relative; of gelu_mul 1e-6 of |gate up|. out may be x. */
#ifndef COMPUTE_LAYER_H
#define COMPUTE_LAYER_H

#include "kvt/api.h"

/* x, out f32 [n_row E]; gain [E]; eps > 0 */
typedef void rmsnorm_fn(float *out, const float *x, const float *gain, int64_t n_row,
                        int64_t n_hidden, double eps);
/* x: row r is at x + r * ld and has n_head heads of D channels; table f32 [n_row D]: cosines of
 * the D/2 pairs, then their sines, of the row's position */
typedef void rope_fn(float *x, int64_t ld, const float *table, int64_t n_row, int64_t n_head,
                     int64_t head_dim);
typedef void silu_mul_fn(float *gate, const float *up, int64_t n);
typedef void gelu_mul_fn(float *gate, const float *up, int64_t n);
typedef void add_fn(float *x, const float *y, int64_t n);

/* Rows [begin, begin + n_row) of the table for rope; freq [D/2] radians a position, factor on
 * both (yarn). Angles, cosines and sines in double. */
void rope_table(float *table, const double *freq, double factor, int64_t begin, int64_t n_row,
                int64_t head_dim);

#endif
