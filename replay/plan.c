/* plan.c - which passes a run has, what each cell is called, and which are there already. */
#include "replay/assign.h"
#include "replay/feed_priv.h"
#include "replay/plan_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/size.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

static const int64_t oracle_limit = INT64_C(256) << 20; /* bytes of a thread, unless asked */

/* ---- what is asked -------------------------------------------------------------------------
 */

static kvt_code add_use(plan *p, kvt_use *u, uint64_t seed, bool control, bool by_all,
                        kvt_err *err)
{
    for (int i = 0; i < p->n_use; i++) {
        if (strcmp(p->use[i].use->text, u->text) == 0 && p->use[i].seed == seed) {
            p->use[i].asked |= !control;
            p->use[i].by_all &= by_all;
            return KVT_OK;
        }
    }
    plan_use *use = kvt_resize(p->use, p->n_use, p->n_use + 1, sizeof *use);
    if (!use)
        return kvt_fail_memory(err, sizeof *use);
    p->use = use;
    use[p->n_use++] = (plan_use){.use = u, .seed = seed, .asked = !control, .by_all = by_all};
    return KVT_OK;
}

/* Whether a list of policies holds that name. */
static bool lists(const char *text, const char *name)
{
    for (size_t n = strlen(name); *text; text += *text == ',') {
        if (strncmp(text, name, n) == 0 && strchr(",:/", text[n]))
            return true;
        text += strcspn(text, ",");
    }
    return false;
}

static kvt_code own_uses(plan *p, const char *text, bool control, kvt_err *err)
{
    kvt_use **list;
    int n;
    bool all_of = lists(text, "all");
    if (kvt_uses_parse(&list, &n, p->registry, text, err))
        return err->code;
    kvt_use **all = kvt_resize(p->owned, p->n_owned, p->n_owned + n, sizeof *all);
    if (!all) {
        kvt_uses_free(list, n);
        return kvt_fail_memory(err, n * (int64_t)sizeof *all);
    }
    p->owned = all;
    for (int i = 0; i < n; i++)
        all[p->n_owned++] = list[i];
    kvt_free(list);
    for (int i = p->n_owned - n; i < p->n_owned; i++) {
        bool random = control && strcmp(all[i]->policy->name, "random") == 0;
        for (uint64_t s = 0; s < (random ? 3 : 1); s++)
            if (add_use(p, all[i], p->ctx->seed + s, control,
                        all_of && !lists(text, all[i]->policy->name), err))
                return err->code;
    }
    return KVT_OK;
}

/* The policies that were asked for; "all" holds those that read weights where a file of their
 * kind was offered. */
static kvt_code ask(plan *p, const char *text, kvt_err *err)
{
    if (own_uses(p, text, false, err))
        return err->code;
    const kvt_policy *const *list = kvt_registry_policies(p->registry);
    for (; lists(text, "all") && *list; list++)
        if ((*list)->weights && !(*list)->traits.control && plan_weights_offers(p, *list) &&
            own_uses(p, (*list)->name, false, err))
            return err->code;
    return KVT_OK;
}

/* Takes those out of "all" whose kind of probe no trace has: one line names them. */
static void leave_out(plan *p)
{
    int n = 0;
    for (int i = 0; i < p->n_use; i++) {
        const plan_use *u = &p->use[i];
        size_t at = strlen(p->left_out);
        if (!u->by_all || plan_probe_anywhere(p, u->use))
            p->use[n++] = *u;
        else if (at < sizeof p->left_out)
            snprintf(p->left_out + at, sizeof p->left_out - at, "%s%s", at ? ", " : "",
                     u->use->name);
    }
    p->n_use = n;
}

static bool is_planned(const plan *p, const kvt_policy *policy)
{
    for (int i = 0; i < p->n_use; i++)
        if (p->use[i].use->policy == policy)
            return true;
    return false;
}

