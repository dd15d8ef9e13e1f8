/* kvzap.c - a linear map of the hidden state to the log of what a token will get: KVzap (arXiv
 * 2601.07891), closed form.
 *
 * Per layer, with h_t the input of the attention projections and one row of W for each kv head,
 *
 *   W h_t + b ~ log max(floor, label_t)
 *
 * by least squares with the penalty lambda |W|^2, lambda the best of a grid on the held-out
 * traces. The label is KVzip+'s score from a repeat probe or the largest attention of the
 * response (train/label.h). Layers are done one after the other: every trace is opened once a
 * layer. Memory E^2 doubles, twice. */
#include <math.h>

#include "base/half.h"
#include "train/fit.h"
#include "train/judge.h"
#include "train/label.h"
#include "train/ridge.h"

typedef struct kvzap_params {
    int label;
    double lambda, floor;
    bool half;
} kvzap_params;

static const kvt_choice labels[] = {
    [LABEL_FUTURE] = {"future", "", "largest attention of the response, future/max"},
    [LABEL_REPEAT] = {"repeat", "", "KVzip's score, of a repeat probe"},
    [LABEL_REPEAT_PLUS] = {"repeat-plus", "", "KVzip+'s score, of a repeat probe"}};

/* One layer's sums over the training traces and the held-out ones, and what is found. */
typedef struct kvzap {
    const kvzap_params *p;
    train_run *run;
    ridge train, held;
    double *weight, *bias, *try, *try_bias; /* [G E], [G] */
    kvt_arena *work;
    fit_sum sum;
    double first_loss; /* of the first layer */
} kvzap;

/* The inputs and labels of a layer of one trace, in k->work. */
static kvt_code read_layer(kvzap *k, const train_trace *t, int layer, tracein *s, float **x,
                           double **y, kvt_err *err)
{
    static const kvt_ds reads[] = {KVT_DS_HIDDEN, KVT_DS_FUTURE_MAX};
    kvt_code code = tracein_open_layer(s, t, reads, 2, layer, err);
    if (!code)
        code = label_check(s, (label_kind)k->p->label, err);
    if (code)
        return code;
    *x = kvt_arena_array(k->work, s->N * s->E, sizeof **x);
    *y = kvt_arena_array(k->work, s->G * s->N, sizeof **y);
    if (!*x || !*y)
        return kvt_fail_memory(err, (size_t)(s->N * s->E) * sizeof **x);
    half_to_floats(*x, tracein_at(s, KVT_DS_HIDDEN, layer), s->N * s->E);
    code = label_layer(*y, s, layer, (label_kind)k->p->label, k->work, err);
    for (int64_t i = 0; i < s->G * s->N; i++)
        (*y)[i] = log(fmax((*y)[i], k->p->floor));
    return code;
}

static kvt_code add_trace(kvzap *k, const train_trace *t, int layer, ridge *to, kvt_err *err)
{
    tracein s;
    float *x;
    double *y;
    size_t mark = kvt_arena_mark(k->work);
    kvt_code code = read_layer(k, t, layer, &s, &x, &y, err);
    if (!code)
        ridge_add(to, x, y, s.N, kvt_threads(k->run->ctx));
    tracein_close(&s);
    kvt_arena_rewind(k->work, mark);
    return code ? kvt_within(err, "'%s'", t->path) : KVT_OK;
}

/* How well the map ranks a held-out trace. */
static kvt_code judge_trace(kvzap *k, const train_trace *t, int layer, kvt_err *err)
{
    tracein s;
    float *x;
    double *y;
    size_t mark = kvt_arena_mark(k->work);
    kvt_code code = read_layer(k, t, layer, &s, &x, &y, err);
    double *score = code ? NULL : kvt_arena_array(k->work, 2 * s.N, sizeof *score);
    if (!code && !score)
        code = kvt_fail_memory(err, (size_t)s.N * sizeof *score);
    for (int64_t g = 0; !code && g < s.G; g++) {
        double *label = y + g * s.N, *mass = score + s.N;
        for (int64_t i = 0; i < s.N; i++) {
            mass[i] = exp(label[i]);
            score[i] = 0;
            for (int64_t e = 0; e < s.E; e++)
                score[i] += k->weight[g * s.E + e] * (double)x[i * s.E + e];
        }
        if (!judge_best(label, mass, score, s.N, &k->sum, k->work))
            code = kvt_fail_memory(err, (size_t)s.N * sizeof *score);
    }
    tracein_close(&s);
    kvt_arena_rewind(k->work, mark);
    return code ? kvt_within(err, "'%s'", t->path) : KVT_OK;
}

