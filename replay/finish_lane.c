/* finish_lane.c - what was judged becomes lanes of a result, and what the oracle with as many
 * slots loses. */
#include "replay/finish_priv.h"

#include <math.h>
#include <stdio.h>

#include "kvt/pieces.h"

/* ---- oracles -------------------------------------------------------------------------------
 */

/* What a lane loses where the best `count` of its tokens stay, all rows and heads together. */
double finish_least(const finisher *f, int i, int a, int64_t count)
{
    const double *best = truth_best(&f->truths[f->layer[i]], a, f->p->by_head);
    return best[f->p->n_prompt] - best[count];
}

/* What a lane lost, all rows and heads together. */
double finish_lost(const finisher *f, int cell, int i, int a)
{
    const pass *p = f->p;
    int per = p->n_head / p->n_lane;
    if (!p->lost) /* level summary: the mean is all there is */
        return finish_least(f, i, a, 0) - p->kept_mass[pass_lane(p, cell, f->layer[i], a)];
    const float *lost = p->lost + pass_head(p, cell, f->layer[i], a * per) * p->n_response;
    double sum = 0;
    for (int64_t k = 0; k < per * p->n_response; k++)
        sum += (double)lost[k];
    return sum;
}

/* A difference of losses as a regret. Sums over halves are exact, so that equal sets differ by
 * 0; sums over future/mean, in two orders, by their last bits. Below 0 there is only what the
 * end of each row's loss at 1 hides: the oracle, of one decision or of a whole schedule, is the
 * best before that, and where rows of halves add up to more than 1, another set may use what it
 * cannot. */
double finish_regret(double more)
{
    return more > 1e-12 ? more : 0;
}

/* Slots that a row of an inside pass may see: its budget, and what came since it last dropped.
 */
static int64_t may_see(const pass *p, int64_t budget, int64_t m)
{
    bool first = p->use->traits.drop_first;
    return budget + (first ? m + 1 : m) % p->every + !first;
}

/* Whether every lane of the cell held its budget at every time, so that the best schedule of
 * that budget is a bound. */
static bool held_budgets(const finisher *f, int cell)
{
    const pass *p = f->p;
    for (int i = 0; i < f->r->n_layer; i++)
        for (int a = 0; a < p->n_lane; a++) {
            int64_t at = pass_lane(p, cell, f->layer[i], a);
            const kvt_engine_count *n = &p->count[at];
            if (n->kept > n->budget || isnan(p->best_lost[at]))
                return false;
            for (int64_t m = 0; m < p->n_response; m++)
                if ((int64_t)p->seen[at * p->n_response + m] > may_see(p, n->budget, m))
                    return false;
        }
    return true;
}

/* What the best schedules of a cell of an inside pass lose, all rows and heads together; NAN
 * where they are no bound. */
double finish_best(const finisher *f, int cell)
{
    const pass *p = f->p;
    double sum = 0;
    if (!p->best_lost || !p->lost || p->n_response == 0 || !held_budgets(f, cell))
        return NAN;
    for (int i = 0; i < f->r->n_layer; i++)
        for (int a = 0; a < p->n_lane; a++)
            sum += p->best_lost[pass_lane(p, cell, f->layer[i], a)];
    return sum;
}

/* ---- lanes ---------------------------------------------------------------------------------
 */

static void lane_metrics(const finisher *f, kvt_lane_row *row, int64_t lane)
{
    int at = 0, k = 0;
    for (int i = 0; kvt_metrics()[i]; i++) {
        const kvt_metric *m = kvt_metrics()[i];
        int64_t x = lane * LANE_METRICS_MAX + k;
        for (const kvt_metric_column *c = m->column; c->column; c++, at++)
            if (measure_is_lane(m) && c->over == KVT_MEAN && f->p->measured[x] > 0)
                row->value[at] = f->p->measure[x] / f->p->measured[x];
        k += measure_is_lane(m);
    }
}

/* The row in which a lane lost most, mean over its heads; the first of equal ones. */
static void worst_row(const finisher *f, kvt_lane_row *row, int cell, int layer, int a)
{
    const pass *p = f->p;
    int per = p->n_head / p->n_lane;
    for (int64_t k = 0; p->lost && !pass_is_apart(p) && k < p->n_response; k++) {
        double sum = 0;
        for (int h = 0; h < per; h++)
            sum += (double)p->lost[pass_head(p, cell, layer, a * per + h) * p->n_response + k];
        if (row->worst_step == KVT_EMPTY_INT || sum / per > row->worst_lost_frac) {
            row->worst_step = k;
            row->worst_lost_frac = sum / per;
        }
    }
}

void finish_empty_lane(kvt_lane_row *row)
{
    row->layer = row->kv_head = row->asked_tokens = row->kept_prefill_tokens = KVT_EMPTY_INT;
    row->kept_end_tokens = row->kept_max_tokens = row->pinned_tokens = KVT_EMPTY_INT;
    row->worst_step = KVT_EMPTY_INT;
    row->worst_lost_frac = row->oracle_lost_mass_mean_frac = row->regret_mean_frac = NAN;
    for (int i = 0; i < KVT_VALUES_MAX; i++)
        row->value[i] = NAN;
}

static const char *flag_of(const pass *p, const kvt_lane_row *row, bool total_over)
{
    int64_t asked = row->asked_tokens, N = p->n_prompt;
    if (row->kept_prefill_tokens == 0)
        return "empty";
    if (p->skip || pass_is_apart(p))
        return "ok";
    if (row->kept_prefill_tokens > asked || total_over)
        return "over";
    if (row->kept_prefill_tokens < kvt_min(asked, N))
        return "under";
    return !p->inside && row->kept_end_tokens > asked ? "grows" : "ok";
}

/* Against the best schedule at the lane's own budget. */
static void inside_regret(const finisher *f, kvt_lane_row *row, int cell, int i, int a)
{
    const pass *p = f->p;
    double rows = (double)(p->n_head / p->n_lane * p->n_response);
    if (isnan(f->best_lost[cell]))
        return;
    double least = p->best_lost[pass_lane(p, cell, f->layer[i], a)];
    row->oracle_lost_mass_mean_frac = least / rows;
    row->regret_mean_frac = finish_regret((finish_lost(f, cell, i, a) - least) / rows);
}

void finish_lane(const finisher *f, kvt_lane_row *row, int cell, int i, int a, bool total_over)
{
    const pass *p = f->p;
    int layer = f->layer[i];
    int64_t at = pass_lane(p, cell, layer, a), M = p->n_response;
    const kvt_engine_count *n = &p->count[at];
    row->layer = f->info->layer_id[layer];
    row->kv_head = a;
    row->asked_tokens = n->budget;
    row->kept_prefill_tokens = n->kept;
    row->kept_end_tokens = p->end[at];
    row->kept_max_tokens = pass_is_on_top(p) ? n->kept + M : kvt_max(n->most, n->kept);
    row->pinned_tokens = n->pinned;
    snprintf(row->flag, sizeof row->flag, "%s", flag_of(p, row, total_over));
    lane_metrics(f, row, at);
    worst_row(f, row, cell, layer, a);
    if (p->inside)
        inside_regret(f, row, cell, i, a);
    if (!pass_is_on_top(p) || M == 0)
        return;
    double rows = (double)(p->n_head / p->n_lane * M), lost = finish_lost(f, cell, i, a);
    double least = finish_least(f, i, a, n->kept);
    row->oracle_lost_mass_mean_frac = least / rows;
    row->regret_mean_frac = finish_regret((lost - least) / rows);
    if (!p->lost)
        row->value[kvt_metric_value("lost_mass_mean_frac")] = lost / rows;
}