/* Names those that "all" leaves out since they read a file that was not named. */
static void name_without_file(plan *p)
{
    for (const kvt_policy *const *all = kvt_registry_policies(p->registry); *all; all++) {
        size_t at = strlen(p->no_file);
        bool reads = (*all)->weights || ((*all)->traits.needs & KVT_NEED_SCORES);
        if (reads && !(*all)->traits.control && !is_planned(p, *all) && at < sizeof p->no_file)
            snprintf(p->no_file + at, sizeof p->no_file - at, "%s%s", at ? ", " : "",
                     (*all)->name);
    }
}

/* Names those that "all" leaves out since no trace could answer them. */
static void name_unanswered(plan *p, const char *text)
{
    for (const kvt_policy *const *all = kvt_registry_policies(p->registry); *all; all++) {
        kvt_use *u;
        kvt_err ignored; /* one that cannot be read without parameters is no part of "all" */
        size_t at = strlen(p->no_trace);
        if ((*all)->traits.control || lists(text, (*all)->name) ||
            kvt_use_parse(&u, p->registry, (*all)->name, &ignored))
            continue;
        if (kvt_use_why_not(u))
            snprintf(p->no_trace + at, sizeof p->no_trace - at, "%s%s (%s)", at ? ", " : "",
                     u->name, kvt_use_why_not(u));
        kvt_use_free(u);
    }
}

/* Whether it decides while decoding: its habit, or what was asked where it has both. */
static bool acts_in_decode(const kvt_use *u, kvt_act act)
{
    unsigned phases = u->traits.phases;
    if (!(phases & KVT_DECODE))
        return false;
    return act != KVT_ACT_PREFILL || !(phases & KVT_PREFILL);
}

/* What was named as the bound must be one, whether or not controls are there. */
static kvt_code check_oracle(const plan *p, const char *text, kvt_err *err)
{
    kvt_use **use;
    int n;
    kvt_code code = KVT_OK;
    if (!text || strcmp(text, "none") == 0)
        return KVT_OK;
    if (kvt_uses_parse(&use, &n, p->registry, text, err))
        return kvt_within(err, "oracle");
    for (int i = 0; i < n && !code; i++)
        if (!use[i]->traits.control)
            code = kvt_fail(err, KVT_USAGE, "oracle: policy %s is no bound", use[i]->name);
    kvt_uses_free(use, n);
    return code;
}

static kvt_code add_controls(plan *p, const kvt_replay_spec *spec, kvt_err *err)
{
    static const char *const names[] = {"full", "random", "position"};
    const char *oracle = spec->oracle ? spec->oracle : "oracle";
    for (int i = 0; i < 3; i++)
        if (kvt_registry_find(p->registry, names[i]) && own_uses(p, names[i], true, err))
            return err->code;
    if (strcmp(oracle, "none") == 0 ||
        (!spec->oracle && !kvt_registry_find(p->registry, oracle)))
        return KVT_OK;
    return own_uses(p, oracle, true, err);
}

/* Whether some use drops tokens for good while decoding. */
static bool stays_inside(const plan *p)
{
    for (int i = 0; i < p->n_use; i++) {
        const kvt_use *u = p->use[i].use;
        if (u->traits.effect == KVT_EVICT && !u->traits.by_threshold &&
            acts_in_decode(u, p->spec->act))
            return true;
    }
    return false;
}

/* The bound of those, behind the other controls. */
static kvt_code add_inside_bound(plan *p, int n_control, kvt_err *err)
{
    static const char name[] = "oracle-assign";
    int n = p->n_use;
    bool none = p->spec->oracle && strcmp(p->spec->oracle, "none") == 0;
    if (p->spec->no_controls || none || !stays_inside(p) ||
        !kvt_registry_find(p->registry, name))
        return KVT_OK;
    if (own_uses(p, name, true, err) || p->n_use == n)
        return err->code;
    plan_use bound = p->use[n];
    memmove(p->use + n_control + 1, p->use + n_control,
            (size_t)(n - n_control) * sizeof *p->use);
    p->use[n_control] = bound;
    return KVT_OK;
}

