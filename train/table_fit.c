/* table_fit.c - tables that are computed from traces (train/table_fit.h). */
#include "train/table_fit.h"

kvt_code table_plan(train_run *run, const table_spec *spec, kvt_err *err)
{
    kvt_train_counts *c = run->counts;
    c->n_step = run->info.n_layer;
    c->n_example = run->spec->n_trace;
    c->n_parameter = run->info.n_layer * run->info.facts.model.n_kv_head * spec->n_param;
    c->file_bytes = 4 * c->n_parameter;
    return train_needs(run, spec->ds, spec->n_ds, err);
}

static kvt_code add_trace(const table_spec *spec, const train_trace *t, int layer,
                          kvt_arena *work, kvt_err *err)
{
    tracein s;
    size_t mark = kvt_arena_mark(work);
    kvt_code code = tracein_open_layer(&s, t, spec->ds, spec->n_ds, layer, err);
    if (!code && layer == 0 && spec->check)
        code = spec->check(spec->user, &s, err);
    if (!code)
        code = spec->add(spec->user, &s, layer, work, err);
    tracein_close(&s);
    kvt_arena_rewind(work, mark);
    return code ? kvt_within(err, "'%s'", t->path) : KVT_OK;
}

static kvt_code layers(train_run *run, const table_spec *spec, fit *f, kvt_arena *work,
                       kvt_err *err)
{
    int64_t lanes = run->info.facts.model.n_kv_head, layer = 0;
    const train_part part[] = {
        {"table", f->param, f->n_unit * spec->n_param * (int64_t)sizeof *f->param}};
    kvt_code code = train_resume(run, &layer, part, 1, err);
    while (!code && layer < run->info.n_layer) {
        code = spec->begin(spec->user, err);
        for (int i = 0; !code && i < run->spec->n_trace; i++)
            code = add_trace(spec, &run->trace[i], (int)layer, work, err);
        if (!code)
            code = spec->end(spec->user, (int)layer, f->param + layer * lanes * spec->n_param,
                             err);
        if (code)
            break;
        layer++;
        code = train_step_done(run, layer, run->info.n_layer, part, 1, err);
    }
    return code;
}

kvt_code table_run(train_run *run, const table_spec *spec, const fit_tensor *tensor,
                   int n_tensor, kvt_err *err)
{
    const fit_spec shape = {.n_param = spec->n_param};
    fit f = {.spec = &shape, .n_unit = run->info.n_layer * run->info.facts.model.n_kv_head};
    kvt_arena *work = kvt_arena_new((size_t)1 << 34);
    f.param = kvt_alloc(f.n_unit * spec->n_param, sizeof *f.param);
    kvt_code code = KVT_OK;
    if (!work || !f.param)
        code = kvt_fail_memory(err, (size_t)(f.n_unit * spec->n_param) * sizeof *f.param);
    if (!code)
        code = table_plan(run, spec, err);
    if (!code)
        code = layers(run, spec, &f, work, err);
    if (!code)
        code = fit_write(&f, run, spec->kind, tensor, n_tensor, NULL, 0, err);
    kvt_arena_free(work);
    fit_free(&f);
    return code;
}
