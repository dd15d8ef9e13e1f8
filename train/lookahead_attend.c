/* lookahead_attend.c - what the soft tokens look at: attention of each sample and kv head over
 * the stored prompt and the rows themselves, the loss on its prompt columns, and the way back.
 *
 *   A[i, j]  = softmax over visible j of scale q_i k_j, j < N the prompt, N + m the row m <= i
 *   s_j      = 1/n sum over i of A[i, j]                 of a query head, j < N
 *   KL       : sum over j of p_j (ln p_j - ln (s_j / sum s)),      d/ds_j = -p_j/s_j + 1/sum s
 *   MSE      : 1/N sum over j of (N s_j / sum s - N p_j)^2
 *
 * The gradient of s is the same for the n rows: it is kept as coef [H N]. With prompt_only a
 * row of s is A[i, j] / P_i, P_i its sum over the prompt: the softmax over the prompt alone. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/half.h"
#include "compute/backend.h"
#include "train/lookahead_priv.h"

#define LOG_LEAST (-30.0) /* of a normalised mass; what is below is cut off */

typedef struct item {
    look_pass *p;
    look_own *own;
    look_saved *s;
    int layer, sample;
    int64_t g, rep;             /* kv head, query heads of it */
    int64_t n, n_prompt, n_key; /* n_key = N + n */
    int64_t d, row;             /* first row of the sample */
    real *prob;                 /* [rep n n_key] */
    real *coef;                 /* [rep N] */
    bool last;
} item;

static item item_of(look_pass *p, int layer, int64_t i)
{
    const kvt_geometry *geo = p->model.geometry;
    int sample = (int)(i / geo->n_kv_head);
    int64_t rep = geo->n_head / geo->n_kv_head, n = p->layout.n_token, g = i % geo->n_kv_head;
    int64_t n_prompt = p->sample[sample].n_prompt, n_key = n_prompt + n;
    int64_t before = geo->n_head * n * (p->first[sample] + sample * n);
    return (item){.p = p,
                  .own = &p->own[omp_get_thread_num()],
                  .s = &p->saved[layer],
                  .layer = layer,
                  .sample = sample,
                  .g = g,
                  .rep = rep,
                  .n = n,
                  .n_prompt = n_prompt,
                  .n_key = n_key,
                  .d = geo->head_dim,
                  .row = sample * n,
                  .prob = p->saved[layer].prob + before + g * rep * n * n_key,
                  .coef = p->saved[layer].coef + geo->n_head * p->first[sample] +
                          g * rep * n_prompt,
                  .last = layer == geo->n_layer - 1};
}

/* Stored halves [N D] of the prompt, then the sample's own rows from [R GD]. */
static void keys(const item *t, real *out, const uint16_t *stored, const real *rows)
{
    const kvt_geometry *g = t->p->model.geometry;
    const uint16_t *in = stored + (t->layer * g->n_kv_head + t->g) * t->n_prompt * t->d;
#ifdef TRAIN_DOUBLE
    for (int64_t i = 0; i < t->n_prompt * t->d; i++)
        out[i] = (real)half_to_float(in[i]);
#else
    half_to_floats(out, in, t->n_prompt * t->d);
#endif
    for (int64_t i = 0; i < t->n; i++)
        memcpy(out + (t->n_prompt + i) * t->d,
               rows + ((t->row + i) * g->n_kv_head + t->g) * t->d, (size_t)t->d * sizeof *out);
}

/* [rep n D] of the group's query heads from rows [R HD]. */
static void gather(const item *t, real *out, const real *rows)
{
    int64_t heads = t->p->model.geometry->n_head;
    for (int64_t h = 0; h < t->rep; h++)
        for (int64_t i = 0; i < t->n; i++)
            memcpy(out + (h * t->n + i) * t->d,
                   rows + ((t->row + i) * heads + t->g * t->rep + h) * t->d,
                   (size_t)t->d * sizeof *out);
}

static void scatter(const item *t, real *rows, const real *in)
{
    int64_t heads = t->p->model.geometry->n_head;
    for (int64_t h = 0; h < t->rep; h++)
        for (int64_t i = 0; i < t->n; i++)
            memcpy(rows + ((t->row + i) * heads + t->g * t->rep + h) * t->d,
                   in + (h * t->n + i) * t->d, (size_t)t->d * sizeof *rows);
}

/* [n D] of the kv head into rows [R GD]. */
static void scatter_own(const item *t, real *rows, const real *in)
{
    int64_t heads = t->p->model.geometry->n_kv_head;
    for (int64_t i = 0; i < t->n; i++)
        memcpy(rows + ((t->row + i) * heads + t->g) * t->d, in + i * t->d,
               (size_t)t->d * sizeof *rows);
}

