/* schedule.c - the best schedules of a layer, each lane, budget and set of drop times once.
 *
 * What the policy oracle-assign reads is solved before the first row; what other passes are
 * compared with, at the budgets that their allocators gave, behind the last one. Above the
 * limit of memory a lane gets the greedy schedule: passes that read it go on, others have no
 * regret. */
#include "replay/schedule.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kvt/pieces.h"
#include "replay/assign.h"

/* ---- new and free --------------------------------------------------------------------------
 */

/* Exact sums of all response rows. */
static void add_up(schedules *s, float *row)
{
    for (int h = 0; h < s->n_head; h++)
        for (int64_t m = 0; m < s->n_response; m++) {
            double sum = 0;
            half_to_floats(row, s->rows.data + h * s->rows.head_stride + m * s->rows.row_stride,
                           s->n_prompt + m + 1);
            for (int64_t t = 0; t <= s->n_prompt + m; t++)
                sum += (double)row[t];
            s->all[h * s->n_response + m] = sum;
        }
}

void schedules_free(schedules *s)
{
    kvt_arena_free(s->memory);
    kvt_arena_free(s->work);
    *s = (schedules){0};
}

kvt_code schedules_open(schedules *s, const truth *t, const layer_feed *f, kvt_err *err)
{
    int64_t T = t->n_prompt + t->n_response, n = t->n_head * t->n_response;
    *s = (schedules){.n_head = t->n_head,
                     .n_kv = t->n_kv,
                     .n_prompt = t->n_prompt,
                     .n_response = t->n_response,
                     .memory = kvt_arena_new((size_t)1 << 40),
                     .work = kvt_arena_new((size_t)1 << 40)};
    float *row = s->work ? kvt_arena_array(s->work, T, sizeof *row) : NULL;
    s->all = s->memory ? kvt_arena_array(s->memory, n + 1, sizeof *s->all) : NULL;
    if (!row || !s->all) {
        schedules_free(s);
        return kvt_fail_memory(err, n * (int64_t)sizeof *s->all);
    }
    if (t->n_response > 0) {
        s->rows = feed_response(f);
        add_up(s, row);
    }
    return KVT_OK;
}

/* ---- solving -------------------------------------------------------------------------------
 */

static assign_lane lane_of(const schedules *s, const lane_plan *x)
{
    int per = x->by_head ? 1 : s->n_head / s->n_kv;
    return (assign_lane){.rows = s->rows,
                         .head = x->lane * per,
                         .n_head = per,
                         .n_prompt = s->n_prompt,
                         .n_response = s->n_response,
                         .every = x->every,
                         .drop_first = x->drop_first};
}

static const double *sums_of(const schedules *s, const assign_lane *l, double *total)
{
    const double *all = s->all + l->head * s->n_response;
    *total = 0;
    for (int64_t i = 0; i < l->n_head * s->n_response; i++)
        *total += all[i];
    return all;
}

/* One budget of a plan, from where the solver is. */
static kvt_code take_budget(const schedules *s, lane_plan *x, int i, const assign *a,
                            const assign_lane *l, kvt_err *err)
{
    int64_t T = s->n_prompt + s->n_response;
    double total, excess;
    const double *all = sums_of(s, l, &total);
    int32_t *drop = x->drop ? x->drop + i * T : kvt_arena_array(s->work, T, sizeof *drop);
    if (!drop)
        return kvt_fail_memory(err, T * (int64_t)sizeof *drop);
    assign_drop_steps(a, drop);
    if (assign_excess(&excess, l, all, drop, s->work, err))
        return err->code;
    x->lost[i] = total - assign_kept(a) - excess;
    return KVT_OK;
}

static kvt_code solve(const schedules *s, lane_plan *x, const assign_lane *l, kvt_err *err)
{
    assign *a;
    if (assign_new(&a, l, s->work, err))
        return err->code;
    for (int i = 0; i < x->n_budget; i++) {
        size_t mark = kvt_arena_mark(s->work);
        (void)assign_to(a, x->budget[i]);
        if (take_budget(s, x, i, a, l, err))
            return err->code;
        kvt_arena_rewind(s->work, mark);
    }
    return KVT_OK;
}

