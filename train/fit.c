/* fit.c - stochastic descent of many small scorers at once (train/fit.h). */
#include "train/fit.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "compute/gemm.h"

enum { WORK_LIMIT_SHIFT = 34 };

/* ---- memory --------------------------------------------------------------------------------
 */

static int64_t units(const train_run *run, const fit_spec *spec)
{
    return run->info.n_layer * (spec->by_layer ? 1 : run->info.facts.model.n_kv_head);
}

static int64_t steps(const train_run *run, const fit_plan *p)
{
    int64_t n = (run->spec->n_trace * p->epochs + p->batch - 1) / p->batch;
    return p->steps > 0 ? p->steps : n > 0 ? n : 1;
}

void fit_free(fit *f)
{
    for (int i = 0; f->work && i < f->n_thread; i++)
        kvt_arena_free(f->work[i]);
    kvt_free(f->work);
    kvt_free(f->param);
    kvt_free(f->grad);
    kvt_free(f->m);
    kvt_free(f->v);
    kvt_free(f->mean);
    kvt_free(f->scale);
    kvt_free(f->sum);
    *f = (fit){0};
}

static kvt_code reserve(fit *f, const train_run *run, kvt_err *err)
{
    const fit_spec *s = f->spec;
    int64_t n = f->n_unit * s->n_param, n_in = f->n_unit * s->n_in;
    f->n_thread = kvt_threads(run->ctx);
    f->param = kvt_alloc(n, sizeof *f->param);
    f->grad = kvt_alloc(n, sizeof *f->grad);
    f->m = kvt_alloc(n, sizeof *f->m);
    f->v = kvt_alloc(n, sizeof *f->v);
    f->mean = kvt_alloc(n_in, sizeof *f->mean);
    f->scale = kvt_alloc(n_in, sizeof *f->scale);
    f->sum = kvt_alloc(f->n_unit, sizeof *f->sum);
    f->work = kvt_alloc(f->n_thread, sizeof *f->work);
    bool ok = f->param && f->grad && f->m && f->v && f->mean && f->scale && f->sum && f->work;
    for (int i = 0; ok && i < f->n_thread; i++)
        ok = (f->work[i] = kvt_arena_new((size_t)1 << WORK_LIMIT_SHIFT)) != NULL;
    return ok ? KVT_OK : kvt_fail_memory(err, (size_t)(4 * n + 2 * n_in) * sizeof *f->param);
}

kvt_code fit_counts(train_run *run, const fit_spec *spec, kvt_err *err)
{
    kvt_code code = train_needs(run, spec->ds, spec->n_ds, err);
    if (code)
        return code;
    kvt_train_counts *c = run->counts;
    int64_t n = units(run, spec), longest = 0;
    for (int i = 0; i < run->spec->n_trace; i++)
        if (run->trace[i].n_token > longest)
            longest = run->trace[i].n_token;
    c->n_parameter = n * spec->n_param;
    c->n_step = steps(run, &spec->plan);
    c->n_example = c->n_step * spec->plan.batch;
    c->file_bytes = c->n_parameter * (spec->plan.half ? 2 : 4);
    /* Parameters, gradient, two moments, the standardisation; a trace in halves; a unit's
     * inputs twice for each thread. */
    c->memory_bytes = 4 * (n * (4 * spec->n_param + 2 * spec->n_in) +
                           longest * spec->n_in * 2 * kvt_threads(run->ctx)) +
                      2 * n * longest * spec->n_in;
    return KVT_OK;
}

/* ---- one trace, its units side by side ------------------------------------------------------
 */

typedef enum fit_phase { FIT_MEET, FIT_LEARN, FIT_JUDGE } fit_phase;

typedef struct fit_visit {
    fit *f;
    train_run *run;
    const tracein *s;
    fit_phase phase;
    int64_t epoch;
    bool first;
    double *square; /* [n_unit n_in] with sums of x in mean and x^2 here, and [n_unit] rows */
    double *total;
    double *rows;
} fit_visit;

static void add_moments(const fit_visit *v, int64_t u, const float *x, int64_t n)
{
    int64_t W = v->f->spec->n_in;
    double *sum = v->total + u * W, *square = v->square + u * W;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < W; j++) {
            double a = (double)x[i * W + j];
            sum[j] += a;
            square[j] += a * a;
        }
    v->rows[u] += (double)n;
}

