/* probes.c - runs the probes that were asked for on a prompt, and stores them. */
#include "live/live_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kvt/arena.h"

static const kvt_ctx quiet; /* of a caller that gives none */

/* A probe that ran, with all that it points to. */
typedef struct made {
    kvt_probe_data data;
    probe_out out;
    rows rows;
    uint8_t *keep;
} made;

/* One prompt and what is made of it. */
typedef struct job {
    kvt_probes *p;
    const kvt_prompt *prompt;
    kvt_trace *t; /* NULL: a capture */
    bool force;
    kvt_probe_counts *counts;
    const kvt_ctx *ctx;
    made **list;
    int n, cap;
} job;

static void made_free(made *m)
{
    if (!m)
        return;
    probe_out_free(&m->out);
    rows_free(&m->rows);
    kvt_free(m->keep);
    kvt_free(m);
}

static void job_free(job *j)
{
    for (int i = 0; i < j->n; i++)
        made_free(j->list[i]);
    kvt_free(j->list);
}

/* ---- is it there? --------------------------------------------------------------------------
 */

static bool same(const kvt_probe_info *a, const kvt_probe_info *b)
{
    return a->kind == b->kind && a->budget == b->budget &&
           strcmp(a->source_digest, b->source_digest) == 0 &&
           strcmp(wish_options(a->args, a->kind), wish_options(b->args, b->kind)) == 0;
}

/* NO: a probe of that name and origin is there. */
static kvt_code look(job *j, const kvt_probe_info *want, kvt_err *err)
{
    int i = j->t ? kvt_trace_probe_find(j->t, want->name) : -1;
    if (i < 0 || j->force)
        return KVT_OK;
    if (same(kvt_trace_probe_info(j->t, i), want)) {
        j->counts->present++;
        return KVT_NO;
    }
    const kvt_probe_info *there = kvt_trace_probe_info(j->t, i);
    char budget[40] = "";
    if (there->budget)
        snprintf(budget, sizeof budget, ", on %lld slots", (long long)there->budget);
    return kvt_fail(err, KVT_IO,
                    "a probe of that name is there, made otherwise (%s%s%s%s); --force "
                    "replaces it, another name adds one beside it",
                    kvt_probe_kind_name(there->kind), there->args[0] ? ":" : "", there->args,
                    budget);
}

/* ---- running -------------------------------------------------------------------------------
 */

static probe_pass pass_of(const job *j)
{
    return (probe_pass){.prompt = j->prompt,
                        .weights = model_weights(j->p->m),
                        .backend = model_backend(j->p->m),
                        .ctx = j->ctx,
                        .n_vocab = tokenizer_count(model_tokenizer(j->p->m))};
}

static kvt_probe_info info_of(const wish *w, const char *source_digest)
{
    kvt_probe_info i = {.kind = w->kind, .n_segment = 1};
    snprintf(i.name, sizeof i.name, "%s", w->name);
    snprintf(i.args, sizeof i.args, "%s", w->args);
    snprintf(i.source_digest, sizeof i.source_digest, "%s", source_digest);
    return i;
}

/* Of a probe that a model makes. One that is there may name the same model by its file. */
static kvt_code info_of_model(kvt_probe_info *out, const job *j, const wish *w,
                              const kvt_model *m, const char *name, kvt_err *err)
{
    kvt_model_id id, there = {"", ""};
    if (kvt_model_digest(m, &id, j->ctx, err))
        return err->code;
    *out = info_of(w, id.weights);
    int i = j->t ? kvt_trace_probe_find(j->t, name) : -1;
    if (i >= 0)
        snprintf(there.weights, sizeof there.weights, "%s",
                 kvt_trace_probe_info(j->t, i)->source_digest);
    if (i >= 0 && kvt_model_id_same(&id, &there))
        memcpy(out->source_digest, there.weights, sizeof there.weights);
    return KVT_OK;
}