/* The greedy schedule where somebody reads it; gap: how far below a bound it is at worst. */
static kvt_code stand_in(const schedules *s, lane_plan *x, const assign_lane *l, double *gap,
                         kvt_err *err)
{
    for (int i = 0; i < x->n_budget; i++) {
        assign_mass mass;
        double bound;
        int32_t *drop = x->drop ? x->drop + i * (s->n_prompt + s->n_response) : NULL;
        x->lost[i] = NAN;
        if (!drop)
            continue;
        size_t mark = kvt_arena_mark(s->work);
        double *price = kvt_arena_array(s->work, assign_columns(l), sizeof *price);
        if (!price)
            return kvt_fail_memory(err, assign_columns(l) * (int64_t)sizeof *price);
        if (assign_greedy(drop, price, l, x->budget[i], s->work, err) ||
            assign_replay(&mass, l, drop, s->work, err) ||
            assign_bound(&bound, l, x->budget[i], price, s->work, err))
            return err->code;
        if (bound > 0 && (bound - mass.kept) / bound > *gap)
            *gap = (bound - mass.kept) / bound;
        kvt_arena_rewind(s->work, mark);
    }
    return KVT_OK;
}

/* ---- who asks for what ---------------------------------------------------------------------
 */

static bool reads_plan(const pass *p)
{
    return p->use->traits.needs & KVT_NEED_PLAN;
}

static bool is_like(const lane_plan *x, const pass *p, int lane)
{
    return x->by_head == p->by_head && x->drop_first == p->use->traits.drop_first &&
           x->every == p->every && x->lane == lane;
}

/* The plan of a lane that holds that budget, and where; NULL: none. */
static const lane_plan *find(const schedules *s, const pass *p, int lane, int64_t budget,
                             int *at)
{
    for (const lane_plan *x = s->list; x; x = x->next)
        for (*at = 0; is_like(x, p, lane) && *at < x->n_budget; ++*at)
            if (x->budget[*at] == budget)
                return x;
    return NULL;
}

/* Puts a budget into a rising list, once. */
static void put(lane_plan *x, int64_t budget)
{
    int at = x->n_budget;
    for (int i = 0; i < x->n_budget; i++)
        if (x->budget[i] == budget)
            return;
    for (; at > 0 && x->budget[at - 1] > budget; at--)
        x->budget[at] = x->budget[at - 1];
    x->budget[at] = budget;
    x->n_budget++;
}

static lane_plan *new_plan(const schedules *s, const pass *p, int lane, int64_t n_token)
{
    lane_plan *x = kvt_arena_array(s->memory, 1, sizeof *x);
    if (!x)
        return NULL;
    *x = (lane_plan){.by_head = p->by_head,
                     .drop_first = p->use->traits.drop_first,
                     .every = p->every,
                     .lane = lane,
                     .budget = kvt_arena_array(s->memory, p->n_cell, sizeof *x->budget),
                     .lost = kvt_arena_array(s->memory, p->n_cell, sizeof *x->lost)};
    if (reads_plan(p))
        x->drop = kvt_arena_array(s->memory, p->n_cell * n_token, sizeof *x->drop);
    return x->budget && x->lost && (x->drop || !reads_plan(p)) ? x : NULL;
}

/* Solves a lane at those of the budgets [n_cell] that are not there yet; below 1: none. */
static kvt_code ensure(schedules *s, pass *p, int layer, int lane, const int64_t *budget,
                       kvt_err *err)
{
    int64_t T = s->n_prompt + s->n_response;
    int at;
    lane_plan *x = NULL;
    for (int c = 0; c < p->n_cell; c++) {
        if (budget[c] < 1 || find(s, p, lane, budget[c], &at))
            continue;
        if (!x && !(x = new_plan(s, p, lane, T)))
            return kvt_fail_memory(err, p->n_cell * T * (int64_t)sizeof *x->drop);
        put(x, budget[c]);
    }
    if (!x)
        return KVT_OK;
    assign_lane l = lane_of(s, x);
    kvt_arena_rewind(s->work, 0);
    if (assign_bytes(&l) > p->oracle_limit ? stand_in(s, x, &l, &p->plan_gap[layer], err)
                                           : solve(s, x, &l, err))
        return err->code;
    x->next = s->list;
    s->list = x;
    return KVT_OK;
}

