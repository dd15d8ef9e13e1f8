/* live.c - passes that act while the response is written, row by row: those that stay inside
 * their budget, and those that only skip.
 *
 * All such passes of a layer see a row before the next one is decoded; the true order of tokens
 * by what is left of their mass moves with the rows and is shared by all of them. */
#include "replay/schedule.h"

#include <string.h>

#include "base/select.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

enum { STOP_EVERY = 32 }; /* rows between two looks at whether to stop */

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
    *v = (moving){0};
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
    return is_live(p) && !p->whole_model &&
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

/* The rows in front of row m that some pass decides anew by, decoded once for all of them. */
static kvt_code open_rows(const run *r, layer_feed *f, int64_t m, kvt_err *err)
{
    unsigned by_rows = KVT_NEED_ATTN | KVT_NEED_LOGITS;
    int64_t n = 1;
    for (int i = 0; i < r->n; i++)
        if (lives_here(r, i, false, true) && (r->list[i]->use->traits.needs & by_rows))
            n = kvt_max(n, pass_queries(r->list[i], m));
    return n > 1 ? feed_rows(f, m, n, err) : KVT_OK;
}

/* Row m of a layer as passes are judged by it; `turned` says where the layer lies. */
static row_job open_job(const run *r, const pass *p, const layer_feed *f, desk *d,
                        const reposition_feed *turned, const float *row, int64_t m, int layer)
{
    if (repositions(p))
        reposition_begin(&d->turned, turned);
    return (row_job){.rows = row,
                     .head_stride = f->rows.n_token,
                     .row = m,
                     .n_arrived = f->n_prompt + m + 1,
                     .values = &f->all.values,
                     .whole = turned->whole,
                     .heavy = r->truths[layer].heavy,
                     .line = d->line,
                     .mixed = d->mixed,
                     .turned = &d->turned,
                     .turned_feed = turned};
}

static kvt_code live_row(const run *r, pass *p, int layer, layer_feed *f, int64_t m, desk *d,
                         const schedules *plans, kvt_err *err)
{
    kvt_feed feed;
    bool drop_first = p->use->traits.drop_first && !p->skip;
    reposition_feed turned = turned_feed(r, f, &d->whole, layer);
    row_job job = open_job(r, p, f, d, &turned, f->row, m, layer);
    feed_token(f, &feed, m, pass_queries(p, m), p->scores);
    schedules_feed(plans, p, &feed, f->n_prompt + m + 1);
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
            for (int64_t t = 0; p->evict_step && step && t < T; t++)
                p->evict_step[at * T + t] = step[t] < 0 ? STAYS : (uint16_t)step[t];
        }
    }
    p->layer_drew[layer] = kvt_engine_drew(p->engine, layer);
    kvt_engine_drop(p->engine, layer);
}

static kvt_code start_life(const run *r, pass *p, layer_feed *f, int layer,
                           const schedules *plans, kvt_err *err)
{
    kvt_feed feed;
    if (feed_prompt(f, &feed, p->scores, r->truths[layer].future_mean, err))
        return err->code;
    schedules_feed(plans, p, &feed, f->n_prompt);
    if (kvt_engine_prompt(p->engine, layer, &feed, err) ||
        kvt_engine_decide(p->engine, layer, err))
        return err->code;
    for (int a = 0; !p->skip && a < p->n_lane; a++)
        if (pass_copy_ranking(p, layer, a, err))
            return err->code;
    return KVT_OK;
}

/* All rows of a layer through the passes that live within it. */
kvt_code live_layer(const run *r, layer_feed *f, desk *d, int layer, kvt_err *err)
{
    const truth *t = &r->truths[layer];
    int64_t T = t->n_prompt + t->n_response;
    moving v = {0};
    schedules plans = {0};
    kvt_code code = moving_init(&v, r, d, t, err);
    if (!code)
        code = schedules_open(&plans, t, f, err);
    if (!code)
        code = schedules_solve(&plans, r, layer, err);
    for (int i = 0; !code && i < r->n; i++)
        if (lives_here(r, i, false, true) && start_life(r, r->list[i], f, layer, &plans, err))
            code = kvt_within(err, "policy %s", r->list[i]->use->name);
    for (int64_t m = 0; !code && m < t->n_response; m++) {
        const float *row = feed_row(f, m);
        if (m % STOP_EVERY == STOP_EVERY - 1 && pass_stop(r, err))
            code = err->code;
        if (!code)
            code = open_rows(r, f, m, err);
        if (!code)
            code = measure_step(r, layer, &v, m, t->n_prompt + m, false, err);
        for (int i = 0; !code && i < r->n; i++)
            if (lives_here(r, i, false, true) &&
                live_row(r, r->list[i], layer, f, m, d, &plans, err))
                code = kvt_within(err, "policy %s", r->list[i]->use->name);
        if (!code)
            code = measure_step(r, layer, &v, m, t->n_prompt + m + 1, true, err);
        moving_pass(&v, t, row, T, t->n_prompt + m + 1);
    }
    for (int i = 0; !code && i < r->n; i++)
        if (lives_here(r, i, false, true)) {
            close_life(r->list[i], layer);
            code = schedules_judge(&plans, r->list[i], layer, err);
        }
    schedules_free(&plans);
    moving_fini(&v);
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
    if (feed_open(&o->feed, r->t, layer, &r->want, err) ||
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
            reposition_feed turned = turned_feed(r, f, &o[l].whole, l);
            row_job job = open_job(r, p, f, d, &turned, feed_row(f, m), m, l);
            kvt_feed token;
            if (round == 0 && pass_queries(p, m) > 1 &&
                feed_rows(f, m, pass_queries(p, m), err))
                return err->code;
            feed_token(f, &token, m, pass_queries(p, m), p->scores);
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

/* A layer of it against the best schedules at what its lanes got. */
static kvt_code judge_whole(const run *r, pass *p, const layer_feed *f, int layer, kvt_err *err)
{
    schedules plans;
    kvt_code code = schedules_open(&plans, &r->truths[layer], f, err);
    if (!code)
        code = schedules_judge(&plans, p, layer, err);
    schedules_free(&plans);
    return code;
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
            code = pass_copy_ranking(p, l, a, err);
    for (int64_t m = 0; !code && m < p->n_response; m++)
        code = m % STOP_EVERY == STOP_EVERY - 1 && pass_stop(r, err)
                   ? err->code
                   : whole_row(r, p, d, o, m, err);
    for (int l = 0; o && l < p->n_layer; l++) {
        if (!code && r->layers[l]) {
            close_life(p, l);
            code = judge_whole(r, p, &o[l].feed, l, err);
        }
        if (o[l].feed.trace)
            feed_close(&o[l].feed);
        kvt_free(o[l].whole.full);
        kvt_free(o[l].whole.sum);
    }
    kvt_free(o);
    return code ? kvt_within(err, "policy %s", p->use->name) : KVT_OK;
}

kvt_code live_wholes(const run *r, kvt_err *err)
{
    desk d;
    if (!pass_any(r, false, true))
        return KVT_OK;
    if (desk_init(&d, r, err))
        return err->code;
    kvt_code code = KVT_OK;
    for (int i = 0; !code && i < r->n; i++)
        if (is_live(r->list[i]) && r->list[i]->whole_model)
            code = live_whole(r, r->list[i], &d, err);
    desk_fini(&d);
    return code;
}
