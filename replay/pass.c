/* pass.c - one trace through all its passes, layer by layer.
 *
 * Rows of a layer are read or computed once and serve every pass. Passes whose lanes know
 * nothing of other layers live and are judged within one visit; those that trade slots over the
 * whole model are ranked in the first visit and judged in a second one. Threads take layers;
 * every number has its place, so that the bytes do not depend on them. */
#include "replay/feed_priv.h"
#include "replay/judge_priv.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/select.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

/* ---- memory of a pass ----------------------------------------------------------------------
 */

kvt_code pass_make(pass *p, const kvt_trace_info *info, kvt_err *err)
{
    int64_t L = p->n_layer, A = p->n_lane, H = p->n_head, N = p->n_prompt, M = p->n_response;
    int64_t lanes = p->n_cell * L * A, heads = p->n_cell * L * H * M;
    bool on_top = !p->inside && !p->skip, rows = feed_has_rows(info) && M > 0;
    bool ok = true;
    if (on_top)
        ok = (p->kept = kvt_alloc(L * A * N, sizeof *p->kept)) != NULL;
    if (!p->skip) {
        p->score = kvt_alloc(L * A * N, sizeof *p->score);
        p->pinned = kvt_alloc(L * A * N, sizeof *p->pinned);
        ok = ok && p->score && p->pinned;
    }
    if (on_top && p->use->traits.one_ranking && !p->use->policy->select) {
        p->rank = kvt_alloc(L * A * N, sizeof *p->rank);
        p->cut = kvt_alloc(lanes, sizeof *p->cut);
        ok = ok && p->rank && p->cut;
    } else if (ok) {
        ok = (p->evict_step = kvt_alloc(lanes * (N + M), sizeof *p->evict_step)) != NULL;
        if (ok)
            memset(p->evict_step, 0xff, (size_t)(lanes * (N + M)) * sizeof *p->evict_step);
    }
    if (ok && rows) {
        p->lost = kvt_alloc(heads, sizeof *p->lost);
        p->out_err = p->output ? kvt_alloc(heads, sizeof *p->out_err) : NULL;
        p->seen = kvt_alloc(lanes * M, sizeof *p->seen);
        ok = p->lost && p->seen && (p->out_err || !p->output);
    }
    p->kept_mass = kvt_alloc(lanes, sizeof *p->kept_mass);
    p->measure = kvt_alloc(lanes * LANE_METRICS_MAX, sizeof *p->measure);
    p->measured = kvt_alloc(lanes * LANE_METRICS_MAX, sizeof *p->measured);
    p->count = kvt_alloc(lanes, sizeof *p->count);
    p->end = kvt_alloc(lanes, sizeof *p->end);
    if (ok && p->kept_mass && p->measure && p->measured && p->count && p->end)
        return KVT_OK;
    return kvt_fail_memory(err, heads * (int64_t)sizeof *p->lost);
}

void pass_free(pass *p)
{
    kvt_engine_free(p->engine);
    kvt_scores_close(p->scores);
    kvt_free(p->kept);
    kvt_free(p->score);
    kvt_free(p->pinned);
    kvt_free(p->rank);
    kvt_free(p->cut);
    kvt_free(p->evict_step);
    kvt_free(p->lost);
    kvt_free(p->out_err);
    kvt_free(p->seen);
    kvt_free(p->kept_mass);
    kvt_free(p->measure);
    kvt_free(p->measured);
    kvt_free(p->count);
    kvt_free(p->end);
    kvt_free(p->cell);
    kvt_free(p);
}

/* ---- one run -------------------------------------------------------------------------------
 */

typedef struct run {
    pass *const *list;
    int n;
    kvt_trace *t;
    const kvt_trace_info *info;
    const bool *layers;
    truth *truths; /* [L] */
    unsigned needs;
    int64_t n_window;
    bool future, by_head, output;
} run;

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Adds the time since *from to a part, and starts anew. */
static void lap(double *part, double *from)
{
    double now = cpu_seconds();
    *part += now - *from;
    *from = now;
}

