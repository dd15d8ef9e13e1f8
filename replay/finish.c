/* finish.c - what was judged becomes cells of a result.
 *
 * Means are macro: over rows, then query heads, then lanes, each equally. Quantiles and maxima
 * are over the pooled rows. What is not defined stays NAN or KVT_EMPTY_INT. */
#include "replay/finish_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

enum { RESAMPLES = 1000 };

/* ---- cells ---------------------------------------------------------------------------------
 */

/* What a metric says of a cell beside the means of its lanes. */
typedef struct pooled {
    double *pool;            /* defined values of its rows */
    int64_t n, n_inf, n_row; /* values; infinite ones; rows that were asked */
    kvt_ratio part;          /* sums over the cell */
} pooled;

static double over(const pooled *x, kvt_over how)
{
    if (how == KVT_MICRO)
        return x->part.below > 0 ? x->part.above / x->part.below : NAN;
    if (how == KVT_ABSENT)
        return x->n_row > 0 ? 1 - (double)x->n / (double)x->n_row : NAN;
    return measure_quantile(x->pool, x->n, how == KVT_P50 ? 0.5 : how == KVT_P95 ? 0.95 : 1);
}

/* What is known of row m of a query head: the fields of j that rows have. i: the layer's place
 * in the result. */
static void look_at_row(kvt_judged *j, const finisher *f, int cell, int i, int head, int64_t m)
{
    const pass *p = f->p;
    const truth *t = &f->truths[f->layer[i]];
    int64_t at = pass_head(p, cell, f->layer[i], head) * p->n_response + m;
    int64_t row = head * p->n_response + m;
    j->row = m;
    j->lost = (double)p->lost[at];
    j->kept = 1 - j->lost;
    j->out_err = p->out_err ? (double)p->out_err[at] : NAN;
    j->out_size = t->out_size ? (double)t->out_size[row] : NAN;
    for (int k = 0; t->support && k < KVT_SUPPORTS; k++)
        j->support[k] = (double)t->support[row * KVT_SUPPORTS + k];
    if (p->heavy && t->heavy) {
        const int32_t *token = t->heavy + row * HEAVY_MAX;
        for (j->n_heavy = 0; j->n_heavy < HEAVY_MAX && token[j->n_heavy] >= 0;)
            j->n_heavy++;
        j->had_heavy = p->heavy[at];
    }
    if (!p->out_more)
        return;
    const float *more = p->out_more + at * OUT_MORE;
    j->out_l1 = (double)more[OUT_L1];
    j->out_cos = (double)more[OUT_COS];
    j->out_unnorm = (double)more[OUT_UNNORM];
}

/* A row metric over the rows of one query head: defined values go to the pool, infinite ones
 * are counted. Returns the mean of the finite ones, NAN where there is none. */
static double pool_head(const finisher *f, const kvt_metric *m, int cell, int i, int head,
                        pooled *to)
{
    kvt_judged j = {.n_heavy = -1,
                    .out_l1 = NAN,
                    .out_cos = NAN,
                    .out_unnorm = NAN,
                    .support = {NAN, NAN, NAN}};
    double sum = 0;
    int64_t finite = 0;
    for (int64_t k = 0; k < f->p->n_response; k++) {
        look_at_row(&j, f, cell, i, head, k);
        double x = m->row(&j), weight = m->weight ? m->weight(&j) : 0;
        to->n_row++;
        if (isnan(x))
            continue;
        to->pool[to->n++] = x;
        if (isinf(x)) {
            to->n_inf++;
            continue;
        }
        sum += x, finite++;
        if (weight > 0) {
            to->part.above += x * weight;
            to->part.below += weight;
        }
    }
    return finite > 0 ? sum / (double)finite : NAN;
}

/* All rows of a cell: means over rows, then heads, into its lanes at value[at]. */
static void pool_rows(const finisher *f, const kvt_metric *m, int cell, kvt_lane_row *lane,
                      int at, pooled *to)
{
    const pass *p = f->p;
    int per = p->n_head / p->n_lane;
    for (int i = 0; p->lost && i < f->r->n_layer * p->n_lane; i++) {
        double sum = 0;
        int heads = 0;
        for (int h = 0; h < per; h++) {
            double x = pool_head(f, m, cell, i / p->n_lane, i % p->n_lane * per + h, to);
            if (!isnan(x))
                sum += x, heads++;
        }
        if (heads > 0)
            lane[i].value[at] = sum / heads;
    }
}

