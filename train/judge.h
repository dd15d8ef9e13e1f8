/* judge.h - does a score keep what its targets would keep? */
#ifndef TRAIN_JUDGE_H
#define TRAIN_JUDGE_H

#include "train/fit.h"

/* Of n tokens, the best tenth (one at least) by score against the best tenth by rank: adds the
 * share that is common to sum->recall, and to sum->lost the share of mass (>= 0) that the
 * score's tenth leaves. rank and mass may be one array. False: no memory. */
bool judge_best(const double *rank, const double *mass, const double *score, int64_t n,
                fit_sum *sum, kvt_arena *work);

#endif
