/* again.c - a policy of the prompt only that decides anew while decoding (every=K).
 *
 * Nothing is carried over from one decision to the next but the slots: marks and state are
 * cleared, step() gets the last window() queries over what is left, begin() and score() follow,
 * as at the end of the prompt. A row of that window is the softmax of its query over the slots
 * that are left now, so that slots which came after it have no weight there. */
#include "replay/engine_priv.h"

#include <string.h>

#include "kvt/arena.h"

static void clear(const kvt_engine *e, engine_lane *lane)
{
    size_t n = (size_t)lane->n_slot;
    memset(lane->mark, 0, n * (size_t)e->slot_width * sizeof *lane->mark);
    memset(lane->state, 0, e->state_size);
    if (!e->base)
        return;
    memset(lane->base.mark, 0, n * (size_t)e->base_width * sizeof *lane->base.mark);
    memset(lane->base.state, 0, e->base_state);
}

kvt_code again_learn(kvt_engine *e, engine_turn *t, int budget, kvt_err *err)
{
    engine_layer *l = &e->layer[t->layer];
    engine_lane *lane = engine_lane_at(e, budget, t->layer, t->lane);
    int64_t n_query = l->feed.rows.data ? l->feed.rows.dim[1] : 0;
    if ((e->traits.needs & KVT_NEED_ATTN) && l->feed.rows.data) {
        int64_t n = e->n_head * n_query * lane->n_slot;
        float *rows = kvt_arena_array(l->work, n + 1, sizeof *rows);
        if (!rows)
            return kvt_fail_memory(err, n * (int64_t)sizeof *rows);
        engine_rows(e, rows, t->layer, t->lane, lane->pos, lane->n_slot);
        t->view.attn =
            kvt_view_of(rows, KVT_F32, KVT_SHAPE("HQS", e->n_head, n_query, lane->n_slot));
    }
    clear(e, lane);
    lane->begun = false;
    if (stage_learns(e))
        stage_step(e, &t->view, &t->base, true);
    return KVT_OK;
}