static kvt_code read_budgets(plan *p, const kvt_replay_spec *spec, kvt_err *err)
{
    const char *text = spec->budgets ? spec->budgets : kvt_replay_default_budgets();
    if (kvt_budgets_parse(p->budget, &p->n_budget, text, err))
        return err->code;
    for (int i = 0; i < p->n_budget; i++)
        if (p->budget[i].kind == KVT_BUDGET_FRACTION && spec->rule == KVT_RULE_ABS)
            return kvt_fail(err, KVT_USAGE, "budget '%s': the rule abs takes tokens only",
                            p->budget[i].text);
    return KVT_OK;
}

static kvt_code read_metrics(plan *p, const kvt_replay_spec *spec, kvt_err *err)
{
    if (kvt_metrics_parse(&p->metrics, spec->metrics, err))
        return err->code;
    bool named = spec->metrics && !lists(spec->metrics, "all");
    for (int i = 0; named && spec->no_output_error && kvt_metrics()[i]; i++)
        if ((p->metrics >> i & 1) && kvt_metrics()[i]->output && kvt_metrics()[i]->extra)
            return kvt_fail(err, KVT_USAGE,
                            "metric %s is an error of the output, which is left out",
                            kvt_metrics()[i]->name);
    return KVT_OK;
}

/* The metrics of a pass: errors of the output only where that is known. */
static uint64_t pass_metrics(const plan *p, bool output)
{
    uint64_t set = p->metrics;
    for (int i = 0; !output && kvt_metrics()[i]; i++)
        if (kvt_metrics()[i]->output)
            set &= ~(UINT64_C(1) << i);
    return set;
}

kvt_code plan_open(plan *out, const kvt_replay_spec *spec, const kvt_ctx *ctx, kvt_err *err)
{
    *out = (plan){.spec = spec, .ctx = ctx};
    if (spec->n_shard > 0 && (spec->shard < 1 || spec->shard > spec->n_shard))
        return kvt_fail(err, KVT_USAGE, "shard %d/%d: expected K/N with K from 1 to N",
                        spec->shard, spec->n_shard);
    if (kvt_registry_new(&out->registry, err))
        return err->code;
    for (int i = 0; i < spec->n_plugin; i++)
        if (kvt_registry_plugin(out->registry, spec->plugin[i], err))
            return err->code;
    if (read_metrics(out, spec, err) || read_budgets(out, spec, err) ||
        check_oracle(out, spec->oracle, err) || plan_weights_offered(out, err))
        return err->code;
    if (!spec->no_controls && add_controls(out, spec, err))
        return err->code;
    int n_control = out->n_use;
    if (ask(out, spec->policies ? spec->policies : "all", err) ||
        add_inside_bound(out, n_control, err) || plan_weights_named(out, err) ||
        set_open(&out->set, spec->trace, spec->n_trace, spec->fail_fast, ctx, err))
        return err->code;
    leave_out(out);
    if (!spec->policies || lists(spec->policies, "all")) {
        name_without_file(out);
        name_unanswered(out, spec->policies ? spec->policies : "all");
    }
    return KVT_OK;
}

void plan_close(plan *p)
{
    plan_pools_free(p);
    kvt_uses_free(p->owned, p->n_owned);
    kvt_free(p->use);
    set_close(&p->set);
    plan_weights_close(p);
    kvt_registry_free(p->registry);
}

/* ---- a pass --------------------------------------------------------------------------------
 */

/* Whether one lane's scores do not say which of its slots stay: it selects by those of several.
 */
static bool selects_together(const kvt_use *u)
{
    kvt_traits own = u->policy->traits;
    if (u->policy->vary)
        u->policy->vary(u->params, &own);
    return u->policy->select && own.scope != KVT_BY_LANE;
}

static int64_t period(const plan *p, const kvt_use *u)
{
    return u->own.every > 0            ? u->own.every
           : p->spec->shrink_every > 0 ? p->spec->shrink_every
           : u->traits.every > 0       ? u->traits.every
                                       : 1;
}

