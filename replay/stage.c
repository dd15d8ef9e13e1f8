/* stage.c - hooks of a policy, and of the base that scores in front of it.
 *
 * Both see the same lane. Marks and state are each one's own, and of the last queries each gets
 * as many as its own window() asks for. */
#include "replay/engine_priv.h"

#include <math.h>
#include <string.h>

#include "kvt/arena.h"

/* ---- windows -------------------------------------------------------------------------------
 */

static int64_t own_window(const kvt_use *u, int64_t n_token)
{
    int64_t n = u->policy->window ? u->policy->window(u->params, n_token) : 0;
    return n > n_token ? n_token : n < 0 ? 0 : n;
}

int64_t kvt_use_window(const kvt_use *u, int64_t n_prompt)
{
    int64_t own = own_window(u, n_prompt), base = u->base ? own_window(u->base, n_prompt) : 0;
    return own > base ? own : base;
}

bool stage_has_window(const kvt_engine *e)
{
    return e->policy->window || (e->base && e->base->policy->window);
}

void stage_last(kvt_view *v, int64_t n)
{
    if (!v->data || v->rank < 2 || v->dim[1] <= n)
        return;
    v->data = (const char *)v->data +
              (v->dim[1] - n) * v->stride[1] * (int64_t)kvt_dtype_size(v->dtype);
    v->dim[1] = n;
}

/* The lane as one of the two sees it. `windowed`: the views hold a window of queries. */
static kvt_lane seen_by(const kvt_use *u, const kvt_lane *view, bool windowed)
{
    kvt_lane out = *view;
    int64_t n = windowed ? own_window(u, view->now + 1) : 0;
    kvt_view *by_query[] = {&out.attn, &out.logits, &out.queries, &out.layer_queries};
    for (size_t i = 0; windowed && i < sizeof by_query / sizeof *by_query; i++)
        stage_last(by_query[i], n);
    return out;
}

static kvt_lane seen_by_base(const kvt_engine *e, const kvt_lane *view, const engine_memo *memo,
                             bool windowed)
{
    kvt_lane out = seen_by(e->base, view, windowed);
    out.mark = memo->mark, out.state = memo->state;
    return out;
}

/* ---- hooks ---------------------------------------------------------------------------------
 */

bool stage_learns(const kvt_engine *e)
{
    return e->policy->step || (e->base && e->base->policy->step);
}

/* One step hook; what it drew is noted. */
static void step_one(const kvt_engine *e, const kvt_use *u, kvt_lane *view)
{
    uint64_t before[KVT_RNG_WORDS];
    if (!u->policy->step)
        return;
    memcpy(before, view->rng, sizeof before);
    u->policy->step(u->params, view);
    if (memcmp(before, view->rng, sizeof before) != 0)
        e->layer[view->layer].drew = true;
    kvt_arena_rewind(view->scratch, 0);
}

void stage_step(const kvt_engine *e, kvt_lane *view, const engine_memo *memo, bool windowed)
{
    if (!e->base) {
        step_one(e, e->use, view);
        return;
    }
    kvt_lane base = seen_by_base(e, view, memo, windowed),
             own = seen_by(e->use, view, windowed);
    step_one(e, e->base, &base);
    step_one(e, e->use, &own);
}

void stage_begin(const kvt_engine *e, kvt_lane *view, const engine_memo *memo)
{
    if (e->base && e->base->policy->begin) {
        kvt_lane base = *view;
        base.mark = memo->mark, base.state = memo->state;
        e->base->policy->begin(e->base->params, &base);
        kvt_arena_rewind(view->scratch, 0);
    }
    if (e->policy->begin)
        e->policy->begin(e->use->params, view);
    kvt_arena_rewind(view->scratch, 0);
}

/* The first of them that is neither pinned nor finite, -1: none. */
static int64_t odd_score(const float *score, const bool *pinned, int64_t n)
{
    for (int64_t s = 0; s < n; s++)
        if (!pinned[s] && !isfinite(score[s]))
            return s;
    return -1;
}

static bool score_base(kvt_engine *e, engine_turn *t, bool windowed, int64_t *odd)
{
    int64_t n = t->view.n_slot;
    float *score = kvt_arena_array(e->layer[t->layer].work, n, sizeof *score);
    bool *pinned = kvt_arena_array(e->layer[t->layer].work, n, sizeof *pinned);
    if (!score || !pinned)
        return false;
    kvt_lane base = seen_by_base(e, &t->view, &t->base, windowed);
    e->base->policy->score(e->base->params, score, pinned, &base);
    kvt_arena_rewind(t->view.scratch, 0);
    *odd = odd_score(score, pinned, n);
    t->odd_base = *odd >= 0;
    t->odd_value = *odd >= 0 ? (double)score[*odd] : 0;
    t->view.base_score = score, t->view.base_pinned = pinned;
    return true;
}

bool stage_score(kvt_engine *e, engine_turn *t, bool windowed, int64_t *odd)
{
    *odd = -1;
    if (e->base && !score_base(e, t, windowed, odd))
        return false;
    if (*odd < 0 && e->policy->score) {
        if (e->base) {
            kvt_lane own = seen_by(e->use, &t->view, windowed);
            e->policy->score(e->use->params, t->score, t->pinned, &own);
        } else {
            e->policy->score(e->use->params, t->score, t->pinned, &t->view);
        }
        *odd = odd_score(t->score, t->pinned, t->view.n_slot);
        t->odd_value = *odd >= 0 ? (double)t->score[*odd] : 0;
    }
    t->view.base_score = NULL, t->view.base_pinned = NULL;
    kvt_arena_rewind(t->view.scratch, 0);
    return true;
}
