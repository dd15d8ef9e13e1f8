/* qfilters.c - the direction that queries share: Q-Filters (arXiv 2503.02812) from traces.
 *
 * Per query head, v is the first right singular vector of its queries (rows, after RoPE, not
 * centred), with the sign that most queries agree with; a kv head's filter is
 *
 *   u = -mean over its group of v          score of a key = -(u . k), high: keep
 *
 * Memory: `samples` queries of each head of a layer. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "train/qfilters.h"
#include "train/table_fit.h"

enum { POWER_STEPS = 2000 };

bool qfilters_direction(double *out, const float *q, int64_t n, int64_t D, double *work)
{
    double *next = work, *s = work + D, change = 1;
    memset(s, 0, (size_t)(D * D) * sizeof *s);
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a < D; a++)
            for (int64_t b = 0; b <= a; b++)
                s[a * D + b] += (double)q[i * D + a] * (double)q[i * D + b];
    int64_t most = 0; /* begins with the longest column: it is not orthogonal to the answer */
    for (int64_t a = 1; a < D; a++)
        most = s[a * D + a] > s[most * D + most] ? a : most;
    for (int64_t a = 0; a < D; a++)
        out[a] = a >= most ? s[a * D + most] : s[most * D + a];
    for (int step = 0; step < POWER_STEPS && change > 1e-14; step++) {
        double norm = 0;
        change = 0;
        for (int64_t a = 0; a < D; a++)
            norm += out[a] * out[a];
        if (!(norm > 0))
            return false;
        for (int64_t a = 0; a < D; a++)
            out[a] /= sqrt(norm);
        norm = 0;
        for (int64_t a = 0; a < D; a++) {
            next[a] = 0;
            for (int64_t b = 0; b < D; b++)
                next[a] += (b <= a ? s[a * D + b] : s[b * D + a]) * out[b];
            norm += next[a] * next[a];
        }
        for (int64_t a = 0; a < D; a++) {
            double one = next[a] / sqrt(norm);
            change += (one - out[a]) * (one - out[a]);
            out[a] = one;
        }
    }
    int64_t agree = 0;
    for (int64_t i = 0; i < n; i++) {
        double dot = 0;
        for (int64_t a = 0; a < D; a++)
            dot += (double)q[i * D + a] * out[a];
        agree += dot > 0 ? 1 : dot < 0 ? -1 : 0;
    }
    for (int64_t a = 0; agree < 0 && a < D; a++)
        out[a] = -out[a];
    return true;
}

typedef struct qfilters_params {
    int64_t samples;
} qfilters_params;

typedef struct qfilters {
    const qfilters_params *p;
    int64_t H, G, D, n, most, each; /* n so far of `most`, `each` of a trace */
    float *q;                       /* [H most D] */
    double *work;                   /* 2 D + D D */
} qfilters;

static const kvt_ds reads[] = {KVT_DS_QUERIES};

static kvt_code begin(void *user, kvt_err *err)
{
    qfilters *k = user;
    (void)err;
    k->n = 0;
    return KVT_OK;
}

/* Evenly spaced rows of the trace. */
static kvt_code add(void *user, const tracein *s, int layer, kvt_arena *work, kvt_err *err)
{
    qfilters *k = user;
    const uint16_t *q = tracein_at(s, KVT_DS_QUERIES, layer);
    int64_t Q = s->info->n_query, n = Q < k->each ? Q : k->each;
    (void)work, (void)err;
    n = n < k->most - k->n ? n : k->most - k->n;
    for (int64_t h = 0; h < k->H; h++)
        for (int64_t i = 0; i < n; i++)
            half_to_floats(k->q + (h * k->most + k->n + i) * k->D,
                           q + (h * Q + i * Q / n) * k->D, k->D);
    k->n += n;
    return KVT_OK;
}

static kvt_code end(void *user, int layer, float *param, kvt_err *err)
{
    const qfilters *k = user;
    int64_t R = k->H / k->G;
    double *v = k->work + k->D + k->D * k->D;
    memset(param, 0, (size_t)(k->G * k->D) * sizeof *param);
    for (int64_t h = 0; h < k->H; h++) {
        if (!qfilters_direction(v, k->q + h * k->most * k->D, k->n, k->D, k->work))
            return kvt_fail(err, KVT_FORMAT, "layer %d, head %lld: every query is 0", layer,
                            (long long)h);
        for (int64_t d = 0; d < k->D; d++)
            param[h / R * k->D + d] -= (float)(v[d] / (double)R);
    }
    return KVT_OK;
}

static table_spec spec_of(qfilters *k)
{
    return (table_spec){.kind = "qfilters",
                        .ds = reads,
                        .n_ds = 1,
                        .n_param = k->D,
                        .user = k,
                        .begin = begin,
                        .add = add,
                        .end = end};
}

static qfilters qfilters_of(const train_run *run)
{
    const kvt_geometry *g = &run->info.facts.model;
    qfilters k = {.p = run->params, .H = g->n_head, .G = g->n_kv_head, .D = g->head_dim};
    k.most = k.p->samples;
    k.each = (k.most + run->spec->n_trace - 1) / run->spec->n_trace;
    return k;
}

static kvt_code run_qfilters(train_run *run, kvt_err *err)
{
    qfilters k = qfilters_of(run);
    const fit_tensor tensor[] = {
        {"filter", "u: a key scores -(u . k), high: keep", "D", 0, {k.D}}};
    k.q = kvt_alloc(k.H * k.most * k.D, sizeof *k.q);
    k.work = kvt_alloc(2 * k.D + k.D * k.D, sizeof *k.work);
    kvt_code code = KVT_OK;
    if (!k.q || !k.work)
        code = kvt_fail_memory(err, (size_t)(k.H * k.most * k.D) * sizeof *k.q);
    const table_spec spec = spec_of(&k);
    if (!code)
        code = table_run(run, &spec, tensor, 1, err);
    kvt_free(k.q);
    kvt_free(k.work);
    return code;
}

static kvt_code plan_qfilters(train_run *run, kvt_err *err)
{
    qfilters k = qfilters_of(run);
    const table_spec spec = spec_of(&k);
    run->counts->memory_bytes = k.H * k.most * k.D * (int64_t)sizeof *k.q;
    return table_plan(run, &spec, err);
}

static const kvt_param params[] = {
    KVT_PARAM(qfilters_params, samples, 3000, 1, 1 << 20, "1", "queries of each head"), {0}};

const kvt_trainer kvt_trainer_qfilters = {
    .name = "qfilters",
    .title = "the direction that the queries of a head share",
    .paper = "Godey et al., Q-Filters, 2025, arXiv:2503.02812",
    .about =
        "The queries of a head share one direction, their first right singular vector; a key "
        "that points against it is not looked at. The mean over the group, with the sign of "
        "most queries, is the filter of a kv head; no training, 3,000 queries of each head "
        "as published.",
    .differs =
        "queries are those that the traces store, evenly spaced; the sign is that of most "
        "of them",
    .file = "scorer",
    .reads = "level replay",
    .params_size = sizeof(qfilters_params),
    .params = params,
    .run = run_qfilters,
    .plan = plan_qfilters,
};
