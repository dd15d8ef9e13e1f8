/* select.h - the best k of n, and whole rankings. One tie rule everywhere: of equal scores the
 * lower index wins; NaN sorts last; -0 equals 0. */
#ifndef BASE_SELECT_H
#define BASE_SELECT_H

#include "kvt/arena.h"

/* out [n] = indices by falling score. Radix sort, O(n). `work` holds scratch; false: no memory.
 */
bool select_rank(int32_t *out, const float *score, int64_t n, kvt_arena *work);
bool select_rank_double(int32_t *out, const double *score, int64_t n, kvt_arena *work);

/* keep [n] = whether an index is among the k best. Expected O(n). */
bool select_best(bool *keep, const float *score, int64_t n, int64_t k, kvt_arena *work);

/* The plain definition, for tests: a stable insertion by comparison, O(n k). */
void select_best_plain(bool *keep, const float *score, int64_t n, int64_t k);

#endif
