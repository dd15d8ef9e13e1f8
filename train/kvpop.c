/* kvpop.c - KVpop's scorers on frozen traces: "KVpop" (arXiv 2607.05061).
 *
 * Per lane, a token's keys and values x = [k; v] give a score r^, read when the token leaves
 * the window (mlstm: w tokens later, by a memory of everything since; mlp, linear: of the token
 * itself). Targets are log(eps + mean attention from queries at distance w or more), the
 * group's maximum. What is learned is the order at the boundary (train/cutoff.h) or, as the
 * ablation, the target itself by least squares. Memory O(T) a lane. */
#include "train/kvpop.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

/* ---- scorer ---------------------------------------------------------------------------------
 */

int64_t kvpop_end(const kvpop *k, const tracein *s)
{
    return target_end(s->T, k->p->window, k->p->future);
}

double kvpop_decay(const kvpop *k, const float *param, double *slope)
{
    if (slope)
        *slope = 0;
    return k->p->decay == 0 ? cutoff_gamma((double)param[k->n_scorer], slope) : 0;
}

bool kvpop_forward(kvpop_pass *pass)
{
    const kvpop *k = pass->k;
    const fit_at *at = pass->at;
    bool mlstm = k->p->scorer == KVPOP_MLSTM;
    int64_t n_in = k->mlp.n_in, n = pass->n, last = n > 0 ? pass->token[n - 1] : 0;
    int64_t n_step = last + 1 + k->mlstm.delay;
    int64_t n_work =
        mlstm ? mlstm_work(&k->mlstm, n_step, pass->learns ? n : 0) : 2 * n * k->mlp.width;
    pass->score = kvt_arena_array(at->work, n, sizeof *pass->score);
    pass->slope = kvt_arena_array(at->work, n, sizeof *pass->slope);
    pass->work = kvt_arena_array(at->work, n_work, sizeof *pass->work);
    pass->rows = kvt_arena_array(at->work, mlstm ? 1 : n * n_in, sizeof *pass->rows);
    if (!pass->score || !pass->slope || !pass->work || !pass->rows)
        return false;
    if (mlstm) {
        mlstm_score_f32(&k->mlstm, at->param, at->x, n_step, pass->token, n, pass->learns,
                        pass->score, pass->work);
        return true;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(pass->rows + i * n_in, at->x + pass->token[i] * n_in,
               (size_t)n_in * sizeof *pass->rows);
    mlp_score_f32(&k->mlp, at->param, pass->rows, n, pass->score, pass->work);
    return true;
}

void kvpop_backward(const kvpop_pass *pass)
{
    const kvpop *k = pass->k;
    const fit_at *at = pass->at;
    int64_t n = pass->n;
    if (k->p->scorer == KVPOP_MLSTM)
        mlstm_back_f32(&k->mlstm, at->param, at->x, pass->token[n - 1] + 1 + k->mlstm.delay,
                       pass->token, n, pass->slope, at->grad, pass->work);
    else
        mlp_back_f32(&k->mlp, at->param, pass->rows, n, pass->slope, at->grad, pass->work);
}

static void begin(void *user, int unit, float *param, uint64_t rng[4])
{
    const kvpop *k = user;
    double mean = 0, n = 0;
    for (int b = 0; b < KVPOP_BINS; b++) {
        mean += k->bins[unit].sum[b];
        n += k->bins[unit].n[b];
    }
    mean = n > 0 ? mean / n : 0;
    if (k->p->scorer == KVPOP_MLSTM) {
        const mlstm_shape *s = &k->mlstm;
        int64_t size = s->inner * s->n_in;
        fit_normal(param, mlstm_bias(s), 1 / sqrt((double)s->n_in), rng);
        for (int64_t i = 0; i < size; i++) /* a token finds itself, and those like it */
            param[size + i] = param[i] *= 2;
        param[mlstm_bias(s) + 3 * s->inner + 1] = (float)k->p->forget;
        for (int64_t i = 0; i < s->inner; i++)
            param[mlstm_gain(s) + i] = 1;
        fit_normal(param + mlstm_out(s), s->inner, 1 / sqrt((double)s->inner), rng);
        param[mlstm_out_bias(s)] = (float)mean;
        return;
    }
    mlp_begin(&k->mlp, param, rng);
    param[mlp_out_bias(&k->mlp)] = (float)mean;
}

/* ---- learning -------------------------------------------------------------------------------
 */

static float *input(void *user, const tracein *s, int layer, int lane, int64_t *n, void **note,
                    kvt_arena *work)
{
    const kvpop *k = user;
    (void)note;
    float *x = kvt_arena_array(work, s->T * k->mlp.n_in, sizeof *x);
    *n = s->T;
    if (x)
        tracein_lane(x, s, layer, lane, s->T, k->mlp.n_in);
    return x;
}

/* The tokens of pairs, each once, rising: token [..], and where [end] leads to them. */
static int64_t tokens_of(const cutoff_pair *pair, int64_t n, int64_t end, int32_t *where,
                         int32_t *token)
{
    int64_t n_token = 0;
    for (int64_t i = 0; i < n; i++)
        where[pair[i].fresh] = where[pair[i].bound] = 1;
    for (int64_t t = 0; t < end; t++)
        if (where[t]) {
            where[t] = (int32_t)n_token;
            token[n_token++] = (int32_t)t;
        }
    return n_token;
}

static bool learn_boundary(const kvpop *k, const fit_at *at, const double *target, int64_t end,
                           fit_sum *sum)
{
    fit_at mine = *at;
    double by_a, by_gamma = 0, log_gamma = kvpop_decay(k, at->param, &by_a);
    cutoff_pair *pair = kvt_arena_array(at->work, k->p->queries, sizeof *pair);
    int32_t *where = kvt_arena_array(at->work, end, sizeof *where);
    int32_t *token = kvt_arena_array(at->work, end, sizeof *token);
    if (!pair || !where || !token)
        return false;
    int64_t n = cutoff_draw(&k->cutoff, target, end, log_gamma, pair, k->p->queries, mine.rng,
                            at->work);
    if (n <= 0)
        return n == 0;
    kvpop_pass pass = {.k = k, .at = at, .token = token, .learns = true};
    pass.n = tokens_of(pair, n, end, where, token);
    if (!kvpop_forward(&pass))
        return false;
    sum->loss += cutoff_loss(&k->cutoff, pair, n, where, pass.score, log_gamma, 1 / (double)n,
                             pass.slope, &by_gamma);
    sum->n_loss += (double)n;
    kvpop_backward(&pass);
    at->grad[k->n_scorer] += (float)(by_gamma * by_a);
    return true;
}

/* As many tokens as the boundary loss scores at most, drawn evenly. */
static bool learn_regression(const kvpop *k, const fit_at *at, const double *target,
                             int64_t end, fit_sum *sum)
{
    fit_at mine = *at;
    int64_t first = k->p->sinks, n = 2 * k->p->queries;
    n = n < end - first ? n : end - first;
    int32_t *token = kvt_arena_array(at->work, n, sizeof *token);
    if (!token)
        return false;
    int64_t got = 0;
    for (int64_t t = first; t < end; t++) /* each set of n equally likely */
        if (rng_below(mine.rng, end - t) < n - got)
            token[got++] = (int32_t)t;
    kvpop_pass pass = {.k = k, .at = at, .token = token, .n = n, .learns = true};
    if (!kvpop_forward(&pass))
        return false;
    for (int64_t i = 0; i < n; i++) {
        double gap = (double)pass.score[i] - target[token[i]];
        sum->loss += gap * gap;
        pass.slope[i] = (float)(2 * gap / (double)n);
    }
    sum->n_loss += (double)n;
    kvpop_backward(&pass);
    return true;
}

static bool learn(void *user, const fit_at *at, fit_sum *sum)
{
    const kvpop *k = user;
    int64_t end = kvpop_end(k, at->s);
    double *target = kvt_arena_array(at->work, at->s->T, sizeof *target);
    if (!target)
        return false;
    if (end - k->p->sinks < 2)
        return true;
    target_delayed(target, at->s, at->layer, at->lane, (target_group)k->p->target, k->p->eps);
    return k->p->loss == 1 ? learn_regression(k, at, target, end, sum)
                           : learn_boundary(k, at, target, end, sum);
}

static kvt_code check(void *user, tracein *s, kvt_err *err)
{
    const kvpop *k = user;
    if (s->info->facts.delay != k->p->window)
        return kvt_fail(err, KVT_FORMAT,
                        "future/delayed is of w = %lld, kvpop was asked for window=%lld",
                        (long long)s->info->facts.delay, (long long)k->p->window);
    return KVT_OK;
}

/* ---- file -----------------------------------------------------------------------------------
 */

/* The unit's own slot for a becomes log gamma. */
static void set_decay(const kvpop *k, float *param)
{
    param[k->n_scorer] = (float)kvpop_decay(k, param, NULL);
}

static kvt_code write_numbers(const kvpop *k, const fit *f, train_run *run, const char *kind,
                              fit_tensor *tensor, int n, kvt_err *err)
{
    const kvpop_params *p = k->p;
    bool mlstm = p->scorer == KVPOP_MLSTM;
    const fit_number number[] = {
        {"sinks", "first tokens that are always kept", (float)p->sinks},
        {"window", "last tokens that are always kept",
         (float)(p->protect > 0 ? p->protect : p->window)},
        {"slots", "slots of the others; 0: what a budget leaves", (float)p->slots},
        {"decay_step", "tokens between two steps of the decay", (float)p->decay_step},
        {"read_delay", "tokens between insertion and read-out", (float)k->mlstm.delay},
    };
    tensor[n++] = (fit_tensor){
        "decay/log_gamma", "log of the decay of a score at each step", "", k->n_scorer, {0}};
    return fit_write(f, run, kind, tensor, n, number, mlstm ? 5 : 4, err);
}

static kvt_code write_mlp(const kvpop *k, const fit *f, train_run *run, kvt_err *err)
{
    const mlp_shape *s = &k->mlp;
    fit_tensor tensor[5] = {
        {"in/weight", "first weights, of [k; v]", "KW", 0, {s->width, s->n_in}},
        {"in/bias", "first biases", "K", mlp_in_bias(s), {s->width}},
        {"out/weight", "second weights, of SiLU", "K", mlp_out(s), {s->width}},
        {"out/bias", "second bias", "", mlp_out_bias(s), {0}},
    };
    return write_numbers(k, f, run, "kvpop-mlp", tensor, 4, err);
}

/* u = SiLU(u) - SiLU(-u): a linear scorer is the same form with two hidden units. */
static kvt_code write_linear(kvpop *k, fit *f, train_run *run, kvt_err *err)
{
    int64_t W = k->mlp.n_in, old = f->spec->n_param;
    const mlp_shape two = {.n_in = W, .width = 2, .n_out = 1};
    fit_spec spec = *f->spec;
    spec.n_param = mlp_count(&two) + 1;
    fit g = *f;
    g.spec = &spec;
    g.param = kvt_alloc(f->n_unit * spec.n_param, sizeof *g.param);
    if (!g.param)
        return kvt_fail_memory(err, (size_t)(f->n_unit * spec.n_param) * sizeof *g.param);
    for (int64_t u = 0; u < f->n_unit; u++) {
        const float *from = f->param + u * old;
        float *to = g.param + u * spec.n_param, out = from[mlp_out(&k->mlp)];
        for (int64_t j = 0; j <= W; j++) { /* weights, then the bias behind them */
            int64_t at = j < W ? j : mlp_in_bias(&two);
            to[at] = out * from[j];
            to[j < W ? W + j : at + 1] = -to[at];
        }
        to[mlp_out(&two)] = 1;
        to[mlp_out(&two) + 1] = -1;
        to[mlp_out_bias(&two)] = from[mlp_out_bias(&k->mlp)];
        to[mlp_count(&two)] = from[k->n_scorer];
    }
    k->mlp = two;
    k->n_scorer = mlp_count(&two);
    kvt_code code = write_mlp(k, &g, run, err);
    kvt_free(g.param);
    return code;
}

static kvt_code write_mlstm(const kvpop *k, const fit *f, train_run *run, kvt_err *err)
{
    const mlstm_shape *s = &k->mlstm;
    int64_t O = s->inner, W = s->n_in, bias = mlstm_bias(s);
    fit_tensor tensor[15] = {
        {"query/weight", "queries of the memory, of [k; v]", "OW", 0, {O, W}},
        {"key/weight", "keys of the memory", "OW", O * W, {O, W}},
        {"value/weight", "values of the memory", "OW", 2 * O * W, {O, W}},
        {"gate_i/weight", "input gate, an exponent", "W", 3 * O * W, {W}},
        {"gate_f/weight", "forget gate, before the sigmoid", "W", (3 * O + 1) * W, {W}},
        {"query/bias", "bias of the queries", "O", bias, {O}},
        {"key/bias", "bias of the keys", "O", bias + O, {O}},
        {"value/bias", "bias of the values", "O", bias + 2 * O, {O}},
        {"gate_i/bias", "bias of the input gate", "", bias + 3 * O, {0}},
        {"gate_f/bias", "bias of the forget gate", "", bias + 3 * O + 1, {0}},
        {"norm/gain", "gains of the RMS norm of what is read", "O", mlstm_gain(s), {O}},
        {"out/weight", "last weights, of SiLU", "O", mlstm_out(s), {O}},
        {"out/bias", "last bias", "", mlstm_out_bias(s), {0}},
    };
    return write_numbers(k, f, run, "kvpop", tensor, 13, err);
}

static kvt_code save(kvpop *k, fit *f, train_run *run, kvt_err *err)
{
    for (int64_t u = 0; u < f->n_unit; u++) {
        float *param = f->param + u * f->spec->n_param;
        int64_t rows = k->p->scorer == KVPOP_MLSTM ? mlstm_rows(&k->mlstm) : k->mlp.width;
        fit_fold(f, u, param, param + rows * k->mlp.n_in, rows);
        set_decay(k, param);
    }
    if (k->p->scorer == KVPOP_MLSTM)
        return write_mlstm(k, f, run, err);
    return k->p->scorer == KVPOP_LINEAR ? write_linear(k, f, run, err)
                                        : write_mlp(k, f, run, err);
}

/* ---- trainer --------------------------------------------------------------------------------
 */

static const kvt_ds reads[] = {KVT_DS_KEYS, KVT_DS_VALUES, KVT_DS_FUTURE_DELAYED};

static void set_shapes(kvpop *k, const train_run *run)
{
    const kvpop_params *p = k->p;
    const kvt_geometry *g = &run->info.facts.model;
    k->mlp = (mlp_shape){2 * g->head_dim, p->width, 1, MLP_SILU};
    if (p->scorer == KVPOP_LINEAR) {
        k->mlp.width = 1;
        k->mlp.act = MLP_LINEAR;
    }
    k->mlstm = (mlstm_shape){2 * g->head_dim, g->head_dim / 2, 0};
    if (p->scorer == KVPOP_MLSTM)
        k->mlstm.delay = p->read == 0 ? p->window : 0;
    k->n_scorer = p->scorer == KVPOP_MLSTM ? mlstm_count(&k->mlstm) : mlp_count(&k->mlp);
    k->cutoff =
        (cutoff_spec){p->sinks,        p->window,  p->slots,         p->decay_step,  p->least,
                      p->most,         p->late,    p->boundary == 0, p->tau,         p->margin,
                      p->margin_scale, p->balance, p->balance_least, p->balance_most};
}

static fit_spec spec_of(kvpop *k)
{
    const kvpop_params *p = k->p;
    return (fit_spec){.n_param = k->n_scorer + 1,
                      .n_in = k->mlp.n_in,
                      .ds = reads,
                      .n_ds = sizeof reads / sizeof *reads,
                      .plan = FIT_PLAN(p),
                      .user = k,
                      .open = check,
                      .input = input,
                      .meet = kvpop_meet,
                      .begin = begin,
                      .learn = learn,
                      .judge = kvpop_judge,
                      .first = kvpop_first};
}

static kvt_code check_params(const kvpop_params *p, kvt_err *err)
{
    if (p->least > p->most)
        return kvt_fail(err, KVT_USAGE, "kvpop: least=%g is more than most=%g", p->least,
                        p->most);
    return KVT_OK;
}

static kvt_code run_kvpop(train_run *run, kvt_err *err)
{
    kvpop k = {.p = run->params};
    fit f = {0};
    kvt_code code = check_params(k.p, err);
    if (code)
        return code;
    set_shapes(&k, run);
    fit_spec spec = spec_of(&k);
    int64_t n_unit = run->info.n_layer * run->info.facts.model.n_kv_head;
    k.bins = kvt_alloc(n_unit, sizeof *k.bins);
    k.control = kvt_alloc(n_unit * KVPOP_CONTROLS, sizeof *k.control);
    if (!k.bins || !k.control)
        code = kvt_fail_memory(err, (size_t)n_unit * sizeof *k.bins);
    if (!code)
        code = fit_run(&f, run, &spec, err);
    if (!code)
        code = save(&k, &f, run, err);
    fit_free(&f);
    kvt_free(k.bins);
    kvt_free(k.control);
    return code;
}

static kvt_code plan_kvpop(train_run *run, kvt_err *err)
{
    kvpop k = {.p = run->params};
    kvt_code code = check_params(k.p, err);
    set_shapes(&k, run);
    fit_spec spec = spec_of(&k);
    return code ? code : fit_counts(run, &spec, err);
}

static const kvt_choice scorers[] = {
    {"mlp", "", "two layers on a token's own key and value"},
    {"linear", "", "one layer"},
    {"mlstm", "", "a matrix memory, read when the token leaves the window"}};
static const kvt_choice decays[] = {{"learned", "", "one gamma a lane in [.999, .999999]"},
                                    {"none", "", "scores do not age"}};
static const kvt_choice losses[] = {
    {"boundary", "", "pairs at the boundary of what is kept"},
    {"regression", "", "least squares on the targets, an ablation"}};
static const kvt_choice boundaries[] = {{"effective", "", "scores with their decay"},
                                        {"raw", "", "scores without"}};
static const kvt_choice groups[] = {{"max", "", "maximum over the query heads of a group"},
                                    {"mean", "", "mean over them"}};
static const kvt_choice read_outs[] = {{"delayed", "", "when the token leaves the window"},
                                       {"static", "", "when it is inserted"}};

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(kvpop_params, scorer, KVPOP_MLP, scorers, "form of the scorer"),
    KVT_PARAM(kvpop_params, width, 32, 1, 4096, "1", "hidden units of the mlp"),
    KVT_PARAM(kvpop_params, window, 32, 1, 1 << 20, "tokens",
              "last tokens that are always kept; w of the traces' future/delayed"),
    KVT_PARAM(kvpop_params, protect, 0, 0, 1 << 20, "tokens",
              "window that the file asks of a replay; 0: the same"),
    KVT_PARAM(kvpop_params, sinks, 4, 0, 1 << 20, "tokens",
              "first tokens that are always kept"),
    KVT_PARAM(kvpop_params, slots, 0, 0, 1 << 30, "tokens",
              "slots of the others in training; 0: a share of them is drawn for each query"),
    KVT_PARAM(kvpop_params, least, 0.02, 1e-4, 1, "frac", "smallest share that is drawn"),
    KVT_PARAM(kvpop_params, most, 0.5, 1e-4, 1, "frac", "largest share that is drawn"),
    KVT_PARAM_CHOICE(kvpop_params, decay, 0, decays, "how scores age"),
    KVT_PARAM(kvpop_params, decay_step, 1, 1, 1 << 20, "tokens",
              "age between two steps of the decay"),
    KVT_PARAM_CHOICE(kvpop_params, loss, 0, losses, "what is learned"),
    KVT_PARAM_CHOICE(kvpop_params, boundary, 0, boundaries, "what a pair compares"),
    KVT_PARAM_CHOICE(kvpop_params, target, 0, groups, "how the query heads of a group count"),
    KVT_PARAM(kvpop_params, eps, 1e-6, 1e-12, 1, "1", "added to a mean before its logarithm"),
    KVT_PARAM(kvpop_params, future, 16, 1, 1 << 20, "tokens",
              "tokens with fewer later queries are left out"),
    KVT_PARAM_CHOICE(kvpop_params, read, 0, read_outs, "when the mlstm reads a token"),
    KVT_PARAM(kvpop_params, forget, 3, -20, 20, "1",
              "bias of the mlstm's forget gate at the beginning"),
    KVT_PARAM(kvpop_params, tau, 1, 1e-6, 1e6, "1", "temperature of a pair"),
    KVT_PARAM(kvpop_params, margin, 1, 0, 1, "1",
              "smallest weight of a pair by its margin; 1: all weigh the same"),
    KVT_PARAM(kvpop_params, margin_scale, 1, 1e-6, 1e6, "1", "scale of the margins"),
    KVT_PARAM(kvpop_params, balance, 0, 0, 1, "", "pairs to keep and to drop weigh the same"),
    KVT_PARAM(kvpop_params, balance_least, 0.5, 1e-6, 1, "1", "bound of that weight"),
    KVT_PARAM(kvpop_params, balance_most, 2, 1, 1e6, "1", "bound of that weight"),
    KVT_PARAM(kvpop_params, queries, 64, 1, 1 << 20, "1", "queries drawn a trace and lane"),
    KVT_PARAM(kvpop_params, late, 0.5, 0, 1, "frac",
              "share of them that is drawn later rather than sooner"),
    FIT_PARAMS(kvpop_params, 4, 4, 3e-3),
    {0}};

