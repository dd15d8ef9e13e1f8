/* import.c - a trace from arrays that another program wrote, by a manifest (JSON):
 *
 *   1. "level", "seed", "sampling", "no_text": attributes of the root (traces/attributes.def);
 *   2. "model", "token", "attn", "future", "decision": attributes of those groups; model also
 * takes "window" and "rope_freq", token takes "spans" {name: [begin, end]};
 *   3. "datasets": {"kv/k": "keys.npy", "attn/lse": "dump.h5:/lse", ...}, beside the manifest;
 *   4. "probes": those of the trace (import_probe.c);
 *   5. "compress": true for small files.
 *
 * What follows from the rest is filled in: sizes of the model that the arrays show, layer/id
 * where all layers are there, token/flag, query/pos where every query is stored,
 * attn/block_start, the rotary frequencies, offsets without text. Nothing that would have to be
 * measured is. */
#include "kvt/trace.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "traces/dataset.h"
#include "traces/import_priv.h"
#include "traces/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

typedef struct import {
    json_t *json;
    char folder[1024];
    kvt_writer_spec spec;
    source *from[KVT_DS_COUNT];
    int64_t dim[KVT_DS_COUNT][KVT_RANK_MAX]; /* of a source */
} import_job;

/* ---- attributes ----------------------------------------------------------------------------
 */

static kvt_code set_level(kvt_trace_facts *f, const char *text, kvt_err *err)
{
    for (int i = 0; i < KVT_NEVER; i++)
        if (strcmp(text, kvt_level_name((kvt_level)i)) == 0) {
            f->level = (kvt_level)i;
            return KVT_OK;
        }
    return kvt_fail(err, KVT_FORMAT, "level: expected summary, replay, full or train, got '%s'",
                    text);
}

static kvt_code set_attr(kvt_trace_facts *f, const trace_attr *a, const json_t *v, kvt_err *err)
{
    char *to = (char *)f + a->offset;
    const char *want = a->kind == ATTR_TEXT || a->kind == ATTR_LEVEL ? "text"
                       : a->kind == ATTR_REAL                        ? "a number"
                       : a->kind == ATTR_BOOL                        ? "true or false"
                                                                     : "a whole number";
    if (a->kind == ATTR_LEVEL && json_is_string(v))
        return set_level(f, json_string_value(v), err);
    if (a->kind == ATTR_TEXT && json_is_string(v)) {
        size_t n = json_string_length(v);
        if (n >= a->width || strlen(json_string_value(v)) != n)
            return kvt_fail(err, KVT_FORMAT, "%s: text of %zu bytes, at most %zu fit", a->name,
                            n, a->width - 1);
        memcpy(to, json_string_value(v), n + 1);
        return KVT_OK;
    }
    if (a->kind == ATTR_REAL && json_is_number(v)) {
        double x = json_number_value(v);
        memcpy(to, &x, sizeof x);
        return KVT_OK;
    }
    if (a->kind == ATTR_BOOL && json_is_boolean(v)) {
        *(bool *)to = json_is_true(v);
        return KVT_OK;
    }
    if ((a->kind == ATTR_INT || a->kind == ATTR_U64) && json_is_integer(v)) {
        int64_t x = json_integer_value(v);
        memcpy(to, &x, sizeof x);
        return KVT_OK;
    }
    return kvt_fail(err, KVT_FORMAT, "%s: expected %s", a->name, want);
}

static const trace_attr *find_attr(const char *group, const char *name)
{
    int n;
    const trace_attr *a = trace_attrs(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(a[i].group, group) == 0 && strcmp(a[i].name, name) == 0)
            return &a[i];
    return NULL;
}