static bool runs(const pass *p)
{
    return !p->reason[0];
}
static bool on_top(const pass *p)
{
    return !p->inside && !p->skip;
}

/* ---- what a decision at the prompt's end found ---------------------------------------------
 */

static kvt_code copy_ranking(pass *p, int layer, int a, kvt_err *err)
{
    int64_t N = p->n_prompt, at = ((int64_t)layer * p->n_lane + a) * N;
    const float *score = NULL;
    const bool *pinned = NULL;
    for (int c = p->n_cell - 1; c >= 0 && !score; c--)
        kvt_engine_ranking(p->engine, c, layer, a, &score, &pinned);
    for (int64_t s = 0; p->score && s < N; s++) {
        p->score[at + s] = score ? score[s] : 0;
        p->pinned[at + s] = pinned && pinned[s];
    }
    if (score)
        p->layer_scored[layer] = true;
    return p->rank ? kvt_engine_rank(p->engine, layer, a, p->rank + at, err) : KVT_OK;
}

/* Copies what the result needs of a layer that has decided once. */
static kvt_code extract(pass *p, int layer, kvt_err *err)
{
    int64_t N = p->n_prompt;
    for (int a = 0; a < p->n_lane; a++) {
        int64_t lane = (int64_t)layer * p->n_lane + a;
        memcpy(p->kept + lane * N, kvt_engine_kept(p->engine, layer, a),
               (size_t)N * sizeof *p->kept);
        if (copy_ranking(p, layer, a, err))
            return err->code;
        for (int c = 0; c < p->n_cell; c++) {
            int64_t at = pass_lane(p, c, layer, a), M = p->n_response;
            kvt_engine_count n = kvt_engine_counts(p->engine, c, layer, a);
            p->count[at] = n;
            p->end[at] = n.kept + M;
            for (int64_t m = 0; p->seen && m < M; m++)
                p->seen[at * M + m] = (float)(n.kept + m + 1);
            if (p->cut)
                p->cut[at] = (int32_t)n.kept;
            for (int64_t s = 0; p->evict_step && s < N; s++)
                if (!(p->kept[lane * N + s] >> c & 1))
                    p->evict_step[at * (N + M) + s] = 0;
        }
    }
    return KVT_OK;
}

/* ---- on top --------------------------------------------------------------------------------
 */

static kvt_code rank_pass(const run *r, pass *p, layer_feed *f, int layer, bool whole,
                          kvt_err *err)
{
    kvt_feed feed;
    if (p->whole_model != whole)
        return KVT_OK;
    if (feed_prompt(f, &feed, p->scores, r->truths[layer].future_mean, err) ||
        kvt_engine_prompt(p->engine, layer, &feed, err))
        return kvt_within(err, "policy %s", p->use->name);
    if (whole) /* what it learned stays; it decides when all layers are there */
        return KVT_OK;
    if (kvt_engine_decide(p->engine, layer, err) || extract(p, layer, err))
        return kvt_within(err, "policy %s", p->use->name);
    return KVT_OK;
}

/* Memory of one thread, used by layer after layer. */
typedef struct desk {
    row_block block;
    lane_order *order; /* [n] of each on-top pass, of the lane at hand */
    double *sum;       /* f64 [H T] attention to each token over all response rows */
    layer_output whole;
    float *line, *mixed;
    kvt_arena *work, *orders;
} desk;

static void desk_fini(desk *d)
{
    row_block_free(&d->block);
    kvt_free(d->sum);
    kvt_free(d->whole.full);
    kvt_free(d->whole.sum);
    kvt_free(d->line);
    kvt_free(d->mixed);
    kvt_arena_free(d->work);
    kvt_arena_free(d->orders);
}

static bool make_orders(desk *d, const run *r)
{
    d->orders = kvt_arena_new((size_t)1 << 40);
    d->order = d->orders ? kvt_arena_array(d->orders, r->n, sizeof *d->order) : NULL;
    for (int i = 0; d->order && i < r->n; i++) {
        const pass *p = r->list[i];
        if (runs(p) && on_top(p) &&
            !lane_order_new(&d->order[i], p->n_prompt, p->rank != NULL, d->orders))
            return false;
    }
    return d->order != NULL;
}

