/* pieces_rope.c - keys and queries turned from one position to another. */
#include "kvt/pieces.h"

#include <math.h>

double kvt_rope_freq(double *freq, const kvt_geometry *g, int model_layer)
{
    return kvt_geometry_rope(freq, g, model_layer);
}

static void turn(float *out, const float *in, const double *freq, int64_t n_dim, int64_t delta,
                 double factor)
{
    int64_t half = n_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double angle = (double)delta * freq[i], c = cos(angle), s = sin(angle);
        double x = (double)in[i], y = (double)in[i + half];
        out[i] = (float)(factor * (x * c - y * s));
        out[i + half] = (float)(factor * (y * c + x * s));
    }
}

void kvt_rotate(float *out, const float *in, const double *freq, int64_t n_dim, int64_t delta)
{
    turn(out, in, freq, n_dim, delta, 1);
}

void kvt_unrotate(float *out, const float *in, const double *freq, int64_t n_dim,
                  int64_t position, double factor)
{
    turn(out, in, freq, n_dim, -position, 1 / factor);
}
