/* make_row.c - one item of a table of costs into its rows: what the policy does and how many
 * slots its lanes hold is found once, then it is priced for every batch, machine and profile.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "replay/cost/make_priv.h"

/* What the rows of an item share. */
typedef struct shared {
    const make *m;
    const make_item *x;
    const make_group *group;
    const kvt_use *use;   /* NULL where it cannot be read any more */
    const kvt_cell *cell; /* NULL: assumed */
    const kvt_cost_geometry *draft;
    kvt_cost_work work;
    kvt_cost_load load;
    char why[256]; /* the item is skipped; "": it is not */
} shared;

/* ---- what is skipped -----------------------------------------------------------------------
 */

/* Dropped channels leave the values: below that budget nothing of the keys is left. */
static bool has_no_channel(shared *s)
{
    int64_t D = s->group->model->geometry.g.head_dim, N = s->group->n_prompt;
    int64_t left = N > 0 ? D * (2 * s->x->budget - N) / N : 0;
    if (s->use->traits.effect != KVT_CHANNELS || left > 0)
        return false;
    snprintf(s->why, sizeof s->why,
             "policy %s: keys are half of the bytes, and values stay: %lld slots of %lld leave "
             "no channel of %lld",
             s->use->name, (long long)s->x->budget, (long long)N, (long long)D);
    return true;
}

/* What the rule itself refuses: the same words as of a replay. */
static bool is_refused(shared *s)
{
    const kvt_use *u = s->use;
    int64_t B = s->x->budget, all = s->group->n_prompt;
    char why[160] = "";
    if (s->work.in_decode)
        all += s->group->n_response;
    if (B < 1)
        snprintf(why, sizeof why, "the budget rule gives no slot at all");
    else if (u->policy->fits && !u->policy->fits(u->params, B, all, why, sizeof why))
        ;
    else if (!u->base || !u->base->policy->fits ||
             u->base->policy->fits(u->base->params, B, all, why, sizeof why))
        return has_no_channel(s);
    /* Names are cut so that the reason stays whole. */
    snprintf(s->why, sizeof s->why, "policy %.80s: %s", u->name, why);
    return true;
}

static bool lacks_draft(shared *s)
{
    const kvt_cost_geometry *g = &s->group->model->geometry;
    if (s->work.draft != KVT_DRAFT_MODEL || s->draft)
        return false;
    snprintf(s->why, sizeof s->why,
             "policy %s: a second model drafts, and none is known for %s: name one (--draft)",
             s->use->name, g->g.name);
    return true;
}

static void find_load(shared *s)
{
    const make_group *g = s->group;
    const kvt_cost_geometry *model = &g->model->geometry;
    const kvt_cost_setting *setting = &s->m->spec->setting;
    kvt_err err;
    if (!s->cell)
        kvt_cost_load_assume(&s->load, s->use, &s->work, model, setting, g->n_prompt,
                             g->n_response, s->x->budget);
    else if (kvt_cost_load_result(&s->load, s->x->result, s->x->cell, &s->work, model, setting,
                                  g->n_prompt, g->n_response, &err))
        snprintf(s->why, sizeof s->why, "%.255s", err.text);
}

static void share(shared *s)
{
    const make_use *u = &s->m->use[s->x->use];
    const make_model *model = s->group->model;
    kvt_act act = s->m->spec->act;
    if (!s->use) {
        snprintf(s->why, sizeof s->why, "%s", u->why);
        return;
    }
    if (s->cell)
        act = strcmp(s->cell->act, "prefill") == 0 ? KVT_ACT_PREFILL : KVT_ACT_OWN;
    kvt_cost_work_of(&s->work, s->use, &model->geometry, s->group->n_prompt, s->x->budget, act);
    s->draft = s->work.draft == KVT_DRAFT_MODEL  ? (model->has_draft ? &model->draft : NULL)
               : s->work.draft == KVT_DRAFT_SELF ? &model->geometry
                                                 : NULL;
    bool dense = s->x->use == 0;
    if (!lacks_draft(s) && (s->cell || dense || !is_refused(s)))
        find_load(s);
}

/* ---- what is printed -----------------------------------------------------------------------
 */