static void softmax(real *x, int64_t n, int64_t lo, int64_t hi)
{
#ifdef TRAIN_DOUBLE
    real most = -INFINITY, sum = 0;
    for (int64_t j = lo; j < hi; j++)
        most = x[j] > most ? x[j] : most;
    for (int64_t j = 0; j < n; j++)
        sum += x[j] = j >= lo && j < hi ? exp(x[j] - most) : 0;
    for (int64_t j = lo; j < hi; j++)
        x[j] /= sum;
#else
    cpu_softmax(x, n, lo, hi);
#endif
}

/* Terms that are cut off are constant: they take no part in the gradient. */
static double kl(const float *target, const real *s, int64_t n, double of_target, double of_s,
                 real *d)
{
    double loss = 0, seen = 0;
    for (int64_t j = 0; j < n; j++) {
        double p = (double)target[j] / of_target, log_s = log((double)s[j] / of_s);
        bool low = !(log_s > LOG_LEAST);
        if (p > 0)
            loss += p * (log(p) - (low ? LOG_LEAST : log_s));
        seen += low ? 0 : p;
        d[j] = (real)(p > 0 && !low ? -p / (double)s[j] : 0);
    }
    for (int64_t j = 0; j < n; j++)
        d[j] += (real)(seen / of_s);
    return loss;
}

static double mse(const float *target, const real *s, int64_t n, double of_target, double of_s,
                  real *d)
{
    double loss = 0, cross = 0, by_s = (double)n / of_s, by_target = (double)n / of_target;
    for (int64_t j = 0; j < n; j++) {
        double e = (double)s[j] * by_s - (double)target[j] * by_target;
        loss += e * e;
        cross += e * (double)s[j] * by_s;
    }
    for (int64_t j = 0; j < n; j++) {
        double e = (double)s[j] * by_s - (double)target[j] * by_target;
        d[j] = (real)(2 / of_s * (e - cross / (double)n));
    }
    return loss / (double)n;
}

/* 1 / P_i of a row with prompt_only, else 1; 0: the row sees nothing of the prompt. */
static real row_weight(bool prompt_only, const real *row, int64_t n_prompt)
{
    real sum = 0;
    if (!prompt_only)
        return 1;
    for (int64_t j = 0; j < n_prompt; j++)
        sum += row[j];
    return sum > 0 ? 1 / sum : 0;
}

/* s [N] of a head: column sums of its rows, in their order. */
static void masses(bool prompt_only, const real *prob, int64_t n, int64_t n_key,
                   int64_t n_prompt, real *s)
{
    memset(s, 0, (size_t)n_prompt * sizeof *s);
    for (int64_t i = 0; i < n; i++) {
        real weight = row_weight(prompt_only, prob + i * n_key, n_prompt);
        for (int64_t j = 0; j < n_prompt; j++)
            s[j] += weight * prob[i * n_key + j];
    }
    for (int64_t j = 0; j < n_prompt; j++)
        s[j] /= (real)n;
}

static void loss_of(const item *t, int64_t h)
{
    const kvt_geometry *g = t->p->model.geometry;
    int64_t head = t->g * t->rep + h;
    const float *target =
        t->p->sample[t->sample].target + (t->layer * g->n_head + head) * t->n_prompt;
    real *s = t->own->z, *coef = t->coef + h * t->n_prompt;
    double of_target = 0, of_s = 0,
           *loss = &t->p->loss[(t->layer * t->p->n_sample + t->sample) * g->n_head + head];
    masses(t->p->room.prompt_only, t->prob + h * t->n * t->n_key, t->n, t->n_key, t->n_prompt,
           s);
    for (int64_t j = 0; j < t->n_prompt; j++) {
        of_target += (double)target[j];
        of_s += (double)s[j];
    }
    *loss = 0;
    memset(coef, 0, (size_t)t->n_prompt * sizeof *coef);
    if (!(of_target > 0) || !(of_s > 0))
        return; /* a sliding window hides the prompt from one of them */
    *loss =
        (t->p->room.loss == LOOK_KL ? kl : mse)(target, s, t->n_prompt, of_target, of_s, coef);
    real factor = (real)(t->p->weight / (double)(g->n_layer * g->n_head * t->n));
    for (int64_t j = 0; j < t->n_prompt; j++)
        coef[j] *= factor;
}