static void point(made *m)
{
    const void **to = m->data.data;
    m->data.info.n_row = m->out.n_row;
    to[KVT_PROBE_SET_Q] = m->out.q;
    to[KVT_PROBE_SET_K] = m->out.k;
    to[KVT_PROBE_SET_LSE] = m->out.lse;
    to[KVT_PROBE_SET_NORM] = m->out.norm;
    to[KVT_PROBE_SET_POS] = m->out.pos;
    to[KVT_PROBE_SET_ID] = m->out.id;
    to[KVT_PROBE_SET_KEEP] = m->keep;
    if (m->rows.n_segment) {
        m->data.info.n_segment = m->rows.n_segment;
        to[KVT_PROBE_SET_SEGMENT] = m->rows.segment;
        to[KVT_PROBE_SET_BEGIN] = m->rows.begin;
        to[KVT_PROBE_SET_END] = m->rows.end;
        to[KVT_PROBE_SET_FROM] = m->rows.from;
    }
}

static kvt_code keep_made(job *j, made *m, kvt_err *err)
{
    if (j->n == j->cap) {
        int cap = j->cap ? 2 * j->cap : 8;
        made **grown = kvt_resize(j->list, j->cap, cap, sizeof *grown);
        if (!grown)
            return kvt_fail_memory(err, (size_t)cap * sizeof *grown);
        j->list = grown;
        j->cap = cap;
    }
    point(m);
    j->counts->added++;
    j->counts->n_row += m->out.n_row;
    j->list[j->n++] = m;
    return KVT_OK;
}

/* Rows of ids or learned tokens, all at once. `r` is taken over. */
static kvt_code run_rows(job *j, const kvt_probe_info *info, const adapter *learned, rows *r,
                         kvt_err *err)
{
    probe_pass p = pass_of(j);
    made *m = kvt_alloc(1, sizeof *m);
    if (!m) {
        rows_free(r);
        return kvt_fail_memory(err, sizeof *m);
    }
    m->rows = *r;
    m->data.info = *info;
    p.n_row = learned ? learned->n_token : r->n;
    p.embed = learned ? learned->token : NULL;
    p.adapter = learned;
    p.id = r->id;
    p.pos = r->pos;
    p.segment = r->segment;
    kvt_code code = probe_run(&m->out, &p, false, err);
    if (!code)
        code = keep_made(j, m, err);
    if (code)
        made_free(m);
    return code;
}

static kvt_code run_learned(job *j, const wish *w, kvt_err *err)
{
    kvt_probe_info info = info_of(w, w->learned->digest);
    kvt_code code = look(j, &info, err);
    return code ? code : run_rows(j, &info, w->learned, &(rows){0}, err);
}

static kvt_code run_ids(job *j, const wish *w, kvt_err *err)
{
    rows r;
    char source[KVT_DIGEST_TEXT];
    if (rows_of(&r, w, j->p->m, j->prompt, err))
        return err->code;
    rows_digest(&r, source);
    kvt_probe_info info = info_of(w, source);
    kvt_code code = look(j, &info, err);
    if (code) {
        rows_free(&r);
        return code;
    }
    return run_rows(j, &info, NULL, &r, err);
}

static kvt_code run_second(job *j, const wish *w, kvt_err *err)
{
    rows r;
    kvt_probe_info info;
    kvt_code code = info_of_model(&info, j, w, w->second, w->name, err);
    if (!code)
        code = look(j, &info, err);
    if (!code)
        code = second_draft(&r, w, j->prompt, j->ctx, err);
    return code ? code : run_rows(j, &info, NULL, &r, err);
}

static bool is_stop(const void *user, int32_t id)
{
    return tokenizer_is_stop(user, id);
}

static kvt_code draft_at(job *j, const wish *w, const kvt_probe_info *info, const uint8_t *keep,
                         kvt_err *err)
{
    const kvt_geometry *g = j->prompt->geometry;
    int64_t n_keep = g->n_layer * g->n_head * j->prompt->n_prompt;
    probe_pass p = pass_of(j);
    made *m = kvt_alloc(1, sizeof *m);
    if (!m || !(m->keep = kvt_alloc(n_keep, sizeof *m->keep))) {
        made_free(m);
        return kvt_fail_memory(err, (size_t)n_keep);
    }
    memcpy(m->keep, keep, (size_t)n_keep);
    m->data.info = *info;
    m->data.info.n_keep = (int)g->n_head;
    p.keep = m->keep;
    p.n_lane = (int)g->n_head;
    kvt_code code = probe_draft(&m->out, &p, j->prompt->first, w->number, is_stop,
                                model_tokenizer(j->p->m), err);
    if (!code)
        code = keep_made(j, m, err);
    if (code)
        made_free(m);
    return code;
}

