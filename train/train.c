/* train.c - one run: what is asked, the traces and their order, the trainer, the counts.
 *
 * Traces are opened one by one, looked at and closed: a trainer opens them again when it needs
 * them, so that any number fits. They are sorted by their digests: the order in which they were
 * named changes nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/size.h"
#include "base/text.h"
#include "train/journal.h"

static kvt_code unknown(const char *name, kvt_err *err)
{
    enum { MOST = 64 };
    const char *known[MOST + 1];
    const kvt_trainer *const *all = kvt_trainers();
    int n = 0;
    for (; n < MOST && all[n]; n++)
        known[n] = all[n]->name;
    known[n] = NULL;
    const char *near = text_nearest(name, known);
    return kvt_fail(err, KVT_USAGE, "nothing called '%s' can be trained%s%s%s", name,
                    near ? " (did you mean '" : "; kvt train list names what can",
                    near ? near : "", near ? "'?)" : "");
}

/* "kvpop:width=32" into the trainer and its parameters. */
static kvt_code parse(train_run *run, void **params, kvt_err *err)
{
    const char *text = run->spec->what, *colon = strchr(text, ':');
    char name[64];
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    run->trainer = kvt_trainer_find(name);
    if (!run->trainer)
        return unknown(name, err);
    *params = kvt_alloc(1, run->trainer->params_size);
    if (!*params)
        return kvt_fail_memory(err, run->trainer->params_size);
    kvt_param_defaults(run->trainer->params, *params);
    kvt_code code = kvt_param_parse(run->trainer->params, *params, colon ? colon + 1 : "", err);
    if (code)
        return kvt_within(err, "%s", name);
    if (run->trainer->settle)
        run->trainer->settle(*params);
    run->params = *params;
    kvt_param_print(run->trainer->params, run->params_text, sizeof run->params_text, *params);
    return KVT_OK;
}

/* Facts of one trace; the first fills run->info, the others are compared with it. */
static kvt_code look(train_run *run, train_trace *t, const char *path, kvt_err *err)
{
    kvt_trace *file;
    kvt_code code = kvt_trace_open(&file, path, 1 << 20, err);
    if (code)
        return code;
    const kvt_trace_info *i = kvt_trace_info_of(file);
    snprintf(t->path, sizeof t->path, "%s", path);
    snprintf(t->name, sizeof t->name, "%s", i->name);
    snprintf(t->digest, sizeof t->digest, "%s", i->digest);
    memcpy(t->has, i->has, sizeof t->has);
    t->n_prompt = i->facts.token.n_prompt;
    t->n_response = i->facts.token.n_response;
    t->n_token = i->n_token;
    if (!run->info.path[0])
        run->info = *i;
    const kvt_model_id one = kvt_model_id_of(&i->facts);
    const kvt_model_id first = kvt_model_id_of(&run->info.facts);
    if (!kvt_model_id_same(&one, &first))
        code = kvt_fail(err, KVT_FORMAT,
                        "'%s' is of another model than '%s': %s of digest %.8s, %s of %.8s",
                        path, run->info.path, i->facts.model.name, i->facts.weights_digest,
                        run->info.facts.model.name, run->info.facts.weights_digest);
    else if (i->n_layer != run->info.n_layer ||
             memcmp(i->layer_id, run->info.layer_id,
                    (size_t)i->n_layer * sizeof *i->layer_id) != 0)
        code =
            kvt_fail(err, KVT_FORMAT, "'%s' has other layers than '%s'", path, run->info.path);
    else if (t->n_prompt < 1 || t->n_response < 1)
        code =
            kvt_fail(err, KVT_FORMAT,
                     "'%s' has %lld tokens of prompt, %lld of response: expected some of both",
                     path, (long long)t->n_prompt, (long long)t->n_response);
    kvt_trace_close(file);
    return code;
}

static int by_digest(const void *a, const void *b)
{
    const train_trace *s = a, *t = b;
    return strcmp(s->digest, t->digest);
}

static kvt_code look_all(train_run *run, train_trace **out, const char *const *path, int n,
                         kvt_err *err)
{
    *out = kvt_alloc(n, sizeof **out);
    if (!*out)
        return kvt_fail_memory(err, (size_t)n * sizeof **out);
    for (int i = 0; i < n; i++) {
        kvt_code code = kvt_progress(run->ctx, "open traces", i, n, err);
        if (!code)
            code = look(run, *out + i, path[i], err);
        if (code)
            return code;
    }
    qsort(*out, (size_t)n, sizeof **out, by_digest);
    for (int i = 1; i < n; i++)
        if (strcmp((*out)[i].digest, (*out)[i - 1].digest) == 0)
            return kvt_fail(err, KVT_FORMAT, "'%s' and '%s' are the same trace",
                            (*out)[i - 1].path, (*out)[i].path);
    return KVT_OK;
}

