/* work.c - what one use of a policy does: when it decides, what runs beside the prompt, what is
 * read and moved while decoding.
 *
 * Nearly all of it follows from traits, window() and the allocator; work() of the policy adds
 * what these cannot say (kvt/work.h). How slots are scored is in work_score.c. */
#include "replay/cost/work.h"

#include "kvt/pieces.h"

enum { INDEX_BYTES = 4 }; /* an offset, an entry of a table of pages */

/* Adds what the first of two stages does to the work of the second. State is the second's: a
 * base decides nothing on its own while decoding. */
static void add_base(kvt_work *w, const kvt_work *b)
{
    w->extra_tokens += b->extra_tokens;
    w->lora_rank = kvt_max(w->lora_rank, b->lora_rank);
    w->learned_tokens |= b->learned_tokens;
    w->draft_tokens += b->draft_tokens;
    w->draft_model |= b->draft_model;
    w->draft_evicts |= b->draft_evicts;
    w->repeats += b->repeats;
    w->rows_frac = w->rows_frac > b->rows_frac ? w->rows_frac : b->rows_frac;
    w->rows = kvt_max(w->rows, b->rows);
    w->network_params += b->network_params;
    w->network_shared += b->network_shared;
    w->whole_rows |= b->whole_rows;
}

static kvt_work ask(const kvt_use *u, const kvt_cost_geometry *g, int64_t n_prompt,
                    int64_t budget)
{
    int64_t lanes = u->traits.by_query_head ? g->g.n_head : g->g.n_kv_head;
    kvt_work given = {.head_dim = g->g.head_dim,
                      .lane_heads = kvt_max(g->g.n_head / kvt_max(lanes, 1), 1),
                      .n_hidden = g->g.n_hidden,
                      .n_prompt = n_prompt,
                      .budget = budget};
    kvt_work w = given, base = given;
    if (u->policy->work)
        u->policy->work(u->params, &w);
    if (u->base && u->base->policy->work) {
        u->base->policy->work(u->base->params, &base);
        add_base(&w, &base);
    }
    return w;
}

/* ---- beside the prompt ---------------------------------------------------------------------
 */

/* A pair of low-rank matrices on every linear map of a layer; in the last one only q and k
 * reach a score. The published counts agree with that for six models (policies-learned 1.1). */
static double lora_params(const kvt_geometry *g, int64_t rank)
{
    double e = (double)g->n_hidden, hd = (double)(g->n_head * g->head_dim);
    double gd = (double)(g->n_kv_head * g->head_dim);
    double qo = e + hd, kv = e + gd, ff = e + (double)g->n_ff;
    return (double)rank * ((double)(g->n_layer - 1) * (2 * qo + 2 * kv + 3 * ff) + qo + kv);
}

static void add_prompt(kvt_cost_work *out, const kvt_work *w, const kvt_geometry *g)
{
    out->extra_tokens = w->extra_tokens;
    out->lora_params = w->lora_rank > 0 ? lora_params(g, w->lora_rank) : 0;
    out->embed_params = w->learned_tokens ? (double)(w->extra_tokens * g->n_hidden) : 0;
    out->draft_tokens = w->draft_tokens;
    out->draft = w->draft_tokens < 1 ? KVT_DRAFT_NONE
                 : w->draft_model    ? KVT_DRAFT_MODEL
                                     : KVT_DRAFT_SELF;
    out->first_stage = w->draft_evicts;
    out->first_rows = w->draft_window;
}

/* ---- when ----------------------------------------------------------------------------------
 */

/* A control that ranks nothing and may hold more than its budget: full. */
static bool keeps_everything(const kvt_use *u)
{
    return u->traits.control && u->traits.may_exceed && !u->policy->score;
}

static kvt_when when(const kvt_use *u, const kvt_work *w)
{
    const kvt_traits *t = &u->traits;
    bool waits = t->scope == KVT_BY_MODEL && !t->by_threshold;
    /* Proportions of a table are known before the prompt, too. */
    if (u->share->scope == KVT_BY_MODEL)
        waits = u->share->by_score;
    else if (w->cuts_at_once)
        waits = false;
    if (keeps_everything(u) || t->effect == KVT_SKIP)
        return KVT_WHEN_NEVER;
    bool own_draft = w->draft_tokens > 0 && !w->draft_model;
    if (waits || own_draft || w->repeats > 0 || !(t->phases & KVT_PREFILL))
        return KVT_WHEN_AFTER_PREFILL;
    return KVT_WHEN_IN_LAYER;
}

/* ---- while decoding ------------------------------------------------------------------------
 */

static void add_decode(kvt_cost_work *out, const kvt_use *u, const kvt_work *w, kvt_act act)
{
    const kvt_traits *t = &u->traits;
    /* As replay: --act prefill stops those that have something to do on the prompt. */
    out->in_decode =
        (t->phases & KVT_DECODE) && (act != KVT_ACT_PREFILL || !(t->phases & KVT_PREFILL));
    out->every = kvt_max(u->own.every > 0 ? u->own.every : t->every, 1);
    out->in_place = out->in_decode && out->every == 1 && t->effect == KVT_EVICT;
    if (!out->in_decode)
        return;
    out->decode_rows = cost_decode_rows(out, u, w);
    cost_decode_reads(out, u);
    out->state_slot = (double)w->state_bytes_slot + w->more_bytes_slot;
    out->state_lane = (double)w->state_bytes_lane + w->more_bytes_lane;
    if (out->decode_rows > 0)
        out->decode_state_moves =
            (double)(w->state_moves > 0 ? w->state_moves : 2 * w->state_bytes_slot);
}

/* Where lanes of a layer differ in length something says where each of them lies. */
static void add_layout(kvt_cost_work *out, const kvt_use *u, const kvt_work *w)
{
    const kvt_traits *t = &u->traits;
    out->by_query_head = t->by_query_head;
    out->keeps_all = t->effect == KVT_SKIP;
    out->joins = t->effect == KVT_JOIN;
    out->ragged = t->by_threshold || out->joins || u->share->scope != KVT_BY_LANE ||
                  (t->effect == KVT_EVICT && t->scope != KVT_BY_LANE && !w->even_lanes &&
                   !keeps_everything(u));
    out->page_tokens = w->page_tokens;
    if (w->page_tokens > 0) {
        double entry = (double)INDEX_BYTES / (double)w->page_tokens;
        out->state_slot += entry;
        out->decode_state_moves += entry;
    } else if (out->ragged) {
        out->state_lane += INDEX_BYTES;
    }
}

void kvt_cost_work_of(kvt_cost_work *out, const kvt_use *use, const kvt_cost_geometry *g,
                      int64_t n_prompt, int64_t budget, kvt_act act)
{
    kvt_work w = ask(use, g, n_prompt, budget);
    *out = (kvt_cost_work){.when = when(use, &w), .whole_rows = w.whole_rows};
    add_prompt(out, &w, &g->g);
    cost_score(out, use, &w, &g->g, n_prompt);
    add_decode(out, use, &w, act);
    add_layout(out, use, &w);
}