static kvt_code desk_init(desk *d, const run *r, kvt_err *err)
{
    const kvt_geometry *g = &r->info->facts.model;
    int64_t M = r->info->facts.token.n_response, H = g->n_head, T = r->info->n_token;
    int64_t D = r->output ? g->head_dim : 0;
    *d = (desk){.work = kvt_arena_new((size_t)1 << 40),
                .sum = kvt_alloc(H * T, sizeof *d->sum),
                .line = kvt_alloc(H * T, sizeof *d->line),
                .mixed = kvt_alloc(H * g->head_dim, sizeof *d->mixed),
                .whole = {.full = kvt_alloc(H * M * D, sizeof *d->whole.full),
                          .sum = kvt_alloc(H * M, sizeof *d->whole.sum)}};
    kvt_code code = KVT_OK;
    if (!d->work || !d->sum || !d->line || !d->mixed || !d->whole.full || !d->whole.sum ||
        !make_orders(d, r))
        code = kvt_fail_memory(err, H * T * (int64_t)sizeof *d->sum);
    if (!code)
        code = row_block_new(&d->block, r->info->facts.token.n_prompt, T, D, err);
    if (code)
        desk_fini(d);
    return code;
}

static bool judged_here(const run *r, int i, bool whole)
{
    const pass *p = r->list[i];
    return runs(p) && on_top(p) && p->whole_model == whole;
}

/* Turns the rows of each head, block by block, and judges all on-top passes of this visit by
 * them. */
static void judge_layer(const run *r, layer_feed *f, desk *d, int layer, bool whole)
{
    const truth *t = &r->truths[layer];
    layer_rows rows = feed_response(f);
    int64_t T = f->rows.n_token, M = t->n_response;
    kvt_view v = f->all.values;
    if (!whole)
        memset(d->sum, 0, (size_t)(t->n_head * T) * sizeof *d->sum);
    for (int h = 0; h < t->n_head; h++) {
        const float *value =
            r->output ? (const float *)v.data + h * t->n_kv / t->n_head * v.stride[0] : NULL;
        for (int i = 0; i < r->n; i++) {
            int per = judged_here(r, i, whole) ? r->list[i]->n_head / r->list[i]->n_lane : 0;
            if (per > 0 && h % per == 0)
                lane_order_fill(&d->order[i], r->list[i], layer, h / per);
        }
        for (int64_t m = 0; m < M; m += d->block.n_row) {
            row_block_fill(&d->block, whole ? NULL : d->sum + h * T, &rows, h, m, value);
            if (r->output)
                row_block_output(&d->block, &d->whole, M);
            for (int i = 0; i < r->n; i++)
                if (judged_here(r, i, whole))
                    judge_block(r->list[i], layer, &d->block, &d->order[i]);
        }
    }
    for (int h = 0; !whole && h < t->n_head; h++)
        memcpy(t->head + h * t->n_prompt, d->sum + h * T,
               (size_t)t->n_prompt * sizeof *t->head);
}

/* Without rows all that is known of the future is its mean. */
static void truth_from_mean(truth *t)
{
    for (int64_t i = 0; t->future_mean && i < t->n_head * t->n_prompt; i++)
        t->head[i] = (double)t->future_mean[i] * (double)t->n_response;
}

static kvt_code measure_layer(const run *r, desk *d, int layer, bool whole, kvt_err *err)
{
    kvt_code code = KVT_OK;
    for (int i = 0; !code && i < r->n; i++) {
        pass *p = r->list[i];
        if (!runs(p) || !on_top(p) || p->whole_model != whole)
            continue;
        if (p->n_response > 0)
            code = judge_lanes(p, layer, &r->truths[layer], d->work, err);
        p->layer_drew[layer] = kvt_engine_drew(p->engine, layer);
        kvt_engine_drop(p->engine, layer);
    }
    return code;
}

/* ---- inside and SKIP -----------------------------------------------------------------------
 */

/* The true order as rows go by: what is left for each token, and its order where it is asked.
 */
