/* fast_kvzip.c - gates that say how much of a token is read again: Fast KVzip (arXiv
 * 2601.17668).
 *
 * Per layer, of the input h_t of the attention projections (train/scorer.h: gate):
 *
 *   score_t = mean over query heads u of 1 / (1 + sum_e exp(q_u.base_e / 4 - q_u.k / 4 - b_u))
 *
 * with cross entropy to labels in [0, 1] (train/label.h), by descent with momentum. Memory
 * O(N E) a layer. */
#include <math.h>

#include "base/half.h"
#include "base/rng.h"
#include "train/fit.h"
#include "train/judge.h"
#include "train/label.h"
#include "train/scorer.h"

typedef struct gate_params {
    int label;
    int64_t inner, bases, tokens;
    double momentum;
    FIT_FIELDS;
} gate_params;

typedef struct gate {
    const gate_params *p;
    gate_shape shape;
} gate;

static const kvt_choice labels[] = {
    [LABEL_FUTURE] = {"future", "", "largest attention of the response, future/max"},
    [LABEL_REPEAT] = {"repeat", "", "KVzip's score, of a repeat probe"}};

static const kvt_ds reads[] = {KVT_DS_HIDDEN, KVT_DS_FUTURE_MAX};

/* All layers' labels, before layers are learned side by side. s->extra: f64 [L G N] */
static kvt_code open_labels(void *user, tracein *s, kvt_err *err)
{
    const gate *k = user;
    kvt_code code = label_check(s, (label_kind)k->p->label, err);
    if (code)
        return code;
    double *label = s->extra = kvt_alloc(s->n_layer * s->G * s->N, sizeof *label);
    kvt_arena *work = kvt_arena_new((size_t)1 << 34);
    if (!label || !work)
        code = kvt_fail_memory(err, (size_t)(s->n_layer * s->G * s->N) * sizeof *label);
    for (int l = 0; !code && l < s->n_layer; l++)
        code = label_layer(label + l * s->G * s->N, s, l, (label_kind)k->p->label, work, err);
    kvt_arena_free(work);
    return code;
}

static void close_labels(void *user, tracein *s)
{
    (void)user;
    kvt_free(s->extra);
}

static float *input(void *user, const tracein *s, int layer, int lane, int64_t *n, void **note,
                    kvt_arena *work)
{
    float *x = kvt_arena_array(work, s->N * s->E, sizeof *x);
    (void)user, (void)lane, (void)note;
    *n = s->N;
    if (x)
        half_to_floats(x, tracein_at(s, KVT_DS_HIDDEN, layer), s->N * s->E);
    return x;
}

static void begin(void *user, int unit, float *param, uint64_t rng[4])
{
    const gate *k = user;
    const gate_shape *s = &k->shape;
    (void)unit;
    fit_normal(param, gate_bias(s), 1 / sqrt((double)s->n_in), rng);
    for (int64_t i = gate_gain(s); i < gate_base(s); i++)
        param[i] = 1;
    fit_normal(param + gate_base(s), gate_logit(s) - gate_base(s), 1, rng);
}

typedef struct gate_pass {
    const double *label; /* [G N] */
    int64_t n;
    float *x, *score, *slope, *work;
    int32_t *token;
} gate_pass;

/* `most` tokens at most, each set of as many equally likely. */
static bool pass_of(const gate *k, const fit_at *at, int64_t most, gate_pass *p)
{
    const gate_shape *s = &k->shape;
    uint64_t rng[4] = {at->rng[0], at->rng[1], at->rng[2], at->rng[3]};
    int64_t n = at->n < most ? at->n : most, got = 0;
    *p = (gate_pass){.n = n,
                     .label = (const double *)at->s->extra + at->unit * s->n_kv * at->s->N};
    p->x = kvt_arena_array(at->work, n * s->n_in, sizeof *p->x);
    p->score = kvt_arena_array(at->work, n * s->n_kv, sizeof *p->score);
    p->slope = kvt_arena_array(at->work, n * s->n_kv, sizeof *p->slope);
    p->work = kvt_arena_array(at->work, gate_work(s, n), sizeof *p->work);
    p->token = kvt_arena_array(at->work, n, sizeof *p->token);
    if (!p->x || !p->score || !p->slope || !p->work || !p->token)
        return false;
    for (int64_t t = 0; t < at->n; t++)
        if (rng_below(rng, at->n - t) < n - got) {
            for (int64_t e = 0; e < s->n_in; e++)
                p->x[got * s->n_in + e] = at->x[t * s->n_in + e];
            p->token[got++] = (int32_t)t;
        }
    gate_score_f32(s, at->param, p->x, n, p->score, p->work);
    return true;
}

/* Mean cross entropy, and its slopes. */
static double entropy(const gate *k, const fit_at *at, gate_pass *p)
{
    int64_t G = k->shape.n_kv, all = p->n * G;
    double sum = 0;
    for (int64_t i = 0; i < all; i++) {
        double y = fmin(p->label[i % G * at->s->N + p->token[i / G]], 1);
        double c = fmin(fmax((double)p->score[i], 1e-7), 1 - 1e-7);
        sum -= y * log(c) + (1 - y) * log(1 - c);
        p->slope[i] = (float)((c - y) / (c * (1 - c)) / (double)all);
    }
    return sum / (double)all;
}

