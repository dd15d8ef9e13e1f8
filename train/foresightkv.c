/* foresightkv.c - what to drop, by key, value and a block's attention: the supervised stage of
 * ForesightKV (arXiv 2602.03203).
 *
 * Every L_b tokens, from the end of the prompt on, a lane reads for each token older than L_b
 *
 *   x_t = [k_t; v_t; per query head: max, min, sum over the block's rows, sums of its last 16,
 * 8, 32 rows, sum so far, decayed sum (x .9 a block)]
 *
 * and two layers (GELU) give drop_t. The golden oracle keeps the tokens with the largest
 * a_t = max over later blocks of the mean attention of the block's rows and the group:
 *
 *   loss = mean over pairs with a_i > a_j of max(0, margin + drop_i - drop_j)
 *
 * Memory O((D + R) T) a lane and decision. */
#include <string.h>

#include "train/fit.h"
#include "train/judge.h"
#include "train/scorer.h"

enum { FORE_STAT = 8 };
enum { MOST, LEAST, SUM, LAST_16, LAST_8, LAST_32, SO_FAR, DECAYED };

typedef struct fore_params {
    int64_t width, block;
    double margin;
    FIT_FIELDS;
} fore_params;

typedef struct fore {
    const fore_params *p;
    mlp_shape mlp;
} fore;

static const kvt_ds reads[] = {KVT_DS_KEYS, KVT_DS_VALUES, KVT_DS_QUERIES, KVT_DS_QUERY_POS};

static int64_t prompt_rows(const fore *k, const tracein *s)
{
    return k->p->block < s->N ? k->p->block : s->N;
}

static kvt_code check(void *user, tracein *s, kvt_err *err)
{
    const fore *k = user;
    int64_t first = s->N - prompt_rows(k, s);
    for (int64_t t = first; t < s->T; t++)
        if (tracein_find(s, t) < 0)
            return kvt_fail(
                err, KVT_FORMAT,
                "foresightkv:block=%lld reads the queries from position %lld on, "
                "%lld is not stored (capture with --queries all, or a smaller block)",
                (long long)k->p->block, (long long)first, (long long)t);
    return KVT_OK;
}

/* ---- one lane -------------------------------------------------------------------------------
 */

/* Decisions of a lane one behind the other; d owns rows begin[d] to begin[d + 1] of the inputs,
 * tokens 0, 1, ... */
typedef struct fore_lane {
    int64_t n_decision, *begin;
    double *label; /* a_t */
    const tracein *s;
    int layer, lane;
    int64_t block;
    float *key, *query, *row; /* [T D], [D], [T] */
    float *stat;              /* [T R 8]; SO_FAR and DECAYED before the running block */
} fore_lane;

static int64_t decisions(const fore *k, const tracein *s)
{
    return (s->T - s->N + k->p->block - 1) / k->p->block; /* each has a block after it */
}

/* Tokens that compete at decision d: all but the newest L_b. */
static int64_t candidates(const fore *k, const tracein *s, int64_t d)
{
    int64_t n = s->N + d * k->p->block - k->p->block;
    return n > 0 ? n : 0;
}

static void add_stat(float *stat, float a, int64_t i, int64_t rows)
{
    if (i == 0) {
        stat[SO_FAR] += stat[SUM];
        stat[DECAYED] = (float)(0.9 * (double)stat[DECAYED] + (double)stat[SUM]);
        stat[MOST] = stat[LEAST] = a;
        stat[SUM] = stat[LAST_16] = stat[LAST_8] = stat[LAST_32] = 0;
    }
    stat[MOST] = a > stat[MOST] ? a : stat[MOST];
    stat[LEAST] = a < stat[LEAST] ? a : stat[LEAST];
    stat[SUM] += a;
    stat[LAST_16] += i >= rows - 16 ? a : 0;
    stat[LAST_8] += i >= rows - 8 ? a : 0;
    stat[LAST_32] += i >= rows - 32 ? a : 0;
}

/* Rows at positions from..to - 1 go into the statistics. */
static void add_block(fore_lane *l, int64_t from, int64_t to)
{
    const tracein *s = l->s;
    int64_t at = tracein_find(s, from);
    for (int64_t r = 0; r < s->R; r++)
        for (int64_t i = 0; i < to - from; i++) {
            tracein_row(l->row, s, l->layer, l->lane * s->R + r, at + i, l->key, l->query);
            for (int64_t t = 0; t < to; t++)
                add_stat(l->stat + (t * s->R + r) * FORE_STAT, l->row[t], i, to - from);
        }
}

/* Adds to a [T] what the later rows from..to - 1 look at, as their mean. */
static void raise_labels(fore_lane *l, double *mean, int64_t from, int64_t to)
{
    const tracein *s = l->s;
    int64_t at = tracein_find(s, from);
    memset(mean, 0, (size_t)s->T * sizeof *mean);
    for (int64_t r = 0; r < s->R; r++)
        for (int64_t i = 0; i < to - from; i++) {
            tracein_row(l->row, s, l->layer, l->lane * s->R + r, at + i, l->key, l->query);
            for (int64_t t = 0; t < s->T; t++)
                mean[t] += (double)l->row[t] / (double)(s->R * (to - from));
        }
}

