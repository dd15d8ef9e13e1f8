/* make_plan.c - what a table of costs has: for every trace and length the policies at their
 * budgets, in the order of the rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"
#include "replay/cost/make_priv.h"

/* ---- constants -----------------------------------------------------------------------------
 */

/* The constants of every policy on every machine under every profile. */
static kvt_code find_constants(make *m, kvt_err *err)
{
    int64_t n = (int64_t)m->n_use * make_per_item(m);
    kvt_published *at = m->constants = kvt_alloc(n, sizeof *at);
    if (!at)
        return kvt_fail_memory(err, (size_t)n * sizeof *at);
    for (int u = 0; u < m->n_use; u++)
        for (int i = 0; i < m->spec->n_machine; i++)
            for (int p = 0; p < m->n_profile; p++, at++) {
                kvt_cost_constants(at, &m->spec->machine[i], m->profile[p],
                                   m->use[u].use ? m->use[u].use->policy->name : "");
                if (m->spec->draft_tokens > 0)
                    at->draft_tokens = m->spec->draft_tokens;
            }
    return KVT_OK;
}

/* ---- groups and items ----------------------------------------------------------------------
 */

static kvt_code add_item(make *m, const make_item *x, kvt_err *err)
{
    /* Room doubles, so that a long table is not copied for each of its items. */
    if ((m->n_item & (m->n_item - 1)) == 0) {
        int64_t n = m->n_item ? 2 * m->n_item : 1;
        make_item *grown = kvt_resize(m->item, m->n_item, n, sizeof *grown);
        if (!grown)
            return kvt_fail_memory(err, (size_t)n * sizeof *grown);
        m->item = grown;
    }
    m->item[m->n_item] = *x;
    m->item[m->n_item].order = m->n_item;
    m->n_item++;
    return KVT_OK;
}

/* A group that begins with the dense cache. */
static kvt_code open_group(make *m, const make_group *x, kvt_err *err)
{
    make_group *grown = kvt_resize(m->group, m->n_group, m->n_group + 1, sizeof *grown);
    if (!grown)
        return kvt_fail_memory(err, sizeof *grown);
    m->group = grown;
    make_item full = {.group = m->n_group, .budget = x->n_prompt, .asked = "100%", .cell = -1};
    grown[m->n_group] = *x;
    grown[m->n_group++].first_item = m->n_item;
    return add_item(m, &full, err);
}

/* Controls last, then by name and text: so that a replay and its files give the same rows. */
static int by_policy(const kvt_result *x, const kvt_result *y)
{
    if (x->is_control != y->is_control)
        return x->is_control ? 1 : -1;
    int name = strcmp(x->cell[0].policy, y->cell[0].policy);
    return name != 0 ? name : strcmp(x->policy_text, y->policy_text);
}