static void standardise(const fit *f, int64_t u, float *x, int64_t n)
{
    int64_t W = f->spec->n_in;
    const float *mean = f->mean + u * W, *scale = f->scale + u * W;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < W; j++)
            x[i * W + j] = (x[i * W + j] - mean[j]) * scale[j];
}

static bool visit_unit(const fit_visit *v, int u, kvt_arena *work)
{
    fit *f = v->f;
    const fit_spec *s = f->spec;
    int G = s->by_layer ? 1 : (int)v->s->G;
    fit_at at = {.s = v->s, .unit = u, .layer = u / G, .lane = u % G, .work = work};
    float *x = s->input(s->user, v->s, at.layer, at.lane, &at.n, &at.note, work);
    if (!x)
        return false;
    if (v->phase == FIT_MEET) {
        add_moments(v, u, x, at.n);
        return !s->meet || s->meet(s->user, v->s, u, at.layer, at.lane, work);
    }
    char purpose[128];
    snprintf(purpose, sizeof purpose, "%s %lld|%s|%d",
             v->phase == FIT_LEARN ? "learn" : "judge", (long long)v->epoch, v->s->of->digest,
             u);
    train_stream(v->run, purpose, at.rng);
    standardise(f, u, x, at.n);
    at.x = x;
    at.param = f->param + u * s->n_param;
    at.grad = v->phase == FIT_LEARN ? f->grad + u * s->n_param : NULL;
    at.first = v->first;
    return (v->phase == FIT_LEARN ? s->learn : s->judge)(s->user, &at, &f->sum[u]);
}

static kvt_code visit(fit_visit *v, const train_trace *t, kvt_err *err)
{
    const fit_spec *spec = v->f->spec;
    tracein s;
    bool ok = true;
    kvt_code code = tracein_open(&s, t, spec->ds, spec->n_ds, err);
    if (!code && spec->open)
        code = spec->open(spec->user, &s, err);
    v->s = &s;
    int n = code ? 0 : (int)v->f->n_unit;
    gemm_one_thread();
#pragma omp parallel for schedule(dynamic, 1) num_threads(v->f->n_thread) reduction(&& : ok)
    for (int u = 0; u < n; u++) {
        kvt_arena *work = v->f->work[omp_get_thread_num()];
        size_t mark = kvt_arena_mark(work);
        ok = visit_unit(v, u, work) && ok;
        kvt_arena_rewind(work, mark);
    }
    if (spec->close)
        spec->close(spec->user, &s);
    tracein_close(&s);
    if (!code && !ok)
        code = kvt_fail(err, KVT_NOMEM, "out of memory for %lld tokens", (long long)t->n_token);
    return code ? kvt_within(err, "'%s'", t->path) : KVT_OK;
}

/* ---- the first pass -------------------------------------------------------------------------
 */

static void set_scales(fit *f, const fit_visit *v)
{
    int64_t W = f->spec->n_in;
    for (int64_t i = 0; i < f->n_unit * W; i++) {
        double rows = v->rows[i / W] > 0 ? v->rows[i / W] : 1;
        double mean = v->total[i] / rows, var = v->square[i] / rows - mean * mean;
        f->mean[i] = (float)mean;
        f->mean[i] = f->spec->raw ? 0 : f->mean[i];
        f->scale[i] = var > 1e-12 && !f->spec->raw ? (float)(1 / sqrt(var)) : 1;
    }
}

static kvt_code meet_all(fit *f, train_run *run, kvt_err *err)
{
    int64_t n = f->n_unit * f->spec->n_in;
    fit_visit v = {.f = f,
                   .run = run,
                   .phase = FIT_MEET,
                   .total = kvt_alloc(n, sizeof *v.total),
                   .square = kvt_alloc(n, sizeof *v.square),
                   .rows = kvt_alloc(f->n_unit, sizeof *v.rows)};
    kvt_code code = KVT_OK;
    if (!v.total || !v.square || !v.rows)
        code = kvt_fail_memory(err, (size_t)n * 2 * sizeof *v.total);
    for (int i = 0; !code && i < run->spec->n_trace; i++) {
        code = kvt_progress(run->ctx, "measure inputs", i, run->spec->n_trace, err);
        if (!code)
            code = visit(&v, &run->trace[i], err);
    }
    if (!code)
        set_scales(f, &v);
    kvt_free(v.total);
    kvt_free(v.square);
    kvt_free(v.rows);
    return code;
}