/* Sums of a lane metric over the cell; its means are in the lanes already. */
static void add_parts(const finisher *f, int cell, int metric, pooled *to)
{
    const pass *p = f->p;
    for (int i = 0; i < f->r->n_layer * p->n_lane; i++) {
        int64_t lane = pass_lane(p, cell, f->layer[i / p->n_lane], i % p->n_lane);
        to->part.above += p->part[lane * LANE_METRICS_MAX + metric].above;
        to->part.below += p->part[lane * LANE_METRICS_MAX + metric].below;
    }
}

/* Response rows that saw everything that had arrived; -1: nothing is ever evicted. */
static int64_t whole_rows(const finisher *f, int cell, int layer, int a)
{
    const pass *p = f->p;
    int64_t at = pass_lane(p, cell, layer, a), n = 0;
    if (pass_is_apart(p) || !(p->seen || pass_is_on_top(p)))
        return -1;
    if (pass_is_on_top(p))
        return p->count[at].kept == p->n_prompt ? p->n_response : 0;
    for (int64_t m = 0; m < p->n_response; m++)
        n += (int64_t)p->seen[at * p->n_response + m] == p->n_prompt + m + 1;
    return n;
}

/* A metric of lanes that are through, into them at value[at]. */
static void end_lanes(const finisher *f, const kvt_metric *m, int cell, kvt_lane_row *lane,
                      int at, pooled *to)
{
    const pass *p = f->p;
    for (int i = 0; i < f->r->n_layer * p->n_lane; i++) {
        int layer = f->layer[i / p->n_lane], a = i % p->n_lane;
        kvt_judged j = {.n_prompt = p->n_prompt,
                        .n_response = p->n_response,
                        .inside = p->inside,
                        .oracle_lost = lane[i].oracle_lost_mass_mean_frac,
                        .regret = lane[i].regret_mean_frac,
                        .n_whole = whole_rows(f, cell, layer, a)};
        kvt_ratio x = m->end(&j);
        if (!(x.below > 0))
            continue;
        lane[i].value[at] = x.above / x.below;
        to->part.above += x.above;
        to->part.below += x.below;
    }
}

/* Mean over lanes of a lane's value, those without one left out. */
static double mean_lanes(const finisher *f, const kvt_lane_row *lane, int at)
{
    double sum = 0;
    int64_t n = 0;
    for (int i = 0; i < f->r->n_layer * f->p->n_lane; i++)
        if (!isnan(lane[i].value[at]))
            sum += lane[i].value[at], n++;
    return n ? sum / (double)n : NAN;
}

/* The mean is the first column of every metric: it stands where lanes have theirs. Those of
 * lanes that are through are taken `late`, when regret is known. */
static void cell_metrics(const finisher *f, kvt_cell *c, int cell, kvt_lane_row *lane,
                         double *pool, bool late)
{
    int at = 0, k = 0;
    for (int i = 0; kvt_metrics()[i]; i++) {
        const kvt_metric *m = kvt_metrics()[i];
        const kvt_metric_column *column = m->column;
        pooled x = {.pool = pool};
        bool now = pass_measures(f->p, i) && late == (m->end != NULL);
        if (now && m->row)
            pool_rows(f, m, cell, lane, at, &x);
        if (now && m->end)
            end_lanes(f, m, cell, lane, at, &x);
        if (now && measure_is_lane(m))
            add_parts(f, cell, k, &x);
        for (; column->column; column++, at++)
            if (now)
                c->value[at] =
                    column->over == KVT_MEAN ? mean_lanes(f, lane, at) : over(&x, column->over);
        k += measure_is_lane(m);
        if (now && strcmp(m->name, "attn_kl") == 0)
            c->attn_kl_inf_count = x.n_inf;
    }
}

/* 95 % bootstrap over the lanes of this one trace. value: room for as many. */
static void spread(const finisher *f, kvt_cell *c, const kvt_lane_row *lane, double *value)
{
    int at = kvt_metric_value("lost_mass_mean_frac"), n = f->r->n_layer * f->p->n_lane;
    double mean[RESAMPLES];
    uint64_t rng[RNG_WORDS];
    c->lost_mass_ci_lo_frac = c->lost_mass_ci_hi_frac = NAN;
    if (n < 2 || isnan(lane[0].value[at]))
        return;
    rng_init(rng, c->run_id, strlen(c->run_id));
    for (int i = 0; i < n; i++)
        value[i] = lane[i].value[at];
    for (int i = 0; i < RESAMPLES; i++) {
        double sum = 0;
        for (int k = 0; k < n; k++)
            sum += value[rng_below(rng, n)];
        mean[i] = sum / n;
    }
    c->lost_mass_ci_lo_frac = measure_quantile(mean, RESAMPLES, 0.025);
    c->lost_mass_ci_hi_frac = measure_quantile(mean, RESAMPLES, 0.975);
}

