/* evict.c - the eviction at the end of the prompt.
 *
 *   extra    tokens behind the prompt, in its batch: 2 x theta_lin + 4 x N H D L, adapters
 *   draft    evict_draft.c
 *   score    evict_score.c
 *   select   7 passes over 4 bytes for each slot: one write, two of pooling, four of a radix
 *   copy     what is kept, read and written
 *   host     launches; 8 a layer (2 of scoring, 4 of picking, 2 of gathering)
 *
 * A layer whose lanes lose nothing is left out; extra tokens and drafts run before one knows.
 * Where rows skip slots and nothing leaves, scores are made here and picked while decoding.
 */
#include "replay/cost/time_priv.h"

enum { SELECT_BYTES = 28, ADAPTED = 7, LAUNCH_SCORE = 2, LAUNCH_SELECT = 4, LAUNCH_COPY = 2 };

double cost_adapter_params(const kvt_cost_geometry *g, const kvt_cost_work *w)
{
    double lanes = (double)g->g.n_layer * cost_lanes(g, w);
    return w->lora_params + w->embed_params + w->network_params * lanes;
}

/* ---- parts ---------------------------------------------------------------------------------
 */

static double extra(cost_bound *by, const kvt_cost_case *c)
{
    double x = cost_extra_tokens(c);
    if (!(x > 0))
        return 0;
    const kvt_cost_geometry *g = c->geometry;
    const kvt_machine *m = &c->constants->machine;
    const kvt_cost_setting *s = c->setting;
    double batch = (double)cost_batch(s), tensor = (double)cost_tensor(s);
    double seen = cost_tokens(g, NULL, (double)c->n_prompt); /* a window is one for them, too */
    double math = 2 * x * (double)g->theta_lin * batch / cost_linear_rate(m, g, s) +
                  4 * x * seen * (double)g->g.n_head * (double)g->g.head_dim * batch /
                      (cost_attention_rate(m, g) * tensor);
    double weights = (c->work->lora_params + c->work->embed_params) * cost_act_bytes(m) /
                     tensor / (m->mem_bw * m->e_m);
    double launches =
        c->work->lora_params > 0 ? 2 * ADAPTED * (double)g->g.n_layer * m->t_launch : 0;
    double exchange = cost_exchange(g, m, s, x, 0); /* in the prompt's own all-reduces */
    by->math += math;
    by->memory += weights + exchange;
    by->host += launches;
    return math + weights + launches + exchange;
}

/* What a decision cuts. */
typedef struct cut {
    double n;      /* slots of a lane where no window is */
    double layers; /* that lose slots */
    double tokens; /* slots of a lane, summed over those layers */
    double kept;   /* slots that are kept there, of all lanes */
} cut;

static bool stays(const kvt_cost_case *c)
{
    return c->work->keeps_all || c->setting->masked;
}

/* Slots that the lanes of a layer keep of n tokens. */
static double kept_of(const kvt_cost_case *c, int layer, double tokens)
{
    if (c->load)
        return c->load->kept[layer].slots;
    return cost_lanes(c->geometry, c->work) *
           (tokens < (double)c->budget ? tokens : (double)c->budget);
}

bool cost_is_cut(const kvt_cost_case *c, int layer, double n)
{
    double tokens = cost_layer_tokens(c->geometry, c->setting, layer, n);
    return n > (double)c->budget &&
           (stays(c) || kept_of(c, layer, tokens) < tokens * cost_lanes(c->geometry, c->work));
}

static cut cut_of(const kvt_cost_case *c, double n)
{
    cut out = {.n = n};
    for (int l = 0; l < c->geometry->g.n_layer; l++) {
        if (!cost_is_cut(c, l, n))
            continue;
        double tokens = cost_layer_tokens(c->geometry, c->setting, l, n);
        out.layers += 1;
        out.tokens += tokens;
        out.kept += kept_of(c, l, tokens);
    }
    return out;
}

static bool picks_here(const kvt_cost_work *w)
{
    return w->selects && w->when != KVT_WHEN_NEVER;
}

static void decide(kvt_evict_cost *out, cost_bound *by, const kvt_cost_case *c, const cut *k,
                   double rows, int passes)
{
    const kvt_cost_geometry *g = c->geometry;
    const kvt_machine *m = &c->constants->machine;
    const kvt_cost_work *w = c->work;
    double device = (double)cost_batch(c->setting) / cost_kv_split(g, c->setting);
    double moves = m->mem_bw * m->e_m;
    if (!(k->layers > 0))
        return;
    bool scores = w->score != KVT_SCORE_NONE && !w->is_bound, picks = picks_here(w);
    out->score = cost_score_time(by, c, k->n, k->tokens, rows, passes);
    if (picks)
        out->select =
            SELECT_BYTES * k->tokens * cost_lanes(c->geometry, c->work) * device / moves;
    if (!stays(c))
        out->copy = 2 * k->kept * cost_slot_bytes(g, m, c->setting) * device / moves;
    out->host = k->layers * m->t_launch *
                ((scores ? LAUNCH_SCORE : 0) + (picks ? LAUNCH_SELECT : 0) +
                 (stays(c) ? 0 : LAUNCH_COPY));
    out->total = out->extra + out->score + out->select + out->copy + out->host;
    by->memory += out->select + out->copy;
    by->host += out->host;
}

/* ---- the whole -----------------------------------------------------------------------------
 */

/* Scoring, selection and copies, with `before` (extra tokens) among what an eager
 * implementation's measured time contains. The total is no sum of rounded parts: it never falls
 * as the prompt grows. */
static void stage(kvt_evict_cost *out, cost_bound *by, const kvt_cost_case *c, const cut *k,
                  double before, double rows, int passes)
{
    *out = (kvt_evict_cost){.extra = before, .total = before};
    decide(out, by, c, k, rows, passes);
    double launches = out->host;
    bool ranks = picks_here(c->work) || c->work->score != KVT_SCORE_NONE;
    if (c->constants->machine.engine == KVT_ENGINE_EAGER && k->layers > 0 && ranks &&
        !c->work->is_bound)
        cost_eager_stage(out, c);
    by->host += out->host - launches;
}

void cost_evict_by(kvt_evict_cost *out, cost_bound *by, const kvt_cost_case *c)
{
    kvt_evict_cost first = {0}, last = {0};
    *out = (kvt_evict_cost){0};
    if (c->work->when == KVT_WHEN_NEVER && !c->work->keeps_all)
        return;
    cut k = cut_of(c, (double)c->n_prompt);
    cost_draft(out, by, c);
    double rows = cost_scoring_rows(c), first_rows = (double)c->work->first_rows;
    if (c->work->first_stage)
        stage(&first, by, c, &k, 0, first_rows > 0 ? first_rows : rows, 1);
    stage(&last, by, c, &k, extra(by, c), rows, c->work->k_passes);
    last.prefill = out->prefill;
    last.draft = out->draft + first.total;
    last.total += last.prefill + last.draft;
    *out = last;
}

void cost_evict(kvt_evict_cost *out, const kvt_cost_case *c, kvt_bottleneck *bound)
{
    cost_bound by = {0};
    const kvt_cost_setting together = cost_prompt_setting(c->setting);
    kvt_cost_case prompt = *c;
    prompt.setting = &together;
    cost_evict_by(out, &by, &prompt);
    if (bound)
        *bound = cost_bound_name(&by);
}