#define COPY(to, from) snprintf((to), sizeof(to), "%.*s", (int)sizeof(to) - 1, (from))

static void name_policy(kvt_cost_row *r, const shared *s)
{
    const char *text = s->use ? s->use->text : s->x->result->policy_text;
    const char *params = strchr(text, ':');
    r->seed = KVT_EMPTY_INT;
    if (s->cell) {
        COPY(r->run_id, s->cell->run_id);
        COPY(r->trace_id, s->cell->trace_id);
        COPY(r->policy, s->cell->policy);
        COPY(r->policy_params, s->cell->policy_params);
        COPY(r->exactness, s->cell->exactness);
        COPY(r->policy_title, s->x->result->policy_title);
        COPY(r->budget_rule, s->cell->budget_rule);
        r->seed = s->cell->seed;
        r->is_control = s->x->result->is_control;
        return;
    }
    kvt_exactness e = s->use->traits.exactness;
    if (s->work.in_decode && e < KVT_OPEN_LOOP)
        e = KVT_OPEN_LOOP;
    COPY(r->policy, s->use->name);
    COPY(r->policy_params, params ? params + 1 : "");
    COPY(r->exactness, kvt_exactness_name(e));
    COPY(r->policy_title, s->use->policy->title);
    COPY(r->budget_rule, kvt_rule_name(s->m->spec->rule));
    if (s->group->trace)
        COPY(r->trace_id, s->group->trace->trace_id);
    r->is_control = s->use->traits.control;
}

static void name_case(kvt_cost_row *r, const shared *s, const kvt_cost_setting *setting)
{
    const kvt_cost_geometry *g = &s->group->model->geometry;
    bool own = setting->weight_bits <= 0 && g->all_bytes > 0;
    COPY(r->budget_asked, s->x->asked);
    r->budget_tokens = (double)s->x->budget;
    r->budget_frac = (double)s->x->budget / (double)s->group->n_prompt;
    COPY(r->geometry, g->g.name);
    if (s->draft)
        COPY(r->draft_geometry, s->draft->g.name);
    r->prompt_tokens = s->group->n_prompt;
    r->response_tokens = s->group->n_response;
    r->batch = cost_batch(setting);
    r->prefill_batch = cost_prefill_batch(setting);
    r->kv_bits = cost_kv_bits(setting);
    r->weight_bits = own ? NAN : cost_weight_bits(setting);
    r->page_tokens = setting->page_tokens;
    r->tensor_devices = cost_tensor(setting);
    r->chunk_tokens = setting->chunk;
    r->shared_pages = setting->shared_pages;
    r->full_windows = setting->full_windows;
    r->all_logits = setting->all_logits;
    r->masked = setting->masked;
    r->fragmentation_frac = setting->fragmentation;
    r->is_bound = s->work.is_bound;
}

/* The dense cache is what it is, whether or not a trace was replayed. */
static bool is_dense(const shared *s)
{
    return s->work.when == KVT_WHEN_NEVER && !s->work.in_decode && !s->work.keeps_all;
}

static void name_slots(kvt_cost_row *r, const shared *s)
{
    const kvt_cost_load *load = &s->load;
    double lanes = (double)load->n_layer * load->n_lane, kept = 0;
    for (int l = 0; l < load->n_layer; l++)
        kept += load->kept[l].slots;
    double rows = (double)load->n_layer * cost_lanes(&s->group->model->geometry, &s->work);
    r->kept_tokens_mean = kept / lanes;
    r->end_slots_mean_tokens = load->n_run > 0 ? load->last.slots / rows : kept / lanes;
    r->assumed = load->assumed && !is_dense(s);
    r->mapped = load->mapped;
    r->scaled = load->scaled;
}

static int64_t count_or_empty(int64_t n)
{
    return n < 0 ? KVT_EMPTY_INT : n;
}

static kvt_band band_of(double total, kvt_band band)
{
    return isnan(total) ? (kvt_band){NAN, NAN} : band;
}

