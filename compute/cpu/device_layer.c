/* device_layer.c - norm, rotation, sum, gate (compute/device_args.h): the definitions. */
#include <math.h>

#include "compute/cpu/device_typed.h"

static double square_sum(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

kvt_code host_rmsnorm(kvt_device *d, const dev_rmsnorm_args *a, kvt_err *err)
{
    (void)d, (void)err;
    int64_t n = a->n_hidden;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->n_row; r++) {
        double square = square_sum(a->x + r * n, n);
        double root = sqrt(square / (double)n + (double)a->eps);
        if (a->length)
            a->length[r] = (float)sqrt(square);
        for (int64_t e = 0; e < n; e++)
            typed_put(a->type, a->out, r * n + e,
                      (float)((double)a->x[r * n + e] / root * (double)a->gain[e]));
    }
    return KVT_OK;
}

kvt_code host_rope(kvt_device *d, const dev_rope_args *a, kvt_err *err)
{
    (void)d, (void)err;
    int64_t n = a->head_dim, half = n / 2;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->n_row; r++)
        for (int64_t h = 0; h < a->n_head; h++) {
            float *x = a->x + r * a->ld + h * n;
            int64_t to = h * a->head_stride + r * a->row_stride;
            const float *c = a->table ? a->table + r * n : NULL, *s = c ? c + half : NULL;
            if (a->gain) {
                double root = sqrt(square_sum(x, n) / (double)n + (double)a->eps);
                for (int64_t i = 0; i < n; i++)
                    x[i] = (float)((double)x[i] / root * (double)a->gain[i]);
            }
            for (int64_t i = 0; a->out && i < n; i++) {
                float y = x[i];
                if (c && i < half)
                    y = x[i] * c[i] - x[i + half] * s[i];
                else if (c)
                    y = x[i] * c[i - half] + x[i - half] * s[i - half];
                typed_put(a->type, a->out, to + i, y);
            }
        }
    return KVT_OK;
}

kvt_code host_add(kvt_device *d, const dev_add_args *a, kvt_err *err)
{
    (void)d, (void)err;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->n; i++)
        a->x[i] += a->y[i % a->period];
    return KVT_OK;
}

kvt_code host_act(kvt_device *d, const dev_act_args *a, kvt_err *err)
{
    (void)d, (void)err;
    const double root = sqrt(2 / acos(-1.0));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->n; i++) {
        double z = (double)a->gate[i], y = z / (1 + exp(-z));
        if (a->gelu)
            y = 0.5 * z * (1 + tanh(root * (z + 0.044715 * z * z * z)));
        typed_put(a->type, a->out, i, (float)(y * (double)a->up[i]));
    }
    return KVT_OK;
}
