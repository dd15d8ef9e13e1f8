/* choose.c - one decision: score the lanes of a scope, share the slots out, select, refuse.
 *
 * The budget, the protection of pinned slots and the tie rule are the engine's; a policy only
 * has an opinion. A rule that is impossible at a budget refuses that budget and no other; so
 * does a score that is not finite, as a failure that names the policy. */
#include "replay/engine_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/select.h"
#include "kvt/pieces.h"

static void refuse(kvt_engine *e, int budget, const int *layer, int n_layer, bool failed,
                   const char *fmt, ...) KVT_PRINTF(6, 7);
static void refuse(kvt_engine *e, int budget, const int *layer, int n_layer, bool failed,
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

static bool is_refused(const kvt_engine *e, int budget, const int *layer, int n_layer)
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
    int64_t B = e->budget[budget], n = e->n_prompt;
    if (B < 1)
        refuse(e, budget, layer, n_layer, false, "the budget rule gives no slot at all");
    else if (e->policy->fits && !e->policy->fits(e->use->params, B, n, why, sizeof why))
        refuse(e, budget, layer, n_layer, false, "%s", why);
    /* C005: nothing lies before an observation window that is as long as the prompt. */
    bool recent = e->policy->window && kvt_use_window(e->use, n) >= n && B < n && n > 1;
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

/* Calls score() and counts what is pinned. False: a score is not finite (`at` says whose). */
static bool score_lane(kvt_engine *e, engine_turn *t, int64_t *at)
{
    engine_layer *l = &e->layer[t->layer];
    int64_t n = t->view.n_slot;
    uint64_t before[KVT_RNG_WORDS];
    memcpy(before, t->view.rng, sizeof before);
    if (e->policy->score)
        e->policy->score(e->use->params, t->score, t->pinned, &t->view);
    kvt_arena_rewind(l->hook, 0);
    note_draw(e, t, before);
    t->n_pinned = 0;
    for (int64_t s = 0; s < n; s++)
        t->n_pinned += t->pinned[s];
    for (int64_t s = 0; s < n; s++) {
        if (!t->pinned[s] && !isfinite(t->score[s])) {
            *at = s;
            return false;
        }
    }
    bool all = t->n_pinned == n && e->policy->window && l->step == 0;
    if (all && kvt_use_window(e->use, e->n_prompt) >= e->n_prompt) {
        /* C005: a window that pins the whole prompt says nothing of it; the latest are kept. */
        for (int64_t s = 0; s < n; s++)
            t->score[s] = (float)s, t->pinned[s] = false;
        t->n_pinned = 0;
    }
    return true;
}

/* Scores a group; false where it is refused with that. */
static bool score_group(kvt_engine *e, engine_turn *turn, int n, int budget, const int *layer,
                        int n_layer)
{
    for (int i = 0; i < n; i++) {
        int64_t at = 0;
        if (score_lane(e, &turn[i], &at))
            continue;
        for (int b = 0; b < e->n_budget; b++)
            if (budget < 0 || b == budget)
                refuse(
                    e, b, layer, n_layer, true,
                    "score of token %lld is %g (layer %d, lane %d), expected a finite number",
                    (long long)turn[i].view.pos[at], (double)turn[i].score[at],
                    turn[i].view.model_layer, turn[i].lane);
        return false;
    }
    return true;
}

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
    const float **score;
    const bool **pinned;
    bool **keep;
    int64_t *n_pinned, *share;
} table;

static bool make_table(table *t, kvt_arena *a, int n)
{
    t->lane = kvt_arena_array(a, n, sizeof *t->lane);
    t->score = kvt_arena_array(a, n, sizeof *t->score);
    t->pinned = kvt_arena_array(a, n, sizeof *t->pinned);
    t->keep = kvt_arena_array(a, n, sizeof *t->keep);
    t->n_pinned = kvt_arena_array(a, n, sizeof *t->n_pinned);
    t->share = kvt_arena_array(a, n, sizeof *t->share);
    return t->lane && t->score && t->pinned && t->keep && t->n_pinned && t->share;
}

