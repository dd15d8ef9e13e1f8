/* kvpop_judge.c - how well a scorer keeps what the teacher keeps, beside controls: the mean
 * target at a position and the most recent tokens, which read no content, and the targets
 * themselves. */
#include "train/kvpop.h"

#include <math.h>

#include "train/judge.h"

enum { JUDGE_QUERIES = 4, JUDGE_PAIRS = 64 };

static int bin_of(int64_t t, int64_t n_token)
{
    return t < 8 ? (int)t : 8 + (int)((KVPOP_BINS - 8) * t / n_token);
}

bool kvpop_meet(void *user, const tracein *s, int unit, int layer, int lane, kvt_arena *work)
{
    const kvpop *k = user;
    kvpop_bins *b = &k->bins[unit];
    double *target = kvt_arena_array(work, s->T, sizeof *target);
    if (!target)
        return false;
    target_delayed(target, s, layer, lane, (target_group)k->p->target, k->p->eps);
    for (int64_t t = k->p->sinks; t < kvpop_end(k, s); t++) {
        b->sum[bin_of(t, s->T)] += target[t];
        b->n[bin_of(t, s->T)] += 1;
    }
    return true;
}

static double position_score(const kvpop_bins *b, int64_t t, int64_t n_token)
{
    int bin = bin_of(t, n_token);
    return b->n[bin] > 0 ? b->sum[bin] / b->n[bin] : 0;
}

/* The tokens that have left the window at one query; targets and scores decay alike. False: no
 * memory. */
static bool compare(const kvpop *k, const double *target, const double *score, int64_t fresh,
                    double log_gamma, fit_sum *sum, kvt_arena *work)
{
    int64_t first = k->p->sinks, n = fresh + 1 - first, q = fresh + k->p->window;
    double *rank = kvt_arena_array(work, n, sizeof *rank);
    double *mine = kvt_arena_array(work, n, sizeof *mine);
    double *mass = kvt_arena_array(work, n, sizeof *mass);
    if (!rank || !mine || !mass)
        return false;
    cutoff_effective(rank, target, first, fresh + 1, q, k->p->decay_step, log_gamma);
    cutoff_effective(mine, score, first, fresh + 1, q, k->p->decay_step, log_gamma);
    for (int64_t i = 0; i < n; i++)
        mass[i] = exp(target[first + i]);
    return judge_best(rank, mass, mine, n, sum, work);
}

static bool compare_all(const kvpop *k, const double *target, const double *score, int64_t end,
                        double log_gamma, fit_sum *sum, kvt_arena *work)
{
    bool ok = true;
    for (int i = 1; ok && i <= JUDGE_QUERIES; i++) {
        size_t mark = kvt_arena_mark(work);
        int64_t fresh = k->p->sinks + (end - k->p->sinks) * i / JUDGE_QUERIES - 1;
        ok = compare(k, target, score, fresh, log_gamma, sum, work);
        kvt_arena_rewind(work, mark);
    }
    return ok;
}

/* The controls age as the scorer does. */
static bool controls(const kvpop *k, const fit_at *at, const double *target, int64_t end,
                     double log_gamma)
{
    fit_sum *sum = &k->control[at->unit * KVPOP_CONTROLS];
    double *score = kvt_arena_array(at->work, end, sizeof *score);
    if (!score)
        return false;
    for (int64_t t = 0; t < end; t++)
        score[t] = position_score(&k->bins[at->unit], t, at->s->T);
    bool ok = compare_all(k, target, score, end, log_gamma, &sum[0], at->work);
    for (int64_t t = 0; t < end; t++)
        score[t] = (double)t;
    return ok && compare_all(k, target, score, end, log_gamma, &sum[1], at->work) &&
           compare_all(k, target, target, end, log_gamma, &sum[2], at->work);
}

static bool judge_loss(const kvpop *k, const fit_at *at, const double *target, int64_t end,
                       const float *score, const int32_t *where, double log_gamma, fit_sum *sum)
{
    cutoff_pair *pair = kvt_arena_array(at->work, JUDGE_PAIRS, sizeof *pair);
    uint64_t rng[4] = {at->rng[0], at->rng[1], at->rng[2], at->rng[3]};
    if (!pair)
        return false;
    int64_t n =
        cutoff_draw(&k->cutoff, target, end, log_gamma, pair, JUDGE_PAIRS, rng, at->work);
    if (n > 0)
        sum->loss += cutoff_loss(&k->cutoff, pair, n, where, score, log_gamma, 0, NULL, NULL);
    sum->n_loss += n > 0 ? (double)n : 0;
    return n >= 0;
}

static void judge_regression(const kvpop *k, const double *target, int64_t end,
                             const double *score, fit_sum *sum)
{
    for (int64_t t = k->p->sinks; t < end; t++)
        sum->loss += (score[t] - target[t]) * (score[t] - target[t]);
    sum->n_loss += (double)(end - k->p->sinks);
}

bool kvpop_judge(void *user, const fit_at *at, fit_sum *sum)
{
    const kvpop *k = user;
    int64_t end = kvpop_end(k, at->s), first = k->p->sinks, n = end - first;
    if (n < 2)
        return true;
    double *target = kvt_arena_array(at->work, at->s->T, sizeof *target);
    double *score = kvt_arena_array(at->work, end, sizeof *score);
    int32_t *token = kvt_arena_array(at->work, n, sizeof *token);
    int32_t *where = kvt_arena_array(at->work, end, sizeof *where);
    if (!target || !score || !token || !where)
        return false;
    target_delayed(target, at->s, at->layer, at->lane, (target_group)k->p->target, k->p->eps);
    for (int64_t i = 0; i < n; i++) {
        token[i] = (int32_t)(first + i);
        where[first + i] = (int32_t)i;
    }
    kvpop_pass pass = {.k = k, .at = at, .token = token, .n = n};
    if (!kvpop_forward(&pass))
        return false;
    for (int64_t i = 0; i < n; i++)
        score[first + i] = (double)pass.score[i];
    double log_gamma = kvpop_decay(k, at->param, NULL);
    if (k->p->loss == 1)
        judge_regression(k, target, end, score, sum);
    else if (!judge_loss(k, at, target, end, pass.score, where, log_gamma, sum))
        return false;
    bool ok = compare_all(k, target, score, end, log_gamma, sum, at->work);
    return ok && (!at->first || controls(k, at, target, end, log_gamma));
}

void kvpop_first(void *user, train_run *run)
{
    static const char *const name[KVPOP_CONTROLS] = {
        "mean target at a position", "most recent tokens", "the targets themselves"};
    const kvpop *k = user;
    int64_t n_unit = run->info.n_layer * run->info.facts.model.n_kv_head;
    for (int c = 0; c < KVPOP_CONTROLS; c++) {
        fit_sum all = {0};
        for (int64_t u = 0; u < n_unit; u++) {
            const fit_sum *one = &k->control[u * KVPOP_CONTROLS + c];
            all.recall += one->recall;
            all.lost += one->lost;
            all.n_recall += one->n_recall;
        }
        if (all.n_recall > 0)
            kvt_log(run->ctx, KVT_LOG_INFO, "train",
                    "control, %s: recall %.3f, lost %.4f of the targets' mass", name[c],
                    all.recall / all.n_recall, all.lost / all.n_recall);
    }
}
