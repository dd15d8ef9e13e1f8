/* judge_lane.c - lane metrics: a kept set against the true order, at one decision. */
#include "replay/judge_priv.h"

#include <math.h>
#include <string.h>

#include "kvt/arena.h"

/* Adds what every lane metric says of one decision; NAN is left out. `like` is a lane at
 * another budget of the same ranking, or -1: what looks at scores only is the same there. */
static void measure(pass *p, int64_t lane, int64_t like, const kvt_judged *j)
{
    int index[LANE_METRICS_MAX], n = measure_lane_metrics(index);
    for (int i = 0; i < n; i++) {
        const kvt_metric *m = kvt_metrics()[index[i]];
        int64_t to = lane * LANE_METRICS_MAX + i, from = like * LANE_METRICS_MAX + i;
        if (like >= 0 && m->of_score) {
            p->measure[to] = p->measure[from];
            p->measured[to] = p->measured[from];
            continue;
        }
        double x = m->lane(j);
        kvt_arena_rewind(j->scratch, 0);
        if (!isnan(x)) {
            p->measure[to] += x;
            p->measured[to]++;
        }
    }
}

static kvt_judged judged(const pass *p, int layer, int lane, const truth *t, kvt_arena *work)
{
    int per = p->n_head / p->n_lane;
    return (kvt_judged){.layer = layer,
                        .group = lane,
                        .n_head = per,
                        .n_prompt = p->n_prompt,
                        .n_response = p->n_response,
                        .inside = p->inside,
                        .future_mean = t->future_mean
                                           ? t->future_mean + (int64_t)lane * per * p->n_prompt
                                           : NULL,
                        .scratch = work};
}

/* Mass of the held tokens, summed over the heads of the lane. */
static double held_mass(const pass *p, const truth *t, int lane, const uint8_t *held)
{
    int per = p->n_head / p->n_lane;
    double sum = 0;
    for (int h = lane * per; h < (lane + 1) * per; h++)
        for (int64_t s = 0; s < p->n_prompt; s++)
            sum += held[s] ? t->head[h * p->n_prompt + s] : 0;
    return sum;
}

/* Whether a lane's scores are attention, and decided alone. */
static bool scores_tell(const pass *p)
{
    return !p->together && p->use->traits.mass_scores;
}

kvt_code judge_lanes(pass *p, int layer, const truth *t, kvt_arena *work, kvt_err *err)
{
    int64_t n = p->n_prompt;
    uint8_t *flags = kvt_alloc(2 * n, sizeof *flags);
    if (!flags)
        return kvt_fail_memory(err, 2 * n);
    uint8_t *held = flags, *pinned = flags + n;
    for (int c = 0; c < p->n_cell; c++) {
        for (int a = 0; a < p->n_lane; a++) {
            const uint64_t *kept = p->kept + ((int64_t)layer * p->n_lane + a) * n;
            const double *mass = truth_mass(t, a, p->by_head);
            int64_t lane = pass_lane(p, c, layer, a);
            kvt_judged j = judged(p, layer, a, t, work);
            const bool *rule;
            kvt_engine_ranking(p->engine, c, layer, a, &j.score, &rule);
            j.score = scores_tell(p) ? j.score : NULL;
            for (int64_t s = 0; s < n; s++) {
                held[s] = kept[s] >> c & 1;
                pinned[s] = rule && rule[s];
            }
            if (!p->lost)
                p->kept_mass[lane] = held_mass(p, t, a, held);
            j.budget = p->count[lane].budget;
            j.n_arrived = n;
            j.held = held, j.pinned = pinned;
            j.remaining = mass, j.truth = truth_order(t, a, p->by_head);
            measure(p, lane, p->rank && c > 0 ? pass_lane(p, 0, layer, a) : -1, &j);
        }
    }
    kvt_free(flags);
    return KVT_OK;
}

kvt_code judge_step(pass *p, int layer, const step_job *s, kvt_err *err)
{
    int64_t n = s->n_arrived;
    bool failed;
    uint8_t *held = kvt_alloc(n, sizeof *held);
    if (!held)
        return kvt_fail_memory(err, n);
    for (int c = 0; c < p->n_cell; c++) {
        for (int a = 0; a < p->n_lane && !kvt_engine_refused(p->engine, c, layer, &failed);
             a++) {
            const int64_t *pos;
            const bool *rule;
            int64_t n_held, lane = pass_lane(p, c, layer, a);
            kvt_judged j = judged(p, layer, a, s->truth, s->work);
            memset(held, 0, (size_t)n);
            kvt_engine_held(p->engine, c, layer, a, &pos, &n_held);
            for (int64_t i = 0; i < n_held; i++)
                held[pos[i]] = 1;
            if (s->step == 0 && scores_tell(p))
                kvt_engine_ranking(p->engine, c, layer, a, &j.score, &rule);
            j.budget = kvt_engine_counts(p->engine, c, layer, a).budget;
            j.step = s->step, j.n_arrived = n;
            j.held = held, j.pinned = kvt_engine_pinned(p->engine, c, layer, a);
            j.remaining = (p->by_head ? s->left_head : s->left_group) + a * s->stride;
            j.truth = (p->by_head ? s->order_head : s->order_group) + a * s->stride;
            measure(p, lane, -1, &j);
        }
    }
    kvt_free(held);
    return KVT_OK;
}
