/* device_measure.c - what is measured of queries, values and logits (compute/device_args.h):
 * the definitions. */
#include <math.h>

#include "compute/device.h"

kvt_code host_moments(kvt_device *d, const dev_moments_args *a, kvt_err *err)
{
    (void)d, (void)err;
    int64_t n = a->head_dim, half = n / 2, all = a->n_head * n;
#pragma omp parallel for schedule(static)
    for (int64_t h = 0; h < a->n_head; h++)
        for (int64_t r = 0; r < a->n_row; r++) {
            const float *q = a->q + r * a->ld + h * n;
            for (int64_t i = 0; i < n; i++) {
                float centred = q[i] - a->pivot[h * n + i];
                a->centred[r * all + h * n + i] = centred;
                a->sum[h * n + i] += (double)centred;
            }
            for (int64_t i = 0; i < half; i++) {
                double u = (double)q[i], w = (double)q[i + half];
                a->magnitude[h * half + i] += sqrt(u * u + w * w);
            }
        }
    return KVT_OK;
}

kvt_code host_norms(kvt_device *d, const dev_norms_args *a, kvt_err *err)
{
    (void)d, (void)err;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->n_row; r++) {
        double l1 = 0, square = 0;
        for (int64_t e = 0; e < a->n_hidden; e++) {
            double x = (double)a->x[r * a->n_hidden + e];
            l1 += fabs(x);
            square += x * x;
        }
        a->l1[r] = (float)l1;
        a->l2[r] = (float)sqrt(square);
    }
    return KVT_OK;
}

/* id, top [DEV_TOP]: insertion into a short sorted list. A NAN is not larger than anything and
 * never enters; it shows in the lse. */
static void top_row(int32_t *id, float *top, const float *logit, int64_t n)
{
    int count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logit[i]) || (count == DEV_TOP && logit[i] <= top[count - 1]))
            continue;
        int at = count < DEV_TOP ? count++ : count - 1;
        for (; at > 0 && top[at - 1] < logit[i]; at--) {
            id[at] = id[at - 1];
            top[at] = top[at - 1];
        }
        id[at] = (int32_t)i;
        top[at] = logit[i];
    }
    for (; count < DEV_TOP; count++) {
        id[count] = -1;
        top[count] = -INFINITY;
    }
}

kvt_code host_top(kvt_device *d, const dev_top_args *a, kvt_err *err)
{
    (void)d, (void)err;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *logit = a->logit + r * a->ld;
        top_row(a->id + r * DEV_TOP, a->top + r * DEV_TOP, logit, a->n_vocab);
        double max = (double)a->top[r * DEV_TOP], sum = 0, moment = 0;
        for (int64_t i = 0; i < a->n_vocab; i++) {
            double z = (double)logit[i] - max, e = exp(z); /* -inf everywhere: NAN */
            sum += e;
            moment += e == 0 ? 0 : e * z;
        }
        a->lse[r] = (float)(max + log(sum));
        a->entropy[r] = (float)(log(sum) - moment / sum);
    }
    return KVT_OK;
}
