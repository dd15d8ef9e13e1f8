/* pieces_solve.c - small dense algebra in double, and Gaussian draws. */
#include "kvt/pieces.h"

#include <math.h>

bool kvt_cholesky(double *a, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++) {
            double sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++)
                sum -= a[i * n + k] * a[j * n + k];
            if (i == j && !(sum > 0 && isfinite(sum)))
                return false;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
    }
    return true;
}

double kvt_cholesky_form(const double *factor, double *x, int64_t n)
{
    double square = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = x[i];
        for (int64_t k = 0; k < i; k++)
            sum -= factor[i * n + k] * x[k];
        x[i] = sum / factor[i * n + i];
        square += x[i] * x[i];
    }
    return square;
}

void kvt_random_normal(double *out, int64_t n, uint64_t *rng)
{
    for (int64_t i = 0; i < n; i++) { /* 1 - u is never 0 */
        double radius = sqrt(-2 * log(1 - kvt_random(rng))), turn = kvt_random(rng);
        out[i] = radius * cos(6.28318530717958647693 * turn);
    }
}