static void find_worst(const finisher *f, kvt_cell *c, const kvt_lane_row *lane)
{
    int at = kvt_metric_value("lost_mass_mean_frac"), worst = -1;
    for (int i = 0; i < f->r->n_layer * f->p->n_lane; i++)
        if (!isnan(lane[i].value[at]) &&
            (worst < 0 || lane[i].value[at] > lane[worst].value[at]))
            worst = i;
    if (worst < 0)
        return;
    c->worst_layer = lane[worst].layer;
    c->worst_kv_head = lane[worst].kv_head;
    c->worst_step = lane[worst].worst_step;
}

/* Slots, bytes and counts of a cell. */
static void count_cell(const finisher *f, kvt_cell *c, int cell)
{
    const pass *p = f->p;
    const kvt_geometry *g = &f->info->facts.model;
    int64_t n = (int64_t)f->r->n_layer * p->n_lane, kept = 0, end = 0;
    int64_t token_bytes = 2 * g->head_dim * 2; /* a key and a value in halves */
    int64_t bytes = 0;
    c->kept_tokens_min = INT64_MAX, c->kept_tokens_max = 0;
    c->acted_count = c->evictions_prefill_count = c->evictions_decode_count = 0;
    c->decisions_count = 0;
    for (int i = 0; i < f->r->n_layer; i++) {
        for (int a = 0; a < p->n_lane; a++) {
            int64_t at = pass_lane(p, cell, f->layer[i], a);
            const kvt_engine_count *x = &p->count[at];
            kept += x->kept;
            end += p->end[at];
            bytes += p->lane_bytes ? p->lane_bytes[at] : p->end[at] * token_bytes;
            c->kept_tokens_min = kvt_min(c->kept_tokens_min, x->kept);
            c->kept_tokens_max = kvt_max(c->kept_tokens_max, x->kept);
            c->acted_count = kvt_max(c->acted_count, x->acted);
            c->evictions_prefill_count += x->evicted_prefill;
            c->evictions_decode_count += x->evicted_decode;
            c->decisions_count += p->n_prompt;
            for (int64_t m = 0; !pass_is_on_top(p) && p->seen && m < p->n_response; m++)
                c->decisions_count += (int64_t)p->seen[at * p->n_response + m];
        }
    }
    c->kept_tokens_mean = (double)kept / (double)n;
    c->end_slots_mean_tokens = (double)end / (double)n;
    c->full_bytes = f->r->n_layer * g->n_kv_head * (p->n_prompt + p->n_response) * token_bytes;
    c->kept_bytes = p->skip ? c->full_bytes : bytes; /* skipped slots stay, one for a kv head */
}

/* Against the best schedules at the budgets of the cell's lanes. */
static void inside_regret(const finisher *f, kvt_cell *c, int cell)
{
    const pass *p = f->p;
    double rows = (double)(f->r->n_layer * (int64_t)p->n_head * p->n_response), lost = 0;
    if (isnan(f->best_lost[cell]))
        return;
    for (int i = 0; i < f->r->n_layer; i++)
        for (int a = 0; a < p->n_lane; a++)
            lost += finish_lost(f, cell, i, a);
    c->oracle_lost_mass_mean_frac = f->best_lost[cell] / rows;
    c->regret_mean_frac = finish_regret((lost - f->best_lost[cell]) / rows);
}

/* What the oracle with the same slots loses, and what the slots' distribution lost. */
static void regrets(const finisher *f, kvt_cell *c, int cell)
{
    const pass *p = f->p;
    int64_t lanes = (int64_t)f->r->n_layer * p->n_lane, total = 0;
    double lost = 0, same = 0;
    if (p->inside)
        inside_regret(f, c, cell);
    if (!f->best)
        return;
    for (int i = 0; i < f->r->n_layer; i++) {
        for (int a = 0; a < p->n_lane; a++) {
            int64_t kept = p->count[pass_lane(p, cell, f->layer[i], a)].kept;
            lost += finish_lost(f, cell, i, a);
            same += finish_least(f, i, a, kept);
            total += kept;
        }
    }
    double rows = (double)(p->n_head / p->n_lane * p->n_response * lanes);
    double least = f->best[lanes * p->n_prompt] - f->best[total];
    c->oracle_lost_mass_mean_frac = same / rows;
    c->regret_mean_frac = finish_regret((lost - same) / rows);
    c->allocation_regret_mean_frac = finish_regret((same - least) / rows);
}

