/* qfilters.h - the shared direction of a head's queries. */
#ifndef TRAIN_QFILTERS_H
#define TRAIN_QFILTERS_H

#include "kvt/api.h"

/* out [D] = the first right singular vector of q [n D], of length 1, signed so that most rows
 * have a positive product with it. work [D + D D]. False: q is 0. */
bool qfilters_direction(double *out, const float *q, int64_t n, int64_t D, double *work);

#endif
