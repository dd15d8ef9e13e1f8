/* make.c - the table of costs: every policy, budget, length, batch, machine and profile of a
 * spec. What is shared by many rows is made first; the rows are independent and are predicted
 * by several threads, each into its own place. */
#include <stdio.h>

#include "kvt/arena.h"
#include "replay/cost/make_priv.h"

/* Bytes that the weights and the driver take beyond the machine's memory; 0 or less: they fit;
 * NAN: its memory is not known. */
static double weights_short(const kvt_cost_geometry *g, const kvt_machine *m,
                            const kvt_cost_setting *s)
{
    return m->mem_bytes > 0 ? cost_all_bytes(g, s) + m->runtime_bytes - m->mem_bytes : NAN;
}

/* NO where the weights fit into none of the machines: says how much the largest one lacks. */
static kvt_code check_weights(const make *x, const kvt_cost_geometry *g, kvt_err *err)
{
    const double gib = 1 << 30;
    const kvt_cost_spec *spec = x->spec;
    const kvt_machine *best = &spec->machine[0];
    for (int i = 0; i < spec->n_machine; i++) {
        double left = weights_short(g, &spec->machine[i], &spec->setting);
        if (!(left > 0))
            return KVT_OK;
        if (left < weights_short(g, best, &spec->setting))
            best = &spec->machine[i];
    }
    double weights = cost_all_bytes(g, &spec->setting), driver = best->runtime_bytes;
    double left = weights + driver - best->mem_bytes;
    return kvt_fail(err, KVT_NO,
                    "%s: its weights take %.1f GB (%.1f GiB), the driver %.1f GB, and %s has "
                    "%.1f GB (%.1f GiB): %.1f GB (%.1f GiB) short",
                    g->g.name, weights / 1e9, weights / gib, driver / 1e9, best->name,
                    best->mem_bytes / 1e9, best->mem_bytes / gib, left / 1e9, left / gib);
}

static kvt_code predict_all(kvt_cost_table *out, const make *x, const kvt_ctx *ctx,
                            kvt_err *err)
{
    out->row = kvt_alloc(x->n_row, sizeof *out->row);
    if (!out->row)
        return kvt_fail_memory(err, (size_t)x->n_row * sizeof *out->row);
    out->n = x->n_row;
#pragma omp parallel for schedule(dynamic, 4) num_threads(kvt_threads(ctx))
    for (int64_t i = 0; i < x->n_item; i++)
        make_rows(out->row, x, &x->item[i]);
    return kvt_progress(ctx, "cost", x->n_row, x->n_row, err);
}

kvt_code kvt_cost_make(kvt_cost_table *out, const kvt_cost_spec *spec, const kvt_ctx *ctx,
                       kvt_err *err)
{
    static const kvt_ctx quiet = {0};
    make x;
    *out = (kvt_cost_table){0};
    kvt_code code = make_plan(&x, spec, err);
    for (int i = 0; i < x.n_model && !code && spec->weights_must_fit; i++)
        code = check_weights(&x, &x.model[i]->geometry, err);
    if (!code)
        code = predict_all(out, &x, ctx ? ctx : &quiet, err);
    if (code)
        kvt_cost_table_free(out);
    make_close(&x);
    return code;
}
