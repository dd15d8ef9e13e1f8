/* load.c - slots of lanes as sums, by a policy's own rule.
 *
 * Without a trace a policy's lanes get what its allocator gives them where that needs no
 * scores, and equal parts else. While decoding, tokens come on top (a policy of the prompt
 * only), or take dropped ones' places (one that decides anew); where a threshold decides, a
 * lane keeps the same share of new tokens as of the prompt's. */
#include "replay/cost/load_priv.h"

#include <math.h>

#include "kvt/arena.h"
#include "kvt/engine.h"
#include "kvt/pieces.h"

enum { LANES_MAX = 512, SCRATCH = 4 << 20 };

bool load_is_dense(const kvt_cost_work *w, const kvt_cost_setting *s)
{
    return w->keeps_all || s->masked;
}

load_shape load_shape_of(const kvt_cost_geometry *g, const kvt_cost_work *w,
                         const kvt_cost_setting *s)
{
    bool own = w && w->page_tokens > 0;
    bool dense = w && load_is_dense(w, s); /* once for a kv head */
    load_shape x = {.n_layer = (int)g->g.n_layer,
                    .n_lane = (int)cost_lanes(g, dense ? NULL : w),
                    .page = own ? w->page_tokens : s->page_tokens};
    x.shared = x.page > 0 && !own && s->shared_pages;
    return x;
}

double load_cap(const kvt_cost_geometry *g, const kvt_cost_setting *s, int layer)
{
    double w = s->full_windows ? 0 : g->g.window[layer];
    return w > 0 ? w : INFINITY;
}

/* ---- sharing out ---------------------------------------------------------------------------
 */

/* What is asked of an allocator: slots of the lanes of a layer. */
typedef struct splitter {
    const kvt_use *use;
    kvt_arena *scratch; /* NULL: evenly */
    kvt_lane *lane;     /* [n_lane] */
    kvt_sequence seq;
    int n_layer, n_lane;
    int64_t budget, n_pinned;
} splitter;

static bool needs_no_scores(const kvt_use *use)
{
    const kvt_share *s = use ? use->share : NULL;
    return s && s != &kvt_share_even && !s->by_score && !s->learn && !s->weights &&
           s->scope != KVT_BY_MODEL;
}

static void open_splitter(splitter *x, const kvt_use *use, const kvt_cost_geometry *g,
                          int n_lane, int64_t n_prompt, int64_t budget)
{
    *x = (splitter){.use = use,
                    .n_layer = (int)g->g.n_layer,
                    .n_lane = n_lane,
                    .seq = {.n_prompt = n_prompt, .geometry = &g->g},
                    .budget = budget};
    if (budget >= n_prompt || n_lane > LANES_MAX || !needs_no_scores(use))
        return;
    x->n_pinned = kvt_min(kvt_use_window(use, n_prompt), budget); /* rules keep their window */
    x->lane = kvt_alloc(n_lane, sizeof *x->lane);
    x->scratch = x->lane ? kvt_arena_new(SCRATCH) : NULL;
}

/* As the engine asks: one lane at a time, or a layer together, with `budget` slots for each. */
static bool ask(const splitter *x, int64_t *share, int layer)
{
    static const float *const no_score[LANES_MAX];
    int64_t n_pinned[LANES_MAX], N = x->seq.n_prompt;
    const kvt_share *s = x->use->share;
    int m = s->scope == KVT_BY_LANE ? 1 : x->n_lane;
    for (int i = 0; i < m; i++) {
        x->lane[i] = (kvt_lane){.model_layer = layer,
                                .layer = layer,
                                .group = i,
                                .n_layer = x->n_layer,
                                .n_slot = N,
                                .now = N - 1,
                                .seq = &x->seq,
                                .scratch = x->scratch};
        n_pinned[i] = x->n_pinned;
    }
    s->split(x->use->share_params, share, x->lane, m, no_score, n_pinned, x->budget * m);
    kvt_arena_rewind(x->scratch, 0);
    for (int i = 0; i < m; i++)
        if (share[i] < 1 || share[i] > N)
            return false;
    for (int i = m; i < x->n_lane; i++) /* a rule of one lane knows its layer only */
        share[i] = share[0];
    return true;
}

