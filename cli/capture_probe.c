/* capture_probe.c - the part of kvt capture that runs probes. */
#include "cli/capture_probe.h"

#include <string.h>

#include "base/size.h"
#include "cli/files.h"

kvt_code capture_probe_open(capture_probe *p, kvt_model *m, const cli_list *text, kvt_err *err)
{
    p->n_probe = text->n;
    if (!text->n)
        return KVT_OK;
    return kvt_probes_open(&p->probes, m, text->item, text->n, &p->c->ctx, err);
}

void capture_probe_close(capture_probe *p)
{
    kvt_probes_close(p->probes);
    p->probes = NULL;
}

static kvt_code run_on(void *user, const kvt_prompt *prompt, kvt_writer *w, const kvt_ctx *ctx,
                       kvt_err *err)
{
    capture_probe *p = user;
    return kvt_probes_capture(p->probes, prompt, w, ctx, err);
}

static kvt_code add_to(void *user, const char *trace, const kvt_ctx *ctx, kvt_err *err)
{
    capture_probe *p = user;
    return kvt_probes_add(p->probes, trace, false, &p->counts, ctx, err);
}

static void cost_of(void *user, const kvt_trace_facts *facts, int n_layer, const kvt_ctx *ctx,
                    kvt_probe_cost *out)
{
    const capture_probe *p = user;
    kvt_probes_cost(p->probes, facts, n_layer, ctx, out);
}

kvt_code capture_probe_hook(capture_probe *p, kvt_capture_spec *spec, kvt_err *err)
{
    if (!p->probes)
        return KVT_OK;
    spec->probes = run_on;
    spec->present = add_to;
    spec->probes_cost = cost_of;
    spec->probes_user = p;
    return kvt_probes_check(p->probes, spec, err);
}

/* ---- traces that are there -----------------------------------------------------------------
 */

static kvt_code add_all(capture_probe *p, const cli_traces *l, kvt_err *err)
{
    for (int i = 0; i < l->n; i++) {
        kvt_code code = kvt_progress(&p->c->ctx, "probes", i, l->n, err);
        if (!code)
            code = kvt_probes_add(p->probes, l->item[i], p->force, &p->counts, &p->c->ctx, err);
        if (code == KVT_STOPPED)
            return kvt_fail(err, code,
                            "stopped: %lld traces are done and kept; the same command goes on",
                            (long long)p->counts.traces);
        if (code && l->n == 1)
            return code;
        if (code) {
            p->failed++;
            kvt_log(&p->c->ctx, KVT_LOG_ERROR, "probe", "%s", err->text);
        }
    }
    if (!p->failed)
        return KVT_OK;
    return kvt_fail(err, KVT_PARTLY, "%lld of %d traces failed", (long long)p->failed, l->n);
}

static void print(const capture_probe *p)
{
    const kvt_probe_counts *k = &p->counts;
    if (p->c->json)
        printf("{\"schema\": \"kvt-probe-1\", \"traces\": %lld, \"failed\": %lld, "
               "\"added\": %lld, \"present\": %lld, \"rows\": %lld, \"seconds\": %.3f}\n",
               (long long)k->traces, (long long)p->failed, (long long)k->added,
               (long long)k->present, (long long)k->n_row, k->seconds);
    else
        printf("probes     %lld added to %lld traces, %lld there already; %lld rows in %.1f "
               "seconds\n",
               (long long)k->added, (long long)k->traces, (long long)k->present,
               (long long)k->n_row, k->seconds);
}

/* Bytes that the probes add to a trace at most. */
static kvt_code bytes_on(const capture_probe *p, const char *path, int64_t *bytes, kvt_err *err)
{
    kvt_trace *t;
    kvt_probe_cost cost;
    if (kvt_trace_open(&t, path, 0, err))
        return err->code;
    const kvt_trace_info *i = kvt_trace_info_of(t);
    kvt_probes_cost(p->probes, &i->facts, i->n_layer, &p->c->ctx, &cost);
    *bytes += cost.file_bytes;
    kvt_trace_close(t);
    return KVT_OK;
}

static kvt_code print_plan(const capture_probe *p, const cli_traces *l, int n_probe,
                           kvt_err *err)
{
    char text[32];
    int64_t bytes = 0;
    for (int i = 0; i < l->n; i++)
        if (bytes_on(p, l->item[i], &bytes, err))
            return err->code;
    if (p->c->json)
        printf("{\"schema\": \"kvt-probe-plan-1\", \"traces\": %d, \"probes\": %d, "
               "\"file_bytes\": %lld}\n",
               l->n, n_probe, (long long)bytes);
    else
        printf("probes     %d for each of %d traces, a draft for each of its budgets: %s at "
               "most\n",
               n_probe, l->n, size_print(bytes, text, sizeof text));
    return KVT_OK;
}

kvt_code capture_probe_add(capture_probe *p, const cli_list *trace, int n_arg, char **arg,
                           kvt_err *err)
{
    cli_traces l = {0};
    kvt_code code = KVT_OK;
    for (int i = 0; !code && i < trace->n; i++)
        code = cli_traces_add(&l, trace->item[i], err);
    for (int i = 0; !code && i < n_arg; i++)
        code = cli_traces_add(&l, arg[i], err);
    if (!code && !l.n)
        code = kvt_fail(err, KVT_NOTFOUND, "no trace is there");
    if (!code && p->plan) {
        code = print_plan(p, &l, p->n_probe, err);
    } else if (!code) {
        code = add_all(p, &l, err);
        cli_progress_end(p->c);
        if (!code || code == KVT_PARTLY)
            print(p);
    }
    cli_traces_free(&l);
    return code;
}
