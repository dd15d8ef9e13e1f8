/* engine.c - the pushed engine: prompts and tokens come in, decisions come out. */
#include "replay/engine_priv.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "replay/stream.h"
#include "replay/use_priv.h"

/* ---- new and free --------------------------------------------------------------------------
 */

static kvt_code check_spec(const kvt_engine_spec *s, kvt_err *err)
{
    const kvt_use *u = s->use;
    if (u->traits.effect == KVT_JOIN || u->traits.effect == KVT_CHANNELS)
        return kvt_fail(
            err, KVT_USAGE,
            "policy %s: expected one that evicts or skips slots; joining them and dropping "
            "channels are passes of kvt_replay() without an engine",
            u->policy->name);
    if (kvt_use_why_not(u))
        return kvt_fail(err, KVT_USAGE, "policy %s: not replayable: %s", u->policy->name,
                        kvt_use_why_not(u));
    if (s->n_budget < 1 || s->n_budget > KVT_BUDGETS_MAX || s->every < 1 ||
        s->seq->n_prompt < 1)
        return kvt_fail(
            err, KVT_USAGE,
            "engine: expected 1 to %d budgets, a period of 1 or more and a prompt, got "
            "%d, %lld, %lld tokens",
            KVT_BUDGETS_MAX, s->n_budget, (long long)s->every, (long long)s->seq->n_prompt);
    return KVT_OK;
}

static void find_memory(const kvt_engine *e, const kvt_use *u, int *slot_width,
                        size_t *state_size)
{
    use_memory(u, &e->seq, e->budget, e->n_budget, slot_width, state_size);
    *state_size |= 15; /* states of lanes lie one behind the other: each is aligned */
}

static void find_shape(kvt_engine *e)
{
    const kvt_policy *p = e->policy;
    int64_t head = e->geometry.n_head, kv = e->geometry.n_kv_head;
    kvt_traits own = p->traits;
    if (p->vary)
        p->vary(e->use->params, &own);
    e->score_scope = own.scope;
    e->n_kv = (int)kv;
    e->n_lane = (int)(e->traits.by_query_head ? head : kv);
    e->n_head = (int)(head / e->n_lane);
    find_memory(e, e->use, &e->slot_width, &e->state_size);
    if (e->base)
        find_memory(e, e->base, &e->base_width, &e->base_state);
}

/* What is chosen for each budget: its probe, its threshold. */
static kvt_code copy_choices(kvt_engine *e, const kvt_engine_spec *s, kvt_err *err)
{
    size_t n = (size_t)e->n_budget;
    if (s->probe_of && !(e->probe_of = kvt_alloc(e->n_budget, sizeof *e->probe_of)))
        return kvt_fail_memory(err, n * sizeof *e->probe_of);
    if (s->threshold && !(e->threshold = kvt_alloc(e->n_budget, sizeof *e->threshold)))
        return kvt_fail_memory(err, n * sizeof *e->threshold);
    if (e->probe_of)
        memcpy(e->probe_of, s->probe_of, n * sizeof *e->probe_of);
    if (e->threshold)
        memcpy(e->threshold, s->threshold, n * sizeof *e->threshold);
    if (e->ranking && !engine_one_probe(e))
        return kvt_fail(err, KVT_USAGE,
                        "policy %s: one ranking for all budgets, but a probe for each",
                        e->policy->name);
    return KVT_OK;
}

/* The files of the policy and of its allocator, which counts where no threshold decides. */
static kvt_code open_tables(kvt_engine *e, const kvt_engine_spec *s, kvt_err *err)
{
    const kvt_share *share = e->traits.by_threshold ? NULL : e->use->share;
    e->learner = share && share->learn ? share : NULL;
    if (share && share->weights && !s->table)
        return kvt_fail(err, KVT_USAGE, "allocator %s needs table=FILE", share->name);
    if (engine_tensors(&e->weights, e->policy->weights, s->weights, err))
        return err->code;
    return engine_tensors(&e->table, share ? share->weights : NULL, s->table, err);
}

