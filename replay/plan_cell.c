/* plan_cell.c - the cells of a pass: how many slots each budget is, and what it is called. */
#include "replay/assign.h"
#include "replay/plan_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

/* What the best schedule of a lane takes. */
static int64_t lane_bytes(const pass *x)
{
    return assign_bytes(&(assign_lane){.n_prompt = x->n_prompt,
                                       .n_response = x->n_response,
                                       .every = x->every,
                                       .drop_first = x->use->traits.drop_first});
}

/* XXH128 of everything that decides a cell. */
static kvt_code name_cell(const plan *p, const pass *x, pass_cell *c, int trace,
                          const kvt_trace *t, kvt_err *err)
{
    const set_trace *s = &p->set.trace[trace];
    char others[KVT_DIGEST_TEXT] = "", text[512];
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 64);
    if (x->use->traits.needs & KVT_NEED_OTHERS)
        set_digest(&p->set, trace, false, others);
    if (threshold_is_matched(x->use))
        set_digest(&p->set, trace, true, others);
    digest_add_text(d, s->digest);
    digest_add_text(d, x->use->text);
    digest_add_text(d, registry_digest(p->registry, x->use->policy));
    if (x->use->base)
        digest_add_text(d, registry_digest(p->registry, x->use->base->policy));
    digest_add_text(d, x->scores ? x->scores->digest : "");
    digest_add_text(d, others);
    /* What older results know nothing of is added only where it is there. */
    if (x->weights)
        digest_add_text(d, kvt_scorer_info_of(x->weights)->digest);
    if (x->table)
        digest_add_text(d, kvt_scorer_info_of(x->table)->digest);
    if (c->probe >= 0)
        digest_add_text(d, kvt_trace_probe_info(t, c->probe)->digest);
    digest_add_text(d, c->asked->text);
    digest_add_text(d, p->spec->layers ? p->spec->layers : "");
    snprintf(text, sizeof text,
             "semantics %d tokens %lld rule %s act %d every %lld seed %llu output %d",
             SEMANTICS, (long long)c->tokens, kvt_rule_name(p->spec->rule), x->inside,
             (long long)x->every, (unsigned long long)x->seed, x->output);
    digest_add_text(d, text);
    if (p->spec->fair == KVT_FAIR_BYTES)
        digest_add_text(d, "fair bytes");
    if (x->inside && x->n_response > 0 && lane_bytes(x) > x->oracle_limit)
        digest_add_text(d, "greedy for the best schedule");
    for (int i = 0; kvt_metrics()[i]; i++) {
        snprintf(text, sizeof text, "metric %s", kvt_metrics()[i]->name);
        if (pass_measures(x, i) && kvt_metrics()[i]->extra)
            digest_add_text(d, text);
    }
    digest_get(d, c->run_id);
    digest_free(d);
    return KVT_OK;
}

static int by_tokens(const void *a, const void *b)
{
    const pass_cell *x = a, *y = b;
    if (x->tokens != y->tokens)
        return x->tokens < y->tokens ? -1 : 1;
    return (x->asked > y->asked) - (x->asked < y->asked);
}

/* Slots that take no more bytes than b slots of a kv head's lane, where a slot of the policy's
 * takes more, its lane has a state beside them, or query heads share what was a kv head's. */
static int64_t fair_slots(const pass *x, int64_t b, int64_t slot_bytes)
{
    kvt_work work = {.head_dim = slot_bytes / 4, .lane_heads = x->n_head / x->n_lane};
    if (x->use->policy->work)
        x->use->policy->work(x->use->params, &work);
    int64_t per = x->lane_share, state = work.state_bytes_lane;
    int64_t left = b * slot_bytes - per * state;
    return left > 0 ? left / (per * (slot_bytes + work.state_bytes_slot)) : 0;
}

int64_t plan_slots(const plan *p, const pass *x, int trace, const bool *layers,
                   const kvt_budget *b)
{
    const set_trace *s = &p->set.trace[trace];
    bool fair = p->spec->fair == KVT_FAIR_BYTES;
    int64_t per = x->n_layer ? s->n_lane / x->n_layer : 1, lanes = 0;
    for (int l = 0; l < x->n_layer; l++)
        lanes += layers[l] ? per : 0;
    if (!fair)
        lanes = lanes * x->n_lane / per;
    int64_t slots = kvt_budget_tokens(b, p->spec->rule, x->n_prompt, lanes, s->slot_bytes);
    return fair ? fair_slots(x, slots, s->slot_bytes) : slots;
}

kvt_code plan_cells(const plan *p, pass *x, int trace, const kvt_trace *t, const bool *layers,
                    kvt_err *err)
{
    x->cell = kvt_alloc(p->n_budget, sizeof *x->cell);
    if (!x->cell)
        return kvt_fail_memory(err, p->n_budget * (int64_t)sizeof *x->cell);
    for (int i = 0; i < p->n_budget; i++)
        x->cell[i] = (pass_cell){.asked = &p->budget[i],
                                 .tokens = plan_slots(p, x, trace, layers, &p->budget[i]),
                                 .probe = -1,
                                 .exactness = x->exactness};
    qsort(x->cell, (size_t)p->n_budget, sizeof *x->cell, by_tokens);
    x->n_cell = 0;
    for (int i = 0; i < p->n_budget; i++)
        if (i == 0 || x->cell[i].tokens != x->cell[x->n_cell - 1].tokens)
            x->cell[x->n_cell++] = x->cell[i];
    plan_probe(x, t);
    channels_check(x, kvt_trace_info_of(t)->facts.model.head_dim);
    for (int i = 0; i < x->n_cell; i++)
        if (name_cell(p, x, &x->cell[i], trace, t, err))
            return err->code;
    return KVT_OK;
}
