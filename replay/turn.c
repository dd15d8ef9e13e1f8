/* turn.c - a lane in a decision: its marks before, what is dropped after, its ranking. */
#include "replay/engine_priv.h"

#include <string.h>

#include "base/select.h"

/* ---- one ranking ---------------------------------------------------------------------------
 */

/* order [n]: pinned slots by position, then by falling score. */
static bool order_lane(int32_t *order, const float *score, const bool *pinned, int64_t n,
                       kvt_arena *work)
{
    int64_t n_pinned = 0, n_open = 0;
    size_t mark = kvt_arena_mark(work);
    float *open = kvt_arena_array(work, n, sizeof *open);
    int32_t *slot = kvt_arena_array(work, n, sizeof *slot);
    int32_t *rank = kvt_arena_array(work, n, sizeof *rank);
    if (!open || !slot || !rank)
        return false;
    for (int64_t s = 0; s < n; s++) {
        if (pinned[s]) {
            order[n_pinned++] = (int32_t)s;
        } else {
            slot[n_open] = (int32_t)s;
            open[n_open++] = score[s];
        }
    }
    if (!select_rank(rank, open, n_open, work))
        return false;
    for (int64_t i = 0; i < n_open; i++)
        order[n_pinned + i] = slot[rank[i]];
    kvt_arena_rewind(work, mark);
    return true;
}

kvt_code kvt_engine_rank(const kvt_engine *e, int layer, int lane, int32_t *rank, kvt_err *err)
{
    const engine_layer *l = &e->layer[layer];
    int64_t n = e->n_prompt;
    int32_t *order = l->order + lane * n;
    if (!l->ordered &&
        !order_lane(order, l->score + lane * n, l->pinned + lane * n, n, l->work))
        return kvt_fail_memory(err, n * (int64_t)sizeof *order);
    for (int64_t i = 0; i < n; i++)
        rank[order[i]] = (int32_t)i;
    return KVT_OK;
}

bool turn_order(kvt_engine *e, engine_turn *turn, int n)
{
    for (int i = 0; i < n; i++) {
        engine_layer *l = &e->layer[turn[i].layer];
        int32_t *order = l->order + turn[i].lane * e->n_prompt;
        if (!order_lane(order, turn[i].score, turn[i].pinned, turn[i].view.n_slot, l->work))
            return false;
        l->ordered = true;
        turn[i].order = order;
    }
    return true;
}

int64_t turn_kept(const engine_turn *t)
{
    int64_t kept = 0;
    for (int64_t s = 0; !t->order && s < t->view.n_slot; s++)
        kept += t->keep[s];
    return t->order ? t->n_kept : kept;
}

/* ---- turns ---------------------------------------------------------------------------------
 */

/* Where the allocator's marks of a score at the prompt's end lie. */
static float *share_mark(const kvt_engine *e, int budget, const engine_turn *t)
{
    float *all = e->layer[t->layer].share_mark;
    return all ? all + engine_score_at(e, budget, t->lane) * e->learner->mark_width : NULL;
}

/* What the base learned from the prompt, for this decision alone. */
static bool copy_base(const kvt_engine *e, engine_turn *t)
{
    const engine_layer *l = &e->layer[t->layer];
    size_t n = (size_t)(e->n_prompt * e->base_width);
    if (!e->base)
        return true;
    t->base.mark = kvt_arena_array(l->work, (int64_t)n + 1, sizeof *t->base.mark);
    t->base.state = kvt_arena_get(l->work, e->base_state + 1);
    if (!t->base.mark || !t->base.state)
        return false;
    memcpy(t->base.mark, l->base.mark + (size_t)t->lane * n, n * sizeof *t->base.mark);
    memcpy(t->base.state, (char *)l->base.state + (size_t)t->lane * (e->base_state + 1),
           e->base_state);
    return true;
}