/* ---- passes that read it -------------------------------------------------------------------
 */

static kvt_code feed_pass(schedules *s, pass *p, int layer, kvt_err *err)
{
    int64_t T = s->n_prompt + s->n_response, budget[KVT_BUDGETS_MAX];
    plan_fed *fed = kvt_arena_array(s->memory, 1, sizeof *fed);
    int32_t *drop = kvt_arena_array(s->memory, p->n_cell * p->n_lane * T, sizeof *drop);
    if (!fed || !drop)
        return kvt_fail_memory(err, p->n_cell * p->n_lane * T * (int64_t)sizeof *drop);
    *fed = (plan_fed){.reader = p, .drop = drop, .next = s->fed};
    s->fed = fed;
    for (int c = 0; c < p->n_cell; c++)
        budget[c] = p->cell[c].reason[0] ? 0 : p->cell[c].tokens;
    for (int a = 0; s->n_response > 0 && a < p->n_lane; a++) {
        if (ensure(s, p, layer, a, budget, err))
            return err->code;
        for (int c = 0, at; c < p->n_cell; c++) {
            const lane_plan *x = find(s, p, a, budget[c], &at);
            if (!x)
                continue;
            memcpy(drop + (c * p->n_lane + a) * T, x->drop + at * T, (size_t)T * sizeof *drop);
            p->plan_greedy[layer] |= isnan(x->lost[at]);
        }
    }
    return KVT_OK;
}

kvt_code schedules_solve(schedules *s, const run *r, int layer, kvt_err *err)
{
    for (int i = 0; i < r->n; i++) {
        pass *p = r->list[i];
        if (is_live(p) && reads_plan(p) && !p->whole_model && feed_pass(s, p, layer, err))
            return kvt_within(err, "policy %s", p->use->name);
    }
    return KVT_OK;
}

void schedules_feed(const schedules *s, const pass *p, kvt_feed *feed, int64_t n_seen)
{
    for (const plan_fed *x = s->fed; x; x = x->next) {
        if (x->reader != p)
            continue;
        feed->drop_step =
            kvt_view_of(x->drop, KVT_I32,
                        KVT_SHAPE("BAT", p->n_cell, p->n_lane, s->n_prompt + s->n_response));
        feed->drop_step.dim[2] = n_seen;
    }
}

/* ---- passes that are compared with it ------------------------------------------------------
 */

/* What it drops never returns, at times and down to budgets that are known. The bound itself is
 * not compared. */
static bool is_compared(const pass *p)
{
    const kvt_traits *t = &p->use->traits;
    return p->inside && t->effect == KVT_EVICT && !t->by_threshold && !reads_plan(p) &&
           p->best_lost;
}

kvt_code schedules_judge(schedules *s, pass *p, int layer, kvt_err *err)
{
    for (int a = 0; is_compared(p) && s->n_response > 0 && a < p->n_lane; a++) {
        int64_t budget[KVT_BUDGETS_MAX];
        bool failed;
        for (int c = 0; c < p->n_cell; c++)
            budget[c] = kvt_engine_refused(p->engine, c, layer, &failed)
                            ? 0
                            : p->count[pass_lane(p, c, layer, a)].budget;
        if (ensure(s, p, layer, a, budget, err))
            return err->code;
        for (int c = 0, at; c < p->n_cell; c++) {
            const lane_plan *x = find(s, p, a, budget[c], &at);
            if (!x)
                continue;
            p->best_lost[pass_lane(p, c, layer, a)] = x->lost[at];
            p->plan_greedy[layer] |= isnan(x->lost[at]);
        }
    }
    return KVT_OK;
}
