/* judge_lane.c - lane metrics: a kept set against the true order at one decision, and against
 * what the row before it saw. */
#include "replay/judge_priv.h"

#include <math.h>
#include <string.h>

#include "base/select.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

/* Adds a value of a lane metric; what is undefined is left out. */
static void add_value(pass *p, int64_t at, const kvt_metric *m, const kvt_judged *j)
{
    kvt_ratio x = m->turn ? m->turn(j) : m->ratio ? m->ratio(j) : (kvt_ratio){m->lane(j), 1};
    if (isnan(x.above) || !(x.below > 0))
        return;
    p->measure[at] += x.above / x.below;
    p->measured[at]++;
    p->part[at].above += x.above;
    p->part[at].below += x.below;
}

/* Adds what every metric of a decision (`turn`: of a row) says. `like` is a lane at another
 * budget whose sums are there, or -1: what looks at the trace only is the same there, and what
 * looks at scores only where both have one ranking. */
static void measure(pass *p, int64_t lane, int64_t like, bool turn, const kvt_judged *j)
{
    int index[LANE_METRICS_MAX], n = measure_lane_metrics(index);
    for (int i = 0; i < n; i++) {
        const kvt_metric *m = kvt_metrics()[index[i]];
        int64_t to = lane * LANE_METRICS_MAX + i, from = like * LANE_METRICS_MAX + i;
        if (!pass_measures(p, index[i]) || (m->turn != NULL) != turn)
            continue;
        if (like >= 0 && (m->of_trace || (m->of_score && p->rank))) {
            p->measure[to] = p->measure[from];
            p->measured[to] = p->measured[from];
            p->part[to] = p->part[from];
            continue;
        }
        add_value(p, to, m, j);
        if (j->scratch)
            kvt_arena_rewind(j->scratch, 0);
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

/* ---- scores --------------------------------------------------------------------------------
 */

/* Whether a lane's scores are attention, and decided alone. */
static bool scores_tell(const pass *p)
{
    return !p->together && p->use->traits.mass_scores;
}

/* Whether slots stay in the order of the lane's scores, whatever they are. */
static bool scores_rank(const pass *p)
{
    if (p->together || !p->by_score || p->use->traits.effect != KVT_EVICT)
        return false;
    for (int i = 0; kvt_metrics()[i]; i++)
        if (pass_measures(p, i) && kvt_metrics()[i]->by_rank)
            return true;
    return false;
}

/* The order of the scores without what the rule keeps. rank i32 [N]: ranks that are there
 * already, whose order of what the rule does not keep is the same; NULL: none. ranked i32 [N];
 * false: no memory. */
static bool rank_scores(kvt_judged *j, const float *score, const bool *rule,
                        const int32_t *rank, int32_t *ranked, kvt_arena *work)
{
    int64_t n = 0;
    for (int64_t s = 0; rank && s < j->n_prompt; s++)
        ranked[rank[s]] = (int32_t)s;
    if (!rank && !select_rank(ranked, score, j->n_prompt, work))
        return false;
    kvt_arena_rewind(work, 0);
    for (int64_t i = 0; i < j->n_prompt; i++)
        if (!rule || !rule[ranked[i]])
            ranked[n++] = ranked[i];
    j->ranking = score;
    j->ranked = ranked;
    j->n_ranked = n;
    return true;
}

/* ---- hits ----------------------------------------------------------------------------------
 */

/* How many of the true best are held: hits i32 [n_arrived + 1], as far as they are read. */
static void count_hits(kvt_judged *j, int32_t *hits)
{
    int64_t n = kvt_min(j->n_arrived, kvt_max(j->budget, KVT_TOP_MAX));
    hits[0] = 0;
    for (int64_t i = 0; i < n; i++)
        hits[i + 1] = hits[i] + j->held[j->truth[i]];
    j->hits = hits;
}

/* What the metrics of a lane read beside the arrays of the pass. */
typedef struct lane_desk {
    uint8_t *held, *pinned; /* [n] */
    int32_t *hits, *ranked; /* [n + 1], [n] */
} lane_desk;

static void lane_desk_fini(lane_desk *d)
{
    kvt_free(d->held);
    kvt_free(d->pinned);
    kvt_free(d->hits);
    kvt_free(d->ranked);
}

static kvt_code lane_desk_init(lane_desk *d, int64_t n, kvt_err *err)
{
    *d = (lane_desk){.held = kvt_alloc(n, sizeof *d->held),
                     .pinned = kvt_alloc(n, sizeof *d->pinned),
                     .hits = kvt_alloc(n + 1, sizeof *d->hits),
                     .ranked = kvt_alloc(n, sizeof *d->ranked)};
    if (d->held && d->pinned && d->hits && d->ranked)
        return KVT_OK;
    lane_desk_fini(d);
    return kvt_fail_memory(err, n * 10);
}

/* ---- on top --------------------------------------------------------------------------------
 */

/* How many of their heavy keys the rows of a lane saw; what is generated stays. */
static void count_heavy(pass *p, int layer, int a, int c, const truth *t)
{
    int per = p->n_head / p->n_lane;
    int64_t N = p->n_prompt, M = p->n_response;
    const uint64_t *kept = p->kept + ((int64_t)layer * p->n_lane + a) * N;
    int8_t *out = p->heavy + pass_head(p, c, layer, a * per) * M;
    const int32_t *token = t->heavy + a * per * M * HEAVY_MAX;
    for (int64_t i = 0; i < per * M; i++, token += HEAVY_MAX)
        for (int k = 0; k < HEAVY_MAX && token[k] >= 0; k++)
            out[i] = (int8_t)(out[i] + (token[k] >= N || (kept[token[k]] >> c & 1)));
}

/* Ranks of a lane's one ranking, or NULL. */
static const int32_t *lane_rank(const pass *p, int layer, int a)
{
    return p->rank ? p->rank + ((int64_t)layer * p->n_lane + a) * p->n_prompt : NULL;
}

static kvt_code judge_lane(pass *p, int layer, int a, int c, const truth *t, lane_desk *d,
                           kvt_judged *j, kvt_err *err)
{
    int64_t n = p->n_prompt, lane = pass_lane(p, c, layer, a);
    const uint64_t *kept = p->kept + ((int64_t)layer * p->n_lane + a) * n;
    const float *score;
    const bool *rule;
    kvt_engine_ranking(p->engine, c, layer, a, &score, &rule);
    j->score = scores_tell(p) ? score : NULL;
    if (!p->rank) /* another budget's says nothing of this one */
        j->ranking = NULL, j->ranked = NULL, j->n_ranked = 0;
    if (score && scores_rank(p) && (c == 0 || !p->rank) &&
        !rank_scores(j, score, rule, lane_rank(p, layer, a), d->ranked, j->scratch))
        return kvt_fail_memory(err, n * (int64_t)sizeof *score);
    const int32_t *rank = lane_rank(p, layer, a), cut = (int32_t)p->count[lane].kept;
    for (int64_t s = 0; rank && s < n; s++)
        d->held[s] = rank[s] < cut;
    for (int64_t s = 0; !rank && s < n; s++)
        d->held[s] = kept[s] >> c & 1;
    for (int64_t s = 0; (c == 0 || !rank) && s < n; s++)
        d->pinned[s] = rule && rule[s];
    if (!p->lost)
        p->kept_mass[lane] = held_mass(p, t, a, d->held);
    j->budget = p->count[lane].budget;
    j->n_arrived = n;
    j->held = d->held, j->pinned = d->pinned;
    j->n_held = p->count[lane].kept;
    j->remaining = truth_mass(t, a, p->by_head), j->truth = truth_order(t, a, p->by_head);
    count_hits(j, d->hits);
    if (p->heavy && t->heavy)
        count_heavy(p, layer, a, c, t);
    measure(p, lane, c > 0 ? pass_lane(p, 0, layer, a) : -1, false, j);
    return KVT_OK;
}

kvt_code judge_lanes(pass *p, int layer, const truth *t, kvt_arena *work, kvt_err *err)
{
    lane_desk d;
    kvt_code code = lane_desk_init(&d, p->n_prompt, err);
    if (code)
        return code;
    for (int a = 0; a < p->n_lane; a++) {
        kvt_judged j = judged(p, layer, a, t, work);
        for (int c = 0; !code && c < p->n_cell; c++)
            code = judge_lane(p, layer, a, c, t, &d, &j, err);
    }
    lane_desk_fini(&d);
    return code;
}

/* ---- inside --------------------------------------------------------------------------------
 */

/* The ranking of the decision at the prompt's end. */
static bool look_at_scores(const pass *p, int layer, int a, int c, lane_desk *d, kvt_judged *j)
{
    const float *score;
    const bool *rule;
    kvt_engine_ranking(p->engine, c, layer, a, &score, &rule);
    j->score = scores_tell(p) ? score : NULL;
    return !score || !scores_rank(p) ||
           rank_scores(j, score, rule, NULL, d->ranked, j->scratch);
}

static kvt_code judge_step_lane(pass *p, int layer, int a, int c, const step_job *s,
                                lane_desk *d, int64_t like, kvt_err *err)
{
    const int64_t *pos;
    kvt_judged j = judged(p, layer, a, s->truth, s->work);
    memset(d->held, 0, (size_t)s->n_arrived);
    kvt_engine_held(p->engine, c, layer, a, &pos, &j.n_held);
    for (int64_t i = 0; i < j.n_held; i++)
        d->held[pos[i]] = 1;
    if (s->step == 0 && !look_at_scores(p, layer, a, c, d, &j))
        return kvt_fail_memory(err, s->n_arrived * (int64_t)sizeof(float));
    j.budget = kvt_engine_counts(p->engine, c, layer, a).budget;
    j.step = s->step, j.n_arrived = s->n_arrived;
    j.held = d->held, j.pinned = kvt_engine_pinned(p->engine, c, layer, a);
    j.remaining = (p->by_head ? s->left_head : s->left_group) + a * s->stride;
    j.truth = (p->by_head ? s->order_head : s->order_group) + a * s->stride;
    count_hits(&j, d->hits);
    measure(p, pass_lane(p, c, layer, a), like, false, &j);
    return KVT_OK;
}

kvt_code judge_step(pass *p, int layer, const step_job *s, kvt_err *err)
{
    lane_desk d;
    bool failed;
    kvt_code code = lane_desk_init(&d, s->n_arrived, err);
    if (code)
        return code;
    for (int a = 0; !code && a < p->n_lane; a++) {
        int64_t like = -1;
        for (int c = 0; !code && c < p->n_cell; c++) {
            if (kvt_engine_refused(p->engine, c, layer, &failed))
                continue;
            code = judge_step_lane(p, layer, a, c, s, &d, like, err);
            if (like < 0)
                like = pass_lane(p, c, layer, a);
        }
    }
    lane_desk_fini(&d);
    return code;
}

/* ---- from row to row -----------------------------------------------------------------------
 */

/* Bits of what response row `row` of a lane attended to: those of even and of odd rows. */
static uint64_t *saw_at(const pass *p, int cell, int layer, int lane, int64_t row)
{
    int64_t words = pass_words(p), half = words * p->n_cell * p->n_layer * p->n_lane;
    return p->saw + (row & 1) * half + pass_lane(p, cell, layer, lane) * words;
}

void judge_turn(pass *p, int cell, int layer, int lane, int64_t row, const int64_t *pos,
                int64_t n)
{
    int64_t words = pass_words(p);
    uint64_t *now = saw_at(p, cell, layer, lane, row);
    memset(now, 0, (size_t)words * sizeof *now);
    for (int64_t i = 0; i < n; i++)
        now[pos[i] / 64] |= UINT64_C(1) << pos[i] % 64;
    kvt_judged j = {.layer = layer,
                    .group = lane,
                    .n_prompt = p->n_prompt,
                    .n_response = p->n_response,
                    .inside = p->inside,
                    .row = row,
                    .saw = now,
                    .saw_before = saw_at(p, cell, layer, lane, row + 1),
                    .n_word = words};
    if (row > 0)
        measure(p, pass_lane(p, cell, layer, lane), -1, true, &j);
}

void judge_heavy(pass *p, int cell, int layer, int lane, int64_t row, const int32_t *heavy)
{
    const uint64_t *saw = saw_at(p, cell, layer, lane, row);
    int64_t M = p->n_response;
    int per = p->n_head / p->n_lane;
    for (int h = lane * per; h < (lane + 1) * per; h++) {
        const int32_t *token = heavy + (h * M + row) * HEAVY_MAX;
        int8_t n = 0;
        for (int k = 0; k < HEAVY_MAX && token[k] >= 0; k++)
            n = (int8_t)(n + ((int)(saw[token[k] / 64] >> token[k] % 64 & 1)));
        p->heavy[pass_head(p, cell, layer, h) * M + row] = n;
    }
}