typedef struct moving {
    double *head, *group;                     /* f64 [H T], [G T] */
    int32_t *head_order, *group_order, *with; /* i32 [H T], [G T], [T] */
    kvt_arena *work;
} moving;

static void moving_fini(moving *v)
{
    kvt_free(v->head);
    kvt_free(v->group);
    kvt_free(v->head_order);
    kvt_free(v->group_order);
    kvt_arena_free(v->work);
}

static kvt_code moving_init(moving *v, const run *r, const desk *d, const truth *t,
                            kvt_err *err)
{
    int64_t T = t->n_prompt + t->n_response, H = t->n_head, G = t->n_kv;
    *v = (moving){.head = kvt_alloc(H * T, sizeof *v->head),
                  .group = kvt_alloc(G * T, sizeof *v->group),
                  .group_order = kvt_alloc(G * T, sizeof *v->group_order),
                  .head_order = kvt_alloc(r->by_head ? H * T : 1, sizeof *v->head_order),
                  .work = kvt_arena_new((size_t)1 << 40)};
    if (!v->head || !v->group || !v->group_order || !v->head_order || !v->work) {
        moving_fini(v);
        return kvt_fail_memory(err, H * T * (int64_t)sizeof *v->head);
    }
    memcpy(v->head, d->sum, (size_t)(H * T) * sizeof *v->head);
    return KVT_OK;
}

/* The orders over the first n tokens. */
static kvt_code moving_rank(moving *v, const truth *t, int64_t T, int64_t n, bool by_head,
                            kvt_err *err)
{
    int per = t->n_head / t->n_kv;
    bool ok = true;
    for (int g = 0; ok && g < t->n_kv; g++) {
        double *sum = v->group + g * T;
        for (int64_t s = 0; s < n; s++) {
            double x = 0;
            for (int h = 0; h < per; h++)
                x += v->head[(g * per + h) * T + s];
            sum[s] = x / per;
        }
        ok = select_rank_double(v->group_order + g * T, sum, n, v->work);
        kvt_arena_rewind(v->work, 0);
    }
    for (int h = 0; ok && by_head && h < t->n_head; h++) {
        ok = select_rank_double(v->head_order + h * T, v->head + h * T, n, v->work);
        kvt_arena_rewind(v->work, 0);
    }
    return ok ? KVT_OK : kvt_fail_memory(err, n * (int64_t)sizeof *v->head);
}

static void moving_pass(moving *v, const truth *t, const float *row, int64_t T, int64_t n)
{
    for (int h = 0; h < t->n_head; h++)
        for (int64_t s = 0; s < n; s++)
            v->head[h * T + s] -= (double)row[h * T + s];
}

static bool lives_here(const run *r, int i, bool drop_first, bool any)
{
    const pass *p = r->list[i];
    return runs(p) && !on_top(p) && !p->whole_model &&
           (any || (!p->skip && p->use->traits.drop_first == drop_first));
}

/* Lane metrics of the passes that drop before or after a row. */
static kvt_code measure_step(const run *r, int layer, moving *v, int64_t step,
                             int64_t n_arrived, bool drop_first, kvt_err *err)
{
    const truth *t = &r->truths[layer];
    int64_t T = t->n_prompt + t->n_response;
    bool asked = false;
    for (int i = 0; i < r->n; i++)
        asked |= lives_here(r, i, drop_first, false);
    if (!asked)
        return KVT_OK;
    if (moving_rank(v, t, T, n_arrived, r->by_head, err))
        return err->code;
    step_job job = {.step = step,
                    .n_arrived = n_arrived,
                    .stride = T,
                    .left_head = v->head,
                    .left_group = v->group,
                    .order_head = v->head_order,
                    .order_group = v->group_order,
                    .truth = t,
                    .work = v->work};
    for (int i = 0; i < r->n; i++)
        if (lives_here(r, i, drop_first, false) && judge_step(r->list[i], layer, &job, err))
            return err->code;
    return KVT_OK;
}

