/* scorer_import.c - a scorer file from arrays that another program wrote, by a manifest (JSON):
 *
 *   1. "kind", "weights_digest", "model", "n_head", "n_kv_head", "head_dim", "n_hidden",
 *      "model_layers"; or "trace", a trace of that model, which gives all of them but the kind;
 *   2. "layers": [0, 1, ...], those of the file; absent: all of the model;
 *   3. "recipe": an object, how it was made;
 *   4. "tensors": {"in/weight": {"file": "w.npy", "axes": "LGKW", "help": TEXT, "half": true},
 *      "sinks": 4, ...}; a number is a tensor without axes. */
#include "traces/scorer_priv.h"

#include "base/file.h"
#include "base/json.h"
#include "traces/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"

typedef struct import_job {
    json_t *json;
    char folder[1024];
    kvt_scorer_info info;
    kvt_scorer_tensor tensor[SCORER_TENSORS_MAX];
    int n;
} import_job;

/* ---- facts ---------------------------------------------------------------------------------
 */

/* What a trace says of its model. */
static kvt_code facts_of_trace(import_job *im, kvt_err *err)
{
    char path[1024];
    const char *name;
    kvt_trace *t;
    kvt_scorer_info *info = &im->info;
    kvt_code code = json_text(im->json, "trace", &name, err);
    if (code)
        return code == KVT_NOTFOUND ? KVT_OK : code;
    if (name[0] == '/')
        snprintf(path, sizeof path, "%s", name);
    else if (file_join(path, sizeof path, im->folder, name, err))
        return err->code;
    if (kvt_trace_open(&t, path, 0, err))
        return err->code;
    const kvt_trace_facts *f = &kvt_trace_info_of(t)->facts;
    snprintf(info->weights_digest, sizeof info->weights_digest, "%s", f->weights_digest);
    snprintf(info->model, sizeof info->model, "%s", f->model.name);
    info->n_head = f->model.n_head;
    info->n_kv_head = f->model.n_kv_head;
    info->head_dim = f->model.head_dim;
    info->n_hidden = f->model.n_hidden;
    info->model_layers = f->model.n_layer;
    kvt_trace_close(t);
    return KVT_OK;
}

static kvt_code set_fact(import_job *im, const scorer_fact *fact, kvt_err *err)
{
    char *to = (char *)&im->info + fact->offset;
    const char *text = NULL;
    int64_t x = 0;
    if (!json_object_get(im->json, fact->name))
        return KVT_OK;
    kvt_code code = fact->kind == ATTR_TEXT ? json_text(im->json, fact->name, &text, err)
                                            : json_int(im->json, fact->name, &x, err);
    if (code)
        return code;
    if (fact->kind == ATTR_INT)
        memcpy(to, &x, sizeof x);
    else if ((size_t)snprintf(to, fact->width, "%s", text) >= fact->width)
        return kvt_fail(err, KVT_FORMAT, "%s: text of %zu bytes, at most %zu fit", fact->name,
                        strlen(text), fact->width - 1);
    return KVT_OK;
}

static kvt_code set_recipe(import_job *im, kvt_err *err)
{
    const json_t *recipe = json_object_get(im->json, "recipe");
    if (!recipe)
        return KVT_OK;
    char *to = im->info.recipe;
    size_t most = sizeof im->info.recipe - 1;
    size_t n = json_dumpb(recipe, to, most, JSON_COMPACT | JSON_SORT_KEYS); /* what it takes */
    bool fits = json_is_object(recipe) && n > 0 && n <= most;
    to[fits ? n : 0] = 0;
    return fits ? KVT_OK
                : kvt_fail(err, KVT_FORMAT, "recipe: expected an object of at most %zu bytes",
                           sizeof im->info.recipe - 1);
}

static kvt_code set_layers(import_job *im, kvt_err *err)
{
    kvt_scorer_info *info = &im->info;
    const json_t *layers = json_object_get(im->json, "layers");
    int64_t n = layers ? (int64_t)json_array_size(layers) : info->model_layers;
    if (n < 1 || n > KVT_LAYERS_MAX)
        return kvt_fail(err, KVT_FORMAT, "layers: expected an array of 1 to %d numbers",
                        KVT_LAYERS_MAX);
    info->n_layer = (int)n;
    for (int i = 0; i < n; i++) {
        const json_t *x = json_array_get(layers, (size_t)i);
        if (layers && (!json_is_integer(x) || json_integer_value(x) < 0 ||
                       json_integer_value(x) >= KVT_LAYERS_MAX))
            return kvt_fail(err, KVT_FORMAT, "layers[%d]: expected a layer of the model", i);
        info->layer_id[i] = layers ? (int32_t)json_integer_value(x) : i;
    }
    return KVT_OK;
}

