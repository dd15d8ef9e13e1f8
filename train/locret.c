/* locret.c - retaining heads: Locret (arXiv 2410.01805), one-shot.
 *
 * Per layer, c_t = W2 SiLU(W1 [q_t; k_t; v_t] + b1) + b2, one number for each kv head, of all
 * heads of the token. The label is y_t = the largest attention of any response row and query
 * head of the group.
 *
 *   loss = mean of SmoothL1(c_t - y_t) + smooth x mean of (c_t - c_(t+1))^2
 *
 * Queries of every prompt position are needed. Memory O(N H D) a layer. */
#include <math.h>

#include "base/half.h"
#include "train/fit.h"
#include "train/judge.h"
#include "train/scorer.h"
#include "train/targets.h"

typedef struct locret_params {
    int64_t width;
    double smooth;
    FIT_FIELDS;
} locret_params;

typedef struct locret {
    const locret_params *p;
    mlp_shape mlp;
} locret;

static const kvt_ds reads[] = {KVT_DS_KEYS, KVT_DS_VALUES, KVT_DS_FUTURE_MAX, KVT_DS_QUERIES,
                               KVT_DS_QUERY_POS};

/* Row t of query/q must be the query of position t. */
static kvt_code check(void *user, tracein *s, kvt_err *err)
{
    const int32_t *pos = tracein_at(s, KVT_DS_QUERY_POS, 0);
    int64_t Q = s->info->n_query, n = 0;
    (void)user;
    while (n < Q && n < s->N && pos[n] == n)
        n++;
    if (n < s->N)
        return kvt_fail(err, KVT_FORMAT,
                        "locret reads the query of every prompt token; query/q begins at "
                        "position %lld (capture with --queries all)",
                        Q > 0 ? (long long)pos[0] : -1LL);
    return KVT_OK;
}

static float *put_heads(float *to, const uint16_t *from, int64_t n_head, int64_t rows,
                        int64_t t, int64_t D)
{
    for (int64_t h = 0; h < n_head; h++, to += D)
        half_to_floats(to, from + (h * rows + t) * D, D);
    return to;
}

static float *input(void *user, const tracein *s, int layer, int lane, int64_t *n, void **note,
                    kvt_arena *work)
{
    const locret *k = user;
    float *x = kvt_arena_array(work, s->N * k->mlp.n_in, sizeof *x), *to = x;
    (void)note, (void)lane;
    *n = s->N;
    for (int64_t t = 0; x && t < s->N; t++) {
        to = put_heads(to, tracein_at(s, KVT_DS_QUERIES, layer), s->H, s->info->n_query, t,
                       s->D);
        to = put_heads(to, tracein_at(s, KVT_DS_KEYS, layer), s->G, s->T, t, s->D);
        to = put_heads(to, tracein_at(s, KVT_DS_VALUES, layer), s->G, s->T, t, s->D);
    }
    return x;
}

static void begin(void *user, int unit, float *param, uint64_t rng[4])
{
    const locret *k = user;
    (void)unit;
    mlp_begin(&k->mlp, param, rng);
    /* Labels are small: the first scores are, too. */
    for (int64_t i = mlp_out(&k->mlp); i < mlp_out_bias(&k->mlp); i++)
        param[i] *= 0.1f;
}

typedef struct locret_layer {
    double *label;               /* [G N] */
    float *score, *slope, *work; /* [N G] */
} locret_layer;

static bool score_layer(const locret *k, const fit_at *at, locret_layer *l)
{
    int64_t N = at->n, G = k->mlp.n_out;
    l->label = kvt_arena_array(at->work, G * N, sizeof *l->label);
    l->score = kvt_arena_array(at->work, N * G, sizeof *l->score);
    l->slope = kvt_arena_array(at->work, N * G, sizeof *l->slope);
    l->work = kvt_arena_array(at->work, 2 * N * k->mlp.width, sizeof *l->work);
    if (!l->label || !l->score || !l->slope || !l->work)
        return false;
    for (int g = 0; g < G; g++)
        target_prompt(l->label + g * N, at->s, KVT_DS_FUTURE_MAX, at->layer, g, TARGET_MAX);
    mlp_score_f32(&k->mlp, at->param, at->x, N, l->score, l->work);
    return true;
}