static kvt_code begin(fit *f, train_run *run, kvt_err *err)
{
    kvt_code code = meet_all(f, run, err);
    for (int64_t u = 0; !code && u < f->n_unit; u++) {
        char purpose[64];
        uint64_t rng[4];
        snprintf(purpose, sizeof purpose, "begin %lld", (long long)u);
        train_stream(run, purpose, rng);
        f->spec->begin(f->spec->user, (int)u, f->param + u * f->spec->n_param, rng);
    }
    return code;
}

/* ---- steps ----------------------------------------------------------------------------------
 */

static fit_sum take_sums(fit *f)
{
    fit_sum all = {0};
    for (int64_t u = 0; u < f->n_unit; u++) {
        all.loss += f->sum[u].loss;
        all.n_loss += f->sum[u].n_loss;
        all.recall += f->sum[u].recall;
        all.lost += f->sum[u].lost;
        all.n_recall += f->sum[u].n_recall;
        f->sum[u] = (fit_sum){0};
    }
    return all;
}

static double share(double sum, double n)
{
    return n > 0 ? sum / n : (double)NAN;
}

static kvt_code judge(fit *f, train_run *run, bool first, train_row *row, kvt_err *err)
{
    fit_visit v = {.f = f, .run = run, .phase = FIT_JUDGE, .first = first};
    row->heldout_loss = row->recall = row->lost = (double)NAN;
    for (int i = 0; i < run->spec->n_heldout; i++) {
        kvt_code code = kvt_progress(run->ctx, "held out", i, run->spec->n_heldout, err);
        if (!code)
            code = visit(&v, &run->heldout[i], err);
        if (code)
            return code;
    }
    fit_sum all = take_sums(f);
    if (run->spec->n_heldout == 0)
        return KVT_OK;
    row->heldout_loss = share(all.loss, all.n_loss);
    row->recall = share(all.recall, all.n_recall);
    row->lost = share(all.lost, all.n_recall);
    run->counts->heldout_loss = row->heldout_loss;
    run->counts->heldout_recall = row->recall;
    run->counts->heldout_lost = row->lost;
    if (first && f->spec->first)
        f->spec->first(f->spec->user, run);
    return KVT_OK;
}

static void momentum_step(float *param, const float *grad, float *m, int64_t n, double momentum,
                          double rate)
{
    for (int64_t i = 0; i < n; i++) {
        m[i] = (float)momentum * m[i] + grad[i];
        param[i] -= (float)rate * m[i];
    }
}

static void update(fit *f, int64_t t, double rate)
{
    const adamw_spec adam = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    const fit_plan *p = &f->spec->plan;
    int64_t n = f->spec->n_param;
    for (int64_t i = 0; i < f->n_unit * n; i++)
        f->grad[i] /= (float)p->batch;
    for (int64_t u = 0; u < f->n_unit; u++) {
        float *grad = f->grad + u * n;
        if (p->clip > 0)
            adamw_clip(&grad, &n, 1, p->clip);
        if (p->momentum > 0)
            momentum_step(f->param + u * n, grad, f->m + u * n, n, p->momentum, rate);
        else
            adamw_step(&adam, f->param + u * n, grad, f->m + u * n, f->v + u * n, n, t, rate);
    }
}

/* Traces of step t (from 1): the order of each epoch is drawn anew. */
static kvt_code step(fit *f, train_run *run, int64_t t, int32_t *order, int64_t *epoch,
                     kvt_err *err)
{
    int64_t batch = f->spec->plan.batch, n = run->spec->n_trace;
    fit_visit v = {.f = f, .run = run, .phase = FIT_LEARN};
    memset(f->grad, 0, (size_t)(f->n_unit * f->spec->n_param) * sizeof *f->grad);
    for (int64_t at = (t - 1) * batch; at < t * batch; at++) {
        kvt_code code = KVT_OK;
        v.epoch = at / n;
        if (v.epoch != *epoch)
            code = train_order(run, *epoch = v.epoch, order, (int)n, err);
        if (!code)
            code = visit(&v, &run->trace[order[at % n]], err);
        if (code)
            return code;
    }
    return KVT_OK;
}

enum { FIT_PARTS = 6 };

/* since: sum of losses since the last row, and how many; loss of the first row, whether there
 * was one; how many losses the run has seen. */
enum { SINCE = 5 };

