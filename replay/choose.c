/* choose.c - one decision: have the lanes of a scope scored, share the slots out, select.
 *
 * The budget, the protection of pinned slots and the tie rule are the engine's; a policy only
 * has an opinion. */
#include "replay/engine_priv.h"

#include <math.h>
#include <string.h>

#include "base/select.h"
#include "kvt/pieces.h"

/* ---- sharing out ---------------------------------------------------------------------------
 */

/* How many turns from `from` on belong to one group of a scope. */
static int group_size(const engine_turn *turn, int n, int from, kvt_scope scope)
{
    int to = from + 1;
    if (scope == KVT_BY_MODEL)
        return n - from;
    while (scope == KVT_BY_LAYER && to < n && turn[to].layer == turn[from].layer)
        to++;
    return to - from;
}

/* Working arrays of a decision over n lanes. */
typedef struct table {
    kvt_lane *lane;
    const float **score, **no_score; /* the latter NULL for every lane */
    const bool **pinned;
    bool **keep;
    int64_t *n_pinned, *share;
} table;

static bool make_table(table *t, kvt_arena *a, int n)
{
    t->lane = kvt_arena_array(a, n, sizeof *t->lane);
    t->score = kvt_arena_array(a, n, sizeof *t->score);
    t->no_score = kvt_arena_array(a, n, sizeof *t->no_score);
    t->pinned = kvt_arena_array(a, n, sizeof *t->pinned);
    t->keep = kvt_arena_array(a, n, sizeof *t->keep);
    t->n_pinned = kvt_arena_array(a, n, sizeof *t->n_pinned);
    t->share = kvt_arena_array(a, n, sizeof *t->share);
    return t->lane && t->score && t->no_score && t->pinned && t->keep && t->n_pinned &&
           t->share;
}

static void fill_table(table *t, const engine_turn *turn, int n, const int64_t *share)
{
    for (int i = 0; i < n; i++) {
        t->lane[i] = turn[i].view;
        t->lane[i].share_mark = turn[i].share_mark;
        t->lane[i].share_pinned = turn[i].pinned;
        t->score[i] = turn[i].score;
        t->pinned[i] = turn[i].pinned;
        t->keep[i] = turn[i].keep;
        t->n_pinned[i] = turn[i].n_pinned;
        t->share[i] = share ? share[i] : 0;
    }
}

/* Shares the slots of `m` lanes from `from` on out, and asks what another sharing out might
 * keep. */
static void share_group(kvt_engine *e, const table *t, int64_t *share, const engine_turn *turn,
                        int from, int m, int budget)
{
    const kvt_share *s = e->use->share;
    const void *params = e->use->share_params;
    int64_t total = e->budget[budget] * m;
    engine_layer *l = &e->layer[turn->layer];
    const float **none = t->no_score;
    const float *const *score = e->policy->score ? t->score + from : none;
    s->split(params, share, t->lane + from, m, score, t->n_pinned + from, total);
    kvt_arena_rewind(l->hook, 0);
    if (!s->gap)
        return;
    double gap = s->gap(params, share, t->lane + from, m, score, t->n_pinned + from, total);
    kvt_arena_rewind(l->hook, 0);
    if (isnan(gap))
        return;
    l->gap[budget].sum += gap;
    l->gap[budget].n++;
}

/* Slots of each lane, into share [n]. False: refused. */
static bool share_out(kvt_engine *e, const table *t, int64_t *share, const engine_turn *turn,
                      int n, int budget, const int *layer, int n_layer)
{
    const kvt_share *s = e->use->share;
    int64_t B = e->budget[budget];
    for (int i = 0; i < n; i++)
        share[i] = kvt_min(B, turn[i].view.n_slot);
    for (int from = 0, m; s && from < n; from += m) {
        m = group_size(turn, n, from, s->scope);
        share_group(e, t, share + from, &turn[from], from, m, budget);
    }
    for (int i = 0; i < n; i++) {
        if (e->traits.may_exceed && turn[i].n_pinned == turn[i].view.n_slot)
            share[i] = turn[i].view.n_slot; /* its rule leaves the lane whole */
        if (share[i] >= 1 && share[i] <= turn[i].view.n_slot && share[i] >= turn[i].n_pinned)
            continue;
        engine_refuse(
            e, budget, layer, n_layer, share[i] < 1 || share[i] > turn[i].view.n_slot,
            "allocator %s gives %lld of %lld slots to layer %d, lane %d, whose rule keeps %lld",
            s ? s->name : "even", (long long)share[i], (long long)turn[i].view.n_slot,
            turn[i].view.model_layer, turn[i].lane, (long long)turn[i].n_pinned);
        return false;
    }
    return true;
}