static kvt_code live_row(pass *p, int layer, layer_feed *f, int64_t m, desk *d, kvt_err *err)
{
    kvt_feed feed;
    bool drop_first = p->use->traits.drop_first && !p->skip;
    row_job job = {.rows = f->row,
                   .head_stride = f->rows.n_token,
                   .row = m,
                   .n_arrived = f->n_prompt + m + 1,
                   .values = &f->all.values,
                   .whole = &d->whole,
                   .line = d->line,
                   .mixed = d->mixed};
    feed_token(f, &feed, m, p->scores);
    if (kvt_engine_token(p->engine, layer, &feed, err))
        return err->code;
    if (!drop_first)
        judge_row(p, layer, &job);
    if (p->inside && kvt_engine_decide(p->engine, layer, err))
        return err->code;
    if (drop_first)
        judge_row(p, layer, &job);
    return KVT_OK;
}

/* What a layer of an inside pass looks like when all rows are through. */
static void close_life(pass *p, int layer)
{
    int64_t T = p->n_prompt + p->n_response;
    for (int c = 0; c < p->n_cell; c++) {
        for (int a = 0; a < p->n_lane; a++) {
            int64_t at = pass_lane(p, c, layer, a), n = T;
            const int64_t *pos;
            const int32_t *step = kvt_engine_evict_step(p->engine, c, layer, a);
            p->count[at] = kvt_engine_counts(p->engine, c, layer, a);
            if (!p->skip)
                kvt_engine_held(p->engine, c, layer, a, &pos, &n);
            p->end[at] = n;
            if (p->evict_step && step)
                memcpy(p->evict_step + at * T, step, (size_t)T * sizeof *step);
        }
    }
    p->layer_drew[layer] = kvt_engine_drew(p->engine, layer);
    kvt_engine_drop(p->engine, layer);
}

static kvt_code start_life(const run *r, pass *p, layer_feed *f, int layer, kvt_err *err)
{
    kvt_feed feed;
    if (feed_prompt(f, &feed, p->scores, r->truths[layer].future_mean, err) ||
        kvt_engine_prompt(p->engine, layer, &feed, err) ||
        kvt_engine_decide(p->engine, layer, err))
        return err->code;
    for (int a = 0; !p->skip && a < p->n_lane; a++)
        if (copy_ranking(p, layer, a, err))
            return err->code;
    return KVT_OK;
}

/* All rows of a layer through the passes that live within it. */
static kvt_code live(const run *r, layer_feed *f, desk *d, int layer, kvt_err *err)
{
    const truth *t = &r->truths[layer];
    int64_t T = t->n_prompt + t->n_response;
    moving v = {0};
    kvt_code code = moving_init(&v, r, d, t, err);
    for (int i = 0; !code && i < r->n; i++)
        if (lives_here(r, i, false, true) && start_life(r, r->list[i], f, layer, err))
            code = kvt_within(err, "policy %s", r->list[i]->use->name);
    for (int64_t m = 0; !code && m < t->n_response; m++) {
        const float *row = feed_row(f, m);
        code = measure_step(r, layer, &v, m, t->n_prompt + m, false, err);
        for (int i = 0; !code && i < r->n; i++)
            if (lives_here(r, i, false, true) && live_row(r->list[i], layer, f, m, d, err))
                code = kvt_within(err, "policy %s", r->list[i]->use->name);
        if (!code)
            code = measure_step(r, layer, &v, m, t->n_prompt + m + 1, true, err);
        moving_pass(&v, t, row, T, t->n_prompt + m + 1);
    }
    for (int i = 0; !code && i < r->n; i++)
        if (lives_here(r, i, false, true))
            close_life(r->list[i], layer);
    moving_fini(&v);
    return code;
}

/* ---- visits --------------------------------------------------------------------------------
 */

static bool any_pass(const run *r, bool top, bool whole)
{
    for (int i = 0; i < r->n; i++)
        if (runs(r->list[i]) && on_top(r->list[i]) == top && r->list[i]->whole_model == whole)
            return true;
    return false;
}