/* A lane at the end of the prompt, with marks of its own where a budget has them. */
kvt_code turn_start(kvt_engine *e, engine_turn *t, int budget, kvt_err *err)
{
    engine_layer *l = &e->layer[t->layer];
    int64_t n = e->n_prompt, width = e->slot_width;
    if (engine_fill(e, &t->view, budget, t->layer, t->lane, e->identity, n, err))
        return err->code;
    float *mark = kvt_arena_array(l->work, n * width + 1, sizeof *mark);
    char *state = kvt_arena_get(l->work, e->state_size + 1);
    uint64_t *rng = kvt_arena_array(l->work, KVT_RNG_WORDS, sizeof *rng);
    if (!mark || !state || !rng || !copy_base(e, t))
        return kvt_fail_memory(err, n * width * (int64_t)sizeof *mark);
    memcpy(mark, l->mark + t->lane * n * width, (size_t)(n * width) * sizeof *mark);
    memcpy(state, (char *)l->state + (size_t)t->lane * (e->state_size + 1), e->state_size);
    memcpy(rng, l->rng + t->lane * KVT_RNG_WORDS, KVT_RNG_WORDS * sizeof *rng);
    t->view.mark = mark, t->view.state = state, t->view.rng = rng;
    t->view.budget = budget < 0 ? 0 : e->budget[budget];
    t->score = l->score + engine_score_at(e, budget, t->lane);
    t->pinned = l->pinned + engine_score_at(e, budget, t->lane);
    t->share_mark = share_mark(e, budget, t);
    memset(t->score, 0, (size_t)n * sizeof *t->score);
    memset(t->pinned, 0, (size_t)n * sizeof *t->pinned);
    stage_begin(e, &t->view, &t->base);
    return KVT_OK;
}

/* A lane that was scored with its layer's prompt: its scores, and what score() left. */
kvt_code turn_scored(kvt_engine *e, engine_turn *t, int budget, kvt_err *err)
{
    engine_layer *l = &e->layer[t->layer];
    int64_t n = e->n_prompt;
    if (engine_fill(e, &t->view, budget, t->layer, t->lane, e->identity, n, err))
        return err->code;
    t->view.mark = l->mark + t->lane * n * e->slot_width;
    t->view.state = (char *)l->state + (size_t)t->lane * (e->state_size + 1);
    t->view.rng = l->rng + t->lane * KVT_RNG_WORDS;
    t->view.budget = budget < 0 ? 0 : e->budget[budget];
    t->score = l->score + engine_score_at(e, budget, t->lane);
    t->pinned = l->pinned + engine_score_at(e, budget, t->lane);
    t->share_mark = share_mark(e, budget, t);
    t->n_pinned = 0;
    for (int64_t s = 0; s < n; s++)
        t->n_pinned += t->pinned[s];
    return KVT_OK;
}

/* A lane in the middle of its life. */
kvt_code turn_resume(kvt_engine *e, engine_turn *t, int budget, kvt_err *err)
{
    engine_layer *l = &e->layer[t->layer];
    engine_lane *lane = engine_lane_at(e, budget, t->layer, t->lane);
    kvt_view rows = l->feed.rows;
    bool prompt = l->n_arrived == e->n_prompt;
    if (!prompt) /* gathered when the row attended */
        l->feed.rows.data = NULL;
    kvt_code code =
        engine_fill(e, &t->view, budget, t->layer, t->lane, lane->pos, lane->n_slot, err);
    l->feed.rows = rows;
    if (code)
        return code;
    bool anew = !prompt && e->use->again;
    if (!prompt && !anew && lane->row && !e->traits.drop_first)
        t->view.attn =
            kvt_view_of(lane->row, KVT_F32, KVT_SHAPE("HQS", e->n_head, 1, lane->n_slot));
    t->view.mark = lane->mark, t->view.state = lane->state, t->view.rng = lane->rng;
    t->base = lane->base;
    t->view.budget = e->budget[budget];
    t->score = prompt ? l->score + engine_score_at(e, budget, t->lane)
                      : kvt_arena_array(l->work, lane->n_slot, sizeof *t->score);
    t->pinned = prompt ? l->pinned + engine_score_at(e, budget, t->lane)
                       : kvt_arena_array(l->work, lane->n_slot, sizeof *t->pinned);
    if (e->learner)
        t->share_mark =
            prompt ? share_mark(e, budget, t)
                   : kvt_arena_array(l->work, lane->n_slot * e->learner->mark_width + 1,
                                     sizeof *t->share_mark);
    if (!t->score || !t->pinned || (e->learner && !t->share_mark))
        return kvt_fail_memory(err, lane->n_slot * (int64_t)sizeof *t->score);
    if (prompt) {
        memset(t->score, 0, (size_t)lane->n_slot * sizeof *t->score);
        memset(t->pinned, 0, (size_t)lane->n_slot * sizeof *t->pinned);
    }
    if (anew && again_learn(e, t, budget, err))
        return err->code;
    if (!lane->begun)
        stage_begin(e, &t->view, &lane->base);
    lane->begun = true;
    return KVT_OK;
}

