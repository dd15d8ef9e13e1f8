/* draft.c - what a cache that was evicted at a budget holds of a prompt: the cache on which LAQ
 * lets the model write its draft.
 *
 * Wang et al. (arXiv 2505.20334) write it on SnapKV's cache at the same budget: the last 32
 * prompt queries vote, pool 7, a set for each query head. The policy is the one that replay
 * runs, on the rows that replay sees. */
#include "live/live_priv.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "compute/rows.h"
#include "base/half.h"
#include "kvt/arena.h"
#include "kvt/engine.h"

typedef struct eviction {
    evicted *to;
    const kvt_prompt *prompt;
    const kvt_ctx *ctx;
    kvt_use *use;
    kvt_engine *engine;
    int64_t n_query;
    float *rows; /* f32 [H Q N] */
    kvt_err failed;
} eviction;

static int rising(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int evicted_budgets(int64_t slots[KVT_BUDGETS_MAX], const wish *w, const kvt_geometry *g,
                    int64_t n_prompt)
{
    int n = 0;
    for (int i = 0; i < w->n_budget; i++)
        slots[i] = kvt_budget_tokens(&w->budget[i], KVT_RULE_FLOOR_EXACT, n_prompt,
                                     g->n_layer * g->n_head, 2 * g->head_dim * 2);
    qsort(slots, (size_t)w->n_budget, sizeof *slots, rising);
    for (int i = 0; i < w->n_budget; i++)
        if (i == 0 || slots[i] != slots[n - 1])
            slots[n++] = slots[i];
    return n;
}

kvt_code evicted_slots(evicted *out, const wish *w, const kvt_prompt *prompt, kvt_err *err)
{
    *out = (evicted){0};
    out->n = evicted_budgets(out->slots, w, prompt->geometry, prompt->n_prompt);
    if (!prompt->queries)
        return kvt_fail(
            err, KVT_FORMAT,
            "a draft needs the prompt's last queries of all layers (query/q), and "
            "they are not recorded: --layers, or a level other than replay and full");
    if (prompt->first < 0)
        return kvt_fail(err, KVT_FORMAT,
                        "a draft begins with the token behind the prompt (logit/id), which is "
                        "not there without a response");
    return KVT_OK;
}

/* f32 [Q N] rows of one head, from the stored halves: as replay has them. */
static kvt_code head_rows(const eviction *e, int layer, int head, kvt_err *err)
{
    const kvt_prompt *p = e->prompt;
    const kvt_geometry *g = p->geometry;
    int64_t N = p->n_prompt, D = g->head_dim, Q = e->n_query;
    float *k = kvt_alloc(N * D, sizeof *k), *q = kvt_alloc(Q * D, sizeof *q);
    uint16_t *half = kvt_alloc(Q * N, sizeof *half);
    int32_t *pos = kvt_alloc(Q, sizeof *pos);
    void *scratch = kvt_alloc((int64_t)rows_scratch_bytes(N, D), 1);
    kvt_code code = KVT_OK;
    if (!k || !q || !half || !pos || !scratch)
        code = kvt_fail_memory(err, (size_t)(N * D) * sizeof *k);
    if (!code)
        code = p->keys(p->self, layer, (int)(head / (g->n_head / g->n_kv_head)), k, err);
    if (!code)
        code = p->queries(p->self, layer, head, Q, q, err);
    for (int64_t i = 0; !code && i < Q; i++)
        pos[i] = (int32_t)(N - Q + i);
    if (!code) {
        rows_head(half, q, k, pos, Q, N, D, (float)g->attn_scale, g->window[layer], scratch);
        half_to_floats(e->rows + head * Q * N, half, Q * N);
    }
    kvt_free(k);
    kvt_free(q);
    kvt_free(half);
    kvt_free(pos);
    kvt_free(scratch);
    return code;
}

static void copy_held(const eviction *e, int layer)
{
    const kvt_geometry *g = e->prompt->geometry;
    int64_t N = e->prompt->n_prompt;
    for (int b = 0; b < e->to->n; b++) {
        bool failed;
        const char *why = kvt_engine_refused(e->engine, b, layer, &failed);
        if (why) {
            snprintf(e->to->why[b], sizeof e->to->why[b], "%s", why);
            continue;
        }
        for (int h = 0; h < g->n_head; h++) {
            int64_t lane = ((int64_t)b * g->n_layer + layer) * g->n_head + h, n;
            const int64_t *pos;
            kvt_engine_held(e->engine, b, layer, h, &pos, &n);
            for (int64_t i = 0; i < n; i++)
                e->to->keep[lane * N + pos[i]] = 1;
        }
    }
}

static kvt_code evict_layer(eviction *e, int layer, kvt_err *err)
{
    const kvt_geometry *g = e->prompt->geometry;
#pragma omp parallel for schedule(dynamic, 1) num_threads(kvt_threads(e->ctx))
    for (int h = 0; h < (int)g->n_head; h++) {
        kvt_err own;
        if (head_rows(e, layer, h, &own)) {
#pragma omp critical(kvt_live_rows)
            if (!e->failed.code)
                e->failed = own;
        }
    }
    if (e->failed.code) {
        *err = e->failed;
        return err->code;
    }
    kvt_feed feed = {
        .rows = kvt_view_of(e->rows, KVT_F32,
                            KVT_SHAPE("HQT", g->n_head, e->n_query, e->prompt->n_prompt))};
    if (kvt_engine_prompt(e->engine, layer, &feed, err) ||
        kvt_engine_decide(e->engine, layer, err))
        return err->code;
    copy_held(e, layer);
    kvt_engine_drop(e->engine, layer);
    return KVT_OK;
}

static kvt_code run(eviction *e, const kvt_sequence *seq, kvt_err *err)
{
    const kvt_geometry *g = e->prompt->geometry;
    kvt_engine_spec spec = {.use = e->use,
                            .seq = seq,
                            .budget = e->to->slots,
                            .n_budget = e->to->n,
                            .every = 1,
                            .trace_digest = ""}; /* it draws nothing */
    if (kvt_engine_new(&e->engine, &spec, err))
        return err->code;
    e->n_query = kvt_use_window(e->use, e->prompt->n_prompt);
    e->rows = kvt_alloc(g->n_head * e->n_query * e->prompt->n_prompt, sizeof *e->rows);
    e->to->keep =
        kvt_alloc(e->to->n * g->n_layer * g->n_head * e->prompt->n_prompt, sizeof(uint8_t));
    if (!e->rows || !e->to->keep)
        return kvt_fail_memory(err, (size_t)(e->to->n * g->n_layer * g->n_head) *
                                        (size_t)e->prompt->n_prompt);
    for (int l = 0; l < g->n_layer; l++)
        if (kvt_progress(e->ctx, "evict", l, g->n_layer, err) || evict_layer(e, l, err))
            return err->code;
    return KVT_OK;
}

kvt_code evicted_fill(evicted *out, const kvt_prompt *prompt, const kvt_ctx *ctx, kvt_err *err)
{
    eviction e = {.to = out, .prompt = prompt, .ctx = ctx};
    int32_t layer_id[KVT_LAYERS_MAX];
    char policy[64];
    snprintf(policy, sizeof policy, "snapkv:compat=official-longbench,window=%d,pool=7",
             EVICTED_WINDOW);
    for (int l = 0; l < KVT_LAYERS_MAX; l++)
        layer_id[l] = l;
    kvt_sequence seq = {.n_prompt = prompt->n_prompt,
                        .look_until = prompt->n_prompt,
                        .geometry = prompt->geometry,
                        .layer_id = layer_id,
                        .n_layer = (int)prompt->geometry->n_layer};
    kvt_code code = kvt_use_parse(&e.use, NULL, policy, err);
    if (!code)
        code = run(&e, &seq, err);
    kvt_engine_free(e.engine);
    kvt_use_free(e.use);
    kvt_free(e.rows);
    return code;
}

void evicted_free(evicted *e)
{
    kvt_free(e->keep);
    *e = (evicted){0};
}