/* ---- selecting -----------------------------------------------------------------------------
 */

/* Whether none of `m` lanes has too many slots: an allocator may see more lanes together than
 * select() does. */
static bool all_fit(const table *t, const engine_turn *turn, int from, int m)
{
    for (int i = from; i < from + m; i++)
        if (turn[i].view.n_slot > t->share[i])
            return false;
    return true;
}

/* The best of a lane beside what is pinned. False: no memory. */
static bool select_lane(kvt_engine *e, engine_turn *turn, int64_t share)
{
    kvt_arena *hook = e->layer[turn->layer].hook;
    int64_t open = kvt_max(share - turn->n_pinned, 0);
    if (turn->order) {
        turn->n_kept = kvt_min(turn->n_pinned + open, turn->view.n_slot);
        return true;
    }
    int64_t kept =
        kvt_keep_best(turn->keep, turn->score, turn->pinned, turn->view.n_slot, open, hook);
    kvt_arena_rewind(hook, 0);
    return kept >= 0;
}

static bool select_group(kvt_engine *e, const table *t, engine_turn *turn, int n)
{
    for (int from = 0, m; e->policy->select && from < n; from += m) {
        m = group_size(turn, n, from, e->score_scope);
        if (all_fit(t, turn, from, m)) {
            for (int i = from; i < from + m; i++)
                memset(turn[i].keep, 1, (size_t)turn[i].view.n_slot);
            continue;
        }
        e->policy->select(e->use->params, t->keep + from, t->lane + from, m, t->score + from,
                          t->pinned + from, t->share + from);
        kvt_arena_rewind(e->layer[turn[from].layer].hook, 0);
    }
    for (int i = 0; !e->policy->select && i < n; i++)
        if (!select_lane(e, &turn[i], t->share[i]))
            return false;
    return true;
}

/* At most the sum of the shares, unless the policy says that its arithmetic may exceed it. */
static bool counts_hold(kvt_engine *e, const engine_turn *turn, const int64_t *share, int n,
                        int budget, const int *layer, int n_layer)
{
    int64_t kept = 0, may = 0;
    for (int i = 0; i < n; i++) {
        may += share[i];
        kept += turn_kept(&turn[i]);
    }
    if (kept <= may || e->traits.may_exceed)
        return true;
    engine_refuse(e, budget, layer, n_layer, true,
                  "selects %lld slots of %d lanes, expected at most %lld", (long long)kept, n,
                  (long long)may);
    return false;
}

/* ---- decisions -----------------------------------------------------------------------------
 */

static void keep_all(kvt_engine *e, int budget, engine_turn *turn, int n)
{
    for (int i = 0; i < n; i++) {
        turn[i].n_kept = turn[i].view.n_slot;
        if (!turn[i].order)
            memset(turn[i].keep, 1, (size_t)turn[i].view.n_slot);
        engine_count_at(e, budget, turn[i].layer, turn[i].lane)->budget = e->budget[budget];
    }
}

/* Everything that is pinned or reaches the threshold: budgets and shares do not count. */
static void keep_at_least(kvt_engine *e, int budget, const engine_turn *turn, int n)
{
    for (int i = 0; i < n; i++) {
        double threshold = turn[i].view.threshold;
        for (int64_t s = 0; s < turn[i].view.n_slot; s++)
            turn[i].keep[s] = turn[i].pinned[s] || (double)turn[i].score[s] >= threshold;
        engine_count_at(e, budget, turn[i].layer, turn[i].lane)->budget = e->budget[budget];
    }
}

