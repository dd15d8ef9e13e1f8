/* naive.c - a forward pass in double (tests/naive.h). */
#include "naive.h"

#include <math.h>
#include <stdlib.h>

/* y [n] = w [n k] x [k] */
static void times(double *y, const float *w, const double *x, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < k; j++)
            y[i] += (double)w[i * k + j] * x[j];
    }
}

static void norm(double *y, const double *x, const float *gain, int64_t n, double eps)
{
    double square = 0;
    for (int64_t i = 0; i < n; i++)
        square += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(square / (double)n + eps) * (double)gain[i];
}

static void turn(double *y, const double *x, const kvt_geometry *g, int64_t pos)
{
    int64_t half = g->head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double a = (double)pos * g->rope_freq[i];
        y[i] = (x[i] * cos(a) - x[i + half] * sin(a)) * g->rope_attn_factor;
        y[i + half] = (x[i + half] * cos(a) + x[i] * sin(a)) * g->rope_attn_factor;
    }
}

/* o [D] of one head and query; fills p and lse. */
static void look(naive *n, double *o, int l, int64_t h, int64_t t)
{
    const kvt_geometry *g = n->g;
    int64_t T = n->T, D = g->head_dim, lane = l * g->n_head + h;
    int64_t kv = l * g->n_kv_head + h * g->n_kv_head / g->n_head;
    double *p = n->p + (lane * T + t) * T, top = -INFINITY, sum = 0;
    const double *q = n->q + (lane * T + t) * D;
    for (int64_t j = 0; j <= t; j++) {
        p[j] = -INFINITY;
        if (g->window[l] && t - j >= g->window[l])
            continue;
        p[j] = 0;
        for (int64_t d = 0; d < D; d++)
            p[j] += q[d] * n->k[(kv * T + j) * D + d] * g->attn_scale;
        top = p[j] > top ? p[j] : top;
    }
    for (int64_t j = 0; j <= t; j++)
        sum += p[j] = exp(p[j] - top);
    n->lse[lane * T + t] = top + log(sum);
    for (int64_t d = 0; d < D; d++)
        o[d] = 0;
    for (int64_t j = 0; j <= t; j++) {
        p[j] /= sum;
        for (int64_t d = 0; d < D; d++)
            o[d] += p[j] * n->v[(kv * T + j) * D + d];
    }
}

static void layer(naive *n, const kvt_weights_layer *w, int l, int64_t start)
{
    const kvt_geometry *g = n->g;
    int64_t T = n->T, E = g->n_hidden, D = g->head_dim, H = g->n_head, G = g->n_kv_head;
    double *y = calloc((size_t)(3 * E + 2 * g->n_ff + H * D), sizeof *y), *z = y + E;
    double *up = z + E, *gate = up + g->n_ff, *o = gate + g->n_ff;
    for (int64_t t = 0; t < T; t++) {
        norm(y, n->x + (l * T + t) * E, w->attn_norm, E, g->norm_eps);
        for (int64_t h = 0; h < H; h++) {
            int64_t at = ((l * H + h) * T + t) * D;
            times(n->q0 + at, matrix_floats(&w->wq) + h * D * E, y, D, E);
            turn(n->q + at, n->q0 + at, g, start + t);
        }
        for (int64_t h = 0; h < G; h++) {
            int64_t at = ((l * G + h) * T + t) * D;
            times(o, matrix_floats(&w->wk) + h * D * E, y, D, E);
            turn(n->k + at, o, g, start + t);
            times(n->v + at, matrix_floats(&w->wv) + h * D * E, y, D, E);
        }
    }
    for (int64_t t = 0; t < T; t++) {
        const double *x = n->x + (l * T + t) * E;
        double *out = n->x + ((l + 1) * T + t) * E;
        for (int64_t h = 0; h < H; h++)
            look(n, o + h * D, l, h, t);
        times(z, matrix_floats(&w->wo), o, E, H * D);
        for (int64_t e = 0; e < E; e++)
            out[e] = x[e] + z[e];
        norm(y, out, w->ffn_norm, E, g->norm_eps);
        times(gate, matrix_floats(&w->gate), y, g->n_ff, E);
        times(up, matrix_floats(&w->up), y, g->n_ff, E);
        for (int64_t f = 0; f < g->n_ff; f++)
            up[f] *= gate[f] / (1 + exp(-gate[f]));
        times(z, matrix_floats(&w->down), up, E, g->n_ff);
        for (int64_t e = 0; e < E; e++)
            out[e] += z[e];
    }
    free(y);
}

naive *naive_run(const kvt_weights *w, const int32_t *id, int64_t T, int64_t start)
{
    const kvt_geometry *g = &w->geometry;
    naive *n = calloc(1, sizeof *n);
    size_t L = (size_t)g->n_layer, D = (size_t)g->head_dim, E = (size_t)g->n_hidden,
           t = (size_t)T;
    size_t H = (size_t)g->n_head, G = (size_t)g->n_kv_head;
    n->g = g;
    n->T = T;
    n->x = calloc((L + 1) * t * E, sizeof(double));
    n->q0 = calloc(L * H * t * D, sizeof(double));
    n->q = calloc(L * H * t * D, sizeof(double));
    n->k = calloc(L * G * t * D, sizeof(double));
    n->v = calloc(L * G * t * D, sizeof(double));
    n->p = calloc(L * H * t * t, sizeof(double));
    n->lse = calloc(L * H * t, sizeof(double));
    n->logit = calloc(t * (size_t)g->n_vocab, sizeof(double));
    for (int64_t i = 0; i < T * g->n_hidden; i++)
        n->x[i] = g->embed_scale *
                  (double)matrix_floats(
                      &w->embed)[id[i / g->n_hidden] * g->n_hidden + i % g->n_hidden];
    for (int l = 0; l < g->n_layer; l++)
        layer(n, &w->layer[l], l, start);
    double *y = calloc(E, sizeof *y);
    for (int64_t i = 0; i < T; i++) {
        norm(y, n->x + ((int64_t)L * T + i) * g->n_hidden, w->out_norm, g->n_hidden,
             g->norm_eps);
        times(n->logit + i * g->n_vocab, matrix_floats(&w->lm_head), y, g->n_vocab,
              g->n_hidden);
    }
    free(y);
    return n;
}

void naive_free(naive *n)
{
    free(n->x), free(n->q0), free(n->q), free(n->k), free(n->v);
    free(n->p), free(n->lse), free(n->logit), free(n);
}
