/* pass.c - one trace through all its passes, layer by layer.
 *
 * Rows of a layer are read or computed once and serve every pass. Passes whose lanes know
 * nothing of other layers live and are judged within one visit; those that trade slots over the
 * whole model are ranked in the first visit and judged in a second one. Threads take layers;
 * every number has its place, so that the bytes do not depend on them. */
#include "replay/pass_priv.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/select.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

/* ---- one run -------------------------------------------------------------------------------
 */

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

bool pass_any(const run *r, bool top, bool whole)
{
    for (int i = 0; i < r->n; i++)
        if (runs(r->list[i]) && !pass_is_apart(r->list[i]) &&
            pass_is_on_top(r->list[i]) == top && r->list[i]->whole_model == whole)
            return true;
    return false;
}

kvt_code pass_stop(const run *r, kvt_err *err)
{
    kvt_code code;
#pragma omp critical(kvt_replay_layers)
    code = kvt_progress(r->ctx, r->info->name, *r->done, r->total, err);
    return code;
}

/* ---- what a decision at the prompt's end found ---------------------------------------------
 */

kvt_code pass_copy_ranking(pass *p, int layer, int a, kvt_err *err)
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
        if (pass_copy_ranking(p, layer, a, err))
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
    if (whole) { /* what it learned stays; it decides when all layers are there */
        kvt_engine_forget(p->engine, layer);
        return KVT_OK;
    }
    if (kvt_engine_decide(p->engine, layer, err) || extract(p, layer, err))
        return kvt_within(err, "policy %s", p->use->name);
    return KVT_OK;
}

void desk_fini(desk *d)
{
    row_block_free(&d->block);
    kvt_free(d->sum);
    kvt_free(d->prompt);
    kvt_free(d->whole.full);
    kvt_free(d->whole.sum);
    kvt_free(d->line);
    kvt_free(d->mixed);
    kvt_arena_free(d->work);
    kvt_arena_free(d->orders);
    reposition_free(&d->turned);
}

static bool make_orders(desk *d, const run *r)
{
    d->orders = kvt_arena_new((size_t)1 << 40);
    d->order = d->orders ? kvt_arena_array(d->orders, r->n, sizeof *d->order) : NULL;
    for (int i = 0; d->order && i < r->n; i++) {
        const pass *p = r->list[i];
        if (runs(p) && pass_is_on_top(p) &&
            !lane_order_new(&d->order[i], p->n_prompt, p->rank != NULL, d->orders))
            return false;
    }
    return d->order != NULL;
}

kvt_code desk_init(desk *d, const run *r, kvt_err *err)
{
    const kvt_geometry *g = &r->info->facts.model;
    int64_t M = r->info->facts.token.n_response, H = g->n_head, T = r->info->n_token;
    int64_t D = r->output ? g->head_dim : 0;
    *d = (desk){.work = kvt_arena_new((size_t)1 << 40),
                .sum = kvt_alloc(H * T, sizeof *d->sum),
                .prompt = kvt_alloc(H * M, sizeof *d->prompt),
                .line = kvt_alloc(H * T, sizeof *d->line),
                .mixed = kvt_alloc(H * g->head_dim, sizeof *d->mixed),
                .whole = {.full = kvt_alloc(H * M * D, sizeof *d->whole.full),
                          .sum = kvt_alloc(H * M, sizeof *d->whole.sum)}};
    kvt_code code = KVT_OK;
    if (!d->work || !d->sum || !d->prompt || !d->line || !d->mixed || !d->whole.full ||
        !d->whole.sum || !make_orders(d, r))
        code = kvt_fail_memory(err, H * T * (int64_t)sizeof *d->sum);
    if (!code)
        code = row_block_new(&d->block, r->info->facts.token.n_prompt, T, D, err);
    for (int i = 0; !code && !d->turned.memory && i < r->n; i++)
        if (runs(r->list[i]) && repositions(r->list[i]))
            code = reposition_new(&d->turned, g, T, err);
    if (code)
        desk_fini(d);
    return code;
}

static bool judged_here(const run *r, int i, bool whole)
{
    const pass *p = r->list[i];
    return runs(p) && pass_is_on_top(p) && p->whole_model == whole;
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
            if (t->out_size)
                row_block_size(&d->block, t->out_size + h * M + m);
            for (int i = 0; i < r->n; i++)
                if (judged_here(r, i, whole))
                    judge_block(r->list[i], layer, &d->block, &d->order[i]);
            if (!whole)
                row_block_prompt(&d->block, d->prompt + h * M + m);
        }
    }
    for (int h = 0; !whole && h < t->n_head; h++)
        memcpy(t->head + h * t->n_prompt, d->sum + h * T,
               (size_t)t->n_prompt * sizeof *t->head);
}

/* Effective support and heavy keys of each response row. */
static void find_support(truth *t, const layer_rows *rows)
{
    int64_t M = t->n_response;
    for (int64_t i = 0; i < t->n_head * M; i++) {
        const uint16_t *row = rows->data + i / M * rows->head_stride + i % M * rows->row_stride;
        int64_t n = t->n_prompt + i % M + 1;
        if (t->support)
            support_of(t->support + i * KVT_SUPPORTS, row, n);
        if (t->heavy)
            support_heavy(t->heavy + i * HEAVY_MAX, row, n);
    }
}