/* Whether the budget says anything: not where a threshold of the policy's own or of the user's
 * decides, nor while scores are collected to find one. */
static bool is_asked(const kvt_engine *e, const engine_turn *turn)
{
    return !e->traits.by_threshold || !(e->traits.own_threshold || e->use->own.threshold[0] ||
                                        isnan(turn->view.threshold));
}

/* Sets keep of a group that is scored. False: refused, or no memory (err is written then). */
static kvt_code keep_some(kvt_engine *e, engine_turn *turn, int n, int budget, const int *layer,
                          int n_layer, kvt_err *err)
{
    kvt_arena *work = e->layer[turn[0].layer].work;
    int64_t B = e->budget[budget];
    table t;
    for (int i = 0; i < n; i++) {
        if (turn[i].n_pinned > B && !e->traits.may_exceed && is_asked(e, &turn[i])) {
            engine_refuse(
                e, budget, layer, n_layer, false,
                "its rule keeps %lld tokens, which need a budget of %lld or more, got %lld",
                (long long)turn[i].n_pinned, (long long)turn[i].n_pinned, (long long)B);
            return KVT_OK;
        }
    }
    if (e->traits.by_threshold) {
        keep_at_least(e, budget, turn, n);
        return KVT_OK;
    }
    int64_t *share = kvt_arena_array(work, n, sizeof *share);
    if (!share || !make_table(&t, work, n))
        return kvt_fail_memory(err, n * (int64_t)sizeof *t.lane);
    bool given = true; /* an allocator shares out once, when a lane first grows too long */
    for (int i = 0; i < n; i++) {
        share[i] = engine_count_at(e, budget, turn[i].layer, turn[i].lane)->budget;
        given &= share[i] > 0;
    }
    fill_table(&t, turn, n, NULL);
    if (!given && !share_out(e, &t, share, turn, n, budget, layer, n_layer))
        return KVT_OK;
    for (int i = 0; i < n; i++)
        t.share[i] = share[i];
    if (!select_group(e, &t, turn, n))
        return kvt_fail_memory(err, turn[0].view.n_slot);
    if (!counts_hold(e, turn, share, n, budget, layer, n_layer))
        return KVT_OK;
    for (int i = 0; i < n; i++)
        engine_count_at(e, budget, turn[i].layer, turn[i].lane)->budget = share[i];
    return KVT_OK;
}

/* What a lane holds and protects after the decision at the prompt's end. */
static void count_prompt(kvt_engine *e, int budget, const engine_turn *turn, int n)
{
    for (int i = 0; i < n; i++) {
        kvt_engine_count *c = engine_count_at(e, budget, turn[i].layer, turn[i].lane);
        c->kept = turn_kept(&turn[i]);
        c->pinned = turn[i].n_pinned;
    }
}

static bool exceeds(const kvt_engine *e, int budget, const engine_turn *turn, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t given = engine_count_at(e, budget, turn[i].layer, turn[i].lane)->budget;
        if (turn[i].view.n_slot > (given > 0 ? given : e->budget[budget]))
            return true;
    }
    return false;
}

static void rewind_work(kvt_engine *e, const int *layer, int n_layer)
{
    for (int i = 0; i < n_layer; i++)
        kvt_arena_rewind(e->layer[layer[i]].work, 0);
}

/* One cut of a ranking. */
static kvt_code cut(kvt_engine *e, engine_turn *turn, int n, int budget, const int *layer,
                    int n_layer, kvt_err *err)
{
    if (engine_is_refused(e, budget, layer, n_layer))
        return KVT_OK;
    for (int i = 0; i < n; i++)
        if (!turn[i].order)
            memset(turn[i].keep, 0, (size_t)turn[i].view.n_slot * sizeof *turn[i].keep);
    if (!exceeds(e, budget, turn, n))
        keep_all(e, budget, turn, n);
    else if (keep_some(e, turn, n, budget, layer, n_layer, err))
        return err->code;
    if (engine_is_refused(e, budget, layer, n_layer))
        return KVT_OK;
    count_prompt(e, budget, turn, n);
    for (int i = 0; i < n; i++)
        turn_evict(e, budget, &turn[i]);
    return KVT_OK;
}

