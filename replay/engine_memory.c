/* engine_memory.c - what a layer of the engine holds: marks, states, scores, lanes of each
 * budget.
 */
#include "replay/engine_priv.h"

#include <string.h>

#include "kvt/arena.h"

bool engine_is_per_budget(const kvt_engine *e)
{
    return e->decode || e->traits.effect == KVT_SKIP;
}

/* Marks for `n` slots and states of `lanes` lanes of the base, where there is one. */
static bool make_memo(const kvt_engine *e, engine_layer *l, engine_memo *out, int64_t n,
                      int64_t lanes)
{
    if (!e->base)
        return true;
    out->mark = kvt_arena_array(l->memory, n * e->base_width + 1, sizeof *out->mark);
    out->state = kvt_arena_array(l->memory, lanes, e->base_state + 1);
    return out->mark && out->state;
}

static bool make_lane(const kvt_engine *e, engine_layer *l, engine_lane *lane)
{
    lane->pos = kvt_arena_array(l->memory, e->n_token, sizeof *lane->pos);
    lane->mark = kvt_arena_array(l->memory, e->n_token * e->slot_width + 1, sizeof *lane->mark);
    lane->state = kvt_arena_get(l->memory, e->state_size + 1);
    lane->evict_step = kvt_arena_array(l->memory, e->n_token, sizeof *lane->evict_step);
    if (e->traits.needs & KVT_NEED_ATTN)
        lane->row = kvt_arena_array(l->memory, e->n_head * e->n_token, sizeof *lane->row);
    lane->pinned = kvt_arena_array(l->memory, e->n_token, sizeof *lane->pinned);
    if (!make_memo(e, l, &lane->base, e->n_token, 1) || !lane->pos || !lane->mark ||
        !lane->state || !lane->evict_step || !lane->pinned ||
        (!lane->row && (e->traits.needs & KVT_NEED_ATTN)))
        return false;
    memset(lane->evict_step, 0xff, (size_t)e->n_token * sizeof *lane->evict_step);
    return true;
}

bool engine_make_layer(kvt_engine *e, engine_layer *l)
{
    int64_t a = e->n_lane, n = e->n_prompt;
    l->memory = kvt_arena_new(ENGINE_ARENA_LIMIT);
    l->work = kvt_arena_new(ENGINE_ARENA_LIMIT);
    l->hook = kvt_arena_new(ENGINE_ARENA_LIMIT);
    l->refusal = kvt_alloc(e->n_budget, sizeof *l->refusal);
    l->failed = kvt_alloc(e->n_budget, sizeof *l->failed);
    l->recent = kvt_alloc(e->n_budget, sizeof *l->recent);
    l->gap = kvt_alloc(e->n_budget, sizeof *l->gap);
    l->n = kvt_alloc(e->n_budget * a, sizeof *l->n);
    if (!l->memory || !l->work || !l->hook || !l->refusal || !l->failed || !l->recent ||
        !l->gap || !l->n)
        return false;
    l->mark = kvt_arena_array(l->memory, a * n * e->slot_width + 1, sizeof *l->mark);
    l->state = kvt_arena_array(l->memory, a, e->state_size + 1);
    l->rng = kvt_arena_array(l->memory, a * KVT_RNG_WORDS, sizeof *l->rng);
    l->score = kvt_arena_array(l->memory, e->n_score * a * n, sizeof *l->score);
    l->pinned = kvt_arena_array(l->memory, e->n_score * a * n, sizeof *l->pinned);
    if (e->learner)
        l->share_mark = kvt_arena_array(
            l->memory, e->n_score * a * n * e->learner->mark_width + 1, sizeof *l->share_mark);
    l->ranked = kvt_arena_array(l->memory, e->n_score, sizeof *l->ranked);
    l->held = kvt_arena_array(l->memory, e->n_token, sizeof *l->held);
    if (e->ranking)
        l->order = kvt_arena_array(l->memory, a * n, sizeof *l->order);
    if (!make_memo(e, l, &l->base, a * n, a) || !l->mark || !l->state || !l->rng || !l->score ||
        !l->pinned || !l->ranked || !l->held || (e->ranking && !l->order) ||
        (e->learner && !l->share_mark))
        return false;
    if (!engine_is_per_budget(e))
        return (l->kept = kvt_arena_array(l->memory, a * n, sizeof *l->kept)) != NULL;
    l->lane = kvt_arena_array(l->memory, e->n_budget * a, sizeof *l->lane);
    for (int64_t i = 0; l->lane && i < e->n_budget * a; i++)
        if (!make_lane(e, l, &l->lane[i]))
            return false;
    return l->lane != NULL;
}