static void fill_table(table *t, const engine_turn *turn, int n, const int64_t *share)
{
    for (int i = 0; i < n; i++) {
        t->lane[i] = turn[i].view;
        t->score[i] = turn[i].score;
        t->pinned[i] = turn[i].pinned;
        t->keep[i] = turn[i].keep;
        t->n_pinned[i] = turn[i].n_pinned;
        t->share[i] = share ? share[i] : 0;
    }
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
        s->split(e->use->share_params, share + from, t->lane + from, m, t->score + from,
                 t->n_pinned + from, B * m);
        kvt_arena_rewind(e->layer[turn[from].layer].hook, 0);
    }
    for (int i = 0; i < n; i++) {
        if (share[i] >= 1 && share[i] <= turn[i].view.n_slot && share[i] >= turn[i].n_pinned)
            continue;
        refuse(
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

static bool select_group(kvt_engine *e, const table *t, const engine_turn *turn, int n)
{
    for (int from = 0, m; e->policy->select && from < n; from += m) {
        m = group_size(turn, n, from, e->score_scope);
        e->policy->select(e->use->params, t->keep + from, t->lane + from, m, t->score + from,
                          t->pinned + from, t->share + from);
        kvt_arena_rewind(e->layer[turn[from].layer].hook, 0);
    }
    for (int i = 0; !e->policy->select && i < n; i++) {
        kvt_arena *hook = e->layer[turn[i].layer].hook;
        int64_t open = t->share[i] - turn[i].n_pinned;
        int64_t kept = kvt_keep_best(turn[i].keep, turn[i].score, turn[i].pinned,
                                     turn[i].view.n_slot, open, hook);
        kvt_arena_rewind(hook, 0);
        if (kept < 0)
            return false;
    }
    return true;
}

/* At most the sum of the shares, unless the policy says that its arithmetic may exceed it. */
static bool counts_hold(kvt_engine *e, const engine_turn *turn, const int64_t *share, int n,
                        int budget, const int *layer, int n_layer)
{
    int64_t kept = 0, may = 0;
    for (int i = 0; i < n; i++) {
        may += share[i];
        for (int64_t s = 0; s < turn[i].view.n_slot; s++)
            kept += turn[i].keep[s];
    }
    if (kept <= may || e->traits.may_exceed)
        return true;
    refuse(e, budget, layer, n_layer, true,
           "selects %lld slots of %d lanes, expected at most %lld", (long long)kept, n,
           (long long)may);
    return false;
}

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
    size_t mark = kvt_arena_mark(l->work);
    int32_t *order = kvt_arena_array(l->work, n, sizeof *order);
    if (!order || !order_lane(order, l->score + lane * n, l->pinned + lane * n, n, l->work))
        return kvt_fail_memory(err, n * (int64_t)sizeof *order);
    for (int64_t i = 0; i < n; i++)
        rank[order[i]] = (int32_t)i;
    kvt_arena_rewind(l->work, mark);
    return KVT_OK;
}

/* ---- turns ---------------------------------------------------------------------------------
 */

/* A lane at the end of the prompt, with marks of its own where a budget has them. */
static kvt_code start_turn(kvt_engine *e, engine_turn *t, int budget, kvt_err *err)
{
    engine_layer *l = &e->layer[t->layer];
    int64_t n = e->n_prompt, width = e->slot_width;
    if (engine_fill(e, &t->view, t->layer, t->lane, e->identity, n, err))
        return err->code;
    float *mark = kvt_arena_array(l->work, n * width + 1, sizeof *mark);
    char *state = kvt_arena_get(l->work, e->state_size + 1);
    uint64_t *rng = kvt_arena_array(l->work, KVT_RNG_WORDS, sizeof *rng);
    if (!mark || !state || !rng)
        return kvt_fail_memory(err, n * width * (int64_t)sizeof *mark);
    memcpy(mark, l->mark + t->lane * n * width, (size_t)(n * width) * sizeof *mark);
    memcpy(state, (char *)l->state + (size_t)t->lane * (e->state_size + 1), e->state_size);
    memcpy(rng, l->rng + t->lane * KVT_RNG_WORDS, KVT_RNG_WORDS * sizeof *rng);
    t->view.mark = mark, t->view.state = state, t->view.rng = rng;
    t->view.budget = budget < 0 ? 0 : e->budget[budget];
    t->score = l->score + engine_score_at(e, budget, t->lane);
    t->pinned = l->pinned + engine_score_at(e, budget, t->lane);
    memset(t->score, 0, (size_t)n * sizeof *t->score);
    memset(t->pinned, 0, (size_t)n * sizeof *t->pinned);
    if (e->policy->begin)
        e->policy->begin(e->use->params, &t->view);
    kvt_arena_rewind(l->hook, 0);
    return KVT_OK;
}

/* A lane in the middle of its life. */
static kvt_code resume_turn(kvt_engine *e, engine_turn *t, int budget, kvt_err *err)
{
    engine_layer *l = &e->layer[t->layer];
    engine_lane *lane = engine_lane_at(e, budget, t->layer, t->lane);
    kvt_view rows = l->feed.rows;
    bool prompt = l->n_arrived == e->n_prompt;
    if (!prompt) /* gathered when the row attended */
        l->feed.rows.data = NULL;
    kvt_code code = engine_fill(e, &t->view, t->layer, t->lane, lane->pos, lane->n_slot, err);
    l->feed.rows = rows;
    if (code)
        return code;
    if (!prompt && lane->row && !e->traits.drop_first)
        t->view.attn =
            kvt_view_of(lane->row, KVT_F32, KVT_SHAPE("HQS", e->n_head, 1, lane->n_slot));
    t->view.mark = lane->mark, t->view.state = lane->state, t->view.rng = lane->rng;
    t->view.budget = e->budget[budget];
    t->score = prompt ? l->score + engine_score_at(e, budget, t->lane)
                      : kvt_arena_array(l->work, lane->n_slot, sizeof *t->score);
    t->pinned = prompt ? l->pinned + engine_score_at(e, budget, t->lane)
                       : kvt_arena_array(l->work, lane->n_slot, sizeof *t->pinned);
    if (!t->score || !t->pinned)
        return kvt_fail_memory(err, lane->n_slot * (int64_t)sizeof *t->score);
    if (prompt) {
        memset(t->score, 0, (size_t)lane->n_slot * sizeof *t->score);
        memset(t->pinned, 0, (size_t)lane->n_slot * sizeof *t->pinned);
    }
    if (!lane->begun && e->policy->begin)
        e->policy->begin(e->use->params, &t->view);
    lane->begun = true;
    kvt_arena_rewind(l->hook, 0);
    return KVT_OK;
}

static engine_turn *make_turns(kvt_engine *e, const int *layer, int n_layer, kvt_arena *work)
{
    engine_turn *turn = kvt_arena_array(work, (int64_t)n_layer * e->n_lane, sizeof *turn);
    for (int i = 0; turn && i < n_layer * e->n_lane; i++)
        turn[i].layer = layer[i / e->n_lane], turn[i].lane = i % e->n_lane;
    return turn;
}

static bool make_keep(kvt_engine *e, engine_turn *turn, int n)
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
static void evict(kvt_engine *e, int budget, const engine_turn *t)
{
    const engine_layer *l = &e->layer[t->layer];
    kvt_engine_count *n = engine_count_at(e, budget, t->layer, t->lane);
    int64_t kept = 0, gone = 0, n_slot = t->view.n_slot;
    if (!l->lane) {
        uint64_t *mask = l->kept + t->lane * e->n_prompt;
        for (int64_t s = 0; s < n_slot; s++) {
            mask[s] |= (uint64_t)t->keep[s] << budget;
            kept += t->keep[s];
        }
        gone = n_slot - kept;
    } else {
        engine_lane *lane = engine_lane_at(e, budget, t->layer, t->lane);
        size_t width = (size_t)e->slot_width;
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
            }
            kept++;
        }
        gone = n_slot - kept;
        lane->n_slot = kept;
    }
    n->acted += gone > 0;
    *(l->n_arrived == e->n_prompt ? &n->evicted_prefill : &n->evicted_decode) += gone;
}