/* A held-out trace that is trained on would make its loss a lie. */
static kvt_code apart(const train_run *run, kvt_err *err)
{
    for (int i = 0; i < run->spec->n_heldout; i++) {
        const train_trace *both = bsearch(&run->heldout[i], run->trace,
                                          (size_t)run->spec->n_trace, sizeof *both, by_digest);
        if (both)
            return kvt_fail(err, KVT_FORMAT,
                            "'%s' is held out and, as '%s', among the training traces",
                            run->heldout[i].path, both->path);
    }
    return KVT_OK;
}

static kvt_code check_model(const train_run *run, kvt_err *err)
{
    const kvt_train_spec *s = run->spec;
    if (!run->trainer->needs_model)
        return KVT_OK;
    if (!s->model)
        return kvt_fail(err, KVT_USAGE,
                        "%s runs the model's layers: name its file with --model",
                        run->trainer->name);
    const kvt_model_id of_trace = kvt_model_id_of(&run->info.facts);
    kvt_model_id model;
    if (kvt_model_digest(s->model, &model, run->ctx, err))
        return err->code;
    bool known = model.weights[0]; /* else the header alone, for the plan */
    if (known && !kvt_model_id_same(&model, &of_trace))
        return kvt_fail(err, KVT_FORMAT,
                        "'%s' is of another model (digest %s) than --model (%s)",
                        run->info.path, run->info.facts.weights_digest, model.weights);
    return KVT_OK;
}

static kvt_code digest_set(char out[KVT_DIGEST_TEXT], const train_trace *t, int n, kvt_err *err)
{
    digest *d = digest_new();
    if (!d)
        return kvt_fail_memory(err, 1024);
    for (int i = 0; i < n; i++)
        digest_add_text(d, t[i].digest);
    digest_get(d, out);
    digest_free(d);
    return KVT_OK;
}

static void begin_counts(train_run *run)
{
    kvt_train_counts *c = run->counts;
    snprintf(c->trainer, sizeof c->trainer, "%s", run->trainer->name);
    snprintf(c->params, sizeof c->params, "%s", run->params_text);
    c->n_trace = run->spec->n_trace;
    c->n_heldout = run->spec->n_heldout;
}

/* What the end of a long run would refuse is refused here. */
static kvt_code check_out(const kvt_train_spec *s, kvt_err *err)
{
    char temp[1200];
    if (!s->out)
        return kvt_fail(err, KVT_USAGE, "no file to write: name it with -o");
    if (file_is_dir(s->out))
        return kvt_fail(err, KVT_USAGE, "'%s' is a folder; -o names a file", s->out);
    if (file_exists(s->out) && !s->force)
        return kvt_fail(err, KVT_IO, "'%s' is there already; --force replaces it", s->out);
    if (s->log && strcmp(s->log, s->out) == 0)
        return kvt_fail(err, KVT_USAGE, "'%s' cannot be both the curve and what is trained",
                        s->log);
    return file_temp_name(temp, sizeof temp, s->out, err);
}

/* A trace that is written over could not be read to the end. */
static kvt_code not_over(const kvt_train_spec *s, const train_trace *t, int n, kvt_err *err)
{
    for (int i = 0; i < n; i++)
        if (s->out && file_same(s->out, t[i].path))
            return kvt_fail(err, KVT_USAGE, "'%s' is one of the traces and would be replaced",
                            s->out);
    return KVT_OK;
}

static kvt_code prepare(train_run *run, void **params, kvt_err *err)
{
    kvt_code code = parse(run, params, err);
    if (!code && run->spec->n_trace < 1)
        code = kvt_fail(err, KVT_USAGE, "no training traces");
    if (!code)
        code = look_all(run, &run->trace, run->spec->trace, run->spec->n_trace, err);
    if (!code)
        code = look_all(run, &run->heldout, run->spec->heldout, run->spec->n_heldout, err);
    if (!code)
        code = apart(run, err);
    if (!code)
        code = not_over(run->spec, run->trace, run->spec->n_trace, err);
    if (!code)
        code = not_over(run->spec, run->heldout, run->spec->n_heldout, err);
    if (!code)
        code = check_model(run, err);
    if (!code)
        code = digest_set(run->set_digest, run->trace, run->spec->n_trace, err);
    if (!code)
        code = digest_set(run->heldout_digest, run->heldout, run->spec->n_heldout, err);
    if (!code)
        begin_counts(run);
    return code;
}

static void empty_counts(kvt_train_counts *c)
{
    *c = (kvt_train_counts){.parameter_frac = NAN,
                            .first_loss = NAN,
                            .last_loss = NAN,
                            .heldout_loss = NAN,
                            .heldout_recall = NAN,
                            .heldout_lost = NAN};
}

kvt_code kvt_train(const kvt_train_spec *spec, kvt_train_counts *counts, const kvt_ctx *ctx,
                   kvt_err *err)
{
    train_run run = {.spec = spec, .ctx = ctx, .counts = counts};
    void *params = NULL;
    double begin = clock_now();
    empty_counts(counts);
    kvt_code code = check_out(spec, err);
    if (!code)
        code = prepare(&run, &params, err);
    if (!code)
        code = journal_open(&run, err);
    if (!code)
        code = run.trainer->run(&run, err);
    if (!code)
        journal_done(&run);
    counts->seconds = clock_now() - begin;
    counts->file_bytes = code ? 0 : file_size(spec->out);
    journal_close(&run);
    kvt_free(run.trace);
    kvt_free(run.heldout);
    kvt_free(params);
    return code;
}