/* One probe for each budget; those that are there are left out before anything is evicted. */
static kvt_code run_drafts(job *j, const wish *w, kvt_err *err)
{
    const kvt_geometry *g = j->prompt->geometry;
    evicted e;
    kvt_probe_info info[KVT_BUDGETS_MAX];
    kvt_code code = evicted_slots(&e, w, j->prompt, err);
    int n = 0;
    for (int i = 0; !code && i < e.n; i++) {
        kvt_probe_info *x = &info[n];
        char name[sizeof x->name];
        snprintf(name, sizeof name, "%s", w->name);
        if (w->n_budget > 1)
            snprintf(name, sizeof name, "%.47s-%lld", w->name, (long long)e.slots[i]);
        code = info_of_model(x, j, w, j->p->m, name, err);
        if (code)
            break;
        memcpy(x->name, name, sizeof name);
        x->budget = e.slots[i];
        code = look(j, x, err);
        if (code == KVT_NO)
            code = KVT_OK;
        else if (!code)
            e.slots[n++] = e.slots[i];
    }
    e.n = n;
    if (!code && n)
        code = evicted_fill(&e, j->prompt, j->ctx, err);
    for (int i = 0; !code && i < n; i++) {
        if (e.why[i][0])
            kvt_log(j->ctx, KVT_LOG_WARN, "probe", "'%s' is left out: %s", info[i].name,
                    e.why[i]);
        else
            code = draft_at(j, w, &info[i],
                            e.keep + i * g->n_layer * g->n_head * j->prompt->n_prompt, err);
    }
    evicted_free(&e);
    return code;
}

static kvt_code run_one(job *j, const wish *w, kvt_err *err)
{
    kvt_code code;
    if (w->learned)
        code = run_learned(j, w, err);
    else if (w->kind == KVT_PROBE_DRAFT)
        code = run_drafts(j, w, err);
    else if (w->second)
        code = run_second(j, w, err);
    else
        code = run_ids(j, w, err);
    if (code == KVT_NO)
        return KVT_OK;
    return code && code != KVT_STOPPED ? kvt_within(err, "probe '%s'", w->name) : code;
}

static kvt_code run_all(job *j, kvt_err *err)
{
    double begin = clock_now();
    kvt_code code = KVT_OK;
    for (int i = 0; !code && i < j->p->n; i++)
        code = run_one(j, &j->p->list[i], err);
    j->counts->seconds += clock_now() - begin;
    return code;
}

/* ---- public --------------------------------------------------------------------------------
 */

static kvt_code open_all(kvt_probes *p, const char *const *text, const kvt_ctx *ctx,
                         kvt_err *err)
{
    for (int i = 0; i < p->n; i++) {
        if (wish_parse(&p->list[i], text[i], err))
            return err->code;
        for (int k = 0; k < i; k++)
            if (strcmp(p->list[k].name, p->list[i].name) == 0)
                return kvt_fail(err, KVT_USAGE, "probe '%s' is named twice", p->list[i].name);
    }
    for (int i = 0; i < p->n; i++)
        if (wish_open(&p->list[i], p->m, ctx, err))
            return err->code;
    return KVT_OK;
}

kvt_code kvt_probes_open(kvt_probes **out, kvt_model *m, const char *const *text, int n,
                         const kvt_ctx *ctx, kvt_err *err)
{
    *out = NULL;
    kvt_probes *p = kvt_alloc(1, sizeof *p);
    if (!p || !(p->list = kvt_alloc(n, sizeof *p->list))) {
        kvt_free(p);
        return kvt_fail_memory(err, (size_t)n * sizeof *p->list);
    }
    p->m = m;
    p->n = n;
    if (open_all(p, text, ctx ? ctx : &quiet, err)) {
        kvt_probes_close(p);
        return err->code;
    }
    *out = p;
    return KVT_OK;
}