/* The dense cache stays in front; then rising budgets, policies as asked or of results. */
static int by_budget(const void *a, const void *b)
{
    const make_item *x = a, *y = b;
    if (x->budget != y->budget)
        return x->budget < y->budget ? -1 : 1;
    int policy = x->result && y->result ? by_policy(x->result, y->result) : 0;
    if (policy != 0)
        return policy;
    int64_t seed_x = x->result ? x->result->cell[x->cell].seed : 0;
    int64_t seed_y = y->result ? y->result->cell[y->cell].seed : 0;
    if (seed_x != seed_y)
        return seed_x < seed_y ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void close_group(make *m)
{
    make_group *g = &m->group[m->n_group - 1];
    g->n_item = m->n_item - g->first_item;
    g->first_row = m->n_row;
    m->n_row += g->n_item * m->n_batch * make_per_item(m);
    qsort(m->item + g->first_item + 1, (size_t)(g->n_item - 1), sizeof *m->item, by_budget);
}

/* Lengths of a group of the spec; those of the trace where none are given. */
static int length_count(const make *m)
{
    return m->spec->n_length > 0 ? m->spec->n_length : 1;
}

/* ---- without results -----------------------------------------------------------------------
 */

static kvt_code read_budgets(kvt_budget out[KVT_BUDGETS_MAX], int *n, const make *m,
                             kvt_err *err)
{
    const kvt_cost_spec *spec = m->spec;
    const kvt_geometry *g = &spec->geometry->g;
    double bits = cost_kv_bits(&spec->setting);
    double least = kvt_cost_token_bytes(spec->geometry, bits, 0) * (double)g->n_layer;
    if (kvt_budgets_parse(out, n, spec->budgets ? spec->budgets : "10%", err))
        return err->code;
    for (int i = 0; i < *n; i++) {
        if (out[i].kind == KVT_BUDGET_FRACTION && spec->rule == KVT_RULE_ABS)
            return kvt_fail(err, KVT_USAGE, "budget '%s': the rule abs takes tokens only",
                            out[i].text);
        if (out[i].kind == KVT_BUDGET_BYTES && (double)out[i].num < least)
            return kvt_fail(err, KVT_USAGE,
                            "budget '%s': one slot of every lane of %s takes %.0f bytes",
                            out[i].text, g->name, least);
    }
    return KVT_OK;
}

/* Slots that a budget is for a policy: bytes are shared by its lanes. */
static int64_t slots_of(const make *m, const kvt_budget *b, const kvt_use *u, int64_t n_prompt)
{
    const kvt_cost_geometry *g = m->spec->geometry;
    double bytes = kvt_cost_token_bytes(g, cost_kv_bits(&m->spec->setting), 0);
    int64_t lanes = u->traits.by_query_head ? g->g.n_head : g->g.n_kv_head;
    return kvt_budget_tokens(b, m->spec->rule, n_prompt, g->g.n_layer * lanes,
                             (int64_t)(bytes / (double)g->g.n_kv_head));
}

/* Budgets that are as many slots at this length are one. */
static bool is_repeated(const kvt_budget *b, int i, const make *m, const kvt_use *u, int64_t n)
{
    for (int k = 0; k < i; k++)
        if (slots_of(m, &b[k], u, n) == slots_of(m, &b[i], u, n))
            return true;
    return false;
}

static kvt_code add_asked(make *m, const kvt_budget *budget, int n_budget, int64_t n_prompt,
                          kvt_err *err)
{
    for (int u = 1; u < m->n_use; u++)
        for (int b = 0; b < n_budget; b++) {
            const kvt_use *use = m->use[u].use;
            make_item x = {.group = m->n_group - 1,
                           .use = u,
                           .budget = slots_of(m, &budget[b], use, n_prompt),
                           .cell = -1};
            snprintf(x.asked, sizeof x.asked, "%s", budget[b].text);
            if (!is_repeated(budget, b, m, use, n_prompt) && add_item(m, &x, err))
                return err->code;
        }
    return KVT_OK;
}

static kvt_code plan_asked(make *m, kvt_err *err)
{
    const kvt_cost_spec *spec = m->spec;
    kvt_budget budget[KVT_BUDGETS_MAX];
    int n_budget;
    if (!spec->geometry)
        return kvt_fail(err, KVT_USAGE, "a geometry must be named where no results are given");
    if (spec->n_length < 1)
        return kvt_fail(err, KVT_USAGE, "a length must be given where no results are");
    if (make_add_model(m, spec->geometry, NULL, err) ||
        read_budgets(budget, &n_budget, m, err) ||
        make_add_list(m, spec->policies ? spec->policies : "all", err))
        return err->code;
    for (int i = 0; i < spec->n_length; i++) {
        make_group x = {.model = m->model[0],
                        .n_prompt = spec->length[i],
                        .n_response = spec->n_response < 0 ? 256 : spec->n_response};
        if (open_group(m, &x, err) || add_asked(m, budget, n_budget, x.n_prompt, err))
            return err->code;
        close_group(m);
    }
    return KVT_OK;
}

/* ---- of results ----------------------------------------------------------------------------
 */

/* The cells of one pass; at another length than the trace's the budget is the same share. */
static kvt_code add_cells(make *m, const kvt_result *r, int64_t n_prompt, kvt_err *err)
{
    int use;
    if (make_add_use(&use, m, r->policy_text, true, err))
        return err->code;
    for (int c = 0; c < r->n_cell; c++) {
        const kvt_cell *cell = &r->cell[c];
        double slots = n_prompt == r->n_prompt ? cell->budget_tokens
                                               : cell->budget_frac * (double)n_prompt;
        make_item x = {.group = m->n_group - 1, .use = use, .result = r, .cell = c};
        if (strcmp(cell->status, "ok") != 0 || !(slots >= 0))
            continue;
        x.budget = llround(slots);
        snprintf(x.asked, sizeof x.asked, "%s", cell->budget_asked);
        if (add_item(m, &x, err))
            return err->code;
    }
    return KVT_OK;
}

/* One length of the results [from, to), which are of one trace. */
static kvt_code plan_trace(make *m, int64_t from, int64_t to, int length, kvt_err *err)
{
    const kvt_cost_spec *spec = m->spec;
    const kvt_result *r = spec->results->result[from];
    make_group x = {.trace = r,
                    .n_prompt = spec->n_length > 0 ? spec->length[length] : r->n_prompt,
                    .n_response = spec->n_response < 0 ? r->n_response : spec->n_response};
    if (make_find_model(&x.model, m, r, err) || open_group(m, &x, err))
        return err->code;
    for (int64_t i = from; i < to; i++)
        if (add_cells(m, spec->results->result[i], x.n_prompt, err))
            return err->code;
    close_group(m);
    return KVT_OK;
}

static kvt_code plan_results(make *m, kvt_err *err)
{
    const kvt_results *s = m->spec->results;
    if (m->spec->geometry && make_add_model(m, m->spec->geometry, NULL, err))
        return err->code;
    for (int64_t from = 0, to; from < s->n; from = to) {
        for (to = from + 1; to < s->n; to++)
            if (strcmp(s->result[to]->trace_path, s->result[from]->trace_path) != 0)
                break;
        for (int i = 0; i < length_count(m); i++)
            if (plan_trace(m, from, to, i, err))
                return err->code;
    }
    return m->n_item > m->n_group
               ? KVT_OK
               : kvt_fail(err, KVT_NOTFOUND,
                          "the results hold no cell that was computed: nothing was kept there");
}

/* ---- all of it -----------------------------------------------------------------------------
 */

kvt_code make_plan(make *m, const kvt_cost_spec *spec, kvt_err *err)
{
    static const kvt_cost_profile fused = KVT_PROFILE_FUSED;
    int full;
    *m = (make){.spec = spec, .profile = &fused, .n_profile = 1, .n_batch = 1};
    m->batch = spec->n_batch > 0 ? spec->batch : &spec->setting.batch;
    m->n_batch = spec->n_batch > 0 ? spec->n_batch : 1;
    if (spec->n_profile > 0)
        m->profile = spec->profile, m->n_profile = spec->n_profile;
    if (spec->n_machine < 1)
        return kvt_fail(err, KVT_USAGE, "a machine must be named");
    return make_add_use(&full, m, "full", false, err) ||
                   (spec->results ? plan_results(m, err) : plan_asked(m, err)) ||
                   find_constants(m, err)
               ? err->code
               : KVT_OK;
}

void make_close(make *m)
{
    for (int i = 0; i < m->n_use; i++)
        kvt_use_free(m->use[i].use);
    for (int i = 0; i < m->n_model; i++)
        kvt_free(m->model[i]);
    kvt_free(m->model);
    kvt_free(m->use);
    kvt_free(m->constants);
    kvt_free(m->group);
    kvt_free(m->item);
}
