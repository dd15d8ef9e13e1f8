/* pieces_rope.c - keys and queries turned from one position to another. */
#include "kvt/pieces.h"

#include <math.h>

double kvt_rope_freq(double *freq, const kvt_geometry *g, int model_layer)
{
    bool local = g->window[model_layer] > 0 && g->rope_theta_local > 0;
    for (int64_t i = 0; i < g->head_dim / 2; i++)
        freq[i] = local ? pow(g->rope_theta_local, -2.0 * (double)i / (double)g->head_dim)
                        : g->rope_freq[i];
    return local || g->rope_attn_factor <= 0 ? 1 : g->rope_attn_factor;
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
