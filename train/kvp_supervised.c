/* kvp_supervised.c - a ranking of the prompt by key, value and position: after "Learning to
 * Evict" (KVP, arXiv 2602.10238), supervised.
 *
 * Per lane, x_t = [k_t; v_t; log2(1 + N - 1 - t)] gives score_t by two layers. With F_t the
 * group's maximum of the summed attention of the response, a budget b is drawn and pairs (i, j)
 * that straddle it, i among the b largest F, j not:
 *
 *   loss = mean over pairs of softplus(-(score_i - score_j))
 *
 * where the paper rewards sampled rankings. Tokens that the policy always keeps are not ranked.
 * Memory O(N) a lane. */
#include <math.h>

#include "base/rng.h"
#include "base/select.h"
#include "train/fit.h"
#include "train/judge.h"
#include "train/scorer.h"
#include "train/targets.h"

typedef struct kvp_params {
    int64_t width, sinks, recent, pairs;
    double least, most;
    FIT_FIELDS;
} kvp_params;

typedef struct kvp {
    const kvp_params *p;
    mlp_shape mlp;
} kvp;

static const kvt_ds reads[] = {KVT_DS_KEYS, KVT_DS_VALUES, KVT_DS_FUTURE_MEAN};

static float *input(void *user, const tracein *s, int layer, int lane, int64_t *n, void **note,
                    kvt_arena *work)
{
    const kvp *k = user;
    int64_t W = k->mlp.n_in;
    float *x = kvt_arena_array(work, s->N * W, sizeof *x);
    (void)note;
    *n = s->N;
    if (!x)
        return NULL;
    tracein_lane(x, s, layer, lane, s->N, W);
    for (int64_t t = 0; t < s->N; t++)
        x[t * W + W - 1] = (float)log2((double)(s->N - t));
    return x;
}

static void begin(void *user, int unit, float *param, uint64_t rng[4])
{
    const kvp *k = user;
    (void)unit;
    mlp_begin(&k->mlp, param, rng);
}

/* The tokens that are ranked, with their scores. */
typedef struct kvp_lane {
    int64_t first, n;
    double *future; /* [n] */
    float *score, *slope, *work;
    const float *x;
} kvp_lane;

static bool score_lane(const kvp *k, const fit_at *at, kvp_lane *l)
{
    int64_t N = at->n;
    *l = (kvp_lane){.first = k->p->sinks, .n = N - k->p->sinks - k->p->recent};
    if (l->n < 2)
        return true;
    double *all = kvt_arena_array(at->work, N, sizeof *all);
    l->score = kvt_arena_array(at->work, l->n, sizeof *l->score);
    l->slope = kvt_arena_array(at->work, l->n, sizeof *l->slope);
    l->work = kvt_arena_array(at->work, 2 * l->n * k->mlp.width, sizeof *l->work);
    if (!all || !l->score || !l->slope || !l->work)
        return false;
    target_prompt(all, at->s, KVT_DS_FUTURE_MEAN, at->layer, at->lane, TARGET_MAX);
    l->future = all + l->first;
    l->x = at->x + l->first * k->mlp.n_in;
    mlp_score_f32(&k->mlp, at->param, l->x, l->n, l->score, l->work);
    return true;
}

/* Sum of the losses of pairs that straddle drawn budgets, and their slopes. -1: no memory. */
static double pairs_of(const kvp *k, const fit_at *at, kvp_lane *l)
{
    uint64_t rng[4] = {at->rng[0], at->rng[1], at->rng[2], at->rng[3]};
    int32_t *order = kvt_arena_array(at->work, l->n, sizeof *order);
    if (!order || !select_rank_double(order, l->future, l->n, at->work))
        return -1;
    double sum = 0, ratio = k->p->most / k->p->least;
    for (int64_t i = 0; i < k->p->pairs; i++) {
        double part = k->p->least * pow(ratio, rng_real(rng));
        int64_t b = (int64_t)floor(part * (double)l->n + 0.5);
        b = b < 1 ? 1 : b > l->n - 1 ? l->n - 1 : b;
        int32_t good = order[rng_below(rng, b)], bad = order[b + rng_below(rng, l->n - b)];
        double z = (double)l->score[bad] - (double)l->score[good];
        double slope = 1 / (1 + exp(-z)) / (double)k->p->pairs;
        sum += z > 0 ? z + log1p(exp(-z)) : log1p(exp(z));
        l->slope[good] -= (float)slope;
        l->slope[bad] += (float)slope;
    }
    return sum;
}