static void forward(const item *t)
{
    const kvt_geometry *g = t->p->model.geometry;
    const look_sample *sample = &t->p->sample[t->sample];
    look_own *own = t->own;
    int64_t rows = t->rep * t->n;
    keys(t, own->k, sample->k, t->s->k);
    gather(t, own->q, t->s->q);
    look_product(own, GEMM_NT, t->prob, t->n_key, own->q, t->d, own->k, t->d, rows, t->n_key,
                 t->d, (real)g->attn_scale, 0);
    for (int64_t r = 0; r < rows; r++) {
        int64_t pos = t->n_prompt + r % t->n;
        softmax(t->prob + r * t->n_key, t->n_key, kvt_geometry_first(g, t->layer, pos),
                pos + 1);
    }
    for (int64_t h = 0; h < t->rep; h++)
        loss_of(t, h);
    if (t->last)
        return;
    keys(t, own->v, sample->v, t->s->v);
    look_product(own, GEMM_NN, own->t, t->d, t->prob, t->n_key, own->v, t->d, rows, t->d,
                 t->n_key, 1, 0);
    scatter(t, t->s->o, own->t);
}

/* The loss's term of a row: d/dA, or, of A / P, that term again in a form that the softmax over
 * all columns hands on as it is, because its own sum over A is 0. */
static void add_loss(const item *t, real *z, const real *a, const real *coef)
{
    real weight = row_weight(t->p->room.prompt_only, a, t->n_prompt), mean = 0;
    if (t->p->room.prompt_only)
        for (int64_t j = 0; j < t->n_prompt; j++)
            mean += weight * a[j] * coef[j];
    for (int64_t j = 0; j < t->n_prompt; j++)
        z[j] += weight * (coef[j] - mean);
}

/* z = scale A (z - sum over j of A z), row by row, after the loss's term came in. */
static void through_softmax(const item *t)
{
    real scale = (real)t->p->model.geometry->attn_scale;
    for (int64_t r = 0; r < t->rep * t->n; r++) {
        real *z = t->own->z + r * t->n_key, lane[8] = {0};
        const real *a = t->prob + r * t->n_key, *coef = t->coef + r / t->n * t->n_prompt;
        add_loss(t, z, a, coef);
        int64_t j = 0;
        for (; j + 8 <= t->n_key; j += 8)
            for (int u = 0; u < 8; u++)
                lane[u] += a[j + u] * z[j + u];
        for (; j < t->n_key; j++)
            lane[0] += a[j] * z[j];
        real dot = ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
                   ((lane[1] + lane[5]) + (lane[3] + lane[7]));
        for (j = 0; j < t->n_key; j++)
            z[j] = scale * a[j] * (z[j] - dot);
    }
}

static void backward(const item *t)
{
    const look_sample *sample = &t->p->sample[t->sample];
    look_own *own = t->own;
    int64_t rows = t->rep * t->n, d = t->d, n_key = t->n_key;
    keys(t, own->k, sample->k, t->s->k);
    if (t->last) {
        memset(own->z, 0, (size_t)(rows * n_key) * sizeof *own->z);
    } else {
        keys(t, own->v, sample->v, t->s->v);
        gather(t, own->t, t->p->d_o);
        look_product(own, GEMM_NT, own->z, n_key, own->t, d, own->v, d, rows, n_key, d, 1, 0);
        look_product(own, GEMM_TN, own->own, d, t->prob + t->n_prompt, n_key, own->t, d, t->n,
                     d, rows, 1, 0);
        scatter_own(t, t->p->d_v, own->own);
    }
    through_softmax(t);
    look_product(own, GEMM_NN, own->t, d, own->z, n_key, own->k, d, rows, d, n_key, 1, 0);
    scatter(t, t->p->d_q, own->t);
    gather(t, own->q, t->s->q);
    look_product(own, GEMM_TN, own->own, d, own->z + t->n_prompt, n_key, own->q, d, t->n, d,
                 rows, 1, 0);
    scatter_own(t, t->p->d_k, own->own);
}

static void all(look_pass *p, int layer, void (*one)(const item *t))
{
    int64_t n_item = p->n_sample * p->model.geometry->n_kv_head;
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->room.n_thread)
    for (int64_t i = 0; i < n_item; i++) {
        item t = item_of(p, layer, i);
        one(&t);
    }
}

void look_attend_forward(look_pass *p, int layer)
{
    all(p, layer, forward);
}

void look_attend_backward(look_pass *p, int layer)
{
    all(p, layer, backward);
}

void look_mass(const look_pass *p, int layer, int sample, int64_t head, real *mass)
{
    int64_t n = p->layout.n_token, n_prompt = p->sample[sample].n_prompt, n_key = n_prompt + n;
    int64_t before = p->model.geometry->n_head * n * (p->first[sample] + sample * n);
    masses(false, p->saved[layer].prob + before + head * n * n_key, n, n_key, n_prompt, mass);
}
