/* mlp_begin.c - first parameters of two layers: inputs of deviation 1 keep it. */
#include <math.h>

#include "train/fit.h"
#include "train/scorer.h"

void mlp_begin(const mlp_shape *s, float *param, uint64_t rng[4])
{
    fit_normal(param, mlp_in_bias(s), 1 / sqrt((double)s->n_in), rng);
    fit_normal(param + mlp_out(s), s->n_out * s->width, 1 / sqrt((double)s->width), rng);
}