/* What the lanes of a layer may hold: classes of equal ones. */
typedef struct shares {
    int64_t slots[LANES_MAX];
    int n[LANES_MAX]; /* lanes */
    int n_class;
} shares;

static void split_layer(shares *out, const splitter *x, int layer)
{
    int64_t all[LANES_MAX];
    out->slots[0] = x->budget;
    out->n[0] = x->n_lane;
    out->n_class = 1;
    if (!x->scratch || !ask(x, all, layer))
        return;
    out->n_class = 0;
    for (int i = 0; i < x->n_lane; i++) {
        int at = 0;
        while (at < out->n_class && out->slots[at] != all[i])
            at++;
        if (at == out->n_class)
            out->slots[at] = all[i], out->n[out->n_class++] = 0;
        out->n[at]++;
    }
}

static bool same_shares(const shares *a, const shares *b)
{
    bool same = a->n_class == b->n_class;
    for (int i = 0; i < a->n_class && same; i++)
        same = a->slots[i] == b->slots[i] && a->n[i] == b->n[i];
    return same;
}

/* ---- lanes over the steps ------------------------------------------------------------------
 */

static load_path dense(double n_prompt)
{
    return (load_path){.start = n_prompt, .slope = 1, .budget = INFINITY, .every = 1};
}

/* What rows of a lane see that may hold `share` slots. */
static load_path path_of(const kvt_use *use, const kvt_cost_work *w, double N, double share)
{
    load_path p = dense(w->when == KVT_WHEN_NEVER ? N : fmin(share, N));
    bool unbounded = w->joins || (use && use->traits.by_threshold);
    if (w->keeps_all)
        return dense(N);
    if (!w->in_decode)
        return p;
    if (unbounded) {
        p.slope = N > 0 ? p.start / N : 1;
        return p;
    }
    p.budget = share;
    p.every = (double)(w->every > 0 ? w->every : 1);
    p.drop_first = use && use->traits.drop_first;
    return p;
}

static void layer_classes(load_class *c, const splitter *x, const shares *share,
                          const kvt_cost_work *w, const kvt_cost_setting *s)
{
    double N = (double)x->seq.n_prompt;
    for (int i = 0; i < share->n_class; i++) {
        double slots = (double)share->slots[i];
        load_path seen = path_of(x->use, w, N, slots);
        c[i] = (load_class){.seen = seen,
                            .stored = load_is_dense(w, s) ? dense(N) : seen,
                            .seen_cap = w->keeps_all ? slots : INFINITY,
                            .n = share->n[i]};
    }
}

void kvt_cost_load_assume(kvt_cost_load *out, const kvt_use *use, const kvt_cost_work *work,
                          const kvt_cost_geometry *g, const kvt_cost_setting *s,
                          int64_t n_prompt, int64_t n_response, int64_t budget)
{
    load_shape shape = load_shape_of(g, work, s);
    load_book b;
    splitter x;
    shares share[2]; /* of this layer and of the one in front of it, in turn */
    load_class c[LANES_MAX];
    open_splitter(&x, use, g, (int)cost_lanes(g, work), n_prompt, kvt_max(budget, 1));
    for (int l = 0; l < shape.n_layer; l++) {
        shares *is = &share[l % 2];
        double cap = load_cap(g, s, l);
        split_layer(is, &x, l);
        if (l > 0 && cap == load_cap(g, s, l - 1) && same_shares(is, &share[(l - 1) % 2])) {
            load_same(&b, l);
            continue;
        }
        layer_classes(c, &x, is, work, s);
        if (l == 0) /* decisions fall on the same steps in every layer */
            load_open(&b, out, &shape, x.n_lane, n_response, LOAD_PIECES,
                      load_path_top(&c[0].stored, (double)n_response));
        load_keep(&b, l, c, is->n_class, cap);
        load_add(&b, c, is->n_class, cap);
    }
    load_close(&b);
    out->assumed = true;
    kvt_arena_free(x.scratch);
    kvt_free(x.lane);
}
