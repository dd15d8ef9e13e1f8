/* stat.h - means, quantiles and bootstrap intervals over prompts. */
#ifndef ANALYZE_STAT_H
#define ANALYZE_STAT_H

#include "kvt/table.h"

enum { STAT_RESAMPLES = 10000, STAT_LEAST_PROMPTS = 8 };

double stat_mean(const double *x, int64_t n); /* NAN where n is 0 */

/* Quantile p of x, which must be sorted: type 7 (linear between order statistics, the default
 * of R and numpy). NAN where n is 0. */
double stat_quantile(const double *sorted, int64_t n, double p);

typedef struct stat_interval {
    double lo, hi;  /* 95 %, percentile bootstrap of the mean */
    double p_value; /* two-sided, of a mean of 0; at least 2 / (resamples + 1) */
} stat_interval;

/* Resamples the n values STAT_RESAMPLES times. The draws depend on n and seed only, so that two
 * calls of equal n are paired: they see the same prompts. NOMEM. */
KVT_CHECKED kvt_code stat_bootstrap(stat_interval *out, const double *x, int64_t n,
                                    uint64_t seed, kvt_err *err);

/* Prompts that separate the mean of the n differences d from 0 (two-sided 5 %, power 80 %,
 * normal approximation): (z_0.975 + z_0.8)^2 variance / mean^2. KVT_EMPTY_INT: not known. */
int64_t stat_needed(const double *d, int64_t n);

#endif