/* weight and bias at the lambda that errs least on the held-out rows; without any, at the
 * parameter's. */
static kvt_code solve(kvzap *k, double *lambda, double *error, kvt_err *err)
{
    static const double grid[] = {1e-4, 1e-3, 1e-2, 1e-1, 1, 10};
    int64_t n = k->train.n_in * k->train.n_out;
    *lambda = k->p->lambda > 0 ? k->p->lambda : 1e-2;
    *error = (double)NAN;
    if (k->p->lambda > 0 || k->held.n == 0) {
        kvt_code code = ridge_solve(&k->train, *lambda, k->weight, k->bias, err);
        if (!code)
            *error = ridge_error(&k->held, k->weight, k->bias);
        return code;
    }
    for (size_t i = 0; i < sizeof grid / sizeof *grid; i++) {
        kvt_code code = ridge_solve(&k->train, grid[i], k->try, k->try_bias, err);
        if (code)
            return code;
        double e = ridge_error(&k->held, k->try, k->try_bias);
        if (*error <= e)
            continue;
        *error = e;
        *lambda = grid[i];
        for (int64_t j = 0; j < n; j++)
            k->weight[j] = k->try[j];
        for (int64_t j = 0; j < k->train.n_out; j++)
            k->bias[j] = k->try_bias[j];
    }
    return KVT_OK;
}

static kvt_code fit_layer(kvzap *k, int layer, fit *f, kvt_err *err)
{
    train_run *run = k->run;
    int64_t G = k->train.n_out, E = k->train.n_in;
    kvt_code code = KVT_OK;
    ridge_clear(&k->train);
    ridge_clear(&k->held);
    for (int i = 0; !code && i < run->spec->n_trace; i++)
        code = add_trace(k, &run->trace[i], layer, &k->train, err);
    for (int i = 0; !code && i < run->spec->n_heldout; i++)
        code = add_trace(k, &run->heldout[i], layer, &k->held, err);
    double lambda = 0, error = 0;
    if (!code)
        code = solve(k, &lambda, &error, err);
    for (int i = 0; !code && i < run->spec->n_heldout; i++)
        code = judge_trace(k, &run->heldout[i], layer, err);
    if (code)
        return code;
    for (int64_t g = 0; g < G; g++) {
        float *to = f->param + (layer * G + g) * (E + 1);
        for (int64_t e = 0; e < E; e++)
            to[e] = (float)k->weight[g * E + e];
        to[E] = (float)k->bias[g];
    }
    train_row row = {.step = layer + 1,
                     .loss = ridge_error(&k->train, k->weight, k->bias),
                     .rate = lambda,
                     .heldout_loss = error,
                     .recall = (double)NAN,
                     .lost = (double)NAN};
    if (k->sum.n_recall > 0) {
        row.recall = k->sum.recall / k->sum.n_recall;
        row.lost = k->sum.lost / k->sum.n_recall;
    }
    kvt_train_counts *c = run->counts;
    if (layer == 0)
        k->first_loss = row.loss;
    c->first_loss = k->first_loss;
    c->last_loss = row.loss;
    c->heldout_loss = row.heldout_loss;
    c->heldout_recall = row.recall;
    c->heldout_lost = row.lost;
    return train_log(run, &row, err);
}

/* Done layers are whole: a run that was stopped goes on with the next one. */
static kvt_code fit_layers(kvzap *k, fit *f, kvt_err *err)
{
    train_run *run = k->run;
    int64_t layer = 0, bytes = f->n_unit * f->spec->n_param * (int64_t)sizeof(float);
    const train_part part[] = {{"weights", f->param, bytes},
                               {"sums", &k->sum, (int64_t)sizeof k->sum},
                               {"first", &k->first_loss, (int64_t)sizeof k->first_loss}};
    enum { PARTS = sizeof part / sizeof *part };
    kvt_code code = train_resume(run, &layer, part, PARTS, err);
    while (!code && layer < run->info.n_layer) {
        code = fit_layer(k, (int)layer, f, err);
        if (code)
            break;
        layer++;
        code = train_step_done(run, layer, run->info.n_layer, part, PARTS, err);
    }
    return code;
}