static kvt_code read_mean(const run *r, int layer, kvt_err *err)
{
    truth *t = &r->truths[layer];
    kvt_view v;
    if (t->n_response == 0 || !r->info->has[KVT_DS_FUTURE_MEAN])
        return KVT_OK;
    if (kvt_trace_read(r->t, KVT_DS_FUTURE_MEAN, layer, &v, err))
        return err->code;
    int64_t n = t->n_head * t->n_prompt;
    t->future_mean = kvt_alloc(n, sizeof *t->future_mean);
    if (t->future_mean)
        memcpy(t->future_mean, v.data, (size_t)n * sizeof *t->future_mean);
    kvt_trace_done(r->t, &v);
    return t->future_mean ? KVT_OK : kvt_fail_memory(err, n * 4);
}

/* First visit: everything, but the judging of passes that trade slots over the model. */
static kvt_code visit(const run *r, desk *d, int layer, run_times *times, kvt_err *err)
{
    truth *t = &r->truths[layer];
    layer_feed f;
    double clock = cpu_seconds();
    if (truth_new(t, (int)r->info->facts.model.n_head, (int)r->info->facts.model.n_kv_head,
                  r->info->facts.token.n_prompt, r->info->facts.token.n_response, err) ||
        read_mean(r, layer, err) ||
        feed_open(&f, r->t, layer, r->needs, r->n_window, r->future, err))
        return err->code;
    lap(&times->read, &clock);
    kvt_code code = KVT_OK;
    bool rows = feed_has_rows(r->info) && t->n_response > 0;
    for (int i = 0; !code && i < r->n; i++)
        if (runs(r->list[i]) && on_top(r->list[i]))
            for (int whole = 0; !code && whole < 2; whole++)
                code = rank_pass(r, r->list[i], &f, layer, whole, err);
    lap(&times->rank, &clock);
    if (!code && rows)
        judge_layer(r, &f, d, layer, false);
    else if (!code)
        truth_from_mean(t);
    if (!code)
        code = truth_finish(t, err);
    if (!code && r->by_head)
        code = truth_by_head(t, err);
    if (!code)
        code = measure_layer(r, d, layer, false, err);
    lap(&times->judge, &clock);
    if (!code && (rows || t->n_response == 0) && any_pass(r, false, false))
        code = live(r, &f, d, layer, err);
    lap(&times->rank, &clock);
    feed_close(&f);
    return code ? kvt_within(err, "layer %d", (int)r->info->layer_id[layer]) : KVT_OK;
}

/* Second visit: judges what was decided over the whole model. */
static kvt_code visit_again(const run *r, desk *d, int layer, run_times *times, kvt_err *err)
{
    layer_feed f;
    double clock = cpu_seconds();
    unsigned needs = r->output ? KVT_NEED_VALUES : 0;
    bool rows = feed_has_rows(r->info) && r->info->facts.token.n_response > 0;
    if (feed_open(&f, r->t, layer, needs, 0, false, err))
        return err->code;
    lap(&times->read, &clock);
    kvt_code code = KVT_OK;
    for (int i = 0; !code && i < r->n; i++)
        if (runs(r->list[i]) && on_top(r->list[i]) && r->list[i]->whole_model)
            code = extract(r->list[i], layer, err);
    if (!code && rows)
        judge_layer(r, &f, d, layer, true);
    if (!code)
        code = measure_layer(r, d, layer, true, err);
    lap(&times->judge, &clock);
    feed_close(&f);
    return code;
}

/* ---- inside passes over the whole model ----------------------------------------------------
 */

/* A layer that stays open while the whole model decodes. */
typedef struct open_layer {
    layer_feed feed;
    layer_output whole;
} open_layer;

