/* scorer_f64.c - scorers in f64, by plain loops: what finite differences are taken of. */
#include "train/scorer.h"

#include <math.h>

/* Element (i, j) of a product; strides in elements. */
static double dot(const double *a, int64_t step_a, const double *b, int64_t step_b, int64_t k)
{
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum += a[i * step_a] * b[i * step_b];
    return sum;
}

static void product_nt(double *c, const double *a, const double *b, int64_t m, int64_t n,
                       int64_t k)
{
    for (int64_t i = 0; i < m * n; i++)
        c[i] = dot(a + i / n * k, 1, b + i % n * k, 1, k);
}

static void product_tn(double *c, const double *a, const double *b, int64_t m, int64_t n,
                       int64_t k)
{
    for (int64_t i = 0; i < m * n; i++)
        c[i] += dot(a + i / n, m, b + i % n, n, k);
}

static void product_nn(double *c, const double *a, const double *b, int64_t m, int64_t n,
                       int64_t k)
{
    for (int64_t i = 0; i < m * n; i++)
        c[i] = dot(a + i / n * k, 1, b + i % n, n, k);
}

#define REAL    double
#define NAME(x) x##_f64
#define EXP     exp
#define ERF     erf
#define SQRT    sqrt
#define LOG1P   log1p
#define VECTOR
#define VECTOR_SUM(x)
#define PRODUCT_NT product_nt
#define PRODUCT_TN product_tn
#define PRODUCT_NN product_nn
#include "train/scorer_body.h"