static void identify(const finisher *f, kvt_cell *c, int cell)
{
    const pass *p = f->p;
    const pass_cell *x = &p->cell[cell];
    const char *colon = strchr(p->use->text, ':');
    const kvt_geometry *g = &f->info->facts.model;
    snprintf(c->run_id, sizeof c->run_id, "%s", x->run_id);
    snprintf(c->trace_id, sizeof c->trace_id, "%s", f->info->name);
    snprintf(c->policy, sizeof c->policy, "%s", p->use->name);
    snprintf(c->policy_params, sizeof c->policy_params, "%.*s",
             (int)sizeof c->policy_params - 1, colon ? colon + 1 : "");
    snprintf(c->exactness, sizeof c->exactness, "%s", kvt_exactness_name(x->exactness));
    snprintf(c->budget_asked, sizeof c->budget_asked, "%s", x->asked->text);
    snprintf(c->budget_rule, sizeof c->budget_rule, "%s",
             x->asked->kind == KVT_BUDGET_FRACTION ? kvt_rule_name(f->rule) : "abs");
    if (p->fair) {
        size_t n = strlen(c->budget_rule);
        snprintf(c->budget_rule + n, sizeof c->budget_rule - n, "+bytes");
    }
    c->budget_tokens = (double)x->tokens;
    c->budget_frac = (double)x->tokens / (double)p->n_prompt;
    snprintf(c->act, sizeof c->act, "%s", p->inside ? "decode" : "prefill");
    bool ragged = p->inside && p->use->traits.by_threshold; /* no lane has a bound */
    snprintf(c->growth, sizeof c->growth, "%s",
             ragged      ? "ragged"
             : p->inside ? "inside"
                         : "on-top");
    c->seed = p->drew ? (int64_t)p->seed : KVT_EMPTY_INT;
    snprintf(c->model, sizeof c->model, "%s", g->name);
    c->layers = f->r->n_layer;
    c->kv_heads = g->n_kv_head;
    c->q_heads = g->n_head;
    c->prompt_tokens = p->n_prompt;
    c->decode_steps = p->n_response;
}

static void empty_cell(kvt_cell *c)
{
    c->kept_tokens_mean = c->end_slots_mean_tokens = NAN;
    c->kept_tokens_min = c->kept_tokens_max = KVT_EMPTY_INT;
    c->kept_bytes = c->full_bytes = c->acted_count = KVT_EMPTY_INT;
    c->evictions_prefill_count = c->evictions_decode_count = KVT_EMPTY_INT;
    c->lost_mass_ci_lo_frac = c->lost_mass_ci_hi_frac = NAN;
    c->oracle_lost_mass_mean_frac = c->regret_mean_frac = c->allocation_regret_mean_frac = NAN;
    c->attn_kl_inf_count = c->decisions_count = KVT_EMPTY_INT;
    c->worst_layer = c->worst_kv_head = c->worst_step = KVT_EMPTY_INT;
    for (int i = 0; i < KVT_VALUES_MAX; i++)
        c->value[i] = NAN;
}

/* A metric may say -0: it is 0 wherever it is printed. */
static void drop_signs(kvt_cell *c, kvt_lane_row *lane, int64_t n_lane)
{
    for (int k = 0; k < KVT_VALUES_MAX; k++) {
        c->value[k] += 0.0; /* -0 + 0 is 0 */
        for (int64_t i = 0; i < n_lane; i++)
            lane[i].value[k] += 0.0;
    }
}

