/* work_score.c - what ranking slots takes, from what a policy needs. */
#include "replay/cost/work.h"

#include "kvt/engine.h"
#include "kvt/pieces.h"

/* A bound ranks by what nobody knows in time: its scoring is free, and said to be a limit. A
 * control whose rows skip slots reads all of them first (oracle-step). */
static bool is_bound(const kvt_use *u)
{
    const kvt_traits *t = &u->traits;
    return t->control && (t->needs & (KVT_NEED_FUTURE | KVT_NEED_PLAN | KVT_NEED_ATTN));
}

/* The dearest thing that it does; what its network takes comes on top of each (network_*). */
static kvt_score_kind kind_of(const kvt_use *u, const kvt_work *w, bool bound)
{
    const kvt_traits *t = &u->traits;
    bool network = w->network_params + w->network_shared > 0;
    if (bound)
        return KVT_SCORE_NONE;
    if (w->repeats > 0)
        return KVT_SCORE_REPEAT;
    if (t->needs & (KVT_NEED_COLUMNS | KVT_NEED_BLOCKS) || w->rows_frac > 0)
        return KVT_SCORE_COLUMNS;
    if (t->needs & (KVT_NEED_ATTN | KVT_NEED_LOGITS | KVT_NEED_PROBE | KVT_NEED_FUTURE) ||
        w->rows > 0)
        return KVT_SCORE_ROWS;
    /* Channels and pages are ranked by lengths and bounds of queries: no rows. */
    if ((t->needs & KVT_NEED_QUERIES) && t->effect == KVT_EVICT)
        return KVT_SCORE_ROWS;
    if (t->needs & KVT_NEED_MOMENTS)
        return KVT_SCORE_MOMENTS;
    if (network)
        return KVT_SCORE_NETWORK;
    if (t->decision) /* a spare neuron of the model itself: the number is there */
        return KVT_SCORE_NONE;
    return t->needs & (KVT_NEED_KEYS | KVT_NEED_VALUES | KVT_NEED_LAYER) ? KVT_SCORE_KEYS
                                                                         : KVT_SCORE_NONE;
}

static int64_t rows(const kvt_cost_work *out, const kvt_use *u, const kvt_work *w,
                    int64_t n_prompt)
{
    int64_t n = kvt_use_window(u, n_prompt);
    if (out->score == KVT_SCORE_COLUMNS)
        return w->rows_frac > 0 ? n : n_prompt;
    if (out->score != KVT_SCORE_ROWS)
        return 0;
    if (w->rows > 0)
        return kvt_min(w->rows, n_prompt);
    /* A draft of another model runs through this one as extra tokens: the same rows. */
    n += kvt_max(w->extra_tokens, w->draft_tokens);
    /* The first row of the response, where that is what it looks at; none, where sums start at
     * zero behind the prompt (Keyformer). */
    return u->traits.needs & KVT_NEED_FUTURE ? kvt_max(n, 1) : n;
}

/* Whether something is ranked. Positions alone (a ring), and a bit that the model itself sets
 * for each token, need no ranking. */
static bool selects(const kvt_cost_work *out, const kvt_use *u)
{
    const unsigned listed = KVT_NEED_SCORES | KVT_NEED_OTHERS; /* ranks that are given */
    if (out->score != KVT_SCORE_NONE || u->base || u->share->by_score ||
        (u->traits.needs & listed))
        return true;
    return u->traits.control && u->policy->score;
}

void cost_score(kvt_cost_work *out, const kvt_use *u, const kvt_work *w, const kvt_geometry *g,
                int64_t n_prompt)
{
    unsigned needs = u->traits.needs;
    double lanes = (double)kvt_max(u->traits.by_query_head ? g->n_head : g->n_kv_head, 1);
    out->is_bound = is_bound(u);
    out->score = kind_of(u, w, out->is_bound);
    out->rows = rows(out, u, w, n_prompt);
    /* Rows of a draft were made on another cache: their log-sum-exp is not there. */
    out->k_passes = w->draft_evicts ? 2 : 1;
    if (out->score == KVT_SCORE_COLUMNS)
        out->rows_frac = w->rows_frac > 0 ? w->rows_frac : 0.5;
    out->selects = selects(out, u);
    if (out->score == KVT_SCORE_NONE)
        return;
    out->reads_values = needs & (KVT_NEED_VALUES | KVT_NEED_WO_NORM | KVT_NEED_LAYER);
    out->network_params = w->network_params + w->network_shared / lanes;
    out->network_flops = 2 * out->network_params;
    /* W_O v of each query head, for its length; the matrix is the model's own. */
    if (needs & KVT_NEED_WO_NORM)
        out->network_flops +=
            2 * (double)w->lane_heads * (double)g->head_dim * (double)g->n_hidden;
}

int64_t cost_decode_rows(const kvt_cost_work *out, const kvt_use *u, const kvt_work *w)
{
    const unsigned looks =
        KVT_NEED_ATTN | KVT_NEED_LOGITS | KVT_NEED_COLUMNS | KVT_NEED_QUERIES;
    if (out->is_bound || !(u->traits.needs & looks))
        return 0;
    /* Longer than any window: what may stand between two decisions. */
    int64_t seen = kvt_use_window(u, kvt_max(w->n_prompt, out->every));
    if (u->again)
        return kvt_max(seen, 1);
    /* Each row is seen once, when it comes; without a window all of them count. */
    int64_t n = seen > 0 ? kvt_min(seen, out->every) : out->every;
    /* Keys against keys, anew at each decision (R-KV). */
    return kvt_max(n, 1) + (int64_t)(w->rows_frac * (double)(w->budget + out->every));
}

void cost_decode_reads(kvt_cost_work *out, const kvt_use *u)
{
    const kvt_traits *t = &u->traits;
    /* A network scores a token once, when it comes; under SKIP bounds of pages are read. */
    if (out->score == KVT_SCORE_NONE || out->score == KVT_SCORE_NETWORK || t->new_slots_only ||
        t->effect == KVT_SKIP)
        return;
    out->decode_reads_keys = t->needs & (KVT_NEED_KEYS | KVT_NEED_LAYER);
    out->decode_reads_values = t->needs & (KVT_NEED_VALUES | KVT_NEED_WO_NORM | KVT_NEED_LAYER);
}
