/* ridge.c - least squares with a penalty (train/ridge.h). */
#include "train/ridge.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kvt/arena.h"

enum { RIDGE_ROWS = 64 }; /* rows of x that stay in the cache */

void ridge_free(ridge *r)
{
    kvt_free(r->xx);
    kvt_free(r->xy);
    kvt_free(r->x);
    kvt_free(r->y);
    kvt_free(r->yy);
    *r = (ridge){0};
}

kvt_code ridge_new(ridge *r, int64_t n_in, int64_t n_out, kvt_err *err)
{
    *r = (ridge){.n_in = n_in, .n_out = n_out};
    r->xx = kvt_alloc(n_in * n_in, sizeof *r->xx);
    r->xy = kvt_alloc(n_out * n_in, sizeof *r->xy);
    r->x = kvt_alloc(n_in, sizeof *r->x);
    r->y = kvt_alloc(n_out, sizeof *r->y);
    r->yy = kvt_alloc(n_out, sizeof *r->yy);
    return r->xx && r->xy && r->x && r->y && r->yy
               ? KVT_OK
               : kvt_fail_memory(err, (size_t)(n_in * (n_in + n_out)) * sizeof *r->xx);
}

void ridge_clear(ridge *r)
{
    memset(r->xx, 0, (size_t)(r->n_in * r->n_in) * sizeof *r->xx);
    memset(r->xy, 0, (size_t)(r->n_out * r->n_in) * sizeof *r->xy);
    memset(r->x, 0, (size_t)r->n_in * sizeof *r->x);
    memset(r->y, 0, (size_t)r->n_out * sizeof *r->y);
    memset(r->yy, 0, (size_t)r->n_out * sizeof *r->yy);
    r->n = 0;
}

/* sum [n] += factor x row [n] */
static void add_scaled(double *sum, double factor, const float *row, int64_t n)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        sum[j] += factor * (double)row[j];
}

/* Rows i of the sums that belong to input i. y has n_all columns, of which these begin at 0. */
static void add_input(ridge *r, int64_t i, const float *x, const double *y, int64_t n,
                      int64_t n_all)
{
    for (int64_t t = 0; t < n; t++) {
        const float *row = x + t * r->n_in;
        double a = (double)row[i];
        add_scaled(r->xx + i * r->n_in, a, row, i + 1);
        for (int64_t o = 0; o < r->n_out; o++)
            r->xy[o * r->n_in + i] += a * y[o * n_all + t];
        r->x[i] += a;
    }
}

void ridge_add(ridge *r, const float *x, const double *y, int64_t n, int n_thread)
{
    for (int64_t at = 0; at < n; at += RIDGE_ROWS) {
        int64_t some = n - at < RIDGE_ROWS ? n - at : RIDGE_ROWS;
#pragma omp parallel for schedule(dynamic, 16) num_threads(n_thread)
        for (int64_t i = 0; i < r->n_in; i++)
            add_input(r, i, x + at * r->n_in, y + at, some, n);
    }
    for (int64_t o = 0; o < r->n_out; o++)
        for (int64_t t = 0; t < n; t++) {
            r->y[o] += y[o * n + t];
            r->yy[o] += y[o * n + t] * y[o * n + t];
        }
    r->n += n;
}

/* Covariance of inputs i >= j, and of input and output. */
static double cov(const ridge *r, int64_t i, int64_t j)
{
    double n = (double)r->n;
    return r->xx[i * r->n_in + j] / n - r->x[i] / n * (r->x[j] / n);
}

/* a [n n], lower half -> its Cholesky factor. False: not positive. */
static bool factor(double *a, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        double *row = a + j * n, sum = row[j];
        for (int64_t k = 0; k < j; k++)
            sum -= row[k] * row[k];
        if (!(sum > 0) || !isfinite(sum))
            return false;
        row[j] = sqrt(sum);
        for (int64_t i = j + 1; i < n; i++) {
            double *below = a + i * n, s = below[j];
#pragma omp simd reduction(- : s)
            for (int64_t k = 0; k < j; k++)
                s -= below[k] * row[k];
            below[j] = s / row[j];
        }
    }
    return true;
}

/* Solves L L^T w = w in place. */
static void substitute(const double *a, double *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++)
            w[i] -= a[i * n + k] * w[k];
        w[i] /= a[i * n + i];
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        w[i] /= a[i * n + i];
        for (int64_t k = 0; k < i; k++)
            w[k] -= a[i * n + k] * w[i];
    }
}

kvt_code ridge_solve(const ridge *r, double lambda, double *weight, double *bias, kvt_err *err)
{
    int64_t W = r->n_in;
    double n = (double)r->n, variance = 0;
    if (r->n < 1)
        return kvt_fail(err, KVT_FORMAT, "least squares: no rows");
    double *a = kvt_alloc(W * W, sizeof *a);
    if (!a)
        return kvt_fail_memory(err, (size_t)(W * W) * sizeof *a);
    for (int64_t i = 0; i < W; i++) {
        variance += cov(r, i, i) / (double)W;
        for (int64_t j = 0; j <= i; j++)
            a[i * W + j] = cov(r, i, j);
    }
    for (int64_t i = 0; i < W; i++)
        a[i * W + i] += lambda * variance;
    kvt_code code = KVT_OK;
    if (!factor(a, W))
        code = kvt_fail(err, KVT_FORMAT,
                        "least squares: %lld rows do not determine %lld weights at lambda %g",
                        (long long)r->n, (long long)W, lambda);
    for (int64_t o = 0; !code && o < r->n_out; o++) {
        double *w = weight + o * W, mean = r->y[o] / n;
        for (int64_t i = 0; i < W; i++)
            w[i] = r->xy[o * W + i] / n - r->x[i] / n * mean;
        substitute(a, w, W);
        bias[o] = mean;
        for (int64_t i = 0; i < W; i++)
            bias[o] -= w[i] * r->x[i] / n;
    }
    kvt_free(a);
    return code;
}

double ridge_error(const ridge *r, const double *weight, const double *bias)
{
    int64_t W = r->n_in;
    double n = (double)r->n, sum = 0;
    for (int64_t o = 0; o < r->n_out; o++) {
        const double *w = weight + o * W;
        double b = bias[o], square = r->yy[o] + n * b * b - 2 * b * r->y[o];
        for (int64_t i = 0; i < W; i++) {
            double half = r->xx[i * W + i] * w[i] / 2;
            for (int64_t j = 0; j < i; j++)
                half += r->xx[i * W + j] * w[j];
            square += 2 * w[i] * (half + b * r->x[i] - r->xy[o * W + i]);
        }
        sum += square;
    }
    return r->n > 0 ? sum / n / (double)r->n_out : (double)NAN;
}
