/* adamw.c - the optimiser and its schedule. Adam with decoupled decay (Loshchilov and Hutter,
 * arXiv 1711.05101); with decay 0 it is Adam. */
#include <math.h>

#include "train/train_priv.h"

void adamw_step(const adamw_spec *s, float *param, const float *grad, float *m, float *v,
                int64_t n, int64_t t, double rate)
{
    float b1 = (float)s->beta1, b2 = (float)s->beta2, r1 = (float)(1 - s->beta1),
          r2 = (float)(1 - s->beta2), eps = (float)s->eps;
    float c1 = (float)(1 / (1 - pow(s->beta1, (double)t)));
    float c2 = (float)(1 / (1 - pow(s->beta2, (double)t)));
    float step = (float)rate, shrink = (float)(rate * s->decay);
    for (int64_t i = 0; i < n; i++) {
        m[i] = b1 * m[i] + r1 * grad[i];
        v[i] = b2 * v[i] + r2 * grad[i] * grad[i];
        param[i] -= shrink * param[i] + step * (m[i] * c1) / (sqrtf(v[i] * c2) + eps);
    }
}

double adamw_clip(float *const *grad, const int64_t *n, int n_part, double most)
{
    double sum = 0;
    for (int p = 0; p < n_part; p++)
        for (int64_t i = 0; i < n[p]; i++)
            sum += (double)grad[p][i] * (double)grad[p][i];
    double norm = sqrt(sum);
    if (!(norm > most))
        return norm;
    float factor = (float)(most / norm);
    for (int p = 0; p < n_part; p++)
        for (int64_t i = 0; i < n[p]; i++)
            grad[p][i] *= factor;
    return norm;
}

double train_schedule(int64_t t, int64_t n, double warmup)
{
    double up = warmup * (double)n, at = (double)t;
    if (at < up)
        return at / up;
    return 0.5 * (1 + cos(acos(-1.0) * (at - up) / ((double)n + 1 - up)));
}