engine_turn *turn_new(kvt_engine *e, const int *layer, int n_layer, kvt_arena *work)
{
    engine_turn *turn = kvt_arena_array(work, (int64_t)n_layer * e->n_lane, sizeof *turn);
    for (int i = 0; turn && i < n_layer * e->n_lane; i++)
        turn[i].layer = layer[i / e->n_lane], turn[i].lane = i % e->n_lane;
    return turn;
}

bool turn_keep(kvt_engine *e, engine_turn *turn, int n)
{
    for (int i = 0; i < n; i++) {
        turn[i].keep = kvt_arena_array(e->layer[turn[i].layer].work, turn[i].view.n_slot,
                                       sizeof *turn[i].keep);
        if (!turn[i].keep)
            return false;
    }
    return true;
}

/* Drops what was not kept: slots, marks, and the lane's row stays what the row saw. */
void turn_evict(kvt_engine *e, int budget, const engine_turn *t)
{
    const engine_layer *l = &e->layer[t->layer];
    kvt_engine_count *n = engine_count_at(e, budget, t->layer, t->lane);
    int64_t kept = 0, gone = 0, n_slot = t->view.n_slot;
    if (!l->lane) {
        uint64_t *mask = l->kept + t->lane * e->n_prompt;
        for (int64_t i = 0; t->order && i < t->n_kept; i++)
            mask[t->order[i]] |= UINT64_C(1) << budget;
        for (int64_t s = 0; !t->order && s < n_slot; s++)
            mask[s] |= (uint64_t)t->keep[s] << budget;
        kept = turn_kept(t);
        gone = n_slot - kept;
    } else {
        engine_lane *lane = engine_lane_at(e, budget, t->layer, t->lane);
        size_t width = (size_t)e->slot_width, base = (size_t)e->base_width;
        memset(lane->pinned, 0, (size_t)e->n_token);
        for (int64_t s = 0; s < n_slot; s++)
            lane->pinned[lane->pos[s]] = t->pinned[s];
        for (int64_t s = 0; s < n_slot; s++) {
            if (!t->keep[s]) {
                lane->evict_step[lane->pos[s]] = (int32_t)l->step;
                continue;
            }
            if (kept < s) {
                lane->pos[kept] = lane->pos[s];
                memcpy(lane->mark + (size_t)kept * width, lane->mark + (size_t)s * width,
                       width * sizeof *lane->mark);
                if (e->base)
                    memcpy(lane->base.mark + (size_t)kept * base,
                           lane->base.mark + (size_t)s * base, base * sizeof *lane->base.mark);
            }
            kept++;
        }
        gone = n_slot - kept;
        lane->n_slot = kept;
    }
    n->acted += gone > 0;
    *(l->n_arrived == e->n_prompt ? &n->evicted_prefill : &n->evicted_decode) += gone;
}