/* What is asked of the rows of the full cache, whatever the policy. */
static kvt_code want_rows(const run *r, truth *t, kvt_err *err)
{
    int64_t n = t->n_head * t->n_response;
    t->out_size = r->output ? kvt_alloc(n, sizeof *t->out_size) : NULL;
    t->support = r->support ? kvt_alloc(n * KVT_SUPPORTS, sizeof *t->support) : NULL;
    t->heavy = r->heavy ? kvt_alloc(n * HEAVY_MAX, sizeof *t->heavy) : NULL;
    if ((r->heavy && !t->heavy) || (r->output && !t->out_size) || (r->support && !t->support))
        return kvt_fail_memory(err, n * KVT_SUPPORTS * (int64_t)sizeof *t->support);
    return KVT_OK;
}

/* Output errors of on-top passes of this visit whose keys take the positions of slots. */
static void turn_layer(const run *r, const layer_feed *f, desk *d, int layer, bool whole)
{
    reposition_feed feed = turned_feed(r, f, &d->whole, layer);
    for (int i = 0; i < r->n; i++) {
        if (!judged_here(r, i, whole) || !repositions(r->list[i]))
            continue;
        reposition_begin(&d->turned, &feed);
        reposition_top(&d->turned, &feed, r->list[i], layer);
    }
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
        if (!runs(p) || !pass_is_on_top(p) || p->whole_model != whole)
            continue;
        if (p->n_response > 0)
            code = judge_lanes(p, layer, &r->truths[layer], d->work, err);
        p->layer_drew[layer] = kvt_engine_drew(p->engine, layer);
        kvt_engine_drop(p->engine, layer);
    }
    return code;
}

/* ---- visits --------------------------------------------------------------------------------
 */

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
        read_mean(r, layer, err) || want_rows(r, t, err) ||
        feed_open(&f, r->t, layer, &r->want, err))
        return err->code;
    lap(&times->read, &clock);
    kvt_code code = KVT_OK;
    bool rows = feed_has_rows(r->info) && t->n_response > 0;
    for (int i = 0; !code && i < r->n; i++)
        if (runs(r->list[i]) && pass_is_on_top(r->list[i]))
            for (int whole = 0; !code && whole < 2; whole++)
                code = rank_pass(r, r->list[i], &f, layer, whole, err);
    lap(&times->rank, &clock);
    if (!code && rows)
        judge_layer(r, &f, d, layer, false), turn_layer(r, &f, d, layer, false);
    else if (!code)
        truth_from_mean(t);
    if (!code)
        code = truth_finish(t, err);
    if (!code && r->by_head)
        code = truth_by_head(t, err);
    layer_rows response = rows ? feed_response(&f) : (layer_rows){0};
    if (!code && rows)
        truth_cut(t, &response, d->prompt);
    if (!code && rows)
        find_support(t, &response);
    if (!code)
        code = measure_layer(r, d, layer, false, err);
    lap(&times->judge, &clock);
    if (!code && (rows || t->n_response == 0) && pass_any(r, false, false))
        code = live_layer(r, &f, d, layer, err);
    if (!code)
        code = join_layer(r, &f, d, layer, err);
    if (!code)
        code = channels_layer(r, &f, d, layer, err);
    lap(&times->rank, &clock);
    feed_close(&f);
    return code ? kvt_within(err, "layer %d", (int)r->info->layer_id[layer]) : KVT_OK;
}

/* Second visit: judges what was decided over the whole model. */
static kvt_code visit_again(const run *r, desk *d, int layer, run_times *times, kvt_err *err)
{
    layer_feed f;
    double clock = cpu_seconds();
    feed_wants want = {.needs = r->output ? KVT_NEED_VALUES : 0};
    for (int i = 0; i < r->n; i++)
        if (judged_here(r, i, true) && repositions(r->list[i]))
            want.needs |= KVT_NEED_KEYS | KVT_NEED_QUERIES;
    bool rows = feed_has_rows(r->info) && r->info->facts.token.n_response > 0;
    if (feed_open(&f, r->t, layer, &want, err))
        return err->code;
    lap(&times->read, &clock);
    kvt_code code = KVT_OK;
    for (int i = 0; !code && i < r->n; i++)
        if (runs(r->list[i]) && pass_is_on_top(r->list[i]) && r->list[i]->whole_model)
            code = extract(r->list[i], layer, err);
    if (!code && rows)
        judge_layer(r, &f, d, layer, true), turn_layer(r, &f, d, layer, true);
    if (!code)
        code = measure_layer(r, d, layer, true, err);
    lap(&times->judge, &clock);
    feed_close(&f);
    return code;
}

/* ---- all layers ----------------------------------------------------------------------------
 */

typedef kvt_code visit_fn(const run *r, desk *d, int layer, run_times *times, kvt_err *err);

