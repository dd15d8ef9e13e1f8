/* score.c - what the lanes of a decision score, and why a budget is refused.
 *
 * A rule that is impossible at a budget refuses that budget and no other; so does a score that
 * is not finite, as a failure that names the policy.
 *
 * Lanes that compete over the whole model are scored as soon as their layer's prompt is there,
 * and only scores and what is pinned are kept: layers are read one at a time, and what was fed
 * is gone when the last one has come. */
#include "replay/engine_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvt/pieces.h"

void engine_refuse(kvt_engine *e, int budget, const int *layer, int n_layer, bool failed,
                   const char *fmt, ...)
{
    char text[KVT_REFUSAL_MAX];
    int n = snprintf(text, sizeof text, "policy %s: ", e->use->name);
    va_list args;
    va_start(args, fmt);
    if (n > 0 && (size_t)n < sizeof text)
        vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    for (int i = 0; i < n_layer; i++) {
        engine_layer *l = &e->layer[layer[i]];
        if (!l->refusal[budget][0]) {
            memcpy(l->refusal[budget], text, sizeof text);
            l->failed[budget] = failed;
        }
    }
}

bool engine_is_refused(const kvt_engine *e, int budget, const int *layer, int n_layer)
{
    for (int i = 0; i < n_layer; i++)
        if (e->layer[layer[i]].refusal[budget][0])
            return true;
    return false;
}

/* What can be said before anything is scored. */
void engine_check_fit(kvt_engine *e, int budget, const int *layer, int n_layer)
{
    char why[KVT_REFUSAL_MAX] = "";
    int64_t B = e->budget[budget], n = e->n_prompt, all = e->decode ? e->n_token : n;
    if (B < 1)
        engine_refuse(e, budget, layer, n_layer, false, "the budget rule gives no slot at all");
    else if (e->policy->fits && !e->policy->fits(e->use->params, B, all, why, sizeof why))
        engine_refuse(e, budget, layer, n_layer, false, "%s", why);
    else if (e->base && e->base->policy->fits &&
             !e->base->policy->fits(e->base->params, B, all, why, sizeof why))
        engine_refuse(e, budget, layer, n_layer, false, "base %s: %s", e->base->policy->name,
                      why);
    /* C005: nothing lies before an observation window that is as long as the prompt; the
     * queries of a whole layer are no such window. */
    bool window = stage_has_window(e) && !(e->traits.needs & KVT_NEED_LAYER);
    bool recent = window && kvt_use_window(e->use, n) >= n && B < n && n > 1;
    for (int i = 0; i < n_layer; i++)
        e->layer[layer[i]].recent[budget] = recent;
}

/* ---- one lane ------------------------------------------------------------------------------
 */

static void note_draw(kvt_engine *e, const engine_turn *t, const uint64_t *before)
{
    if (memcmp(before, t->view.rng, KVT_RNG_WORDS * sizeof *before) != 0)
        e->layer[t->layer].drew = true;
}

/* Calls score() and counts what is pinned. False: a score is not finite (`at` says whose), or
 * there is no memory (-1). */
static bool score_lane(kvt_engine *e, engine_turn *t, int64_t *at)
{
    engine_layer *l = &e->layer[t->layer];
    int64_t n = t->view.n_slot;
    uint64_t before[KVT_RNG_WORDS];
    memcpy(before, t->view.rng, sizeof before);
    bool prompt = l->n_arrived == e->n_prompt, windowed = prompt || e->use->again;
    bool scored = stage_score(e, t, windowed, at);
    note_draw(e, t, before);
    if (!scored || *at >= 0)
        return false;
    t->n_pinned = 0;
    for (int64_t s = 0; s < n; s++)
        t->n_pinned += t->pinned[s];
    bool all = t->n_pinned == n && stage_has_window(e) && (l->step == 0 || e->use->again);
    int64_t seen = l->step == 0 ? e->n_prompt : l->n_arrived;
    if (all && kvt_use_window(e->use, seen) >= n) {
        /* C005: a window that pins all there is says nothing of it; the latest are kept. */
        for (int64_t s = 0; s < n; s++)
            t->score[s] = (float)s, t->pinned[s] = false;
        t->n_pinned = 0;
    }
    return true;
}