kvt_code kvt_train_plan(const kvt_train_spec *spec, kvt_train_counts *counts,
                        const kvt_ctx *ctx, kvt_err *err)
{
    train_run run = {.spec = spec, .ctx = ctx, .counts = counts};
    void *params = NULL;
    empty_counts(counts);
    kvt_code code = prepare(&run, &params, err);
    if (!code)
        code = run.trainer->plan(&run, err);
    kvt_free(run.trace);
    kvt_free(run.heldout);
    kvt_free(params);
    return code;
}

static kvt_code need_of(const train_trace *t, int n_trace, kvt_ds ds, kvt_err *err)
{
    for (int i = 0; i < n_trace; i++)
        if (!t[i].has[ds])
            return kvt_fail(err, KVT_FORMAT, "'%s' has no %s", t[i].path,
                            kvt_dataset_of(ds)->path);
    return KVT_OK;
}

kvt_code train_needs(const train_run *run, const kvt_ds *ds, int n, kvt_err *err)
{
    for (int i = 0; i < n; i++) {
        kvt_code code = need_of(run->trace, run->spec->n_trace, ds[i], err);
        if (!code)
            code = need_of(run->heldout, run->spec->n_heldout, ds[i], err);
        if (code)
            return kvt_within(err, "%s", run->trainer->name);
    }
    return KVT_OK;
}

kvt_code train_recipe(const train_run *run, char *out, size_t cap, kvt_err *err)
{
    const kvt_train_counts *c = run->counts;
    char text[64];
    buf b;
    buf_init(&b, cap - 1);
    buf_printf(&b, "{\"trainer\": \"%s\", \"params\": ", run->trainer->name);
    json_quote(&b, run->params_text, strlen(run->params_text));
    buf_printf(&b, ", \"seed\": %llu, \"traces\": %d, \"set\": \"%s\", \"heldout\": %d",
               (unsigned long long)(run->ctx ? run->ctx->seed : 0), run->spec->n_trace,
               run->set_digest, run->spec->n_heldout);
    buf_printf(&b, ", \"examples\": %lld, \"steps\": %lld, \"parameters\": %lld",
               (long long)c->n_example, (long long)c->n_step, (long long)c->n_parameter);
    const struct {
        const char *name;
        double value;
    } number[] = {{"first_loss", c->first_loss},
                  {"last_loss", c->last_loss},
                  {"heldout_loss", c->heldout_loss},
                  {"heldout_recall", c->heldout_recall},
                  {"heldout_lost", c->heldout_lost}};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (isfinite(number[i].value))
            buf_printf(&b, ", \"%s\": %s", number[i].name,
                       real_print(number[i].value, text, sizeof text));
    buf_text(&b, "}");
    kvt_code code = buf_check(&b, err);
    if (!code)
        snprintf(out, cap, "%s", buf_get(&b));
    buf_fini(&b);
    return code;
}

void train_scorer_info(const train_run *run, const char *kind, kvt_scorer_info *out)
{
    const kvt_trace_facts *f = &run->info.facts;
    const kvt_geometry *g = &f->model;
    kvt_err err;
    *out = (kvt_scorer_info){.n_head = g->n_head,
                             .n_kv_head = g->n_kv_head,
                             .head_dim = g->head_dim,
                             .n_hidden = g->n_hidden,
                             .model_layers = g->n_layer,
                             .n_layer = run->info.n_layer};
    snprintf(out->kind, sizeof out->kind, "%s", kind);
    snprintf(out->weights_digest, sizeof out->weights_digest, "%s", f->weights_digest);
    snprintf(out->model, sizeof out->model, "%s", g->name);
    memcpy(out->layer_id, run->info.layer_id, sizeof out->layer_id);
    /* Parameters and numbers are shorter than the field; an empty recipe is still a recipe. */
    if (train_recipe(run, out->recipe, sizeof out->recipe, &err))
        snprintf(out->recipe, sizeof out->recipe, "{}");
}

void train_stream(const train_run *run, const char *purpose, uint64_t rng[4])
{
    char key[256];
    int n = snprintf(key, sizeof key, "train|%llu|%s|%s",
                     (unsigned long long)(run->ctx ? run->ctx->seed : 0), run->trainer->name,
                     purpose);
    rng_init(rng, key, n < (int)sizeof key ? (size_t)n : sizeof key - 1);
}

kvt_code train_order(const train_run *run, int64_t epoch, int32_t *order, int n, kvt_err *err)
{
    char purpose[64];
    uint64_t rng[RNG_WORDS];
    if (n < 1)
        return kvt_fail(err, KVT_USAGE, "no training traces");
    snprintf(purpose, sizeof purpose, "order %lld", (long long)epoch);
    train_stream(run, purpose, rng);
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    for (int32_t i = n - 1; i > 0; i--) {
        int64_t j = rng_below(rng, i + 1);
        int32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    return KVT_OK;
}