kvt_code kvt_engine_new(kvt_engine **out, const kvt_engine_spec *spec, kvt_err *err)
{
    *out = NULL;
    if (check_spec(spec, err))
        return err->code;
    kvt_engine *e = kvt_alloc(1, sizeof *e);
    if (!e)
        return kvt_fail_memory(err, sizeof *e);
    e->use = spec->use;
    e->policy = spec->use->policy;
    e->base = spec->use->base;
    e->traits = spec->use->traits;
    e->seq = *spec->seq;
    e->geometry = *spec->seq->geometry;
    e->n_budget = spec->n_budget;
    e->decode = spec->decode;
    e->ranking = e->traits.one_ranking && !spec->decode && e->traits.effect == KVT_EVICT &&
                 !e->traits.by_threshold;
    e->n_score = e->ranking ? 1 : e->n_budget;
    e->every = spec->every;
    e->n_prompt = e->seq.n_prompt;
    e->n_token = e->seq.n_prompt + e->seq.n_response;
    e->n_layer = e->seq.n_layer;
    e->seed = spec->seed;
    snprintf(e->trace_digest, sizeof e->trace_digest, "%s",
             spec->trace_digest ? spec->trace_digest : "");
    if (!(e->traits.needs & KVT_NEED_TOKENS))
        e->seq.id = NULL, e->seq.flag = NULL;
    if (!(e->traits.needs & KVT_NEED_OTHERS))
        e->seq.position_mass = NULL;
    e->budget = kvt_alloc(e->n_budget, sizeof *e->budget);
    e->identity = kvt_alloc(e->n_token, sizeof *e->identity);
    e->layer = kvt_alloc(e->n_layer, sizeof *e->layer);
    if (!e->budget || !e->identity || !e->layer) {
        kvt_fail_memory(err, e->n_token * (int64_t)sizeof *e->identity);
        kvt_engine_free(e);
        return err->code;
    }
    memcpy(e->budget, spec->budget, (size_t)e->n_budget * sizeof *e->budget);
    for (int64_t t = 0; t < e->n_token; t++)
        e->identity[t] = t;
    find_shape(e);
    if (copy_choices(e, spec, err) || open_tables(e, spec, err)) {
        kvt_engine_free(e);
        return err->code;
    }
    *out = e;
    return KVT_OK;
}

void kvt_engine_drop(kvt_engine *e, int layer)
{
    engine_layer *l = &e->layer[layer];
    kvt_arena_free(l->memory);
    kvt_arena_free(l->work);
    kvt_arena_free(l->hook);
    /* Refusals and counts outlive the rest. */
    *l = (engine_layer){.refusal = l->refusal,
                        .failed = l->failed,
                        .recent = l->recent,
                        .gap = l->gap,
                        .n = l->n,
                        .drew = l->drew,
                        .n_arrived = l->n_arrived};
}

void kvt_engine_free(kvt_engine *e)
{
    if (!e)
        return;
    for (int i = 0; e->layer && i < e->n_layer; i++) {
        kvt_engine_drop(e, i);
        kvt_free(e->layer[i].refusal);
        kvt_free(e->layer[i].failed);
        kvt_free(e->layer[i].recent);
        kvt_free(e->layer[i].gap);
        kvt_free(e->layer[i].n);
    }
    kvt_free(e->layer);
    kvt_free(e->identity);
    kvt_free(e->budget);
    kvt_free(e->weights.view);
    kvt_free(e->table.view);
    kvt_free(e->probe_of);
    kvt_free(e->threshold);
    kvt_free(e);
}

/* ---- streams -----------------------------------------------------------------------------
 */

static void start_stream(const kvt_engine *e, uint64_t *rng, int layer, int lane)
{
    int model_layer = e->seq.layer_id ? (int)e->seq.layer_id[layer] : layer;
    stream_start(rng, e->seed, e->trace_digest, e->policy->name, model_layer, lane);
}

/* ---- prompt --------------------------------------------------------------------------------
 */

static void *state_at(const kvt_engine *e, void *states, int lane)
{
    return (char *)states + (size_t)lane * (e->state_size + 1);
}