static kvt_code open_whole(const run *r, pass *p, desk *d, open_layer *o, int layer,
                           kvt_err *err)
{
    const truth *t = &r->truths[layer];
    kvt_feed prompt;
    int64_t M = p->n_response, D = r->output ? d->block.n_dim : 0;
    if (feed_open(&o->feed, r->t, layer, r->needs, r->n_window, r->future, err) ||
        feed_prompt(&o->feed, &prompt, p->scores, t->future_mean, err) ||
        kvt_engine_prompt(p->engine, layer, &prompt, err))
        return err->code;
    o->whole.full = kvt_alloc(p->n_head * M * D, sizeof *o->whole.full);
    o->whole.sum = kvt_alloc(p->n_head * M, sizeof *o->whole.sum);
    if (!o->whole.full || !o->whole.sum)
        return kvt_fail_memory(err, p->n_head * M * D * (int64_t)sizeof *o->whole.full);
    layer_rows rows = feed_response(&o->feed);
    kvt_view v = o->feed.all.values;
    for (int h = 0; r->output && h < t->n_head; h++) {
        const float *value = (const float *)v.data + h * t->n_kv / t->n_head * v.stride[0];
        for (int64_t m = 0; m < M; m += d->block.n_row) {
            row_block_fill(&d->block, NULL, &rows, h, m, value);
            row_block_output(&d->block, &o->whole, M);
        }
    }
    return KVT_OK;
}

static kvt_code whole_row(const run *r, pass *p, desk *d, open_layer *o, int64_t m,
                          kvt_err *err)
{
    bool late = p->use->traits.drop_first && !p->skip;
    for (int round = 0; round < 2; round++) { /* in front of the decision, behind it */
        for (int l = 0; l < p->n_layer; l++) {
            if (!r->layers[l])
                continue;
            layer_feed *f = &o[l].feed;
            row_job job = {.rows = feed_row(f, m),
                           .head_stride = f->rows.n_token,
                           .row = m,
                           .n_arrived = f->n_prompt + m + 1,
                           .values = &f->all.values,
                           .whole = &o[l].whole,
                           .line = d->line,
                           .mixed = d->mixed};
            kvt_feed token;
            feed_token(f, &token, m, p->scores);
            if (round == 0 && kvt_engine_token(p->engine, l, &token, err))
                return err->code;
            if (round == late)
                judge_row(p, l, &job);
        }
        if (round == 0 && p->inside && kvt_engine_decide(p->engine, -1, err))
            return err->code;
    }
    return KVT_OK;
}

/* A pass that trades slots over the whole model while it decodes: all layers step by step. Its
 * recall is not measured at every step; lost mass and output error are. */
static kvt_code live_whole(const run *r, pass *p, desk *d, kvt_err *err)
{
    open_layer *o = kvt_alloc(p->n_layer, sizeof *o);
    kvt_code code = o ? KVT_OK : kvt_fail_memory(err, p->n_layer * (int64_t)sizeof *o);
    for (int l = 0; !code && l < p->n_layer; l++)
        if (r->layers[l])
            code = open_whole(r, p, d, &o[l], l, err);
    if (!code)
        code = kvt_engine_decide(p->engine, -1, err);
    for (int l = 0; !code && !p->skip && l < p->n_layer; l++)
        for (int a = 0; !code && r->layers[l] && a < p->n_lane; a++)
            code = copy_ranking(p, l, a, err);
    for (int64_t m = 0; !code && m < p->n_response; m++)
        code = whole_row(r, p, d, o, m, err);
    for (int l = 0; o && l < p->n_layer; l++) {
        if (!code && r->layers[l])
            close_life(p, l);
        if (o[l].feed.trace)
            feed_close(&o[l].feed);
        kvt_free(o[l].whole.full);
        kvt_free(o[l].whole.sum);
    }
    kvt_free(o);
    return code ? kvt_within(err, "policy %s", p->use->name) : KVT_OK;
}

static kvt_code live_wholes(const run *r, kvt_err *err)
{
    desk d;
    if (!any_pass(r, false, true))
        return KVT_OK;
    if (desk_init(&d, r, err))
        return err->code;
    kvt_code code = KVT_OK;
    for (int i = 0; !code && i < r->n; i++)
        if (runs(r->list[i]) && !on_top(r->list[i]) && r->list[i]->whole_model)
            code = live_whole(r, r->list[i], &d, err);
    desk_fini(&d);
    return code;
}

/* ---- all layers ----------------------------------------------------------------------------
 */

typedef kvt_code visit_fn(const run *r, desk *d, int layer, run_times *times, kvt_err *err);