static bool learn(void *user, const fit_at *at, fit_sum *sum)
{
    const kvp *k = user;
    kvp_lane l;
    if (!score_lane(k, at, &l))
        return false;
    if (l.n < 2)
        return true;
    double loss = pairs_of(k, at, &l);
    if (loss < 0)
        return false;
    sum->loss += loss;
    sum->n_loss += (double)k->p->pairs;
    mlp_back_f32(&k->mlp, at->param, l.x, l.n, l.slope, at->grad, l.work);
    return true;
}

static bool judge(void *user, const fit_at *at, fit_sum *sum)
{
    const kvp *k = user;
    kvp_lane l;
    if (!score_lane(k, at, &l))
        return false;
    if (l.n < 2)
        return true;
    double loss = pairs_of(k, at, &l), *score = kvt_arena_array(at->work, l.n, sizeof *score);
    if (loss < 0 || !score)
        return false;
    sum->loss += loss;
    sum->n_loss += (double)k->p->pairs;
    for (int64_t i = 0; i < l.n; i++)
        score[i] = (double)l.score[i];
    return judge_best(l.future, l.future, score, l.n, sum, at->work);
}

static kvp kvp_of(const train_run *run)
{
    const kvp_params *p = run->params;
    return (kvp){p, {2 * run->info.facts.model.head_dim + 1, p->width, 1, MLP_SILU}};
}

static fit_spec spec_of(kvp *k)
{
    return (fit_spec){.n_param = mlp_count(&k->mlp),
                      .n_in = k->mlp.n_in,
                      .ds = reads,
                      .n_ds = sizeof reads / sizeof *reads,
                      .plan = FIT_PLAN(k->p),
                      .user = k,
                      .input = input,
                      .begin = begin,
                      .learn = learn,
                      .judge = judge};
}

static kvt_code run_kvp(train_run *run, kvt_err *err)
{
    kvp k = kvp_of(run);
    fit_spec spec = spec_of(&k);
    static const fit_mlp_text text = {
        .kind = "kvp-supervised",
        .in_weight = "first weights, of [k; v; log2(1 + distance to the end)]",
        .out_weight = "second weights, of SiLU"};
    return fit_mlp(run, &spec, &k.mlp, &text, err);
}

static kvt_code plan_kvp(train_run *run, kvt_err *err)
{
    kvp k = kvp_of(run);
    fit_spec spec = spec_of(&k);
    return fit_counts(run, &spec, err);
}

static const kvt_param params[] = {
    KVT_PARAM(kvp_params, width, 32, 1, 4096, "1", "hidden units"),
    KVT_PARAM(kvp_params, sinks, 4, 0, 1 << 20, "tokens",
              "first tokens that are always kept, not ranked"),
    KVT_PARAM(kvp_params, recent, 16, 0, 1 << 20, "tokens",
              "last tokens that are always kept, not ranked"),
    KVT_PARAM(kvp_params, pairs, 256, 1, 1 << 20, "1", "pairs drawn a trace and lane"),
    KVT_PARAM(kvp_params, least, 0.02, 1e-4, 1, "frac", "smallest budget that is drawn"),
    KVT_PARAM(kvp_params, most, 0.5, 1e-4, 1, "frac", "largest budget that is drawn"),
    FIT_PARAMS(kvp_params, 4, 4, 3e-3),
    {0}};

const kvt_trainer kvt_trainer_kvp_supervised = {
    .name = "kvp-supervised",
    .title = "a ranking of the prompt by key, value and position",
    .paper = "Moschella et al., Learning to Evict (KVP), ICML 2026, arXiv:2602.10238",
    .about =
        "A budget b is drawn, then pairs of tokens that straddle it: one of the b with the "
        "largest future attention (summed over the response, maximum over the group), one of "
        "the others; softplus of minus their difference of scores. What the policy always "
        "keeps is not ranked.",
    .differs = "supervised by pairs that straddle a drawn budget, where the paper rewards "
               "sampled rankings (REINFORCE); 32 hidden units, not 256; position is log2(1 + "
               "distance to the end of the prompt)",
    .file = "scorer",
    .reads = "level train",
    .params_size = sizeof(kvp_params),
    .params = params,
    .run = run_kvp,
    .plan = plan_kvp,
};