static kvt_code unknown(const char *group, const char *name, kvt_err *err)
{
    enum { NAMES = 64 };
    const char *known[NAMES + 1];
    int n_attr, n = 0;
    const trace_attr *a = trace_attrs(&n_attr);
    for (int i = 0; i < n_attr && n < NAMES; i++)
        if (strcmp(a[i].group, group) == 0)
            known[n++] = a[i].name;
    known[n] = NULL;
    const char *near = text_nearest(name, known);
    return kvt_fail(err, KVT_FORMAT, "no attribute '%.60s'%s%s%s", name,
                    near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

/* Arrays that are no table of attributes: window, rope_freq, spans. */
static kvt_code set_array(kvt_trace_facts *f, const char *key, const json_t *v, kvt_err *err)
{
    bool window = strcmp(key, "window") == 0;
    size_t most = window ? KVT_LAYERS_MAX : KVT_HEAD_DIM_MAX / 2;
    if (!json_is_array(v) || json_array_size(v) > most)
        return kvt_fail(err, KVT_FORMAT, "%s: expected an array of at most %zu", key, most);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *x = json_array_get(v, i);
        if (window ? !json_is_integer(x) : !json_is_number(x))
            return kvt_fail(err, KVT_FORMAT, "%s[%zu]: expected a number", key, i);
        if (window && (json_integer_value(x) < 0 || json_integer_value(x) > INT32_MAX))
            return kvt_fail(err, KVT_FORMAT, "%s[%zu]: out of range", key, i);
        if (window)
            f->model.window[i] = (int32_t)json_integer_value(x);
        else
            f->model.rope_freq[i] = json_number_value(x);
    }
    return KVT_OK;
}

static kvt_code set_spans(kvt_trace_facts *f, const json_t *v, kvt_err *err)
{
    const char *name;
    json_t *range;
    const int most = (int)(sizeof f->span / sizeof f->span[0]);
    if (!json_is_object(v))
        return kvt_fail(err, KVT_FORMAT, "spans: expected {name: [begin, end]}");
    json_object_foreach((json_t *)(uintptr_t)v, name, range)
    {
        if (f->n_span == most || strlen(name) >= sizeof f->span[0].name ||
            !json_is_array(range) || json_array_size(range) != 2 ||
            !json_is_integer(json_array_get(range, 0)) ||
            !json_is_integer(json_array_get(range, 1)))
            return kvt_fail(err, KVT_FORMAT,
                            "spans: expected at most %d of {name: [begin, end]}", most);
        kvt_span *s = &f->span[f->n_span++];
        snprintf(s->name, sizeof s->name, "%s", name);
        s->begin = json_integer_value(json_array_get(range, 0));
        s->end = json_integer_value(json_array_get(range, 1));
    }
    return KVT_OK;
}

static kvt_code set_group(kvt_trace_facts *f, const char *group, const json_t *object,
                          kvt_err *err)
{
    const char *key;
    json_t *v;
    if (!json_is_object(object))
        return kvt_fail(err, KVT_FORMAT, "expected an object");
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        const trace_attr *a = find_attr(group, key);
        bool array = strcmp(group, "model") == 0 &&
                     (strcmp(key, "window") == 0 || strcmp(key, "rope_freq") == 0);
        kvt_code code;
        if (array)
            code = set_array(f, key, v, err);
        else if (strcmp(group, "token") == 0 && strcmp(key, "spans") == 0)
            code = set_spans(f, v, err);
        else
            code = a ? set_attr(f, a, v, err) : unknown(group, key, err);
        if (code)
            return code;
    }
    return KVT_OK;
}

static kvt_code read_facts(import_job *im, kvt_err *err)
{
    static const char *const groups[] = {"model", "token", "attn", "future", "decision"};
    kvt_trace_facts *f = &im->spec.facts;
    kvt_geometry *g = &f->model;
    const char *key;
    json_t *v;
    f->level = KVT_REPLAY;
    g->rope_factor = g->rope_attn_factor = g->embed_scale = 1;
    snprintf(g->rope_layout, sizeof g->rope_layout, "half");
    snprintf(g->rope_type, sizeof g->rope_type, "none");
    f->token.look_until = -1;
    f->delay = 256;
    json_object_foreach(im->json, key, v)
    {
        bool is_group = false;
        for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
            is_group |= strcmp(groups[i], key) == 0;
        if (strcmp(key, "datasets") == 0 || strcmp(key, "probes") == 0 ||
            strcmp(key, "compress") == 0)
            continue;
        const trace_attr *a = find_attr("", key);
        kvt_code code = is_group ? set_group(f, key, v, err)
                        : a      ? set_attr(f, a, v, err)
                                 : unknown("", key, err);
        if (code)
            return is_group ? kvt_within(err, "%s", key) : code;
    }
    return KVT_OK;
}

/* ---- arrays --------------------------------------------------------------------------------
 */

static kvt_code open_sources(import_job *im, kvt_err *err)
{
    const char *key;
    json_t *v, *sets = json_object_get(im->json, "datasets");
    if (!json_is_object(sets))
        return kvt_fail(err, KVT_FORMAT, "datasets: expected {\"kv/k\": \"keys.npy\", ...}");
    json_object_foreach(sets, key, v)
    {
        const char *paths[KVT_DS_COUNT + 1] = {NULL};
        int ds = kvt_dataset_find(key);
        for (int i = 0; i < KVT_DS_COUNT; i++)
            paths[i] = kvt_dataset_of((kvt_ds)i)->path;
        if (ds < 0 || kvt_dataset_of((kvt_ds)ds)->level == KVT_NEVER) {
            const char *near = text_nearest(key, paths);
            return kvt_fail(err, KVT_FORMAT, "no dataset '%.60s'%s%s%s", key,
                            near ? " (did you mean '" : "", near ? near : "",
                            near ? "'?)" : "");
        }
        if (!json_is_string(v))
            return kvt_fail(err, KVT_FORMAT, "%s: expected the name of a file", key);
        if (im->from[ds])
            return kvt_fail(err, KVT_FORMAT, "%s: named twice", key);
        if (source_open(&im->from[ds], im->folder, json_string_value(v), err))
            return kvt_within(err, "%s", key);
        kvt_dtype dtype;
        const char *axes = kvt_dataset_of((kvt_ds)ds)->axes;
        int rank = source_shape(im->from[ds], &dtype, im->dim[ds]);
        if (rank != (int)strlen(axes))
            return kvt_fail(err, KVT_FORMAT, "%s: expected axes %s, got %d axes", key, axes,
                            rank);
    }
    return KVT_OK;
}