static void fill_cell(const finisher *f, int cell, double *pool)
{
    const pass *p = f->p;
    kvt_cell *c = &f->r->cell[cell];
    int64_t n = (int64_t)f->r->n_layer * p->n_lane, total = 0;
    kvt_lane_row *lane = f->r->lane + cell * n;
    const char *why = p->cell[cell].reason[0] ? p->cell[cell].reason : p->reason;
    empty_cell(c);
    identify(f, c, cell);
    for (int64_t i = 0; i < n; i++) {
        finish_empty_lane(&lane[i]);
        memcpy(lane[i].run_id, c->run_id, sizeof lane[i].run_id);
        memcpy(lane[i].policy, c->policy, sizeof lane[i].policy);
        memcpy(lane[i].budget_asked, c->budget_asked, sizeof lane[i].budget_asked);
    }
    if (why[0]) {
        bool failed = !p->reason[0] && p->cell[cell].failed;
        snprintf(c->status, sizeof c->status, "%s", failed ? "failed" : "skipped");
        snprintf(c->error, sizeof c->error, "%s", why);
        return;
    }
    snprintf(c->status, sizeof c->status, "ok");
    for (int i = 0; i < f->r->n_layer; i++)
        for (int a = 0; a < p->n_lane; a++)
            total += p->count[pass_lane(p, cell, f->layer[i], a)].kept;
    bool over = !p->skip && !pass_is_apart(p) && total > p->cell[cell].tokens * n;
    for (int i = 0; i < f->r->n_layer; i++)
        for (int a = 0; a < p->n_lane; a++)
            finish_lane(f, &lane[i * p->n_lane + a], cell, i, a, over);
    count_cell(f, c, cell);
    cell_metrics(f, c, cell, lane, pool, false);
    if (pass_is_apart(p)) /* nothing leaves */
        c->evictions_prefill_count = c->evictions_decode_count = c->acted_count =
            c->attn_kl_inf_count = KVT_EMPTY_INT;
    regrets(f, c, cell);
    cell_metrics(f, c, cell, lane, pool, true);
    drop_signs(c, lane, n);
    spread(f, c, lane, pool);
    find_worst(f, c, lane);
}

static void name_result(finisher *f)
{
    const pass *p = f->p;
    kvt_result *r = f->r;
    snprintf(r->trace_path, sizeof r->trace_path, "%s", f->info->path);
    snprintf(r->trace_id, sizeof r->trace_id, "%s", f->info->name);
    snprintf(r->trace_digest, sizeof r->trace_digest, "%s", f->info->digest);
    snprintf(r->policy_text, sizeof r->policy_text, "%s", p->use->text);
    snprintf(r->policy_title, sizeof r->policy_title, "%s", p->use->policy->title);
    r->is_control = p->use->traits.control || p->knows_response;
    r->by_query_head = p->by_head;
    r->n_lane = p->n_lane;
    r->n_prompt = p->n_prompt;
    r->n_response = p->n_response;
    r->n_cell = p->n_cell;
    for (int l = 0; l < p->n_layer; l++) {
        if (!f->layers[l])
            continue;
        f->layer[r->n_layer] = l;
        r->layer_id[r->n_layer++] = f->info->layer_id[l];
    }
}

/* Threads take cells; each has its place. */
static kvt_code fill_cells(const finisher *f, int n_thread, kvt_err *err)
{
    int64_t n = (int64_t)f->r->n_layer * f->p->n_head * f->p->n_response;
    bool failed = false;
#pragma omp parallel num_threads(n_thread)
    {
        double *pool = kvt_alloc(n, sizeof *pool);
#pragma omp for schedule(dynamic, 1) reduction(|| : failed)
        for (int c = 0; c < f->p->n_cell; c++) {
            if (pool)
                fill_cell(f, c, pool);
            failed = failed || !pool;
        }
        kvt_free(pool);
    }
    return failed ? kvt_fail_memory(err, n * (int64_t)sizeof(double)) : KVT_OK;
}

kvt_code finish_pass(kvt_result **out, const pass *p, const kvt_trace_info *info,
                     const bool *layers, const truth *truths, const double *best, kvt_rule rule,
                     const kvt_ctx *ctx, kvt_err *err)
{
    finisher f = {.p = p,
                  .info = info,
                  .layers = layers,
                  .truths = truths,
                  .best = best,
                  .rule = rule,
                  .r = kvt_result_new()};
    *out = NULL;
    if (!f.r)
        return kvt_fail_memory(err, sizeof *f.r);
    name_result(&f);
    for (int c = 0; c < p->n_cell; c++)
        f.best_lost[c] =
            p->reason[0] || p->cell[c].reason[0] ? (double)NAN : finish_best(&f, c);
    int64_t lanes = (int64_t)f.r->n_layer * p->n_lane;
    kvt_code code = KVT_OK;
    f.r->cell = kvt_alloc(p->n_cell, sizeof *f.r->cell);
    f.r->lane = kvt_alloc(p->n_cell * lanes, sizeof *f.r->lane);
    if (!f.r->cell || !f.r->lane)
        code = kvt_fail_memory(err, p->n_cell * lanes * (int64_t)sizeof *f.r->lane);
    if (!code)
        code = fill_cells(&f, kvt_threads(ctx), err);
    if (!code && !p->reason[0] && !finish_arrays(&f))
        code = kvt_fail_memory(err, p->n_cell * lanes * p->n_prompt);
    if (!code)
        f.r->plan_note = finish_note(&f);
    if (code)
        kvt_result_free(f.r);
    else
        *out = f.r;
    return code;
}