static fit_spec spec_of(const train_run *run)
{
    const kvzap_params *p = run->params;
    static const kvt_ds reads[] = {KVT_DS_HIDDEN, KVT_DS_FUTURE_MAX};
    return (fit_spec){.n_param = run->info.facts.model.n_hidden + 1,
                      .n_in = run->info.facts.model.n_hidden,
                      .ds = reads,
                      .n_ds = 2,
                      .plan = {.steps = run->info.n_layer, .batch = 1, .half = p->half}};
}

static kvt_code plan_kvzap(train_run *run, kvt_err *err)
{
    fit_spec spec = spec_of(run);
    int64_t E = spec.n_in;
    kvt_code code = fit_counts(run, &spec, err);
    run->counts->n_example = run->spec->n_trace;
    run->counts->memory_bytes = 3 * E * E * (int64_t)sizeof(double);
    return code;
}

static kvt_code reserve(kvzap *k, fit *f, kvt_err *err)
{
    const kvt_geometry *g = &k->run->info.facts.model;
    int64_t n = g->n_kv_head * g->n_hidden;
    k->weight = kvt_alloc(2 * (n + g->n_kv_head), sizeof *k->weight);
    k->work = kvt_arena_new((size_t)1 << 34);
    f->param = kvt_alloc(f->n_unit * f->spec->n_param, sizeof *f->param);
    if (!k->weight || !k->work || !f->param)
        return kvt_fail_memory(err, (size_t)n * 2 * sizeof *k->weight);
    k->try = k->weight + n;
    k->bias = k->try + n;
    k->try_bias = k->bias + g->n_kv_head;
    kvt_code code = ridge_new(&k->train, g->n_hidden, g->n_kv_head, err);
    return code ? code : ridge_new(&k->held, g->n_hidden, g->n_kv_head, err);
}

static kvt_code run_kvzap(train_run *run, kvt_err *err)
{
    kvzap k = {.p = run->params, .run = run};
    fit_spec spec = spec_of(run);
    fit f = {.spec = &spec, .n_unit = run->info.n_layer * run->info.facts.model.n_kv_head};
    int64_t E = spec.n_in;
    const fit_tensor tensor[] = {
        {"weight", "weights, of the input of the attention projections", "E", 0, {E}},
        {"bias", "bias; the score estimates a log", "", E, {0}}};
    kvt_code code = plan_kvzap(run, err);
    if (!code)
        code = reserve(&k, &f, err);
    if (!code)
        code = fit_layers(&k, &f, err);
    if (!code)
        code = fit_write(&f, run, "kvzap", tensor, 2, NULL, 0, err);
    kvt_free(k.weight);
    kvt_arena_free(k.work);
    ridge_free(&k.train);
    ridge_free(&k.held);
    fit_free(&f);
    return code;
}

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(kvzap_params, label, LABEL_FUTURE, labels, "what is estimated"),
    KVT_PARAM(kvzap_params, lambda, 0, 0, 1e9, "1",
              "penalty, in mean variances of an input; 0: the best of a grid on the held-out "
              "traces (without any: 0.01)"),
    KVT_PARAM(kvzap_params, floor, 1e-6, 1e-30, 1, "1", "smallest label before the logarithm"),
    KVT_PARAM(kvzap_params, half, 0, 0, 1, "", "the file holds halves"),
    {0}};

const kvt_trainer kvt_trainer_kvzap = {
    .name = "kvzap",
    .title = "a linear map of the hidden state to the log of what a token will get",
    .paper = "Jegou and Jeblick, KVzap, 2026, arXiv:2601.07891",
    .about =
        "Ridge regression from the input of the attention projections to the log of a label "
        "for each kv head, solved exactly, layer by layer; the penalty is the best of a grid "
        "on the held-out traces. label=repeat and repeat-plus are KVzip's and KVzip+'s "
        "scores, as published; label=future needs no probe.",
    .differs = "the linear map only, in closed form; the label is the largest attention of the "
               "response where no repeat probe is asked for",
    .file = "scorer",
    .reads = "level full; label=repeat and repeat-plus: a probe of kind repeat",
    .params_size = sizeof(kvzap_params),
    .params = params,
    .run = run_kvzap,
    .plan = plan_kvzap,
};
