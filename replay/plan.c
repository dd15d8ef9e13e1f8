/* plan.c - what a run is asked for, and its passes. */
#include "replay/feed_priv.h"
#include "replay/plan_priv.h"
#include "replay/use_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

static const int64_t oracle_limit = INT64_C(256) << 20; /* bytes of a thread, unless asked */

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
    bool named = spec->metrics && !plan_lists(spec->metrics, "all");
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
        plan_weights_offered(out, err) || plan_ask(out, err) || plan_weights_named(out, err) ||
        set_open(&out->set, spec->trace, spec->n_trace, spec->fail_fast, ctx, err))
        return err->code;
    plan_leave_out(out);
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
    x->inside = plan_acts_in_decode(u->use, p->spec->act);
    x->skip = traits->effect == KVT_SKIP;
    x->joins = traits->effect == KVT_JOIN;
    x->channels = traits->effect == KVT_CHANNELS;
    x->fair = p->spec->fair == KVT_FAIR_BYTES;
    x->by_head = traits->by_query_head;
    x->together = use_selects_together(u->use);
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
    x->ranked =
        pass_is_on_top(x) && traits->one_ranking && !traits->by_threshold && x->by_score;
    plan_reason(p, x, trace, t);
    plan_weights(p, x, info);
    if (open_scores(x, info, err) || plan_cells(p, x, trace, t, layers, err)) {
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

int64_t plan_bytes(const pass *x, const bool *layers)
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
