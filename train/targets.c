/* targets.c - labels of one lane (train/targets.h). */
#include "train/targets.h"

#include <math.h>

/* out [n] = the group's max or mean of exp(value), or of value itself. */
static void group_of(double *out, const float *value, int64_t n, int64_t n_head,
                     target_group group, bool is_log)
{
    for (int64_t t = 0; t < n; t++) {
        double most = -(double)INFINITY, sum = 0;
        for (int64_t h = 0; h < n_head; h++) {
            double a = (double)value[h * n + t];
            a = is_log ? exp(a) : a;
            sum += a;
            most = a > most || isnan(a) ? a : most;
        }
        out[t] = group == TARGET_MAX ? most : sum / (double)n_head;
    }
}

void target_delayed(double *out, const tracein *s, int layer, int lane, target_group group,
                    double eps)
{
    const float *value = tracein_at(s, KVT_DS_FUTURE_DELAYED, layer);
    group_of(out, value + lane * s->R * s->T, s->T, s->R, group, true);
    for (int64_t t = 0; t < s->T; t++)
        out[t] = log(eps + out[t]);
}

void target_prompt(double *out, const tracein *s, kvt_ds ds, int layer, int lane,
                   target_group group)
{
    const float *value = tracein_at(s, ds, layer);
    group_of(out, value + lane * s->R * s->N, s->N, s->R, group, false);
}
