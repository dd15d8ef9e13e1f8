/* ridge.h - least squares with a penalty, by the normal equations in f64.
 *
 *   minimise  mean over rows of (y - w . x - b)^2 + lambda s |w|^2,   s = mean variance of x
 *
 * b is not penalised. The sums are taken once; any lambda and any other sums (those of rows
 * that were held out) can be asked afterwards. Rows come in their order and each element is
 * summed by one thread: threads change no byte. */
#ifndef TRAIN_RIDGE_H
#define TRAIN_RIDGE_H

#include "kvt/err.h"

typedef struct ridge {
    int64_t n_in, n_out, n; /* n rows so far */
    double *xx;             /* [n_in n_in], the lower half */
    double *xy;             /* [n_out n_in] */
    double *x, *y, *yy;     /* sums [n_in], [n_out], [n_out] */
} ridge;

KVT_CHECKED kvt_code ridge_new(ridge *r, int64_t n_in, int64_t n_out, kvt_err *err);
void ridge_free(ridge *r);
void ridge_clear(ridge *r);
/* x f32 [n n_in], y f64 [n_out n]. */
void ridge_add(ridge *r, const float *x, const double *y, int64_t n, int n_thread);

/* weight [n_out n_in], bias [n_out]. FORMAT: no rows, or a matrix that lambda does not make
 * regular. O(n_in^3). */
KVT_CHECKED kvt_code ridge_solve(const ridge *r, double lambda, double *weight, double *bias,
                                 kvt_err *err);
/* Mean over rows and outputs of the squared error on the rows of r; NAN without rows. */
double ridge_error(const ridge *r, const double *weight, const double *bias);

#endif
