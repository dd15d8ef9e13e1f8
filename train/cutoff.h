/* cutoff.h - KVpop's loss at the boundary of what is kept (arXiv 2607.05061, section 3; the
 * choices where it is silent are parameters).
 *
 * At a query q the token t_new = q - w leaves the window. A teacher with the true targets r
 * keeps the k best of the tokens that have left it, by effective score
 *
 *   r_t(q) = r_t + floor((q - t) / n_d) log gamma
 *
 * t_bnd is its worst kept token; where that is t_new itself, the best one that goes. y = 1
 * where the teacher keeps t_new, else -1. The loss of a pair is
 *
 *   omega softplus(-y (r^_new(q) - r^_bnd(q)) / tau)
 *
 * with omega = (margin + (1 - margin) sigma(Delta / scale)) x balance over its mean; Delta is
 * the teacher's own gap. */
#ifndef TRAIN_CUTOFF_H
#define TRAIN_CUTOFF_H

#include "kvt/arena.h"

typedef struct cutoff_spec {
    int64_t sinks, window, slots; /* slots 0: a share of those that left, drawn for each q */
    int64_t decay_step;
    double least, most; /* range of that share, drawn evenly in its logarithm */
    double late;        /* part of the queries drawn with a density that rises with q */
    bool effective;     /* pairs are compared with their decay */
    double tau, margin, margin_scale;
    bool balance;
    double balance_least, balance_most;
} cutoff_spec;

typedef struct cutoff_pair {
    int32_t fresh, bound; /* t_new, t_bnd */
    int32_t query, slots;
    int32_t age; /* floor((q - new)/n_d) - floor((q - bound)/n_d), at most 0 */
    bool keeps;  /* y = 1 */
    double omega;
} cutoff_pair;

/* n pairs at most, by rising query: returns how many (queries without a decision are left out),
 * -1: no memory. target [end]: of the tokens that may be ranked. */
int64_t cutoff_draw(const cutoff_spec *s, const double *target, int64_t end, double log_gamma,
                    cutoff_pair *pair, int64_t n, uint64_t rng[4], kvt_arena *work);

/* Sum of the pairs' losses. place(t): where score and slope hold token t is at[t]. Adds the
 * slopes of (sum * weight) to slope [..] and *slope_gamma (may be NULL both). */
double cutoff_loss(const cutoff_spec *s, const cutoff_pair *pair, int64_t n, const int32_t *at,
                   const float *score, double log_gamma, double weight, float *slope,
                   double *slope_gamma);

/* Effective scores of the tokens from `first` to `end` at query q: out [end - first]. */
void cutoff_effective(double *out, const double *score, int64_t first, int64_t end, int64_t q,
                      int64_t decay_step, double log_gamma);

/* log gamma = log .999 + sigma(a) (log .999999 - log .999), and its slope by a. */
double cutoff_gamma(double a, double *slope);

#endif