static void put_inputs(float *x, const fore_lane *l, const float *kv, int64_t n)
{
    const tracein *s = l->s;
    for (int64_t t = 0; t < n; t++) {
        const float *stat = l->stat + t * s->R * FORE_STAT;
        memcpy(x, kv + t * 2 * s->D, (size_t)(2 * s->D) * sizeof *x);
        x += 2 * s->D;
        for (int64_t r = 0; r < s->R; r++, stat += FORE_STAT) {
            for (int i = 0; i < SO_FAR; i++)
                *x++ = stat[i];
            *x++ = stat[SO_FAR] + stat[SUM];
            *x++ = (float)(0.9 * (double)stat[DECAYED] + (double)stat[SUM]);
        }
    }
}

/* a_t of every decision, from the last block back. */
static bool put_labels(const fore *k, fore_lane *l, kvt_arena *work)
{
    const tracein *s = l->s;
    double *mean = kvt_arena_array(work, 2 * s->T, sizeof *mean), *most = mean + s->T;
    if (!mean)
        return false;
    for (int64_t d = l->n_decision - 1; d >= 0; d--) {
        int64_t from = s->N + d * l->block, to = from + l->block;
        raise_labels(l, mean, from, to < s->T ? to : s->T);
        for (int64_t t = 0; t < s->T; t++)
            most[t] = mean[t] > most[t] ? mean[t] : most[t];
        memcpy(l->label + l->begin[d], most, (size_t)candidates(k, s, d) * sizeof *most);
    }
    return true;
}

static float *input(void *user, const tracein *s, int layer, int lane, int64_t *n, void **note,
                    kvt_arena *work)
{
    const fore *k = user;
    fore_lane *l = kvt_arena_get(work, sizeof *l);
    int64_t n_decision = decisions(k, s), all = 0;
    if (!l)
        return NULL;
    *l = (fore_lane){n_decision, .s = s, .layer = layer, .lane = lane, .block = k->p->block};
    l->begin = kvt_arena_array(work, n_decision + 1, sizeof *l->begin);
    for (int64_t d = 0; l->begin && d < n_decision; d++)
        l->begin[d + 1] = all += candidates(k, s, d);
    float *kv = kvt_arena_array(work, s->T * 2 * s->D, sizeof *kv);
    float *x = kvt_arena_array(work, all * k->mlp.n_in, sizeof *x);
    l->label = kvt_arena_array(work, all, sizeof *l->label);
    l->key = kvt_arena_array(work, s->T * s->D, sizeof *l->key);
    l->row = kvt_arena_array(work, s->T, sizeof *l->row);
    l->query = kvt_arena_array(work, s->D, sizeof *l->query);
    l->stat = kvt_arena_array(work, s->T * s->R * FORE_STAT, sizeof *l->stat);
    if (!l->begin || !kv || !x || !l->label || !l->key || !l->row || !l->query || !l->stat)
        return NULL;
    tracein_lane(kv, s, layer, lane, s->T, 2 * s->D);
    tracein_keys(l->key, s, layer, lane);
    for (int64_t d = 0; d < n_decision; d++) {
        int64_t to = s->N + d * k->p->block;
        add_block(l, d == 0 ? s->N - prompt_rows(k, s) : to - k->p->block, to);
        put_inputs(x + l->begin[d] * k->mlp.n_in, l, kv, candidates(k, s, d));
    }
    *n = all;
    *note = l;
    return put_labels(k, l, work) ? x : NULL;
}

static void begin(void *user, int unit, float *param, uint64_t rng[4])
{
    const fore *k = user;
    (void)unit;
    mlp_begin(&k->mlp, param, rng);
}

/* ---- learning -------------------------------------------------------------------------------
 */

/* All pairs of one decision: the mean loss, its slopes x weight. */
static double hinge(const fore *k, const double *label, const float *drop, int64_t n,
                    float *slope, double weight)
{
    double sum = 0, pairs = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            pairs += label[i] > label[j];
    for (int64_t i = 0; pairs > 0 && i < n; i++) {
        double mine = 0;
        for (int64_t j = 0; j < n; j++) {
            double loss = k->p->margin + (double)drop[i] - (double)drop[j];
            if (!(label[i] > label[j]) || loss <= 0)
                continue;
            sum += loss;
            mine += 1;
            slope[j] -= (float)(weight / pairs);
        }
        slope[i] += (float)(mine * weight / pairs);
    }
    return pairs > 0 ? sum / pairs : 0;
}

typedef struct fore_pass {
    float *drop, *slope, *work;
    double loss, n_loss;
} fore_pass;