/* Threads take layers. The error that is returned is that of the lowest layer. */
static kvt_code over_layers(visit_fn *fn, const run *r, run_times *times, const kvt_ctx *ctx,
                            kvt_err *err)
{
    int list[KVT_LAYERS_MAX], n = 0, done = 0, worst = KVT_LAYERS_MAX;
    bool stop = false;
    for (int l = 0; l < r->info->n_layer; l++)
        if (r->layers[l])
            list[n++] = l;
#pragma omp parallel num_threads(kvt_threads(ctx))
    {
        kvt_err mine;
        run_times spent = {0};
        desk d;
        bool ready = !desk_init(&d, r, &mine);
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < n; i++) {
            bool go;
#pragma omp critical(kvt_replay_layers)
            {
                if (!stop && ready && kvt_progress(ctx, r->info->name, done, n, &mine)) {
                    stop = true;
                    *err = mine, worst = -1;
                }
                go = !stop;
                done++;
            }
            if (go && (!ready || fn(r, &d, list[i], &spent, &mine))) {
#pragma omp critical(kvt_replay_layers)
                {
                    stop = true;
                    if (list[i] < worst)
                        *err = mine, worst = list[i];
                }
            }
        }
#pragma omp critical(kvt_replay_layers)
        {
            times->read += spent.read;
            times->rank += spent.rank;
            times->judge += spent.judge;
        }
        if (ready)
            desk_fini(&d);
    }
    return stop ? err->code : KVT_OK;
}

static void find_needs(run *r)
{
    for (int i = 0; i < r->n; i++) {
        const pass *p = r->list[i];
        if (!runs(p))
            continue;
        r->needs |= p->use->traits.needs;
        r->n_window = kvt_max(r->n_window, kvt_use_window(p->use, p->n_prompt));
        r->future |= (p->use->traits.needs & KVT_NEED_FUTURE) != 0;
        r->by_head |= p->by_head;
        r->output |= p->output;
    }
    bool rows = feed_has_rows(r->info) && r->info->facts.token.n_response > 0;
    r->future = r->future && rows;
    r->output = r->output && rows && r->info->has[KVT_DS_VALUES];
    if (r->output)
        r->needs |= KVT_NEED_VALUES;
}

/* A budget that any layer refused is refused: the lowest layer's reason. */
static void collect_refusals(pass *p, const bool *layers)
{
    for (int c = 0; runs(p) && c < p->n_cell; c++) {
        for (int l = 0; l < p->n_layer && !p->cell[c].reason[0]; l++) {
            const char *why =
                layers[l] ? kvt_engine_refused(p->engine, c, l, &p->cell[c].failed) : NULL;
            if (why)
                snprintf(p->cell[c].reason, sizeof p->cell[c].reason, "%s", why);
        }
    }
    for (int l = 0; runs(p) && l < p->n_layer; l++)
        p->drew |= p->layer_drew[l];
}

kvt_code pass_run(pass *const *list, int n, kvt_trace *t, const bool *layers, truth *truths,
                  run_times *times, const kvt_ctx *ctx, kvt_err *err)
{
    run r = {.list = list,
             .n = n,
             .t = t,
             .info = kvt_trace_info_of(t),
             .layers = layers,
             .truths = truths};
    find_needs(&r);
    if (over_layers(visit, &r, times, ctx, err))
        return err->code;
    double clock = cpu_seconds();
    for (int i = 0; i < n; i++)
        if (runs(list[i]) && on_top(list[i]) && list[i]->whole_model &&
            kvt_engine_decide(list[i]->engine, -1, err))
            return kvt_within(err, "policy %s", list[i]->use->name);
    lap(&times->rank, &clock);
    if (any_pass(&r, true, true) && over_layers(visit_again, &r, times, ctx, err))
        return err->code;
    clock = cpu_seconds();
    if (live_wholes(&r, err))
        return err->code;
    lap(&times->rank, &clock);
    for (int i = 0; i < n; i++)
        collect_refusals(list[i], layers);
    return KVT_OK;
}
