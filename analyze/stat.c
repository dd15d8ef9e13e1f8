/* stat.c - means, quantiles and bootstrap intervals over prompts.
 *
 *   Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979 (percentile interval).
 *   Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996 (type 7). */
#include "analyze/stat.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>

#include "base/rng.h"
#include "kvt/arena.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double stat_mean(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return n > 0 ? sum / (double)n : (double)NAN;
}

double stat_quantile(const double *sorted, int64_t n, double p)
{
    if (n <= 0)
        return (double)NAN;
    double place = p * (double)(n - 1);
    int64_t below = (int64_t)floor(place);
    if (below >= n - 1)
        return sorted[n - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

int64_t stat_needed(const double *d, int64_t n)
{
    double mean = stat_mean(d, n), square = 0;
    for (int64_t i = 0; i < n; i++)
        square += (d[i] - mean) * (d[i] - mean);
    double wanted = n > 1 ? 7.849 * square / (double)(n - 1) / (mean * mean) : (double)NAN;
    return isfinite(wanted) && wanted < 1e9 ? (int64_t)ceil(fmax(wanted, 2)) : KVT_EMPTY_INT;
}

kvt_code stat_bootstrap(stat_interval *out, const double *x, int64_t n, uint64_t seed,
                        kvt_err *err)
{
    *out = (stat_interval){(double)NAN, (double)NAN, (double)NAN};
    if (n <= 0)
        return KVT_OK;
    double *mean = kvt_alloc(STAT_RESAMPLES, sizeof *mean);
    if (mean == NULL)
        return kvt_fail_memory(err, STAT_RESAMPLES * sizeof *mean);

    char key[64];
    uint64_t rng[RNG_WORDS];
    int length = snprintf(key, sizeof key, "bootstrap %llu %lld", (unsigned long long)seed,
                          (long long)n);
    rng_init(rng, key, (size_t)length);
    int64_t not_above = 0, not_below = 0;
    for (int r = 0; r < STAT_RESAMPLES; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[rng_below(rng, n)];
        mean[r] = sum / (double)n;
        not_above += mean[r] <= 0;
        not_below += mean[r] >= 0;
    }
    qsort(mean, STAT_RESAMPLES, sizeof *mean, by_value);
    out->lo = stat_quantile(mean, STAT_RESAMPLES, 0.025);
    out->hi = stat_quantile(mean, STAT_RESAMPLES, 0.975);
    /* The data count as one more resample, so that no p-value is 0. */
    int64_t tail = not_above < not_below ? not_above : not_below;
    out->p_value = fmin(1, 2.0 * (double)(tail + 1) / (double)(STAT_RESAMPLES + 1));
    kvt_free(mean);
    return KVT_OK;
}
