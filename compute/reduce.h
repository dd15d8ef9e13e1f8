/* reduce.h - what is kept of a tile of probabilities: sums and maxima of its columns.
 *
 *   sum[t] = sum over rows r of p[r, t]      max[t] = max over rows r of p[r, t]
 *
 * Rows are added in their order, in f32: a tile has at most a few hundred of them. Sums over
 * more are the caller's, who adds tiles in their order. A row of abs_sums has a few thousand
 * values. */
#ifndef COMPUTE_REDUCE_H
#define COMPUTE_REDUCE_H

#include "kvt/api.h"

/* p: row r at p + r * ld, f32 [n_row n_col]; sum, max [n_col] are written; max may be NULL.
 * n_row 0 gives zeros. */
typedef void columns_fn(float *sum, float *max, const float *p, int64_t ld, int64_t n_row,
                        int64_t n_col);
/* l1[r] = sum over e of |x[r, e]|, l2[r] = sqrt(sum over e of x[r, e]^2) */
typedef void norms_fn(float *l1, float *l2, const float *x, int64_t ld, int64_t n_row,
                      int64_t n_col);

#endif
