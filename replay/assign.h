/* assign.h - the best that irreversible eviction can do in one lane, at every budget.
 *
 * A key that is there when a row attends collects that row's attention, summed over the query
 * heads of the lane. Every K response tokens a lane drops to its budget B; what is dropped
 * never returns. Which keys to drop when, so that most is collected, is an assignment of keys
 * to drop times. assign_new() reads the rows; assign_to() goes from one budget to a larger
 * one, each step a longest path; assign_bound() proves the result from outside.
 *
 *   kvt_code code = assign_new(&a, &lane, work, &err);
 *   for each budget, rising:
 *       assign_to(a, budget);
 *       assign_kept(a), assign_drop_steps(a, drop), assign_prices(a, price)
 *
 * Masses are sums of halves: multiples of 2^-24, exact in doubles, and so are all sums and
 * differences here. */
#ifndef REPLAY_ASSIGN_H
#define REPLAY_ASSIGN_H

#include "kvt/arena.h"
#include "replay/replay_priv.h"

enum { ASSIGN_NEVER = INT32_MAX };

/* A lane: the query heads whose rows are added, and when it drops. */
typedef struct assign_lane {
    layer_rows rows; /* f16 [H M T] of the response; row m is read over N + m + 1 tokens */
    int head, n_head;
    int64_t n_prompt, n_response; /* N, M; both at least 1 */
    int64_t every;                /* K: it drops every K tokens */
    bool drop_first;              /* in front of the row of that token, not behind it */
} assign_lane;

typedef struct assign assign;

/* Drop times between the end of the prompt and the last row, and one: columns of the problem
 * are 0 (the end of the prompt), 1, ... C - 1, and C (never); C prices certify a result. */
int64_t assign_columns(const assign_lane *l);
/* Memory that assign_new() takes, at most. */
int64_t assign_bytes(const assign_lane *l);

/* At budget 0. Lives in `work`. FORMAT where attention is negative or not finite. */
KVT_CHECKED kvt_code assign_new(assign **out, const assign_lane *l, kvt_arena *work,
                                kvt_err *err);
/* To this budget, which is not below the one it is at. False: it is. */
bool assign_to(assign *a, int64_t budget);
/* Mass collected over all rows and heads. */
double assign_kept(const assign *a);
/* drop i32 [N + M]: the step after which a key goes, as `evict_step` counts: 0 at the end of
 * the prompt; a key attends rows m < drop. ASSIGN_NEVER: it stays. */
void assign_drop_steps(const assign *a, int32_t *drop);
/* price f64 [C], each at least 0: what one slot more between two drop times is worth. */
void assign_prices(const assign *a, double *price);

/* What no schedule of that budget exceeds, by weak duality, for any prices of 0 or more:
 *
 *   B sum(price) + sum over keys of max(0, the best stretch from its birth: mass - prices)
 *
 * Equal to what a schedule keeps, it proves that schedule the best. Knows nothing of the
 * search. */
KVT_CHECKED kvt_code assign_bound(double *out, const assign_lane *l, int64_t budget,
                                  const double *price, kvt_arena *work, kvt_err *err);

/* The schedule that drops what has the smallest mass left, in O(N + M) memory, and prices of
 * its own [C], which bound the best. Of equal ones the higher position goes. */
KVT_CHECKED kvt_code assign_greedy(int32_t *drop, double *price, const assign_lane *l,
                                   int64_t budget, kvt_arena *work, kvt_err *err);

/* What the rows of a lane collect under a schedule, and what they lose where no row of a head
 * loses more than 1. */
typedef struct assign_mass {
    double kept, lost;
} assign_mass;
KVT_CHECKED kvt_code assign_replay(assign_mass *out, const assign_lane *l, const int32_t *drop,
                                   kvt_arena *work, kvt_err *err);
/* By how much the rows of a schedule that keeps `kept` lose more than 1, all together: lost is
 * sum(all) - kept - this. all f64 [n_head M]: attention of each row to all tokens. */
KVT_CHECKED kvt_code assign_excess(double *out, const assign_lane *l, const double *all,
                                   const int32_t *drop, kvt_arena *work, kvt_err *err);

#endif
