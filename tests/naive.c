/* naive.c - a forward pass in double (tests/naive.h). */
#include "naive.h"

#include <math.h>
#include <stdlib.h>

/* y [n] = rows [row, row + n) of w times x, plus their bias [n] */
static void times(double *y, const kvt_matrix *w, int64_t row, int64_t n, const double *x,
                  const float *bias)
{
    int64_t k = w->n_col;
    float *room = malloc((size_t)k * sizeof *room);
    for (int64_t i = 0; i < n; i++) {
        const float *values = matrix_rows(w, row + i, 1, room);
        y[i] = bias ? (double)bias[i] : 0;
        for (int64_t j = 0; j < k; j++)
            y[i] += (double)values[j] * x[j];
    }
    free(room);
}

static void norm(double *y, const double *x, const float *gain, int64_t n, double eps)
{
    double square = 0;
    for (int64_t i = 0; i < n; i++)
        square += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(square / (double)n + eps) * (double)gain[i];
}

/* Layers with a window have a base of their own in gemma3, and it is not scaled. */
static void turn(double *y, const double *x, const kvt_geometry *g, int l, int64_t pos)
{
    int64_t half = g->head_dim / 2;
    bool local = g->window[l] > 0 && g->rope_theta_local > 0;
    double size = local ? 1 : g->rope_attn_factor;
    for (int64_t i = 0; i < half; i++) {
        double freq =
            local ? pow(g->rope_theta_local, -(double)i / (double)half) : g->rope_freq[i];
        double a = (double)pos * freq;
        y[i] = (x[i] * cos(a) - x[i + half] * sin(a)) * size;
        y[i + half] = (x[i + half] * cos(a) + x[i] * sin(a)) * size;
    }
}

static double activation(double z, bool gelu)
{
    if (gelu)
        return 0.5 * z * (1 + tanh(sqrt(2 / acos(-1)) * (z + 0.044715 * z * z * z)));
    return z / (1 + exp(-z));
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

/* q, k and v of one token: bias, then the norm of a head, then the rotation. */
static void project(naive *n, const kvt_weights_layer *w, int l, int64_t t, int64_t start)
{
    const kvt_geometry *g = n->g;
    int64_t T = n->T, E = g->n_hidden, D = g->head_dim, H = g->n_head, G = g->n_kv_head;
    double *y = malloc((size_t)(E + D) * sizeof *y), *k = y + E;
    norm(y, n->x + (l * T + t) * E, w->attn_norm, E, g->norm_eps);
    for (int64_t h = 0; h < H; h++) {
        double *q0 = n->q0 + ((l * H + h) * T + t) * D;
        times(q0, &w->wq, h * D, D, y, w->bq ? w->bq + h * D : NULL);
        if (w->q_norm)
            norm(q0, q0, w->q_norm, D, g->norm_eps);
        turn(n->q + ((l * H + h) * T + t) * D, q0, g, l, start + t);
    }
    for (int64_t h = 0; h < G; h++) {
        int64_t at = ((l * G + h) * T + t) * D;
        times(k, &w->wk, h * D, D, y, w->bk ? w->bk + h * D : NULL);
        if (w->k_norm)
            norm(k, k, w->k_norm, D, g->norm_eps);
        turn(n->k + at, k, g, l, start + t);
        times(n->v + at, &w->wv, h * D, D, y, w->bv ? w->bv + h * D : NULL);
    }
    free(y);
}

/* x [E] += z, behind a norm where there is one. */
static void residual(double *x, double *z, const float *post_norm, const kvt_geometry *g)
{
    if (post_norm)
        norm(z, z, post_norm, g->n_hidden, g->norm_eps);
    for (int64_t e = 0; e < g->n_hidden; e++)
        x[e] += z[e];
}

static void layer(naive *n, const kvt_weights_layer *w, int l, int64_t start, bool gelu)
{
    const kvt_geometry *g = n->g;
    int64_t T = n->T, E = g->n_hidden, D = g->head_dim, H = g->n_head, F = g->n_ff;
    double *y = calloc((size_t)(2 * E + 2 * F + H * D), sizeof *y), *z = y + E;
    double *up = z + E, *gate = up + F, *o = gate + F;
    for (int64_t t = 0; t < T; t++)
        project(n, w, l, t, start);
    for (int64_t t = 0; t < T; t++) {
        double *out = n->x + ((l + 1) * T + t) * E;
        for (int64_t e = 0; e < E; e++)
            out[e] = n->x[(l * T + t) * E + e];
        for (int64_t h = 0; h < H; h++)
            look(n, o + h * D, l, h, t);
        times(z, &w->wo, 0, E, o, NULL);
        residual(out, z, w->post_attn_norm, g);
        norm(y, out, w->ffn_norm, E, g->norm_eps);
        times(gate, &w->gate, 0, F, y, NULL);
        times(up, &w->up, 0, F, y, NULL);
        for (int64_t f = 0; f < F; f++)
            up[f] *= activation(gate[f], gelu);
        times(z, &w->down, 0, E, up, NULL);
        residual(out, z, w->post_ffn_norm, g);
    }
    free(y);
}

/* The residual in front of the first layer. */
static void embed(naive *n, const kvt_weights *w, const int32_t *id)
{
    int64_t E = n->g->n_hidden;
    float *room = malloc((size_t)E * sizeof *room);
    for (int64_t t = 0; t < n->T; t++) {
        const float *row = matrix_rows(&w->embed, id[t], 1, room);
        for (int64_t e = 0; e < E; e++)
            n->x[t * E + e] = n->g->embed_scale * (double)row[e];
    }
    free(room);
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
    embed(n, w, id);
    for (int l = 0; l < g->n_layer; l++)
        layer(n, &w->layer[l], l, start, w->arch->gelu);
    double *y = calloc(E, sizeof *y);
    for (int64_t i = 0; i < T; i++) {
        norm(y, n->x + ((int64_t)L * T + i) * g->n_hidden, w->out_norm, g->n_hidden,
             g->norm_eps);
        times(n->logit + i * g->n_vocab, &w->lm_head, 0, g->n_vocab, y, NULL);
    }
    free(y);
    return n;
}

void naive_free(naive *n)
{
    free(n->x), free(n->q0), free(n->q), free(n->k), free(n->v);
    free(n->p), free(n->lse), free(n->logit), free(n);
}