/* Extent of an axis as the first array that has it shows, -1: none does. */
static int64_t shown(const import_job *im, char letter)
{
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        for (int i = 0; im->from[ds] && kvt_dataset_of((kvt_ds)ds)->axes[i]; i++)
            if (kvt_dataset_of((kvt_ds)ds)->axes[i] == letter)
                return im->dim[ds][i];
    return -1;
}

static void derive_size(int64_t *field, int64_t from)
{
    *field = *field || from < 0 ? *field : from;
}

static kvt_code derive_sizes(import_job *im, kvt_err *err)
{
    kvt_writer_spec *o = &im->spec;
    kvt_geometry *g = &o->facts.model;
    kvt_token_info *t = &o->facts.token;
    int64_t L = shown(im, 'L');
    if (L < 1 || L > KVT_LAYERS_MAX)
        return kvt_fail(err, KVT_FORMAT, "layers: expected 1 to %d, got %lld", KVT_LAYERS_MAX,
                        (long long)L);
    o->n_layer = (int)L;
    derive_size(&g->n_layer, L);
    derive_size(&g->n_head, shown(im, 'H'));
    derive_size(&g->n_kv_head, shown(im, 'G'));
    derive_size(&g->head_dim, shown(im, 'D'));
    derive_size(&g->n_hidden, shown(im, 'E'));
    derive_size(&t->n_prompt, shown(im, 'N'));
    derive_size(&t->n_response, shown(im, 'M'));
    if (t->look_until < 0)
        t->look_until = t->n_prompt;
    if (g->attn_scale == 0 && g->head_dim > 0)
        g->attn_scale = 1 / sqrt((double)g->head_dim);
    json_t *model = json_object_get(im->json, "model");
    if (g->rope_theta == 0)
        g->rope_theta = 10000;
    for (int64_t i = 0; !json_object_get(model, "rope_freq") && i < g->head_dim / 2; i++)
        g->rope_freq[i] = pow(g->rope_theta, -2.0 * (double)i / (double)g->head_dim);
    o->n_query = shown(im, 'Q') < 0 ? 0 : shown(im, 'Q');
    o->n_block = shown(im, 'J') < 0 ? 0 : shown(im, 'J');
    o->n_text = shown(im, 'Z') < 0 ? 0 : shown(im, 'Z');
    o->n_raw = shown(im, 'Y') < 0 ? 0 : shown(im, 'Y');
    o->facts.no_text = !im->from[KVT_DS_TEXT_BYTES];
    o->compress = json_is_true(json_object_get(im->json, "compress"));
    return KVT_OK;
}

static kvt_code put_derived(kvt_writer *w, kvt_ds ds, const void *data, int64_t n, kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    kvt_view v = kvt_view_of(data, d->dtype, d->axes, 1, &n);
    return kvt_writer_put(w, ds, 0, &v, err);
}

/* Blocks of block_tokens queries from 0 and again from N, where they are J in all. */
static int64_t derive_blocks(int32_t *start, const kvt_trace_facts *f)
{
    int64_t N = f->token.n_prompt, T = N + f->token.n_response, n = 0;
    for (int64_t q = 0; f->block_tokens > 0 && q < N; q += f->block_tokens)
        start[n++] = (int32_t)q;
    for (int64_t q = N; f->block_tokens > 0 && q < T; q += f->block_tokens)
        start[n++] = (int32_t)q;
    start[n] = (int32_t)T;
    return n;
}