static bool pass_of(const fore *k, const fit_at *at, fore_pass *p)
{
    const fore_lane *l = at->note;
    *p = (fore_pass){.drop = kvt_arena_array(at->work, at->n, sizeof *p->drop),
                     .slope = kvt_arena_array(at->work, at->n, sizeof *p->slope),
                     .work =
                         kvt_arena_array(at->work, 2 * at->n * k->mlp.width, sizeof *p->work)};
    if (!p->drop || !p->slope || !p->work)
        return false;
    mlp_score_f32(&k->mlp, at->param, at->x, at->n, p->drop, p->work);
    for (int64_t d = 0; d < l->n_decision; d++) {
        int64_t b = l->begin[d], n = l->begin[d + 1] - b;
        if (n < 2)
            continue;
        p->loss +=
            hinge(k, l->label + b, p->drop + b, n, p->slope + b, 1 / (double)l->n_decision);
        p->n_loss += 1;
    }
    return true;
}

static bool learn(void *user, const fit_at *at, fit_sum *sum)
{
    const fore *k = user;
    fore_pass p;
    if (!pass_of(k, at, &p))
        return false;
    sum->loss += p.loss;
    sum->n_loss += p.n_loss;
    if (at->n > 0)
        mlp_back_f32(&k->mlp, at->param, at->x, at->n, p.slope, at->grad, p.work);
    return true;
}

static bool judge(void *user, const fit_at *at, fit_sum *sum)
{
    const fore *k = user;
    const fore_lane *l = at->note;
    fore_pass p;
    double *keep = kvt_arena_array(at->work, at->n, sizeof *keep);
    bool ok = keep && pass_of(k, at, &p);
    if (!ok)
        return false;
    sum->loss += p.loss;
    sum->n_loss += p.n_loss;
    for (int64_t i = 0; i < at->n; i++)
        keep[i] = -(double)p.drop[i];
    for (int64_t d = 0; ok && d < l->n_decision; d++) {
        int64_t b = l->begin[d];
        ok = judge_best(l->label + b, l->label + b, keep + b, l->begin[d + 1] - b, sum,
                        at->work);
    }
    return ok;
}

/* ---- trainer --------------------------------------------------------------------------------
 */

static fore fore_of(const train_run *run)
{
    const fore_params *p = run->params;
    const kvt_geometry *g = &run->info.facts.model;
    int64_t R = g->n_head / g->n_kv_head;
    return (fore){p, {2 * g->head_dim + FORE_STAT * R, p->width, 1, MLP_GELU}};
}

static fit_spec spec_of(fore *k)
{
    return (fit_spec){.n_param = mlp_count(&k->mlp),
                      .n_in = k->mlp.n_in,
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

static kvt_code check_length(const train_run *run, const fore *k, kvt_err *err)
{
    for (int i = 0; i < run->spec->n_trace; i++)
        if (run->trace[i].n_token > k->p->block + 1)
            return KVT_OK;
    return kvt_fail(err, KVT_FORMAT,
                    "foresightkv:block=%lld exempts the newest %lld tokens: no trace is longer",
                    (long long)k->p->block, (long long)k->p->block);
}

static kvt_code run_fore(train_run *run, kvt_err *err)
{
    fore k = fore_of(run);
    fit_spec spec = spec_of(&k);
    static const fit_mlp_text text = {
        .kind = "foresightkv",
        .in_weight = "first weights, of [k; v; eight statistics of each query head]",
        .out_weight = "second weights, of GELU; high: drop it"};
    if (check_length(run, &k, err))
        return err->code;
    return fit_mlp(run, &spec, &k.mlp, &text, err);
}

static kvt_code plan_fore(train_run *run, kvt_err *err)
{
    fore k = fore_of(run);
    fit_spec spec = spec_of(&k);
    return fit_counts(run, &spec, err);
}

static const kvt_param params[] = {
    KVT_PARAM(fore_params, width, 16, 1, 4096, "1", "hidden units"),
    KVT_PARAM(fore_params, block, 256, 1, 65536, "tokens",
              "L_b: tokens between decisions; so many of the newest are exempt"),
    KVT_PARAM(fore_params, margin, 0.01, 0, 1e6, "1", "of the hinge"),
    FIT_PARAMS(fore_params, 4, 4, 1e-2),
    {0}};

const kvt_trainer kvt_trainer_foresightkv = {
    .name = "foresightkv",
    .title = "what to drop, by key, value and a block's attention",
    .paper = "Dong et al., ForesightKV, ICML 2026, arXiv:2602.03203",
    .about =
        "Every L_b tokens the golden eviction ranks the tokens that are older than the block "
        "by the largest mean attention in any later block; a hinge over all pairs (margin "
        "0.01) makes the network's order to drop the reverse of it. Adam at 1e-2, as "
        "published.",
    .differs =
        "the supervised stage only; attention is dense, so that no token is ever missing; "
        "the first block is the prompt's end; few steps",
    .file = "scorer",
    .reads = "level replay captured with --queries all (block=64 or less: level replay)",
    .params_size = sizeof(fore_params),
    .params = params,
    .run = run_fore,
    .plan = plan_fore,
};