/* Threads take layers. The error that is returned is that of the lowest layer. */
static kvt_code over_layers(visit_fn *fn, const run *r, run_times *times, const kvt_ctx *ctx,
                            kvt_err *err)
{
    int list[KVT_LAYERS_MAX], n = 0, worst = KVT_LAYERS_MAX;
    bool stop = false;
    for (int l = 0; l < r->info->n_layer; l++)
        if (r->layers[l])
            list[n++] = l;
    *r->done = 0;
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
                if (!stop && ready &&
                    kvt_progress(ctx, r->info->name, *r->done, r->total, &mine)) {
                    stop = true;
                    *err = mine, worst = -1;
                }
                go = !stop;
                ++*r->done;
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

/* probe [probes of the trace] is set for those that some cell reads. */
static void find_needs(run *r, bool *probe)
{
    unsigned by_rows = KVT_NEED_ATTN | KVT_NEED_LOGITS;
    for (int i = 0; i < r->n; i++) {
        const pass *p = r->list[i];
        if (!runs(p))
            continue;
        unsigned outputs = KVT_NEED_FUTURE | KVT_NEED_VALUES;
        r->want.needs |= p->use->traits.needs;
        r->want.rest |= (p->use->traits.needs & outputs) == outputs;
        if (p->use->traits.needs & by_rows)
            r->want.n_window = kvt_max(r->want.n_window, pass_window(p));
        r->want.future |= (p->use->traits.needs & KVT_NEED_FUTURE) != 0;
        for (int c = 0; c < p->n_cell; c++)
            if (p->cell[c].probe >= 0)
                probe[p->cell[c].probe] = true;
        r->by_head |= p->by_head;
        if ((pass_is_apart(p) || p->use->traits.cache_positions) && p->output)
            r->want.needs |= KVT_NEED_QUERIES | KVT_NEED_KEYS | KVT_NEED_VALUES;
        r->output |= p->output;
        r->support |= pass_wants_support(p);
        r->heavy |= pass_wants_heavy(p);
    }
    bool rows = feed_has_rows(r->info) && r->info->facts.token.n_response > 0;
    r->want.future = r->want.future && rows;
    r->support = r->support && rows;
    r->heavy = r->heavy && rows;
    r->want.probe = probe;
    r->output = r->output && rows && r->info->has[KVT_DS_VALUES];
    if (r->output)
        r->want.needs |= KVT_NEED_VALUES;
}

/* Channels are ranked once: a score that is no number fails every budget. */
static void collect_odd(const run *r, pass *p)
{
    int l = 0;
    while (l < p->n_layer && !p->layer_odd[l])
        l++;
    for (int c = 0; l < p->n_layer && c < p->n_cell; c++) {
        pass_cell *cell = &p->cell[c];
        if (cell->reason[0])
            continue;
        snprintf(cell->reason, sizeof cell->reason,
                 "policy %s: a channel's score in layer %d is not a finite number",
                 p->use->name, (int)r->info->layer_id[l]);
        cell->failed = true;
    }
}

/* A budget that any layer refused is refused: the lowest layer's reason. */
static void collect_refusals(pass *p, const bool *layers)
{
    for (int c = 0; runs(p) && !pass_is_apart(p) && c < p->n_cell; c++) {
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

static kvt_code run_passes(const run *r, run_times *times, kvt_err *err)
{
    if (over_layers(visit, r, times, r->ctx, err))
        return err->code;
    double clock = cpu_seconds();
    for (int i = 0; i < r->n; i++)
        if (runs(r->list[i]) && pass_is_on_top(r->list[i]) && r->list[i]->whole_model &&
            kvt_engine_decide(r->list[i]->engine, -1, err))
            return kvt_within(err, "policy %s", r->list[i]->use->name);
    lap(&times->rank, &clock);
    if (pass_any(r, true, true) && over_layers(visit_again, r, times, r->ctx, err))
        return err->code;
    clock = cpu_seconds();
    if (live_wholes(r, err))
        return err->code;
    lap(&times->rank, &clock);
    for (int i = 0; i < r->n; i++) {
        collect_refusals(r->list[i], r->layers);
        collect_odd(r, r->list[i]);
    }
    return KVT_OK;
}

kvt_code pass_run(pass *const *list, int n, kvt_trace *t, const bool *layers, truth *truths,
                  run_times *times, const kvt_ctx *ctx, kvt_err *err)
{
    int done = 0, n_probe = kvt_trace_probe_count(t);
    bool *probe = kvt_alloc(n_probe, sizeof *probe);
    if (!probe)
        return kvt_fail_memory(err, n_probe);
    run r = {.list = list,
             .n = n,
             .t = t,
             .info = kvt_trace_info_of(t),
             .layers = layers,
             .truths = truths,
             .ctx = ctx,
             .done = &done};
    for (int l = 0; l < r.info->n_layer; l++)
        r.total += layers[l];
    find_needs(&r, probe);
    kvt_code code = run_passes(&r, times, err);
    kvt_free(probe);
    return code;
}