static kvt_code fill_in(import_job *im, kvt_writer *w, kvt_err *err)
{
    kvt_writer_spec *o = &im->spec;
    const kvt_trace_facts *f = &o->facts;
    int64_t N = f->token.n_prompt, T = N + f->token.n_response;
    int32_t *x = kvt_alloc(T + 2, sizeof *x);
    int64_t *offset = kvt_alloc(T + 1, sizeof *offset);
    kvt_code code = x && offset ? KVT_OK : kvt_fail_memory(err, (size_t)T * 12);
    if (!code && !im->from[KVT_DS_LAYER_ID] && o->n_layer == f->model.n_layer) {
        for (int i = 0; i < o->n_layer; i++)
            o->layer_id[i] = i;
        code = put_derived(w, KVT_DS_LAYER_ID, o->layer_id, o->n_layer, err);
    }
    if (!code && !im->from[KVT_DS_TOKEN_FLAG]) {
        uint8_t *flag = (uint8_t *)x;
        for (int64_t i = 0; i < T; i++)
            flag[i] = i < N ? 0 : KVT_TOKEN_RESPONSE;
        code = put_derived(w, KVT_DS_TOKEN_FLAG, flag, T, err);
    }
    if (!code && !im->from[KVT_DS_TOKEN_OFFSET] && f->no_text)
        code = put_derived(w, KVT_DS_TOKEN_OFFSET, offset, T + 1, err);
    if (!code && !im->from[KVT_DS_QUERY_POS] && im->from[KVT_DS_QUERIES] && o->n_query == T) {
        for (int64_t i = 0; i < T; i++)
            x[i] = (int32_t)i;
        code = put_derived(w, KVT_DS_QUERY_POS, x, T, err);
    }
    if (!code && !im->from[KVT_DS_BLOCK_START] && im->from[KVT_DS_BLOCK_SUM]) {
        int64_t n = derive_blocks(x, f);
        if (n != o->n_block)
            code =
                kvt_fail(err, KVT_FORMAT,
                         "attn/block_sum has %lld blocks, blocks of %lld tokens are %lld: give "
                         "attn/block_start",
                         (long long)o->n_block, (long long)f->block_tokens, (long long)n);
        else
            code = put_derived(w, KVT_DS_BLOCK_START, x, n + 1, err);
    }
    kvt_free(x);
    kvt_free(offset);
    return code;
}

static kvt_code copy(import_job *im, kvt_writer *w, kvt_ds ds, kvt_err *err)
{
    const kvt_dataset *d = kvt_dataset_of(ds);
    bool layers = dataset_has_layers(ds);
    int rank = (int)strlen(d->axes);
    const int64_t *dim = im->dim[ds];
    int64_t n = dims_slab(ds, rank, dim);
    if (n < 0)
        return kvt_fail(err, KVT_FORMAT, "%s: its extents are out of range", d->path);
    void *slab = kvt_alloc(n, kvt_dtype_size(d->dtype));
    kvt_code code = slab ? KVT_OK : kvt_fail_memory(err, (size_t)n * kvt_dtype_size(d->dtype));
    for (int64_t l = 0; l < (layers ? dim[0] : 1) && !code; l++) {
        if ((code = source_read(im->from[ds], slab, d->dtype, layers, l, n, err))) {
            kvt_within(err, "%s", d->path);
            break;
        }
        kvt_view v = kvt_view_of(slab, d->dtype, d->axes + layers, (size_t)(rank - layers),
                                 dim + layers);
        code = kvt_writer_put(w, ds, (int)l, &v, err);
    }
    kvt_free(slab);
    return code;
}

static kvt_code write_all(import_job *im, const char *out, kvt_err *err)
{
    kvt_writer *w;
    if (kvt_writer_open(&w, out, &im->spec, err))
        return err->code;
    kvt_code code = KVT_OK;
    for (int ds = 0; ds < KVT_DS_COUNT && !code; ds++)
        if (im->from[ds])
            code = copy(im, w, (kvt_ds)ds, err);
    if (!code)
        code = fill_in(im, w, err);
    const import_target to = {.writer = w,
                              .facts = &im->spec.facts,
                              .n_layer = im->spec.n_layer,
                              .folder = im->folder};
    if (!code)
        code = import_probes(&to, json_object_get(im->json, "probes"), err);
    if (code) {
        kvt_writer_abort(w);
        return code;
    }
    return kvt_writer_close(w, err);
}

kvt_code kvt_trace_import(const char *manifest, const char *out, bool force, kvt_err *err)
{
    import_job *im = kvt_alloc(1, sizeof *im);
    if (!im)
        return kvt_fail_memory(err, sizeof *im);
    file_dir(im->folder, sizeof im->folder, manifest);
    kvt_code code = json_read_file(&im->json, manifest, err);
    if (!code && !json_is_object(im->json))
        code = kvt_fail(err, KVT_FORMAT, "expected an object");
    if (!code && !(code = read_facts(im, err)) && !(code = open_sources(im, err)) &&
        !(code = derive_sizes(im, err))) {
        im->spec.force = force;
        code = write_all(im, out, err);
    }
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        source_close(im->from[ds]);
    if (im->json)
        json_decref(im->json);
    kvt_free(im);
    return code && code != KVT_NOTFOUND ? kvt_within(err, "import '%s'", manifest) : code;
}