/* The worse of what the policy declares and what is found. */
static kvt_exactness found_exactness(const pass *x, const kvt_trace_info *info)
{
    kvt_exactness e = x->use->traits.exactness;
    bool decided = x->use->traits.needs & KVT_NEED_DECISION;
    if (decided && e < KVT_OPEN_LOOP && strcmp(info->facts.decision_cache, "evicted") != 0)
        e = KVT_OPEN_LOOP; /* what the model decides while nothing is evicted */
    if (x->joins && e == KVT_NOT_REPLAYABLE) /* but from a trace with its decisions */
        e = KVT_OPEN_LOOP;
    if (x->inside && e < KVT_OPEN_LOOP)
        e = KVT_OPEN_LOOP;
    return e;
}

static kvt_code open_scores(pass *x, const kvt_trace_info *info, kvt_err *err)
{
    if (!(x->use->traits.needs & KVT_NEED_SCORES) || x->reason[0])
        return KVT_OK;
    if (kvt_scores_open(&x->scores, x->use->own.file, err))
        return kvt_within(err, "policy %s", x->use->policy->name);
    const kvt_view *v = &x->scores->score;
    if (strcmp(x->scores->trace_digest, info->digest) != 0)
        snprintf(x->reason, sizeof x->reason,
                 "policy %s: the score file is of another trace (digest %.8s, expected %.8s)",
                 x->use->policy->name, x->scores->trace_digest, info->digest);
    else if (v->dim[0] != x->n_layer || v->dim[1] != x->n_lane || v->dim[2] != x->n_prompt)
        snprintf(
            x->reason, sizeof x->reason,
            "policy %s: scores of %lld layers, %lld lanes, %lld tokens, expected %d, %d, %lld",
            x->use->policy->name, (long long)v->dim[0], (long long)v->dim[1],
            (long long)v->dim[2], x->n_layer, x->n_lane, (long long)x->n_prompt);
    return KVT_OK;
}

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
    kvt_work work = {.head_dim = slot_bytes / 4};
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

/* Budgets in whole slots, rising, equal ones once. */
static kvt_code resolve(const plan *p, pass *x, int trace, const kvt_trace *t,
                        const bool *layers, kvt_err *err)
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

bool plan_in_shard(const plan *p, int64_t i)
{
    return p->spec->n_shard < 1 || i % p->spec->n_shard == p->spec->shard - 1;
}

kvt_code plan_pass(pass **out, const plan *p, const plan_use *u, int trace, kvt_trace *t,
                   kvt_err *err)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    bool layers[KVT_LAYERS_MAX];
    *out = NULL;
    if (plan_layers(layers, p, info, err))
        return err->code;
    pass *x = kvt_alloc(1, sizeof *x);
    if (!x)
        return kvt_fail_memory(err, sizeof *x);
    const kvt_traits *traits = &u->use->traits;
    x->use = u->use;
    x->seed = u->seed;
    x->inside = acts_in_decode(u->use, p->spec->act);
    x->skip = traits->effect == KVT_SKIP;
    x->joins = traits->effect == KVT_JOIN;
    x->channels = traits->effect == KVT_CHANNELS;
    x->fair = p->spec->fair == KVT_FAIR_BYTES;
    x->by_head = traits->by_query_head;
    x->together = selects_together(u->use);
    x->whole_model = traits->scope == KVT_BY_MODEL;
    x->output = !p->spec->no_output_error && info->has[KVT_DS_VALUES] &&
                (!pass_is_apart(x) || feed_has_rows(info));
    x->metrics = pass_metrics(p, x->output);
    x->every = period(p, u->use);
    x->oracle_limit = p->spec->oracle_limit ? (int64_t)p->spec->oracle_limit : oracle_limit;
    x->n_layer = info->n_layer;
    x->n_head = (int)info->facts.model.n_head;
    x->n_lane = x->by_head ? x->n_head : (int)info->facts.model.n_kv_head;
    x->lane_share = x->by_head ? x->n_head / (int)info->facts.model.n_kv_head : 1;
    x->n_prompt = info->facts.token.n_prompt;
    x->n_response = info->facts.token.n_response;
    x->exactness = found_exactness(x, info);
    x->by_score =
        !u->use->policy->select || (u->use->policy->traits.selects_best && !x->together);
    x->ranked = !x->inside && !x->skip && !pass_is_apart(x) && traits->one_ranking &&
                !traits->by_threshold && x->by_score;
    plan_reason(p, x, trace, t);
    plan_weights(p, x, info);
    if (open_scores(x, info, err) || resolve(p, x, trace, t, layers, err)) {
        pass_free(x);
        return err->code;
    }
    *out = x;
    return KVT_OK;
}