/* The base's part of a lane in what all budgets share. */
static engine_memo memo_at(const kvt_engine *e, const engine_layer *l, int lane)
{
    engine_memo m = l->base;
    if (e->base) {
        m.mark += (int64_t)lane * e->n_prompt * e->base_width;
        m.state = (char *)m.state + (size_t)lane * (e->base_state + 1);
    }
    return m;
}

static kvt_code check_feed(const kvt_engine *e, const kvt_feed *f, int64_t n_token,
                           kvt_err *err)
{
    unsigned needs = e->traits.needs;
    if ((needs & KVT_NEED_ATTN) && f->rows.data &&
        kvt_view_expect(&f->rows, "rows", KVT_F32,
                        KVT_SHAPE("HQT", e->geometry.n_head, -1, n_token), err))
        return err->code;
    if ((needs & KVT_NEED_KEYS) && f->keys.data &&
        kvt_view_expect(&f->keys, "keys", KVT_F32,
                        KVT_SHAPE("GTD", e->geometry.n_kv_head, n_token, -1), err))
        return err->code;
    return KVT_OK;
}

/* Runs step() for a lane of the prompt: what it learns is shared by all budgets. */
static kvt_code learn(kvt_engine *e, int layer, int lane, kvt_err *err)
{
    engine_layer *l = &e->layer[layer];
    kvt_lane view;
    size_t mark = kvt_arena_mark(l->work);
    if (engine_fill(e, &view, -1, layer, lane, e->identity, e->n_prompt, err))
        return err->code;
    view.mark = l->mark + (int64_t)lane * e->n_prompt * e->slot_width;
    view.state = state_at(e, l->state, lane);
    view.rng = l->rng + lane * KVT_RNG_WORDS;
    engine_memo base = memo_at(e, l, lane);
    stage_step(e, &view, &base, true);
    kvt_arena_rewind(l->work, mark);
    return KVT_OK;
}

kvt_code kvt_engine_prompt(kvt_engine *e, int layer, const kvt_feed *feed, kvt_err *err)
{
    engine_layer *l = &e->layer[layer];
    assert(layer >= 0 && layer < e->n_layer && !l->fed);
    if (!engine_make_layer(e, l))
        return kvt_fail_memory(err, e->n_lane * e->n_prompt * (int64_t)sizeof(float));
    l->feed = *feed;
    l->n_arrived = e->n_prompt;
    l->fed = l->pending = true;
    if (check_feed(e, feed, e->n_prompt, err))
        return kvt_within(err, "layer %d", layer);
    int64_t n_window = kvt_use_window(e->use, e->n_prompt);
    bool reads_rows = e->traits.needs & (KVT_NEED_ATTN | KVT_NEED_LOGITS | KVT_NEED_QUERIES);
    if (n_window > 0 && reads_rows && (e->traits.needs & KVT_NEED_ATTN) &&
        (!feed->rows.data || feed->rows.dim[1] < n_window))
        return kvt_fail(err, KVT_FORMAT, "policy %s: needs the last %lld prompt rows, got %lld",
                        e->policy->name, (long long)n_window,
                        (long long)(feed->rows.data ? feed->rows.dim[1] : 0));
    stage_last(&l->feed.rows, n_window);
    stage_last(&l->feed.logits, n_window);
    stage_last(&l->feed.queries, n_window);
    for (int a = 0; a < e->n_lane; a++) {
        start_stream(e, l->rng + a * KVT_RNG_WORDS, layer, a);
        if (stage_learns(e) && learn(e, layer, a, err))
            return err->code;
    }
    return engine_scores_early(e) ? engine_score_early(e, layer, err) : KVT_OK;
}

/* An arena keeps its largest block: with one for each layer that is memory for nothing. */
static void renew(kvt_arena **a)
{
    kvt_arena *fresh = kvt_arena_new(ENGINE_ARENA_LIMIT);
    if (fresh) {
        kvt_arena_free(*a);
        *a = fresh;
    }
}

void kvt_engine_forget(kvt_engine *e, int layer)
{
    engine_layer *l = &e->layer[layer];
    l->feed = (kvt_feed){0};
    renew(&l->work);
    renew(&l->hook);
}

/* ---- tokens --------------------------------------------------------------------------------
 */