/* Whether a budget keeps the first of a ranking, as many as its share: then lanes are ordered
 * once, and not selected from anew. */
static bool cuts_order(const kvt_engine *e)
{
    return e->policy->score && !e->policy->select && !e->traits.by_threshold;
}

kvt_code engine_rank(kvt_engine *e, const int *layer, int n_layer, kvt_err *err)
{
    int n = n_layer * e->n_lane;
    kvt_code code = KVT_OK;
    engine_turn *turn = turn_new(e, layer, n_layer, e->layer[layer[0]].work);
    if (!turn)
        return kvt_fail_memory(err, n * (int64_t)sizeof *turn);
    bool early = engine_scores_early(e);
    for (int i = 0; !code && i < n; i++)
        code = early ? turn_scored(e, &turn[i], -1, err) : turn_start(e, &turn[i], -1, err);
    if (!code && !turn_keep(e, turn, n))
        code = kvt_fail_memory(err, n * e->n_prompt);
    if (!code && (early || engine_score(e, turn, n, -1, layer, n_layer))) {
        for (int i = 0; !early && i < n_layer; i++)
            e->layer[layer[i]].ranked[0] = e->policy->score != NULL;
        if (cuts_order(e) && !turn_order(e, turn, n))
            code = kvt_fail_memory(err, n * e->n_prompt * (int64_t)sizeof(int32_t));
        for (int b = 0; !code && b < e->n_budget; b++)
            code = cut(e, turn, n, b, layer, n_layer, err);
    }
    rewind_work(e, layer, n_layer);
    return code;
}

/* One group of a scope at one budget. */
static kvt_code choose_group(kvt_engine *e, engine_turn *turn, int n, int budget,
                             const int *layer, int n_layer, kvt_err *err)
{
    bool prompt = e->layer[layer[0]].n_arrived == e->n_prompt, once = !e->layer[layer[0]].lane;
    bool early = prompt && once && engine_scores_early(e);
    for (int i = 0; i < n; i++) {
        int64_t n_slot =
            once ? e->n_prompt : engine_lane_at(e, budget, turn[i].layer, turn[i].lane)->n_slot;
        turn[i].view.n_slot = n_slot;
    }
    if (!turn_keep(e, turn, n))
        return kvt_fail_memory(err, n * e->n_token);
    bool act = e->traits.by_threshold || exceeds(e, budget, turn, n);
    if (!act) {
        for (int i = 0; prompt && i < n; i++) {
            memset(turn[i].keep, 1, (size_t)turn[i].view.n_slot);
            turn[i].n_pinned = 0;
        }
    }
    for (int i = 0; act && i < n; i++) {
        bool *keep = turn[i].keep;
        if (early  ? turn_scored(e, &turn[i], budget, err)
            : once ? turn_start(e, &turn[i], budget, err)
                   : turn_resume(e, &turn[i], budget, err))
            return err->code;
        turn[i].keep = keep;
    }
    if (act && ((!early && !engine_score(e, turn, n, budget, layer, n_layer)) ||
                keep_some(e, turn, n, budget, layer, n_layer, err)))
        return engine_is_refused(e, budget, layer, n_layer) ? KVT_OK : err->code;
    if (engine_is_refused(e, budget, layer, n_layer))
        return KVT_OK;
    if (prompt) {
        count_prompt(e, budget, turn, n);
        for (int i = 0; act && !early && e->policy->score && i < n_layer; i++)
            e->layer[layer[i]].ranked[budget] = true;
    }
    for (int i = 0; (act || (prompt && once)) && i < n; i++)
        turn_evict(e, budget, &turn[i]);
    return KVT_OK;
}

kvt_code engine_choose(kvt_engine *e, int budget, const int *layer, int n_layer, kvt_err *err)
{
    int n = n_layer * e->n_lane;
    kvt_code code = KVT_OK;
    engine_turn *turn = turn_new(e, layer, n_layer, e->layer[layer[0]].work);
    if (!turn)
        return kvt_fail_memory(err, n * (int64_t)sizeof *turn);
    for (int from = 0, m; !code && from < n && !engine_is_refused(e, budget, layer, n_layer);
         from += m) {
        m = group_size(turn, n, from, e->traits.scope);
        code = choose_group(e, turn + from, m, budget, layer, n_layer, err);
    }
    rewind_work(e, layer, n_layer);
    return code;
}