/* What follows from the prediction; a number that is not known has no band and no cause. */
static void name_cost(kvt_cost_row *r, const kvt_published *constants)
{
    kvt_cost *c = &r->cost;
    bool memory = !isnan(c->peak.total);
    r->is_default = constants->is_default && c->evict.total > 0;
    r->draft_tokens = c->draft_tokens;
    r->fits = isnan(c->short_bytes) ? KVT_EMPTY_INT : !(c->short_bytes > 0);
    r->out_of_range = c->out_of_range;
    r->cache_resident = c->cache_resident;
    r->peak_layer = memory ? count_or_empty(c->peak_layer) : KVT_EMPTY_INT;
    r->max_batch = count_or_empty(c->max_batch);
    r->max_context_tokens = count_or_empty(c->max_context);
    COPY(r->peak_phase, memory ? kvt_memory_phase_name(c->peak_phase) : "");
    if (!isnan(c->ttft))
        COPY(r->ttft_bottleneck, kvt_bottleneck_name(c->ttft_bound));
    if (c->evict.total > 0)
        COPY(r->evict_bottleneck, kvt_bottleneck_name(c->evict_bound));
    if (!isnan(c->step_mean.total))
        COPY(r->step_bottleneck, kvt_bottleneck_name(c->step_bound));
    c->ttft_band = band_of(c->ttft, c->ttft_band);
    c->evict_band = band_of(c->evict.total, c->evict_band);
    c->step_band = band_of(c->step_mean.total, c->step_band);
    c->memory_band = band_of(c->peak.total, c->memory_band);
}

/* How many requests would fit if their prompts were read one by one; asked where they do not.
 */
static int64_t batch_apart(const kvt_cost_case *c)
{
    kvt_cost_setting setting = *c->setting;
    kvt_cost_case apart = *c;
    kvt_cost cost = {0};
    setting.prefill_batch = 1;
    apart.setting = &setting;
    cost_memory(&cost, &apart);
    cost_capacity(&cost, &apart);
    return cost.max_batch;
}

static void fill(kvt_cost_row *r, const shared *s, const kvt_cost_setting *setting,
                 const kvt_published *constants)
{
    name_policy(r, s);
    name_case(r, s, setting);
    COPY(r->status, s->why[0] ? "skipped" : "ok");
    COPY(r->error, s->why);
    if (s->why[0]) {
        cost_undefine(&r->cost);
        r->kept_tokens_mean = r->end_slots_mean_tokens = NAN;
        r->fits = r->peak_layer = r->max_batch = r->max_context_tokens = KVT_EMPTY_INT;
        return;
    }
    name_slots(r, s);
    const kvt_cost_case c = {.geometry = &s->group->model->geometry,
                             .draft = s->draft,
                             .constants = constants,
                             .work = &s->work,
                             .load = &s->load,
                             .setting = setting,
                             .n_prompt = s->group->n_prompt,
                             .n_response = s->group->n_response,
                             .budget = s->x->budget};
    kvt_cost_predict(&r->cost, &c);
    name_cost(r, constants);
    if (r->fits == 0 && r->prefill_batch > 1)
        r->max_batch_apart = batch_apart(&c);
}

/* ---- rows ----------------------------------------------------------------------------------
 */

void make_rows(kvt_cost_row *row, const make *m, const make_item *x)
{
    const make_group *g = &m->group[x->group];
    const kvt_cost_spec *spec = m->spec;
    int per = make_per_item(m);
    const kvt_published *constants = m->constants + (int64_t)x->use * per;
    int64_t place = x - m->item - g->first_item;
    shared s = {.m = m,
                .x = x,
                .group = g,
                .use = m->use[x->use].use,
                .cell = x->result ? &x->result->cell[x->cell] : NULL};
    share(&s);
    for (int b = 0; b < m->n_batch; b++) {
        kvt_cost_setting setting = spec->setting;
        setting.batch = m->batch[b];
        kvt_cost_row *r = row + g->first_row + (b * g->n_item + place) * per;
        for (int i = 0; i < per; i++, r++) {
            COPY(r->machine, spec->machine[i / m->n_profile].name);
            COPY(r->profile, kvt_cost_profile_name(m->profile[i % m->n_profile]));
            fill(r, &s, &setting, &constants[i]);
        }
    }
}
