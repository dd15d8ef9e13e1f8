/* targets.h - what scorers learn: labels of one lane out of a trace's future.
 *
 * Aggregation over the query heads of a group comes before anything else: a max and a mean of
 * logarithms rank differently (policies of one query and policies of all). */
#ifndef TRAIN_TARGETS_H
#define TRAIN_TARGETS_H

#include "train/tracein.h"

typedef enum target_group { TARGET_MAX, TARGET_MEAN } target_group;

/* out [T] = log(eps + mean attention from queries at distance w or more) of a lane: the
 * group's maximum, or the log of its mean (KVpop, arXiv 2607.05061; future/delayed). NaN where
 * no query is that far. Needs KVT_DS_FUTURE_DELAYED. */
void target_delayed(double *out, const tracein *s, int layer, int lane, target_group group,
                    double eps);

/* out [N] = the group's maximum (or mean) of a dataset [H N] over prompt tokens: future/max,
 * future/mean. */
void target_prompt(double *out, const tracein *s, kvt_ds ds, int layer, int lane,
                   target_group group);

/* Tokens whose delayed target comes of at least `least` queries: t < this. */
static inline int64_t target_end(int64_t n_token, int64_t delay, int64_t least)
{
    int64_t end = n_token - delay - (least > 1 ? least - 1 : 0);
    return end > 0 ? end : 0;
}

#endif