static bool learn(void *user, const fit_at *at, fit_sum *sum)
{
    const gate *k = user;
    gate_pass p;
    if (!pass_of(k, at, k->p->tokens, &p))
        return false;
    sum->loss += entropy(k, at, &p);
    sum->n_loss += 1;
    gate_back_f32(&k->shape, at->param, p.x, p.n, p.slope, at->grad, p.work);
    return true;
}

static bool judge(void *user, const fit_at *at, fit_sum *sum)
{
    const gate *k = user;
    gate_pass p;
    double *score = kvt_arena_array(at->work, at->n, sizeof *score);
    bool ok = score && pass_of(k, at, at->n, &p);
    if (!ok)
        return false;
    sum->loss += entropy(k, at, &p);
    sum->n_loss += 1;
    for (int64_t g = 0; ok && g < k->shape.n_kv; g++) {
        const double *label = p.label + g * at->s->N;
        for (int64_t t = 0; t < at->n; t++)
            score[t] = (double)p.score[t * k->shape.n_kv + g];
        ok = judge_best(label, label, score, at->n, sum, at->work);
    }
    return ok;
}

static gate gate_of(const train_run *run)
{
    const gate_params *p = run->params;
    const kvt_geometry *g = &run->info.facts.model;
    return (gate){p, {g->n_hidden, g->n_head, g->n_kv_head, p->inner, p->bases}};
}

static fit_spec spec_of(gate *k)
{
    fit_spec s = {.n_param = gate_count(&k->shape),
                  .n_in = k->shape.n_in,
                  .by_layer = true,
                  .raw = true,
                  .ds = reads,
                  .n_ds = sizeof reads / sizeof *reads,
                  .plan = FIT_PLAN(k->p),
                  .user = k,
                  .open = open_labels,
                  .close = close_labels,
                  .input = input,
                  .begin = begin,
                  .learn = learn,
                  .judge = judge};
    s.plan.momentum = k->p->momentum;
    return s;
}

static kvt_code run_gate(train_run *run, kvt_err *err)
{
    gate k = gate_of(run);
    fit_spec spec = spec_of(&k);
    fit f = {0};
    const gate_shape *s = &k.shape;
    int64_t O = s->inner, H = s->n_head, G = s->n_kv, E = s->n_in;
    const fit_tensor tensor[] = {
        {"query/weight",
         "queries, of the input of the attention projections",
         "HOE",
         0,
         {H, O, E}},
        {"key/weight", "keys", "GOE", H * O * E, {G, O, E}},
        {"query/bias", "bias of the queries", "HO", gate_bias(s), {H, O}},
        {"query/gain", "gains of the queries' RMS norm", "O", gate_gain(s), {O}},
        {"key/gain", "gains of the keys' RMS norm", "O", gate_gain(s) + O, {O}},
        {"base", "keys that every token competes with", "GKO", gate_base(s), {G, s->n_base, O}},
        {"logit/bias", "bias of a token's own logit", "H", gate_logit(s), {H}}};
    kvt_code code = fit_run(&f, run, &spec, err);
    if (!code)
        code = fit_write(&f, run, "fast-kvzip", tensor, 7, NULL, 0, err);
    fit_free(&f);
    return code;
}

static kvt_code plan_gate(train_run *run, kvt_err *err)
{
    gate k = gate_of(run);
    fit_spec spec = spec_of(&k);
    return fit_counts(run, &spec, err);
}

static const kvt_param params[] = {
    KVT_PARAM_CHOICE(gate_params, label, LABEL_FUTURE, labels, "what is learned"),
    KVT_PARAM(gate_params, inner, 16, 1, 512, "1", "channels of a query and a key"),
    KVT_PARAM(gate_params, bases, 16, 1, 512, "1", "keys that every token competes with"),
    KVT_PARAM(gate_params, tokens, 1000, 1, 1 << 20, "tokens", "tokens of a trace in a step"),
    KVT_PARAM(gate_params, momentum, 0.9, 0, 0.9999, "1", "of the descent; 0: Adam"),
    FIT_PARAMS(gate_params, 4, 4, 0.2),
    {0}};

const kvt_trainer kvt_trainer_fast_kvzip = {
    .name = "fast-kvzip",
    .title = "gates that say how much of a token is read again",
    .paper = "Kim et al., Fast KVzip, 2026, arXiv:2601.17668",
    .about =
        "Cross entropy between the gate's score and a label in 0 to 1: KVzip's score of a "
        "repeat probe (label=repeat, as published) or the largest attention of the response "
        "(label=future). SGD with momentum 0.9 at a rate of 0.2 and 1,000 tokens a step, as "
        "published; momentum=0 is Adam.",
    .differs = "the bias of a logit is added once, as the published inference does; labels are "
               "the largest attention of the response where no repeat probe is asked for; few "
               "steps, gradients clipped",
    .file = "scorer",
    .reads = "level full; label=repeat: a probe of kind repeat",
    .params_size = sizeof(gate_params),
    .params = params,
    .run = run_gate,
    .plan = plan_gate,
};
