/* cost_run.c - see cost_run.h. */
#include "cli/cost_run.h"

#include <stdio.h>
#include <string.h>

#include "cli/files.h"
#include "kvt/arena.h"

/* ---- what was asked for --------------------------------------------------------------------
 */

kvt_code cli_join(buf *out, const cli_list *list, kvt_err *err)
{
    buf_init(out, 1 << 20);
    for (int i = 0; i < list->n; i++) {
        buf_text(out, i > 0 ? "," : "");
        buf_text(out, list->item[i]);
    }
    return buf_check(out, err);
}

kvt_code cost_open(cost_request **out, kvt_err *err)
{
    cost_request *r = *out = kvt_alloc(1, sizeof *r);
    if (!r)
        return kvt_fail_memory(err, sizeof *r);
    buf_init(&r->policies, 1);
    buf_init(&r->budgets, 1);
    return KVT_OK;
}

void cost_close(cost_request *r)
{
    if (!r)
        return;
    kvt_cost_table_free(&r->table);
    kvt_results_free(r->results);
    kvt_registry_free(r->registry);
    buf_fini(&r->policies);
    buf_fini(&r->budgets);
    kvt_free(r);
}

kvt_code cost_read_lengths(cost_request *r, const char *text, kvt_err *err)
{
    if (kvt_lengths_parse(r->length, COST_LENGTHS_MAX, &r->spec.n_length, text, err))
        return kvt_within(err, "--length");
    r->spec.length = r->length;
    return KVT_OK;
}

kvt_code cost_read_models(cli *c, cost_request *r, const char *geometry, const char *draft,
                          const char *machines, kvt_err *err)
{
    if (geometry && cli_cost_geometry(c, &r->geometry, geometry, err))
        return err->code;
    if (draft && cli_cost_geometry(c, &r->draft, draft, err))
        return kvt_within(err, "--draft");
    r->spec.geometry = geometry ? &r->geometry : NULL;
    r->spec.draft = draft ? &r->draft : NULL;
    r->spec.trace_geometry = cli_cost_trace_geometry;
    r->spec.machine = r->machine;
    return cli_cost_machines(r->machine, &r->spec.n_machine, machines, err);
}

/* ---- predicting ----------------------------------------------------------------------------
 */

/* Adds the rows of `from`, which is freed, and names the trace that they are of. */
static kvt_code append(kvt_cost_table *to, kvt_cost_table *from, const char *trace,
                       kvt_err *err)
{
    kvt_cost_row *grown = kvt_resize(to->row, to->n, to->n + from->n, sizeof *grown);
    if (!grown) {
        kvt_cost_table_free(from);
        return kvt_fail_memory(err, (size_t)(to->n + from->n) * sizeof *grown);
    }
    memcpy(grown + to->n, from->row, (size_t)from->n * sizeof *grown);
    for (int64_t i = 0; i < from->n; i++)
        snprintf(grown[to->n + i].trace_id, sizeof grown->trace_id, "%s", trace);
    to->row = grown;
    to->n += from->n;
    kvt_cost_table_free(from);
    return KVT_OK;
}

/* Of a trace its model and its lengths are taken; nothing is replayed. */
static kvt_code of_trace(cli *c, cost_request *r, const char *path, kvt_err *err)
{
    cli_cost_trace *t = kvt_alloc(1, sizeof *t);
    kvt_cost_spec spec = r->spec;
    kvt_cost_table table;
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    kvt_code code = cli_cost_trace_open(t, path, err);
    if (!code) {
        spec.geometry = spec.geometry ? spec.geometry : &t->geometry;
        spec.n_response = spec.n_response < 0 ? t->n_response : spec.n_response;
        if (spec.n_length == 0)
            spec.length = &t->n_prompt, spec.n_length = 1;
        code = kvt_cost_make(&table, &spec, &c->ctx, err);
    }
    if (!code)
        code = append(&r->table, &table, t->name, err);
    kvt_free(t);
    return code;
}

static kvt_code of_traces(cli *c, cost_request *r, int n_arg, char **arg, kvt_err *err)
{
    cli_traces traces = {0};
    kvt_code code = KVT_OK;
    for (int i = 0; i < n_arg && !code; i++)
        code = cli_traces_add(&traces, arg[i], err);
    if (!code && traces.n == 0)
        code = kvt_fail(err, KVT_NOTFOUND, "'%s': there is no trace", arg[0]);
    for (int i = 0; i < traces.n && !code; i++)
        code = of_trace(c, r, traces.item[i], err);
    cli_traces_free(&traces);
    return code;
}

kvt_code cost_predict(cli *c, cost_request *r, const char *results, int n_trace, char **trace,
                      kvt_err *err)
{
    char *dir[] = {(char *)(uintptr_t)results};
    if (n_trace)
        return of_traces(c, r, n_trace, trace, err);
    if (results) {
        if (cli_results(&r->results, 1, dir, false, err) || cli_results_steps(r->results, err))
            return err->code;
        r->spec.results = r->results;
        return kvt_cost_make(&r->table, &r->spec, &c->ctx, err);
    }
    if (!r->spec.geometry)
        return kvt_fail(err, KVT_USAGE,
                        "a model is missing: --geometry NAME (kvt cost --list geometries), "
                        "--results DIR or a trace");
    if (r->spec.n_length == 0 && cost_read_lengths(r, "4Ki..32Kix2", err))
        return err->code;
    return kvt_cost_make(&r->table, &r->spec, &c->ctx, err);
}

kvt_code cost_of_replay(cli *c, cost_request *r, kvt_results *results, kvt_err *err)
{
    if (cli_results_steps(results, err))
        return err->code;
    r->profile[0] = KVT_PROFILE_FUSED;
    r->profile[1] = KVT_PROFILE_AS_PUBLISHED;
    r->spec.profile = r->profile;
    r->spec.n_profile = 2;
    r->spec.n_response = -1;
    r->spec.results = results;
    return kvt_cost_make(&r->table, &r->spec, &c->ctx, err);
}