/* ---- layers --------------------------------------------------------------------------------
 */

kvt_code plan_layers(bool *out, const plan *p, const kvt_trace_info *info, kvt_err *err)
{
    bool asked[KVT_LAYERS_MAX];
    int n = 0, n_model = (int)info->facts.model.n_layer;
    if (p->spec->layers && list_parse(asked, n_model, p->spec->layers, err))
        return kvt_within(err, "layers");
    for (int l = 0; l < info->n_layer; l++) {
        out[l] = !p->spec->layers || asked[info->layer_id[l]];
        n += out[l];
    }
    if (n == 0)
        return kvt_fail(err, KVT_USAGE, "layers '%s': '%s' holds none of them", p->spec->layers,
                        info->path);
    return KVT_OK;
}

/* ---- the plan alone ------------------------------------------------------------------------
 */

/* Bytes of the arrays that a pass writes. */
static int64_t pass_bytes(const pass *x, const bool *layers)
{
    int64_t lanes = 0, N = x->n_prompt, M = x->n_response;
    for (int l = 0; l < x->n_layer; l++)
        lanes += layers[l] ? x->n_lane : 0;
    int64_t once = lanes * N * (4 + 4 + 1),
            cell = lanes * (8 * M + (int64_t)sizeof(kvt_lane_row));
    return x->reason[0]
               ? 0
               : once + x->n_cell * (cell + (x->ranked ? 4 * lanes : 4 * lanes * (N + M)));
}

static kvt_code plan_trace(plan *p, int trace, kvt_replay_counts *n, kvt_err *err)
{
    kvt_trace *t;
    if (kvt_trace_open(&t, p->set.trace[trace].path, p->spec->cache_bytes, err))
        return err->code;
    kvt_code code = plan_layers(p->layers, p, kvt_trace_info_of(t), err);
    for (int u = 0; !code && u < p->n_use; u++) {
        pass *x;
        if (!plan_in_shard(p, (int64_t)trace * p->n_use + u))
            continue;
        code = plan_pass(&x, p, &p->use[u], trace, t, err);
        if (code)
            break;
        n->n_pass++;
        n->n_cell += x->n_cell;
        n->skipped += x->reason[0] ? x->n_cell : 0;
        n->bytes_planned += pass_bytes(x, p->layers);
        pass_free(x);
    }
    kvt_trace_close(t);
    return code;
}

kvt_code kvt_replay_plan(kvt_replay_counts *counts, const kvt_replay_spec *spec,
                         const kvt_ctx *ctx, kvt_err *err)
{
    static const kvt_ctx quiet = {0};
    plan p;
    *counts = (kvt_replay_counts){0};
    kvt_code code = plan_open(&p, spec, ctx ? ctx : &quiet, err);
    for (int i = 0; !code && i < p.set.n; i++) {
        counts->n_trace++;
        code = plan_trace(&p, i, counts, err);
    }
    plan_close(&p);
    return code;
}

kvt_code kvt_replay_reason(char *why, size_t cap, const kvt_replay_spec *spec,
                           const kvt_ctx *ctx, kvt_err *err)
{
    static const kvt_ctx quiet = {0};
    plan p;
    kvt_trace *t = NULL;
    pass *x = NULL;
    why[0] = 0;
    kvt_code code = plan_open(&p, spec, ctx ? ctx : &quiet, err);
    if (!code && p.n_use > 0)
        code = kvt_trace_open(&t, p.set.trace[0].path, spec->cache_bytes, err);
    if (t)
        code = plan_pass(&x, &p, &p.use[0], 0, t, err);
    if (x)
        snprintf(why, cap, "%s", x->reason);
    else if (!code)
        snprintf(why, cap, "no trace of the run has what it needs: %s", p.left_out);
    if (x)
        pass_free(x);
    if (t)
        kvt_trace_close(t);
    plan_close(&p);
    return code;
}
