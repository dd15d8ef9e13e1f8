/* adapter.c - reading learned lookahead tokens and their LoRA. */
#include "capture/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/size.h"
#include "kvt/arena.h"
#include "traces/tensors.h"

enum { RANK_MAX = 4096, TOKEN_MAX = 65536 };

/* ---- one file ------------------------------------------------------------------------------
 */

/* A tensor's place: a map's half of a layer, or the embeddings. */
typedef struct place {
    int layer; /* -1: the embeddings */
    adapter_map_id map;
    bool is_b;
} place;

typedef struct reading {
    adapter *a;
    const tensors *t;
    const kvt_geometry *g;
    float *next; /* free memory */
} reading;

static const char *past(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : text;
}

static bool map_of(place *out, const char *rest)
{
    for (int i = 0; i < ADAPTER_MAPS; i++) {
        size_t n = strlen(adapter_map_name((adapter_map_id)i));
        if (strncmp(rest, adapter_map_name((adapter_map_id)i), n) != 0)
            continue;
        out->map = (adapter_map_id)i;
        out->is_b = strcmp(rest + n, ".lora_B.weight") == 0;
        return out->is_b || strcmp(rest + n, ".lora_A.weight") == 0;
    }
    return false;
}

static kvt_code place_of(place *out, const char *name, const kvt_geometry *g, kvt_err *err)
{
    const char *rest = past(name, "base_model.model."), *number;
    *out = (place){.layer = -1};
    if (strcmp(rest, "lookahead.embeddings") == 0)
        return KVT_OK;
    number = past(rest, "model.layers.");
    if (number != rest && *number >= '0' && *number <= '9') {
        char *end;
        long layer = strtol(number, &end, 10);
        if (*end == '.' && map_of(out, end + 1)) {
            out->layer = (int)layer;
            if (layer >= 0 && layer < g->n_layer)
                return KVT_OK;
            return kvt_fail(err, KVT_FORMAT, "tensor '%s': the model has %lld layers", name,
                            (long long)g->n_layer);
        }
    }
    return kvt_fail(err, KVT_FORMAT, "tensor '%s' has no place in an adapter", name);
}

static kvt_code expect(const tensor *x, int64_t rows, int64_t cols, kvt_err *err)
{
    if (x->rank == 2 && x->dim[0] == rows && x->dim[1] == cols)
        return KVT_OK;
    return kvt_fail(
        err, KVT_FORMAT, "tensor '%s': expected [%lld %lld], got [%lld %lld]%s", x->name,
        (long long)rows, (long long)cols, (long long)(x->rank > 0 ? x->dim[0] : 0),
        (long long)(x->rank > 1 ? x->dim[1] : 0), x->rank == 2 ? "" : " of another rank");
}

static kvt_code take(reading *r, const tensor *x, const float **to, kvt_err *err)
{
    int64_t n = x->dim[0] * x->dim[1];
    if (*to)
        return kvt_fail(err, KVT_FORMAT, "tensor '%s' is there twice", x->name);
    if (tensors_floats(x, r->next, n, err))
        return strstr(err->text, x->name) ? err->code : kvt_within(err, "tensor '%s'", x->name);
    *to = r->next;
    r->next += n;
    return KVT_OK;
}

static kvt_code take_map(reading *r, const tensor *x, const place *p, kvt_err *err)
{
    adapter *a = r->a;
    adapter_map *m = &a->layer[p->layer][p->map];
    int64_t in, out;
    adapter_map_shape(r->g, p->map, &in, &out);
    if (p->is_b ? expect(x, out, a->rank, err) : expect(x, a->rank, in, err))
        return err->code;
    return take(r, x, p->is_b ? &m->b : &m->a, err);
}

static kvt_code take_all(reading *r, kvt_err *err)
{
    adapter *a = r->a;
    for (int i = 0; i < tensors_count(r->t); i++) {
        const tensor *x = tensors_at(r->t, i);
        place p;
        if (place_of(&p, x->name, r->g, err))
            return err->code;
        if (p.layer >= 0
                ? take_map(r, x, &p, err)
                : expect(x, a->n_token, r->g->n_hidden, err) || take(r, x, &a->token, err))
            return err->code;
    }
    for (int l = 0; l < a->n_layer; l++)
        for (int i = 0; i < ADAPTER_MAPS; i++)
            if (!a->layer[l][i].a != !a->layer[l][i].b)
                return kvt_fail(err, KVT_FORMAT, "layer %d: %s has a lora_%c and no lora_%c", l,
                                adapter_map_name((adapter_map_id)i),
                                a->layer[l][i].a ? 'A' : 'B', a->layer[l][i].a ? 'B' : 'A');
    return KVT_OK;
}