/* ---- decisions -----------------------------------------------------------------------------
 */

static void keep_all(kvt_engine *e, int budget, const engine_turn *turn, int n)
{
    for (int i = 0; i < n; i++) {
        for (int64_t s = 0; s < turn[i].view.n_slot; s++)
            turn[i].keep[s] = true;
        engine_count_at(e, budget, turn[i].layer, turn[i].lane)->budget = e->budget[budget];
    }
}

/* Sets keep of a group that is scored. False: refused, or no memory (err is written then). */
static kvt_code keep_some(kvt_engine *e, engine_turn *turn, int n, int budget, const int *layer,
                          int n_layer, kvt_err *err)
{
    kvt_arena *work = e->layer[turn[0].layer].work;
    int64_t B = e->budget[budget];
    table t;
    for (int i = 0; i < n; i++) {
        if (turn[i].n_pinned > B && !e->traits.may_exceed) {
            refuse(e, budget, layer, n_layer, false,
                   "its rule keeps %lld tokens, which need a budget of %lld or more, got %lld",
                   (long long)turn[i].n_pinned, (long long)turn[i].n_pinned, (long long)B);
            return KVT_OK;
        }
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
        c->kept = 0;
        for (int64_t s = 0; s < turn[i].view.n_slot; s++)
            c->kept += turn[i].keep[s];
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
    if (is_refused(e, budget, layer, n_layer))
        return KVT_OK;
    for (int i = 0; i < n; i++)
        memset(turn[i].keep, 0, (size_t)turn[i].view.n_slot * sizeof *turn[i].keep);
    if (!exceeds(e, budget, turn, n))
        keep_all(e, budget, turn, n);
    else if (keep_some(e, turn, n, budget, layer, n_layer, err))
        return err->code;
    if (is_refused(e, budget, layer, n_layer))
        return KVT_OK;
    count_prompt(e, budget, turn, n);
    for (int i = 0; i < n; i++)
        evict(e, budget, &turn[i]);
    return KVT_OK;
}

kvt_code engine_rank(kvt_engine *e, const int *layer, int n_layer, kvt_err *err)
{
    int n = n_layer * e->n_lane;
    kvt_code code = KVT_OK;
    engine_turn *turn = make_turns(e, layer, n_layer, e->layer[layer[0]].work);
    if (!turn)
        return kvt_fail_memory(err, n * (int64_t)sizeof *turn);
    for (int i = 0; !code && i < n; i++)
        code = start_turn(e, &turn[i], -1, err);
    if (!code && !make_keep(e, turn, n))
        code = kvt_fail_memory(err, n * e->n_prompt);
    if (!code && score_group(e, turn, n, -1, layer, n_layer)) {
        for (int i = 0; i < n_layer; i++)
            e->layer[layer[i]].ranked[0] = e->policy->score != NULL;
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
    for (int i = 0; i < n; i++) {
        int64_t n_slot =
            once ? e->n_prompt : engine_lane_at(e, budget, turn[i].layer, turn[i].lane)->n_slot;
        turn[i].view.n_slot = n_slot;
    }
    if (!make_keep(e, turn, n))
        return kvt_fail_memory(err, n * e->n_token);
    bool act = exceeds(e, budget, turn, n);
    if (!act) {
        for (int i = 0; prompt && i < n; i++) {
            memset(turn[i].keep, 1, (size_t)turn[i].view.n_slot);
            turn[i].n_pinned = 0;
        }
    }
    for (int i = 0; act && i < n; i++) {
        bool *keep = turn[i].keep;
        if (once ? start_turn(e, &turn[i], budget, err) : resume_turn(e, &turn[i], budget, err))
            return err->code;
        turn[i].keep = keep;
    }
    if (act && (!score_group(e, turn, n, budget, layer, n_layer) ||
                keep_some(e, turn, n, budget, layer, n_layer, err)))
        return is_refused(e, budget, layer, n_layer) ? KVT_OK : err->code;
    if (is_refused(e, budget, layer, n_layer))
        return KVT_OK;
    if (prompt) {
        count_prompt(e, budget, turn, n);
        for (int i = 0; act && e->policy->score && i < n_layer; i++)
            e->layer[layer[i]].ranked[budget] = true;
    }
    for (int i = 0; (act || (prompt && once)) && i < n; i++)
        evict(e, budget, &turn[i]);
    return KVT_OK;
}

kvt_code engine_choose(kvt_engine *e, int budget, const int *layer, int n_layer, kvt_err *err)
{
    int n = n_layer * e->n_lane;
    kvt_code code = KVT_OK;
    engine_turn *turn = make_turns(e, layer, n_layer, e->layer[layer[0]].work);
    if (!turn)
        return kvt_fail_memory(err, n * (int64_t)sizeof *turn);
    for (int from = 0, m; !code && from < n && !is_refused(e, budget, layer, n_layer);
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
static void see(kvt_engine *e, engine_lane *lane, const bool *keep, int64_t n,
                int64_t n_arrived)
{
    (void)e;
    lane->n_slot = 0;
    for (int64_t s = 0; s < n; s++)
        if (!keep || keep[s])
            lane->pos[lane->n_slot++] = s;
    for (int64_t t = n; t < n_arrived; t++)
        lane->pos[lane->n_slot++] = t;
}

kvt_code engine_skip(kvt_engine *e, int budget, int layer, int lane, kvt_err *err)
{
    engine_layer *l = &e->layer[layer];
    engine_lane *at = engine_lane_at(e, budget, layer, lane);
    kvt_engine_count *c = engine_count_at(e, budget, layer, lane);
    /* On top: the best B of the prompt and all that was generated; inside: the best B + K of
     * all, which is what a row of an evicting policy sees at most. */
    int64_t n = e->decode ? l->n_arrived : e->n_prompt;
    int64_t B = e->budget[budget] + (e->decode ? e->every : 0);
    engine_turn t = {.layer = layer, .lane = lane};
    kvt_code code = KVT_OK;
    c->budget = e->budget[budget];
    if (n <= B) {
        see(e, at, NULL, n, l->n_arrived);
    } else if (!(code = engine_fill(e, &t.view, layer, lane, e->identity, n, err))) {
        t.view.mark = at->mark, t.view.state = at->state, t.view.rng = at->rng;
        t.view.budget = B;
        t.score = kvt_arena_array(l->work, n, sizeof *t.score);
        t.pinned = kvt_arena_array(l->work, n, sizeof *t.pinned);
        t.keep = kvt_arena_array(l->work, n, sizeof *t.keep);
        table one;
        if (!t.score || !t.pinned || !t.keep || !make_table(&one, l->work, 1))
            return kvt_fail_memory(err, n * (int64_t)sizeof *t.score);
        if (!at->begun && e->policy->begin)
            e->policy->begin(e->use->params, &t.view);
        at->begun = true;
        if (e->policy->step)
            e->policy->step(e->use->params, &t.view);
        kvt_arena_rewind(l->hook, 0);
        if (score_group(e, &t, 1, budget, &layer, 1)) {
            fill_table(&one, &t, 1, &B);
            if (!select_group(e, &one, &t, 1))
                return kvt_fail_memory(err, n);
            if (counts_hold(e, &t, &B, 1, budget, &layer, 1))
                see(e, at, t.keep, n, l->n_arrived);
        }
    }
    c->most = kvt_max(c->most, at->n_slot);
    kvt_arena_rewind(l->work, 0);
    return code;
}