const kvt_trainer kvt_trainer_kvpop = {
    .name = "kvpop",
    .title = "scorers of the token that leaves the window, by its future attention",
    .paper = "Hauzenberger et al., KVpop, 2026, arXiv:2607.05061 (version 1)",
    .about =
        "Target of a token: log(eps + m), m its mean attention from queries at distance w or "
        "more, the maximum over the query heads of the group (target=mean: the log of their "
        "mean). A score ages by gamma for each token, gamma learned for each lane.\n\n"
        "loss=boundary: at drawn queries q the token that leaves the window is compared with "
        "the lowest one among the target's best k of all that left before; softplus(-y "
        "(difference of scores) / tau), y = 1 where the target keeps it. Only what is "
        "decided at the edge of the budget is learned. loss=regression, the ablation, fits "
        "the target by least squares.\n\n"
        "scorer=mlp is one hidden layer (SiLU) on [key; value]; linear the same without it; "
        "mlstm a memory of all tokens that is read w tokens later (read=static: at once, "
        "the static ablation). Adam, warm-up, cosine.",
    .differs =
        "the model is frozen: targets come from its dense attention, and the KL to the "
        "teacher has nothing to train; inputs are standardised and folded back; where the "
        "paper is silent: pairs weigh the same, the number of slots is drawn for each "
        "query, where t_new is the boundary it is compared with the next token, values of "
        "the memory have D/2 channels, its norm is RMS, the forget gate's bias starts at 3",
    .file = "scorer",
    .reads = "level train, w of future/delayed equal to window",
    .params_size = sizeof(kvpop_params),
    .params = params,
    .run = run_kvpop,
    .plan = plan_kvpop,
};