/* Whether a decision follows the newest token. */
static bool is_due(const kvt_engine *e, const engine_layer *l)
{
    return (l->n_arrived - e->n_prompt) % e->every == 0;
}

/* Of the last queries that were fed: as many as a decision anew learns from, or the newest. */
static kvt_code take_queries(const kvt_engine *e, engine_layer *l, kvt_err *err)
{
    const struct {
        kvt_view *v;
        unsigned need;
    } by_query[] = {{&l->feed.rows, KVT_NEED_ATTN},
                    {&l->feed.logits, KVT_NEED_LOGITS},
                    {&l->feed.queries, KVT_NEED_QUERIES | KVT_NEED_LAYER}};
    bool anew = e->use->again && e->decode && is_due(e, l);
    int64_t n = anew ? kvt_use_window(e->use, l->n_arrived) : 1;
    for (int i = 0; i < 3; i++) {
        int64_t got = by_query[i].v->data ? by_query[i].v->dim[1] : n;
        if (anew && (e->traits.needs & by_query[i].need) && got < n)
            return kvt_fail(err, KVT_FORMAT,
                            "policy %s: decides anew by the last %lld queries, got %lld",
                            e->policy->name, (long long)n, (long long)got);
        stage_last(by_query[i].v, n);
    }
    return KVT_OK;
}

static void append(const kvt_engine *e, engine_lane *lane, int64_t position)
{
    lane->pos[lane->n_slot] = position;
    memset(lane->mark + lane->n_slot * e->slot_width, 0, (size_t)e->slot_width * sizeof(float));
    if (e->base)
        memset(lane->base.mark + lane->n_slot * e->base_width, 0,
               (size_t)e->base_width * sizeof(float));
    lane->n_slot++;
}

/* The newest row attends over what a lane holds, and the policy learns from it. */
static kvt_code attend(kvt_engine *e, int budget, int layer, int a, kvt_err *err)
{
    engine_layer *l = &e->layer[layer];
    engine_lane *lane = engine_lane_at(e, budget, layer, a);
    kvt_engine_count *n = engine_count_at(e, budget, layer, a);
    if (lane->n_slot > n->most)
        n->most = lane->n_slot;
    if (!stage_learns(e) || e->use->again) /* which learns when it decides */
        return KVT_OK;
    size_t mark = kvt_arena_mark(l->work);
    kvt_lane view;
    kvt_view rows = l->feed.rows;
    l->feed.rows.data = NULL; /* gathered by engine_row(), which renormalises */
    kvt_code code = engine_fill(e, &view, budget, layer, a, lane->pos, lane->n_slot, err);
    l->feed.rows = rows;
    if (!code && lane->row && rows.data) {
        engine_rows(e, lane->row, layer, a, lane->pos, lane->n_slot);
        view.attn =
            kvt_view_of(lane->row, KVT_F32, KVT_SHAPE("HQS", e->n_head, 1, lane->n_slot));
    }
    if (!code) {
        view.mark = lane->mark;
        view.state = lane->state;
        view.rng = lane->rng;
        stage_step(e, &view, &lane->base, false);
    }
    kvt_arena_rewind(l->work, mark);
    return code;
}

static bool refused(const engine_layer *l, int budget)
{
    return l->refusal[budget][0];
}

kvt_code kvt_engine_token(kvt_engine *e, int layer, const kvt_feed *feed, kvt_err *err)
{
    engine_layer *l = &e->layer[layer];
    assert(l->fed && !l->pending && l->n_arrived < e->n_token);
    l->feed = *feed;
    l->n_arrived++;
    l->step = l->n_arrived - e->n_prompt;
    l->pending = e->decode;
    if (check_feed(e, feed, l->n_arrived, err) || take_queries(e, l, err))
        return kvt_within(err, "layer %d", layer);
    if (!engine_is_per_budget(e))
        return KVT_OK;
    bool skip = e->traits.effect == KVT_SKIP;
    /* The decision in front of row m is the one that follows row m - 1. */
    l->step -= e->traits.drop_first;
    for (int b = 0; b < e->n_budget; b++) {
        if (refused(l, b))
            continue;
        for (int a = 0; a < e->n_lane; a++) {
            if (!skip)
                append(e, engine_lane_at(e, b, layer, a), l->n_arrived - 1);
            if (skip ? engine_skip(e, b, layer, a, err)
                     : !e->traits.drop_first && attend(e, b, layer, a, err))
                return err->code;
        }
    }
    return KVT_OK;
}