static void parts(fit *f, double *since, train_part part[FIT_PARTS])
{
    int64_t n = f->n_unit * f->spec->n_param * (int64_t)sizeof(float);
    int64_t n_in = f->n_unit * f->spec->n_in * (int64_t)sizeof(float);
    part[0] = (train_part){"param", f->param, n};
    part[1] = (train_part){"moment1", f->m, n};
    part[2] = (train_part){"moment2", f->v, n};
    part[3] = (train_part){"mean", f->mean, n_in};
    part[4] = (train_part){"scale", f->scale, n_in};
    part[5] = (train_part){"since", since, SINCE * (int64_t)sizeof(double)};
}

/* Rows are written at each eval_every-th step and at the last one. */
static kvt_code row_due(fit *f, train_run *run, int64_t t, double rate, double since[SINCE],
                        kvt_err *err)
{
    int64_t every = f->spec->plan.eval_every;
    if (every <= 0)
        every = f->n_step > 10 ? f->n_step / 10 : 1;
    if (t % every != 0 && t != f->n_step)
        return KVT_OK;
    train_row row = {.step = t, .loss = share(since[0], since[1]), .rate = rate};
    if (!(since[3] > 0)) {
        since[2] = row.loss;
        since[3] = 1;
    }
    run->counts->first_loss = since[2];
    run->counts->last_loss = row.loss;
    since[0] = since[1] = 0;
    kvt_code code = judge(f, run, false, &row, err);
    return code ? code : train_log(run, &row, err);
}

/* Every trace was read, or all steps done, and nothing gave a loss: a scorer would be noise. */
static kvt_code check_seen(const fit *f, const train_run *run, int64_t t, double seen,
                           kvt_err *err)
{
    int64_t longest = 0;
    if (seen > 0 || (t < f->n_step && t * f->spec->plan.batch < run->spec->n_trace))
        return KVT_OK;
    for (int i = 0; i < run->spec->n_trace; i++)
        if (run->trace[i].n_token > longest)
            longest = run->trace[i].n_token;
    return kvt_fail(err, KVT_FORMAT,
                    "%s: with these parameters no token of the traces is learned from; the "
                    "longest has %lld tokens",
                    run->trainer->name, (long long)longest);
}

static kvt_code descend(fit *f, train_run *run, int64_t t, double since[SINCE], kvt_err *err)
{
    train_part part[FIT_PARTS];
    int64_t epoch = -1;
    kvt_code code = KVT_OK;
    int32_t *order = kvt_alloc(run->spec->n_trace, sizeof *order);
    if (!order)
        return kvt_fail_memory(err, (size_t)run->spec->n_trace * sizeof *order);
    parts(f, since, part);
    while (!code && t < f->n_step) {
        const fit_plan *p = &f->spec->plan;
        double rate = p->rate * train_schedule(t + 1, f->n_step, p->warmup);
        code = step(f, run, t + 1, order, &epoch, err);
        if (code)
            break;
        update(f, ++t, rate);
        fit_sum all = take_sums(f);
        since[0] += all.loss;
        since[1] += all.n_loss;
        since[4] += all.n_loss;
        if (!isfinite(all.loss)) {
            code = kvt_fail(err, KVT_FORMAT,
                            "step %lld: the loss is not finite; lower the rate", (long long)t);
            break;
        }
        code = check_seen(f, run, t, since[4], err);
        if (!code)
            code = row_due(f, run, t, rate, since, err);
        if (!code)
            code = train_step_done(run, t, f->n_step, part, FIT_PARTS, err);
    }
    kvt_free(order);
    return code;
}

kvt_code fit_run(fit *f, train_run *run, const fit_spec *spec, kvt_err *err)
{
    train_part part[FIT_PARTS];
    double since[SINCE] = {0};
    int64_t t = 0;
    kvt_code code = fit_counts(run, spec, err);
    if (code)
        return code;
    *f = (fit){.spec = spec, .n_unit = units(run, spec), .n_step = run->counts->n_step};
    code = reserve(f, run, err);
    parts(f, since, part);
    if (!code)
        code = train_resume(run, &t, part, FIT_PARTS, err);
    if (!code && t == 0) {
        train_row row = {.loss = (double)NAN, .rate = (double)NAN};
        code = begin(f, run, err);
        if (!code)
            code = judge(f, run, true, &row, err);
        if (!code && run->spec->n_heldout > 0)
            code = train_log(run, &row, err);
    }
    return code ? code : descend(f, run, t, since, err);
}
