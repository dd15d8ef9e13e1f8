/* threshold.c - policies that keep what reaches a threshold: the one that meets a budget.
 *
 * The scores that a policy gives at the end of the prompt are collected once from every trace
 * of the set. For a trace, the threshold is the smallest float at which its others, together,
 * keep no more slots than their budgets: with r slots left for what is not pinned, the next one
 * above the (r + 1)-th largest of their scores, found in one sorted pool. That is a choice
 * among numbers, so that it does not depend on the order in which traces or layers came. */
#include "replay/plan_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/pieces.h"
#include "replay/feed_priv.h"

/* ---- collecting ----------------------------------------------------------------------------
 */

static int falling(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* What a layer's lanes scored goes to its own place. */
static kvt_code collect_layer(float *score, int64_t *n_score, int64_t *n_pinned, kvt_trace *t,
                              int layer, kvt_engine *e, const pass *x, const feed_wants *want,
                              kvt_err *err)
{
    layer_feed f;
    kvt_feed feed;
    if (feed_open(&f, t, layer, want, err))
        return err->code;
    kvt_code code = feed_prompt(&f, &feed, NULL, NULL, err);
    if (!code)
        code = kvt_engine_prompt(e, layer, &feed, err);
    if (!code)
        code = kvt_engine_decide(e, layer, err);
    bool failed;
    const char *why = code ? NULL : kvt_engine_refused(e, 0, layer, &failed);
    if (why)
        code = kvt_fail(err, KVT_FORMAT, "%s", why);
    for (int a = 0; !code && a < x->n_lane; a++) {
        const float *of;
        const bool *pinned;
        kvt_engine_ranking(e, 0, layer, a, &of, &pinned);
        for (int64_t s = 0; s < x->n_prompt; s++) {
            if (of && !pinned[s])
                score[(*n_score)++] = of[s];
            else
                ++*n_pinned;
        }
    }
    kvt_engine_drop(e, layer);
    feed_close(&f);
    return code;
}

static kvt_code start_engine(kvt_engine **out, const pass *x, kvt_trace *t, kvt_sequence *seq,
                             kvt_err *err)
{
    int probe = x->cell[0].probe;
    if (kvt_trace_sequence(t, seq, err))
        return err->code;
    kvt_engine_spec spec = {.use = x->use,
                            .seq = seq,
                            .budget = &x->n_prompt,
                            .n_budget = 1,
                            .every = 1,
                            .seed = x->seed,
                            .trace_digest = kvt_trace_info_of(t)->digest,
                            .weights = x->weights,
                            .probe_of = &probe};
    return kvt_engine_new(out, &spec, err);
}

/* Every layer of a trace, by threads; the pool is sorted, so that their order is forgotten. */
static kvt_code collect_layers(plan_pool *pool, const pass *x, kvt_trace *t, const bool *layers,
                               const feed_wants *want, const kvt_ctx *ctx, kvt_err *err)
{
    int64_t each = x->n_lane * x->n_prompt, n[KVT_LAYERS_MAX] = {0}, fix[KVT_LAYERS_MAX] = {0};
    kvt_sequence seq;
    kvt_engine *e = NULL;
    float *all = kvt_alloc(x->n_layer * each, sizeof *all);
    kvt_code code = all ? start_engine(&e, x, t, &seq, err)
                        : kvt_fail_memory(err, x->n_layer * each * (int64_t)sizeof *all);
    bool failed = false;
#pragma omp parallel for schedule(dynamic, 1) num_threads(kvt_threads(ctx)) if (!code)
    for (int l = 0; l < x->n_layer; l++) {
        kvt_err mine;
        if (code || !layers[l] ||
            !collect_layer(all + l * each, &n[l], &fix[l], t, l, e, x, want, &mine))
            continue;
#pragma omp critical(kvt_threshold)
        {
            if (!failed)
                *err = mine;
            failed = true;
        }
    }
    for (int l = 0; !code && !failed && l < x->n_layer; l++) {
        memmove(all + pool->n, all + l * each, (size_t)n[l] * sizeof *all);
        pool->n += n[l];
        pool->n_pinned += fix[l];
        pool->n_lane += layers[l] ? x->n_lane : 0;
    }
    pool->score = all;
    kvt_engine_free(e);
    return failed ? err->code : code;
}

static kvt_code collect_trace(plan_pool *pool, const plan *p, const plan_use *u, int trace,
                              kvt_err *err)
{
    kvt_trace *t;
    pass *x = NULL;
    bool layers[KVT_LAYERS_MAX];
    if (kvt_trace_open(&t, p->set.trace[trace].path, p->spec->cache_bytes, err))
        return err->code;
    bool *probe = kvt_alloc(kvt_trace_probe_count(t), sizeof *probe);
    kvt_code code = probe ? KVT_OK : kvt_fail_memory(err, 1);
    if (!code)
        code = plan_layers(layers, p, kvt_trace_info_of(t), err);
    if (!code)
        code = plan_pass(&x, p, u, trace, t, err);
    if (!code && !x->reason[0]) {
        feed_wants want = {.needs = x->use->traits.needs,
                           .n_window = kvt_use_window(x->use, x->n_prompt),
                           .probe = probe};
        if (x->cell[0].probe >= 0)
            probe[x->cell[0].probe] = true;
        code = collect_layers(pool, x, t, layers, &want, p->ctx, err);
        for (int b = 0; b < p->n_budget; b++)
            pool->slots[b] = plan_slots(p, x, trace, layers, &p->budget[b]);
    }
    if (x)
        pass_free(x);
    kvt_free(probe);
    kvt_trace_close(t);
    return code ? kvt_within(err, "'%s'", p->set.trace[trace].path) : KVT_OK;
}

/* Reads every trace of the use's set once. */
static kvt_code collect(const plan *p, plan_use *u, int trace, kvt_err *err)
{
    if (!u->pool && !(u->pool = kvt_alloc(p->set.n, sizeof *u->pool)))
        return kvt_fail_memory(err, p->set.n * (int64_t)sizeof *u->pool);
    for (int k = 0; k < p->set.n; k++) {
        plan_pool *pool = &u->pool[k];
        if (!set_is_peer(&p->set, trace, k) || pool->read)
            continue;
        if (kvt_progress(p->ctx, "thresholds", k, p->set.n, err) ||
            collect_trace(pool, p, u, k, err)) {
            kvt_free(pool->score);
            *pool = (plan_pool){0};
            return err->code;
        }
        pool->read = true;
    }
    return KVT_OK;
}

void plan_pools_free(plan *p)
{
    for (int u = 0; u < p->n_use; u++) {
        for (int k = 0; p->use[u].pool && k < p->set.n; k++)
            kvt_free(p->use[u].pool[k].score);
        kvt_free(p->use[u].pool);
        p->use[u].pool = NULL;
    }
}

/* ---- the threshold -------------------------------------------------------------------------
 */

/* all [n] falling. */
static double choose(const float *all, int64_t n, int64_t open)
{
    return open >= n  ? -INFINITY
           : open < 0 ? INFINITY
                      : (double)nextafterf(all[open], INFINITY);
}

/* Slots that the others may hold at a budget of the run, all lanes together. */
static int64_t may_hold(const plan *p, const plan_use *u, int trace, int budget)
{
    int64_t sum = 0;
    for (int k = 0; k < p->set.n; k++)
        if (set_is_peer(&p->set, trace, k))
            sum += u->pool[k].slots[budget] * u->pool[k].n_lane;
    return sum;
}

static void match_cell(const plan *p, const plan_use *u, int trace, pass_cell *c,
                       const float *all, int64_t n, int64_t n_pinned, int64_t n_lane)
{
    int64_t open = may_hold(p, u, trace, (int)(c->asked - p->budget)) - n_pinned, kept = 0;
    c->threshold = choose(all, n, open);
    while (kept < n && (double)all[kept] >= c->threshold)
        kept++;
    c->matched = n_lane ? (double)(n_pinned + kept) / (double)n_lane : NAN;
}

static void fix(pass *x, double threshold)
{
    for (int c = 0; c < x->n_cell; c++)
        x->cell[c].threshold = threshold, x->cell[c].matched = NAN;
}

kvt_code threshold_match(const plan *p, plan_use *u, int trace, pass *x, kvt_err *err)
{
    if (x->reason[0] || !x->use->traits.by_threshold)
        return KVT_OK;
    if (!threshold_is_matched(x->use)) {
        const char *given = x->use->own.threshold;
        fix(x, given[0] ? strtod(given, NULL) : x->use->traits.threshold);
        return KVT_OK;
    }
    kvt_code code = collect(p, u, trace, err);
    if (code == KVT_NOMEM || code == KVT_STOPPED)
        return code;
    if (code) { /* another trace of the set is to blame: the other passes go on */
        snprintf(x->reason, sizeof x->reason, "policy %s: threshold: %.130s", x->use->name,
                 err->text);
        return KVT_OK;
    }
    int64_t n = 0, n_pinned = 0, n_lane = 0;
    for (int k = 0; k < p->set.n; k++)
        if (set_is_peer(&p->set, trace, k))
            n += u->pool[k].n;
    float *all = kvt_alloc(n, sizeof *all);
    if (!all)
        return kvt_fail_memory(err, n * (int64_t)sizeof *all);
    n = 0;
    for (int k = 0; k < p->set.n; k++) {
        const plan_pool *from = &u->pool[k];
        if (!set_is_peer(&p->set, trace, k))
            continue;
        if (from->n > 0)
            memcpy(all + n, from->score, (size_t)from->n * sizeof *all);
        n += from->n;
        n_pinned += from->n_pinned;
        n_lane += from->n_lane;
    }
    if (n > 1)
        qsort(all, (size_t)n, sizeof *all, falling);
    for (int c = 0; n_lane > 0 && c < x->n_cell; c++)
        match_cell(p, u, trace, &x->cell[c], all, n, n_pinned, n_lane);
    if (n_lane == 0)
        snprintf(x->reason, sizeof x->reason,
                 "policy %s needs other traces that it can score, to match its threshold, or "
                 "threshold=X",
                 x->use->policy->name);
    kvt_free(all);
    return KVT_OK;
}