/* ---- decisions -----------------------------------------------------------------------------
 */

/* The lanes of a layer at the end of the prompt, each with a copy of what was learned. */
static void start_lanes(const kvt_engine *e, engine_layer *l)
{
    for (int b = 0; b < e->n_budget; b++) {
        for (int a = 0; a < e->n_lane; a++) {
            engine_lane *lane = l->lane + (int64_t)b * e->n_lane + a;
            lane->n_slot = e->n_prompt;
            memcpy(lane->pos, e->identity, (size_t)e->n_prompt * sizeof *lane->pos);
            memcpy(lane->mark, l->mark + a * e->n_prompt * e->slot_width,
                   (size_t)(e->n_prompt * e->slot_width) * sizeof *lane->mark);
            memcpy(lane->state, state_at(e, l->state, a), e->state_size);
            memcpy(lane->rng, l->rng + a * KVT_RNG_WORDS, sizeof lane->rng);
            if (!e->base)
                continue;
            engine_memo base = memo_at(e, l, a);
            memcpy(lane->base.mark, base.mark,
                   (size_t)(e->n_prompt * e->base_width) * sizeof *base.mark);
            memcpy(lane->base.state, base.state, e->base_state);
        }
    }
}

static kvt_code decide(kvt_engine *e, const int *layer, int n_layer, kvt_err *err)
{
    engine_layer *first = &e->layer[layer[0]];
    bool prompt = first->n_arrived == e->n_prompt;
    if (prompt && engine_is_per_budget(e))
        for (int i = 0; i < n_layer; i++)
            start_lanes(e, &e->layer[layer[i]]);
    for (int b = 0; prompt && b < e->n_budget; b++)
        engine_check_fit(e, b, layer, n_layer);
    if (e->ranking)
        return engine_rank(e, layer, n_layer, err);
    if (e->traits.effect == KVT_SKIP) {
        if (prompt) /* nothing leaves */
            for (int i = 0; i < n_layer * e->n_budget * e->n_lane; i++)
                e->layer[layer[i % n_layer]].n[i / n_layer].kept = e->n_prompt;
        for (int i = 0; prompt && i < n_layer; i++)
            for (int k = 0; k < e->n_budget * e->n_lane; k++)
                if (!refused(&e->layer[layer[i]], k / e->n_lane) &&
                    engine_skip_begin(e, k / e->n_lane, layer[i], k % e->n_lane, err))
                    return err->code;
        return KVT_OK;
    }
    for (int b = 0; b < e->n_budget; b++) {
        bool any = false;
        for (int i = 0; i < n_layer; i++)
            any |= refused(&e->layer[layer[i]], b);
        if (!any && (prompt || is_due(e, first)) && engine_choose(e, b, layer, n_layer, err))
            return err->code;
        for (int i = 0; !any && !prompt && e->traits.drop_first && i < n_layer; i++)
            for (int a = 0; a < e->n_lane; a++)
                if (attend(e, b, layer[i], a, err))
                    return err->code;
    }
    return KVT_OK;
}

kvt_code kvt_engine_decide(kvt_engine *e, int layer, kvt_err *err)
{
    int list[KVT_LAYERS_MAX], n = 0;
    if (layer >= 0)
        list[n++] = layer;
    for (int i = 0; layer < 0 && i < e->n_layer; i++)
        if (e->layer[i].pending)
            list[n++] = i;
    kvt_code code = KVT_OK;
    if (e->traits.scope == KVT_BY_MODEL && n > 0)
        code = decide(e, list, n, err);
    for (int i = 0; !code && e->traits.scope != KVT_BY_MODEL && i < n; i++)
        code = decide(e, &list[i], 1, err);
    for (int i = 0; i < n; i++) {
        e->layer[list[i]].pending = false;
        e->layer[list[i]].feed = (kvt_feed){0};
    }
    return code;
}