/* Before a lane's slots are shared out for the first time the allocator looks at it. */
static void learn_share(kvt_engine *e, const engine_turn *t, int budget)
{
    engine_layer *l = &e->layer[t->layer];
    bool given = budget >= 0 && l->n_arrived > e->n_prompt &&
                 engine_count_at(e, budget, t->layer, t->lane)->budget > 0;
    if (!e->learner || given)
        return;
    memset(t->share_mark, 0,
           (size_t)(t->view.n_slot * e->learner->mark_width) * sizeof *t->share_mark);
    e->learner->learn(e->use->share_params, t->share_mark, &t->view,
                      e->policy->score ? t->score : NULL, t->pinned);
    kvt_arena_rewind(l->hook, 0);
}

static void refuse_score(kvt_engine *e, int budget, const int *layer, int n_layer,
                         const engine_turn *t, int64_t at)
{
    char whose[96] = "";
    double odd = isnan(t->odd_value) ? (double)NAN : t->odd_value; /* its sign says nothing */
    if (at < 0) {
        engine_refuse(e, budget, layer, n_layer, true, "out of memory while it scores");
        return;
    }
    if (t->odd_base)
        snprintf(whose, sizeof whose, "base %s: ", e->base->policy->name);
    engine_refuse(e, budget, layer, n_layer, true,
                  "%sscore of token %lld is %g (layer %d, lane %d), expected a finite number",
                  whose, (long long)t->view.pos[at], odd, t->view.model_layer, t->lane);
}

bool engine_score(kvt_engine *e, engine_turn *turn, int n, int budget, const int *layer,
                  int n_layer)
{
    for (int i = 0; i < n; i++) {
        int64_t at = 0;
        if (score_lane(e, &turn[i], &at)) {
            learn_share(e, &turn[i], budget);
            continue;
        }
        for (int b = 0; b < e->n_budget; b++)
            if (budget < 0 || b == budget)
                refuse_score(e, b, layer, n_layer, &turn[i], at);
        return false;
    }
    return true;
}

/* ---- over the whole model ------------------------------------------------------------------
 */

bool engine_scores_early(const kvt_engine *e)
{
    return e->traits.scope == KVT_BY_MODEL && !e->decode && e->traits.effect != KVT_SKIP;
}

/* What score() left in mark, state and stream is what select() sees: of one ranking only, for
 * budgets do not share them. */
static void put_back(kvt_engine *e, const engine_turn *t)
{
    engine_layer *l = &e->layer[t->layer];
    int64_t n = e->n_prompt * e->slot_width;
    memcpy(l->mark + t->lane * n, t->view.mark, (size_t)n * sizeof *l->mark);
    memcpy((char *)l->state + (size_t)t->lane * (e->state_size + 1), t->view.state,
           e->state_size);
    memcpy(l->rng + t->lane * KVT_RNG_WORDS, t->view.rng, KVT_RNG_WORDS * sizeof *l->rng);
}

/* The lanes of a layer, at one budget or (-1) for all. */
static kvt_code score_layer(kvt_engine *e, int layer, int budget, kvt_err *err)
{
    engine_layer *l = &e->layer[layer];
    size_t mark = kvt_arena_mark(l->work);
    bool good = true;
    for (int a = 0; good && a < e->n_lane; a++) {
        engine_turn t = {.layer = layer, .lane = a};
        if (turn_start(e, &t, budget, err))
            return err->code;
        good = engine_score(e, &t, 1, budget, &layer, 1);
        if (budget < 0)
            put_back(e, &t);
        kvt_arena_rewind(l->work, mark);
    }
    l->ranked[budget < 0 ? 0 : budget] = good && e->policy->score;
    return KVT_OK;
}

kvt_code engine_score_early(kvt_engine *e, int layer, kvt_err *err)
{
    kvt_code code = e->ranking ? score_layer(e, layer, -1, err) : KVT_OK;
    for (int b = 0; !e->ranking && !code && b < e->n_budget; b++) {
        engine_check_fit(e, b, &layer, 1);
        bool acts = e->traits.by_threshold || e->n_prompt > e->budget[b];
        if (acts && !engine_is_refused(e, b, &layer, 1))
            code = score_layer(e, layer, b, err);
    }
    return code;
}
