/* evict_draft.c - drafts: tokens that are generated before the decision.
 *
 *   self    m decode steps of the model on a cache cut to the budget (LAQ)
 *   model   prefill of a second model, and m of its steps on the whole prompt (SpecKV)
 *
 * As published, a measured step takes the place of a predicted one; it grows by what the draft
 * model's keys and values take to move. It was measured on one model: a larger one's steps take
 * at least what the device does with keys and values that it reads once. */
#include "replay/cost/time_priv.h"

int64_t cost_draft_tokens(const kvt_cost_case *c)
{
    if (c->work->draft == KVT_DRAFT_NONE)
        return 0;
    return c->constants->draft_tokens > 0 ? c->constants->draft_tokens : c->work->draft_tokens;
}

/* A descriptor's count of tokens or rows that contains its own number of drafts. */
static double with_drafts(const kvt_cost_case *c, int64_t own)
{
    int64_t more = cost_draft_tokens(c) - c->work->draft_tokens;
    return (double)(own + more > 0 ? own + more : 0);
}

double cost_scoring_rows(const kvt_cost_case *c)
{
    return c->work->draft == KVT_DRAFT_NONE ? (double)c->work->rows
                                            : with_drafts(c, c->work->rows);
}

double cost_extra_tokens(const kvt_cost_case *c)
{
    /* a model's drafts run through the target; LAQ's have done so already */
    return c->work->draft == KVT_DRAFT_MODEL ? with_drafts(c, c->work->extra_tokens)
                                             : (double)c->work->extra_tokens;
}

typedef struct draft_time {
    double total, memory; /* s; of it reading */
    double least;         /* without the host, keys and values read once */
} draft_time;

/* m steps of the case's model behind n tokens of cache in each of `lanes`. */
static draft_time steps(const kvt_cost_case *c, double lanes, double n, int64_t m)
{
    const kvt_geometry *g = &c->geometry->g;
    bool windows = false;
    for (int l = 0; l < g->n_layer && !windows; l++)
        windows = g->window[l] > 0;
    cost_steps s;
    cost_steps_of(&s, c);
    double traffic = c->constants->machine.kv_traffic;
    draft_time sum = {0};
    for (int64_t i = 0; i < m; i++) {
        double at = n + (double)i;
        double tokens =
            windows ? cost_tokens(c->geometry, c->setting, at) : at * (double)g->n_layer;
        kvt_cost_run run = {.slots = tokens * lanes};
        kvt_decode_cost one;
        cost_step_at(&one, &s, &run);
        sum.memory += one.weights + one.kv + one.exchange;
        sum.total += one.total;
        sum.least += one.total - one.host - (traffic > 1 ? one.kv - one.kv / traffic : 0);
    }
    return sum;
}

/* A measured step at this prompt. */
static double measured(const kvt_cost_case *c)
{
    const kvt_published *k = c->constants;
    if (c->work->draft != KVT_DRAFT_MODEL || k->draft_step_tokens <= 0)
        return k->draft_step;
    double further = cost_tokens(c->draft, c->setting, (double)c->n_prompt) -
                     cost_tokens(c->draft, c->setting, (double)k->draft_step_tokens);
    double bytes = further * (double)c->draft->g.n_kv_head *
                   cost_slot_bytes(c->draft, &k->machine, c->setting) *
                   (double)cost_batch(c->setting) / cost_kv_split(c->draft, c->setting);
    double step = k->draft_step + bytes / (k->machine.mem_bw * k->machine.e_m);
    return step > 0 ? step : 0;
}

static double draft_prefill(cost_bound *by, const kvt_cost_case *c)
{
    kvt_cost_setting s = *c->setting;
    s.all_logits = false;
    kvt_prefill_cost pre;
    cost_prefill(&pre, by, c->draft, &c->constants->machine, &s, c->n_prompt);
    return pre.total - pre.constant; /* serving is paid once, by the target */
}

void cost_draft(kvt_evict_cost *out, cost_bound *by, const kvt_cost_case *c)
{
    int64_t m = cost_draft_tokens(c);
    bool other = c->work->draft == KVT_DRAFT_MODEL;
    if (other)
        out->prefill = c->draft ? draft_prefill(by, c) : NAN;
    if (m <= 0)
        return;
    if (other && !c->draft) {
        out->draft = NAN;
        return;
    }
    kvt_cost_case own = *c; /* the plain model, of which nothing is decided meanwhile */
    own.geometry = other ? c->draft : c->geometry;
    own.work = NULL;
    own.load = NULL;
    double cache = (double)(other || c->n_prompt < c->budget ? c->n_prompt : c->budget);
    /* its own cache is cut as the decision cuts: one set a query head where that has them */
    double lanes = cost_lanes(own.geometry, other ? NULL : c->work);
    draft_time time = steps(&own, lanes, cache, m);
    double real = (double)m * measured(c);
    if (c->constants->draft_step > 0)
        out->draft = real > time.least ? real : time.least;
    else
        out->draft = time.total;
    double reading = time.memory < out->draft ? time.memory : out->draft;
    by->memory += reading;
    by->host += out->draft - reading;
}