static kvt_code read_facts(import_job *im, kvt_err *err)
{
    static const char *const known[] = {
        "kind",     "trace",    "weights_digest", "model",  "n_head", "n_kv_head",
        "head_dim", "n_hidden", "model_layers",   "layers", "recipe", "tensors",
        NULL};
    int n;
    const scorer_fact *fact = scorer_facts(&n);
    if (!json_is_object(im->json))
        return kvt_fail(err, KVT_FORMAT, "expected an object");
    if (json_only(im->json, known, err) || facts_of_trace(im, err))
        return err->code;
    for (int i = 0; i < n; i++)
        if (!fact[i].run && strcmp(fact[i].name, "recipe") != 0 && set_fact(im, &fact[i], err))
            return err->code;
    return set_recipe(im, err) ? err->code : set_layers(im, err);
}

/* ---- tensors -------------------------------------------------------------------------------
 */

static kvt_code set_number(kvt_scorer_tensor *t, const json_t *v, kvt_err *err)
{
    float *x = kvt_alloc(1, sizeof *x);
    if (!x)
        return kvt_fail_memory(err, sizeof *x);
    *x = (float)json_number_value(v);
    t->view = kvt_view_of(x, KVT_F32, "", 0, NULL);
    return KVT_OK;
}

static kvt_code read_source(kvt_scorer_tensor *t, source *from, const char *axes, kvt_err *err)
{
    int64_t dim[KVT_RANK_MAX], n = 1;
    kvt_dtype dtype;
    int rank = source_shape(from, &dtype, dim);
    if (rank != (int)strlen(axes))
        return kvt_fail(err, KVT_FORMAT, "expected axes %s, got %d axes", axes, rank);
    for (int i = 0; i < rank; i++)
        if (dim[i] < 1 || __builtin_mul_overflow(n, dim[i], &n) ||
            n > SCORER_BYTES_MAX / (int64_t)sizeof(float))
            return kvt_fail(err, KVT_FORMAT, "an extent of %lld is out of range",
                            (long long)dim[i]);
    float *x = kvt_alloc(n, sizeof *x);
    if (!x)
        return kvt_fail_memory(err, (size_t)n * sizeof *x);
    t->view = kvt_view_of(x, KVT_F32, axes, (size_t)rank, dim); /* freed with the job */
    return source_read(from, x, KVT_F32, false, 0, n, err);
}

static kvt_code set_array(import_job *im, kvt_scorer_tensor *t, const json_t *v, kvt_err *err)
{
    static const char *const known[] = {"file", "axes", "help", "half", NULL};
    const char *file, *axes, *help = "";
    source *from;
    if (json_only(v, known, err) || json_text(v, "file", &file, err) ||
        json_text(v, "axes", &axes, err) ||
        (json_object_get(v, "help") && json_text(v, "help", &help, err)))
        return err->code;
    if (strlen(help) >= sizeof t->help)
        return kvt_fail(err, KVT_FORMAT, "help: text of %zu bytes, at most %zu fit",
                        strlen(help), sizeof t->help - 1);
    snprintf(t->help, sizeof t->help, "%s", help);
    t->half = json_is_true(json_object_get(v, "half"));
    if (source_open(&from, im->folder, file, err))
        return err->code;
    kvt_code code = read_source(t, from, axes, err);
    source_close(from);
    return code;
}

static kvt_code read_tensors(import_job *im, kvt_err *err)
{
    const char *name;
    json_t *v, *all = json_object_get(im->json, "tensors");
    if (!json_is_object(all))
        return kvt_fail(err, KVT_FORMAT,
                        "tensors: expected {\"weight\": {\"file\": \"w.npy\", \"axes\": "
                        "\"LGE\"}, ...}");
    json_object_foreach(all, name, v)
    {
        kvt_scorer_tensor *t = &im->tensor[im->n];
        if (im->n == SCORER_TENSORS_MAX || strlen(name) >= sizeof t->name)
            return kvt_fail(err, KVT_FORMAT,
                            "tensors: expected at most %d, names of at most %zu bytes",
                            SCORER_TENSORS_MAX, sizeof t->name - 1);
        snprintf(t->name, sizeof t->name, "%s", name);
        im->n++;
        kvt_code code = json_is_number(v) ? set_number(t, v, err)
                        : json_is_object(v)
                            ? set_array(im, t, v, err)
                            : kvt_fail(err, KVT_FORMAT, "expected a number or an object");
        if (code)
            return kvt_within(err, "%s", name);
    }
    return KVT_OK;
}

kvt_code kvt_scorer_import(const char *manifest, const char *out, bool force, kvt_err *err)
{
    import_job *im = kvt_alloc(1, sizeof *im);
    if (!im)
        return kvt_fail_memory(err, sizeof *im);
    file_dir(im->folder, sizeof im->folder, manifest);
    kvt_code code = json_read_file(&im->json, manifest, err);
    if (!code && !(code = read_facts(im, err)) && !(code = read_tensors(im, err)))
        code = kvt_scorer_write(out, &im->info, im->tensor, im->n, force, err);
    for (int i = 0; i < SCORER_TENSORS_MAX; i++)
        kvt_free((void *)(uintptr_t)im->tensor[i].view.data);
    if (im->json)
        json_decref(im->json);
    kvt_free(im);
    return code ? kvt_within(err, "import '%s'", manifest) : KVT_OK;
}