/* ---- skipping ------------------------------------------------------------------------------
 */

/* Writes the slots that the row sees, and those that are always there, into the lane. */
static void see(engine_lane *lane, const bool *keep, int64_t n, int64_t n_arrived)
{
    lane->n_slot = 0;
    for (int64_t s = 0; s < n; s++)
        if (!keep || keep[s])
            lane->pos[lane->n_slot++] = s;
    for (int64_t t = n; t < n_arrived; t++)
        lane->pos[lane->n_slot++] = t;
}

/* The best B of the first n slots for a row that policy has been shown. */
static kvt_code see_best(kvt_engine *e, engine_turn *t, int budget, int64_t B, kvt_err *err)
{
    engine_layer *l = &e->layer[t->layer];
    engine_lane *at = engine_lane_at(e, budget, t->layer, t->lane);
    int64_t n = t->view.n_slot;
    table one;
    t->score = kvt_arena_array(l->work, n, sizeof *t->score);
    t->pinned = kvt_arena_array(l->work, n, sizeof *t->pinned);
    t->keep = kvt_arena_array(l->work, n, sizeof *t->keep);
    if (!t->score || !t->pinned || !t->keep || !make_table(&one, l->work, 1))
        return kvt_fail_memory(err, n * (int64_t)sizeof *t->score);
    if (!engine_score(e, t, 1, budget, &t->layer, 1))
        return KVT_OK;
    fill_table(&one, t, 1, &B);
    if (!select_group(e, &one, t, 1))
        return kvt_fail_memory(err, n);
    if (counts_hold(e, t, &B, 1, budget, &t->layer, 1))
        see(at, t->keep, n, l->n_arrived);
    return KVT_OK;
}

/* On top: the best B of the prompt and all that was generated; inside: the best B + K of all,
 * which is what a row of an evicting policy sees at most. */
static int64_t skip_budget(const kvt_engine *e, int budget)
{
    return e->budget[budget] + (e->decode ? e->every : 0);
}

kvt_code engine_skip_begin(kvt_engine *e, int budget, int layer, int lane, kvt_err *err)
{
    engine_layer *l = &e->layer[layer];
    engine_lane *at = engine_lane_at(e, budget, layer, lane);
    kvt_lane view;
    if (engine_fill(e, &view, budget, layer, lane, e->identity, e->n_prompt, err))
        return err->code;
    view.mark = at->mark, view.state = at->state, view.rng = at->rng;
    view.budget = skip_budget(e, budget);
    stage_begin(e, &view, &at->base);
    at->begun = true;
    kvt_arena_rewind(l->work, 0);
    return KVT_OK;
}

kvt_code engine_skip(kvt_engine *e, int budget, int layer, int lane, kvt_err *err)
{
    engine_layer *l = &e->layer[layer];
    engine_lane *at = engine_lane_at(e, budget, layer, lane);
    kvt_engine_count *c = engine_count_at(e, budget, layer, lane);
    int64_t n = e->decode ? l->n_arrived : e->n_prompt, B = skip_budget(e, budget);
    engine_turn t = {.layer = layer, .lane = lane};
    c->budget = e->budget[budget];
    if (engine_fill(e, &t.view, budget, layer, lane, e->identity, n, err))
        return err->code;
    t.view.mark = at->mark, t.view.state = at->state, t.view.rng = at->rng;
    t.view.budget = B;
    t.base = at->base;
    if (stage_learns(e))
        stage_step(e, &t.view, &t.base, false);
    kvt_arena_rewind(l->hook, 0);
    kvt_code code = KVT_OK;
    if (n <= B)
        see(at, NULL, n, l->n_arrived);
    else
        code = see_best(e, &t, budget, B, err);
    c->most = kvt_max(c->most, at->n_slot);
    kvt_arena_rewind(l->work, 0);
    return code;
}
