/* lookahead_steps.c - what a layer does between its products, forward and backward: norms,
 * biases, rotation, gates, sums. Where an architecture lacks a step, its vector is NULL and
 * nothing happens, as in capture/steps.h, whose arithmetic this is.
 *
 *   norm   y = x f gain, f = 1 / sqrt(mean of x^2 + eps)
 *          dx_i = f gain_i dy_i - f^3 x_i mean over j of gain_j dy_j x_j
 *   gate   act(z) = z sigma(v): v = z (SiLU), v = 2 sqrt(2 / pi) (z + 0.044715 z^3) (GELU: 1 +
 *          tanh(v / 2) is 2 sigma(v)); act'(z) = sigma + z sigma (1 - sigma) v'
 *
 * Gains and biases are frozen: they have no gradient. */
#include <math.h>
#include <string.h>

#include "compute/backend.h"
#include "train/lookahead_priv.h"

void look_norm(const look_pass *p, real *out, const real *x, const real *gain, int64_t n_row,
               int64_t width)
{
    double eps = p->model.geometry->norm_eps;
    if (!gain)
        return;
#pragma omp parallel for schedule(static) num_threads(p->room.n_thread)
    for (int64_t r = 0; r < n_row; r++) {
#ifdef TRAIN_DOUBLE
        double sum = 0;
        for (int64_t i = 0; i < width; i++)
            sum += x[r * width + i] * x[r * width + i];
        for (int64_t i = 0; i < width; i++)
            out[r * width + i] = x[r * width + i] / sqrt(sum / (double)width + eps) * gain[i];
#else
        cpu_rmsnorm(out + r * width, x + r * width, gain, 1, width, eps);
#endif
    }
}

void look_norm_back(const look_pass *p, real *out, const real *skip, const real *x,
                    const real *gain, const real *d_y, int64_t n_row, int64_t width)
{
    double eps = p->model.geometry->norm_eps;
    if (!gain)
        return;
#pragma omp parallel for schedule(static) num_threads(p->room.n_thread)
    for (int64_t r = 0; r < n_row; r++) {
        const real *xr = x + r * width, *dr = d_y + r * width;
        double square = 0, dot = 0;
        for (int64_t i = 0; i < width; i++) {
            square += (double)xr[i] * (double)xr[i];
            dot += (double)(gain[i] * dr[i]) * (double)xr[i];
        }
        double inv = 1 / sqrt(square / (double)width + eps);
        real f = (real)inv, back = (real)(inv * inv * inv * dot / (double)width);
        for (int64_t i = 0; i < width; i++)
            out[r * width + i] =
                (skip ? skip[r * width + i] : 0) + f * gain[i] * dr[i] - back * xr[i];
    }
}

void look_bias(const look_pass *p, real *x, const real *bias, int64_t width)
{
    for (int64_t r = 0; bias && r < p->n_row; r++)
        for (int64_t i = 0; i < width; i++)
            x[r * width + i] += bias[i];
}

void look_residual(const look_pass *p, real *out, const real *x, const real *y,
                   const real *gain)
{
    int64_t width = p->model.geometry->n_hidden;
    look_norm(p, out, y, gain, p->n_row, width);
    if (gain)
        y = out;
#pragma omp parallel for schedule(static) num_threads(p->room.n_thread)
    for (int64_t r = 0; r < p->n_row; r++)
        for (int64_t i = r * width; i < (r + 1) * width; i++)
            out[i] = y[i] + x[i];
}

/* ---- rotation ------------------------------------------------------------------------------
 */

static void fill_table(const look_pass *p, real *table, int layer)
{
    const kvt_geometry *g = p->model.geometry;
    double freq[KVT_HEAD_DIM_MAX / 2], factor = kvt_geometry_rope(freq, g, layer);
    int64_t d = g->head_dim, n = p->layout.n_token;
    for (int64_t r = 0; r < p->n_row; r++)
        for (int64_t i = 0; i < d / 2; i++) {
            double angle = (double)(p->sample[r / n].n_prompt + r % n) * freq[i];
            table[r * d + i] = (real)(cos(angle) * factor);
            table[r * d + d / 2 + i] = (real)(sin(angle) * factor);
        }
}

void look_turns(look_pass *p)
{
    bool done[2] = {false, false};
    for (int l = 0; l < p->model.geometry->n_layer; l++) {
        bool local = kvt_geometry_is_local(p->model.geometry, l);
        if (!done[local])
            fill_table(p, p->table[local], l);
        done[local] = true;
    }
}

void look_rope(const look_pass *p, int layer, real *x, int64_t n_head, bool back)
{
    int64_t d = p->model.geometry->head_dim, half = d / 2;
    const real *table = p->table[kvt_geometry_is_local(p->model.geometry, layer)];
#pragma omp parallel for schedule(static) num_threads(p->room.n_thread)
    for (int64_t r = 0; r < p->n_row; r++) {
        const real *c = table + r * d, *s = c + half;
        for (int64_t h = 0; h < n_head; h++) {
            real *a = x + (r * n_head + h) * d, *b = a + half;
            for (int64_t i = 0; i < half; i++) {
                real u = a[i], w = b[i], turn = back ? -s[i] : s[i];
                a[i] = u * c[i] - w * turn;
                b[i] = w * c[i] + u * turn;
            }
        }
    }
}

/* ---- gates ---------------------------------------------------------------------------------
 */

#define GELU_A ((real)1.59576912160573071)   /* 2 sqrt(2 / pi) */
#define GELU_B ((real)0.0713548162726002527) /* times 0.044715 */

/* sigma(v), and v' */
static real gate_of(bool gelu, real z, real *slope)
{
    real v = gelu ? z * (GELU_A + GELU_B * (z * z)) : z;
    *slope = gelu ? GELU_A + 3 * GELU_B * (z * z) : 1;
#ifdef TRAIN_DOUBLE
    return 1 / (1 + exp(-v));
#else
    return 1 / (1 + expf(-v));
#endif
}

void look_gates(const look_pass *p, look_saved *s)
{
    int64_t f = p->model.geometry->n_ff;
    bool gelu = p->model.arch->gelu;
#pragma omp parallel for schedule(static) num_threads(p->room.n_thread)
    for (int64_t r = 0; r < p->n_row; r++) {
#ifdef TRAIN_DOUBLE
        real slope;
        for (int64_t i = r * f; i < (r + 1) * f; i++)
            s->act[i] = s->gate[i] * gate_of(gelu, s->gate[i], &slope) * s->up[i];
#else
        memcpy(s->act + r * f, s->gate + r * f, (size_t)f * sizeof *s->act);
        (gelu ? cpu_gelu_mul : cpu_silu_mul)(s->act + r * f, s->up + r * f, f);
#endif
    }
}

void look_gates_back(look_pass *p, const look_saved *s)
{
    int64_t f = p->model.geometry->n_ff;
    bool gelu = p->model.arch->gelu;
#pragma omp parallel for schedule(static) num_threads(p->room.n_thread)
    for (int64_t r = 0; r < p->n_row; r++)
        for (int64_t i = r * f; i < (r + 1) * f; i++) {
            real slope, sigma = gate_of(gelu, s->gate[i], &slope), act = s->gate[i] * sigma;
            p->d_up[i] = p->d_act[i] * act;
            p->d_gate[i] = p->d_act[i] * s->up[i] * (sigma + act * (1 - sigma) * slope);
        }
}