/* Rank, number of tokens and values of the whole file, before any is read. */
static kvt_code measure(reading *r, int64_t *n_value, kvt_err *err)
{
    adapter *a = r->a;
    *n_value = 0;
    for (int i = 0; i < tensors_count(r->t); i++) {
        const tensor *x = tensors_at(r->t, i);
        place p;
        if (place_of(&p, x->name, r->g, err))
            return err->code;
        if (x->rank != 2 || x->dim[0] < 1 || x->dim[1] < 1)
            return expect(x, 1, 1, err);
        if (p.layer < 0)
            a->n_token = x->dim[0];
        else if (!p.is_b && !a->rank)
            a->rank = x->dim[0];
        *n_value += x->dim[0] * x->dim[1];
    }
    if (!a->n_token)
        return kvt_fail(err, KVT_FORMAT, "expected a tensor 'lookahead.embeddings'");
    if (a->n_token > TOKEN_MAX || a->rank > RANK_MAX)
        return kvt_fail(err, KVT_FORMAT,
                        "%lld tokens, rank %lld: expected at most %d tokens, rank %d",
                        (long long)a->n_token, (long long)a->rank, TOKEN_MAX, RANK_MAX);
    return KVT_OK;
}

static void copy(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text ? text : "");
}

/* What it is and of which model, before a tensor is looked at. */
static kvt_code read_origin(adapter *a, const tensors *t, const kvt_model_id *model,
                            kvt_err *err)
{
    const char *format = tensors_meta(t, "format");
    if (!format || strcmp(format, "kvt-adapter") != 0)
        return kvt_fail(err, KVT_FORMAT, "metadata: expected format kvt-adapter, got %s",
                        format ? format : "none");
    copy(a->kind, sizeof a->kind, tensors_meta(t, "kind"));
    copy(a->model_digest, sizeof a->model_digest, tensors_meta(t, "model_digest"));
    copy(a->model, sizeof a->model, tensors_meta(t, "model"));
    copy(a->recipe, sizeof a->recipe, tensors_meta(t, "recipe"));
    if (strcmp(a->kind, "lookaheadkv") != 0 && strcmp(a->kind, "judgeq") != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "metadata: expected kind lookaheadkv or judgeq, got '%s'", a->kind);
    kvt_model_id made_for = {"", ""};
    copy(made_for.weights, sizeof made_for.weights, a->model_digest);
    if (model && !kvt_model_id_same(model, &made_for))
        return kvt_fail(
            err, KVT_FORMAT, "it was made for another model: expected digest %s, got '%s' (%s)",
            model->weights[0] ? model->weights : model->file, a->model_digest, a->model);
    return KVT_OK;
}

/* What follows from its rank. */
static kvt_code read_alpha(adapter *a, const tensors *t, kvt_err *err)
{
    const char *alpha = tensors_meta(t, "alpha");
    kvt_err not_used;
    if (strcmp(a->kind, "judgeq") == 0 && a->rank)
        return kvt_fail(err, KVT_FORMAT,
                        "kind judgeq trains embeddings only, the file has a LoRA of rank %lld",
                        (long long)a->rank);
    if (alpha &&
        (real_parse(&a->alpha, alpha, &not_used) || !(a->alpha >= 0) || a->alpha > 1e9))
        return kvt_fail(err, KVT_FORMAT, "metadata: alpha '%s' is no number", alpha);
    if (!alpha && a->rank)
        return kvt_fail(err, KVT_FORMAT, "metadata: expected alpha, the file has a LoRA");
    return KVT_OK;
}

static kvt_code read_file(adapter *a, const tensors *t, const kvt_geometry *g,
                          const kvt_model_id *model, kvt_err *err)
{
    reading r = {.a = a, .t = t, .g = g};
    int64_t n_value;
    if (read_origin(a, t, model, err) || measure(&r, &n_value, err) || read_alpha(a, t, err))
        return err->code;
    a->n_layer = (int)g->n_layer;
    a->memory = r.next = kvt_alloc(n_value, sizeof(float));
    a->layer = kvt_alloc(g->n_layer, sizeof *a->layer);
    if (!a->memory || !a->layer)
        return kvt_fail_memory(err, (size_t)n_value * sizeof(float));
    return take_all(&r, err);
}

kvt_code adapter_open(adapter **out, const char *path, const kvt_geometry *g,
                      const kvt_model_id *model, kvt_err *err)
{
    tensors *t = NULL;
    *out = NULL;
    adapter *a = kvt_alloc(1, sizeof *a);
    if (!a)
        return kvt_fail_memory(err, sizeof *a);
    kvt_code code = tensors_open(&t, path, err);
    if (!code)
        code = digest_file(path, a->digest, err);
    if (!code)
        code = read_file(a, t, g, model, err);
    tensors_close(t);
    if (code) {
        adapter_close(a);
        return strstr(err->text, path) ? code : kvt_within(err, "adapter '%s'", path);
    }
    *out = a;
    return KVT_OK;
}

void adapter_close(adapter *a)
{
    if (!a)
        return;
    kvt_free(a->layer);
    kvt_free(a->memory);
    kvt_free(a);
}