void kvt_probes_close(kvt_probes *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n; i++)
        wish_close(&p->list[i]);
    kvt_free(p->list);
    kvt_free(p);
}

static kvt_code check_model(const kvt_probes *p, const kvt_trace *t, kvt_err *err)
{
    const kvt_trace_facts *f = &kvt_trace_info_of(t)->facts;
    kvt_model_id of_trace = kvt_model_id_of(f), want;
    if (model_header_only(p->m))
        return kvt_fail(err, KVT_USAGE, "the model was opened without its weights");
    if (kvt_model_digest(p->m, &want, NULL, err))
        return err->code;
    if (kvt_model_id_same(&of_trace, &want))
        return KVT_OK;
    return kvt_fail(err, KVT_FORMAT,
                    "it was captured with another model: expected digest %s, got %s (%s)",
                    want.weights, f->weights_digest, f->model.name);
}

static kvt_code run_on_trace(job *j, kvt_err *err)
{
    kvt_prompt prompt;
    if (check_model(j->p, j->t, err) || probe_prompt_open(&prompt, j->t, err))
        return err->code;
    j->prompt = &prompt;
    kvt_code code = run_all(j, err);
    probe_prompt_close(&prompt);
    return code;
}

static kvt_code store(const job *j, const char *path, kvt_err *err)
{
    const kvt_probe_data **data = kvt_alloc(j->n, sizeof *data);
    if (!data)
        return kvt_fail_memory(err, (size_t)j->n * sizeof *data);
    for (int i = 0; i < j->n; i++)
        data[i] = &j->list[i]->data;
    kvt_code code = kvt_trace_add_probes(path, data, j->n, j->force, err);
    kvt_free((void *)data);
    return code;
}

kvt_code kvt_probes_add(kvt_probes *p, const char *trace, bool force, kvt_probe_counts *counts,
                        const kvt_ctx *ctx, kvt_err *err)
{
    kvt_probe_counts ours = {0};
    job j = {.p = p, .force = force, .counts = &ours, .ctx = ctx ? ctx : &quiet};
    kvt_code code = kvt_trace_open(&j.t, trace, 0, err);
    if (!code)
        code = run_on_trace(&j, err);
    kvt_trace_close(j.t);
    if (!code && j.n)
        code = store(&j, trace, err);
    job_free(&j);
    if (code && code != KVT_STOPPED && !strstr(err->text, trace))
        kvt_within(err, "trace '%s'", trace);
    if (!code && counts) {
        counts->traces++;
        counts->added += ours.added;
        counts->present += ours.present;
        counts->n_row += ours.n_row;
        counts->seconds += ours.seconds;
    }
    return code;
}

kvt_code kvt_probes_check(const kvt_probes *p, const kvt_capture_spec *spec, kvt_err *err)
{
    if (p->n && spec->level == KVT_SUMMARY)
        return kvt_fail(err, KVT_USAGE,
                        "level summary holds no keys, which probes need; expected replay, full "
                        "or train");
    for (int i = 0; i < p->n; i++) {
        const wish *w = &p->list[i];
        if (w->kind == KVT_PROBE_DRAFT && (spec->layers || spec->level == KVT_TRAIN))
            return kvt_fail(
                err, KVT_USAGE,
                "probe '%s': a draft needs the prompt's last queries of all layers, "
                "which are not recorded with %s",
                w->name, spec->layers ? "--layers" : "--level train");
    }
    return KVT_OK;
}

kvt_code kvt_probes_capture(void *probes, const kvt_prompt *prompt, kvt_writer *w,
                            const kvt_ctx *ctx, kvt_err *err)
{
    kvt_probe_counts counts = {0};
    job j = {.p = probes, .prompt = prompt, .counts = &counts, .ctx = ctx ? ctx : &quiet};
    kvt_code code = run_all(&j, err);
    for (int i = 0; !code && i < j.n; i++)
        code = kvt_writer_put_probe(w, &j.list[i]->data, err);
    job_free(&j);
    return code;
}