/* Mean loss of a layer; slopes of it. */
static double loss_of(const locret *k, const fit_at *at, locret_layer *l)
{
    int64_t N = at->n, G = k->mlp.n_out;
    double sum = 0, n = (double)(N * G), pairs = (double)((N - 1) * G);
    for (int64_t i = 0; i < N * G; i++) {
        double gap = (double)l->score[i] - l->label[i % G * N + i / G], size = fabs(gap);
        sum += (size < 1 ? gap * gap / 2 : size - 0.5) / n;
        l->slope[i] += (float)((size < 1 ? gap : gap > 0 ? 1 : -1) / n);
    }
    for (int64_t i = 0; i < (N - 1) * G; i++) {
        double gap = (double)l->score[i] - (double)l->score[i + G];
        sum += k->p->smooth * gap * gap / pairs;
        l->slope[i] += (float)(2 * k->p->smooth * gap / pairs);
        l->slope[i + G] -= (float)(2 * k->p->smooth * gap / pairs);
    }
    return sum;
}

static bool learn(void *user, const fit_at *at, fit_sum *sum)
{
    const locret *k = user;
    locret_layer l;
    if (!score_layer(k, at, &l))
        return false;
    sum->loss += loss_of(k, at, &l);
    sum->n_loss += 1;
    mlp_back_f32(&k->mlp, at->param, at->x, at->n, l.slope, at->grad, l.work);
    return true;
}

static bool judge(void *user, const fit_at *at, fit_sum *sum)
{
    const locret *k = user;
    locret_layer l;
    int64_t N = at->n, G = k->mlp.n_out;
    double *score = kvt_arena_array(at->work, N, sizeof *score);
    bool ok = score && score_layer(k, at, &l);
    if (!ok)
        return false;
    sum->loss += loss_of(k, at, &l);
    sum->n_loss += 1;
    for (int64_t g = 0; ok && g < G; g++) {
        for (int64_t t = 0; t < N; t++)
            score[t] = (double)l.score[t * G + g];
        ok = judge_best(l.label + g * N, l.label + g * N, score, N, sum, at->work);
    }
    return ok;
}

static locret locret_of(const train_run *run)
{
    const locret_params *p = run->params;
    const kvt_geometry *g = &run->info.facts.model;
    int64_t W = (g->n_head + 2 * g->n_kv_head) * g->head_dim;
    return (locret){p, {W, p->width, g->n_kv_head, MLP_SILU}};
}

static fit_spec spec_of(locret *k)
{
    return (fit_spec){.n_param = mlp_count(&k->mlp),
                      .n_in = k->mlp.n_in,
                      .by_layer = true,
                      .ds = reads,
                      .n_ds = sizeof reads / sizeof *reads,
                      .plan = FIT_PLAN(k->p),
                      .user = k,
                      .open = check,
                      .input = input,
                      .begin = begin,
                      .learn = learn,
                      .judge = judge};
}

static kvt_code run_locret(train_run *run, kvt_err *err)
{
    locret k = locret_of(run);
    fit_spec spec = spec_of(&k);
    static const fit_mlp_text text = {
        .kind = "locret",
        .in_weight = "first weights, of all queries, keys and values of a token",
        .out_weight = "second weights, of SiLU",
        .by_layer = true};
    return fit_mlp(run, &spec, &k.mlp, &text, err);
}

static kvt_code plan_locret(train_run *run, kvt_err *err)
{
    locret k = locret_of(run);
    fit_spec spec = spec_of(&k);
    return fit_counts(run, &spec, err);
}

static const kvt_param params[] = {
    KVT_PARAM(locret_params, width, 128, 1, 8192, "1", "hidden units of a layer"),
    KVT_PARAM(locret_params, smooth, 0.0025, 0, 1e6, "1",
              "weight of the squared step between neighbours"),
    FIT_PARAMS(locret_params, 4, 4, 5e-4),
    {0}};

const kvt_trainer kvt_trainer_locret = {
    .name = "locret",
    .title = "retaining heads: the largest attention of the response, from q, k and v",
    .paper = "Huang et al., Locret, 2024, arXiv:2410.01805",
    .about = "Smooth L1 between the score and the largest attention from the response in the "
             "group, plus 0.0025 times the squared step between neighbours; rate 5e-4, as "
             "published.",
    .differs = "128 hidden units a layer, not 1,024; Adam without decay; few steps",
    .file = "scorer",
    .reads = "level replay captured with --queries all",
    .params_size = sizeof(locret_params),
    .params = params,
    .run = run_locret,
    .plan = plan_locret,
};
