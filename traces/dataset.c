/* dataset.c - the lists of the trace format as tables, and the extents of the axes. */
#include "traces/dataset.h"

#include <stdio.h>
#include <string.h>

static const kvt_dataset datasets[KVT_DS_COUNT] = {
#define KVT_DATASET(id, path, type, axes, unit, level, required, help) \
    {#id, path, KVT_##type, axes, unit, KVT_##level, required, help},
#include "traces/datasets.def"
#undef KVT_DATASET
};

static const trace_axis axes_list[] = {
#define KVT_AXIS(letter, name, help) {letter, name, help},
#include "traces/axes.def"
#undef KVT_AXIS
};

#define FIELD(field) offsetof(kvt_trace_facts, field), sizeof(((kvt_trace_facts *)0)->field)

static const trace_attr attributes[] = {
#define X(kind, field, unit, help) \
    {"model", #field, ATTR_##kind, FIELD(model.field), false, unit, help},
    KVT_GEOMETRY_FIELDS(X)
#undef X
#define KVT_ATTRIBUTE(group, name, kind, field, run, help) \
    {group, name, ATTR_##kind, FIELD(field), run, "", help},
#include "traces/attributes.def"
#undef KVT_ATTRIBUTE
};

const kvt_dataset *kvt_dataset_of(kvt_ds ds)
{
    return &datasets[ds];
}

int kvt_dataset_find(const char *path)
{
    path += *path == '/';
    for (int i = 0; i < KVT_DS_COUNT; i++)
        if (strcmp(datasets[i].path, path) == 0)
            return i;
    return -1;
}

const char *kvt_level_name(kvt_level level)
{
    static const char *const name[] = {"summary", "replay", "full", "train", "never"};
    return (unsigned)level <= KVT_NEVER ? name[level] : "unknown";
}

const trace_axis *trace_axis_of(char letter)
{
    for (size_t i = 0; i < sizeof axes_list / sizeof axes_list[0]; i++)
        if (axes_list[i].letter == letter)
            return &axes_list[i];
    return NULL;
}

const trace_attr *trace_attrs(int *n)
{
    *n = (int)(sizeof attributes / sizeof attributes[0]);
    return attributes;
}

bool dataset_has_layers(kvt_ds ds)
{
    return datasets[ds].axes[0] == 'L' && ds != KVT_DS_LAYER_ID;
}

/* What training a scorer reads: about half of a replay trace. */
static bool in_train(kvt_ds ds)
{
    static const char *const part[] = {"layer/",   "token/",  "text/",
                                       "attn/lse", "future/", "kv/"};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (strncmp(datasets[ds].path, part[i], strlen(part[i])) == 0)
            return true;
    return false;
}

bool dataset_in_level(kvt_ds ds, kvt_level level)
{
    if (level == KVT_TRAIN)
        return in_train(ds);
    return datasets[ds].level <= level && datasets[ds].level != KVT_NEVER;
}

bool dataset_required(kvt_ds ds, const kvt_trace_facts *facts)
{
    if (ds == KVT_DS_TEXT_BYTES)
        return !facts->no_text;
    if ((ds == KVT_DS_FUTURE_MEAN || ds == KVT_DS_FUTURE_MAX) && facts->token.n_response == 0)
        return false;
    return datasets[ds].required && dataset_in_level(ds, facts->level);
}

void extents_init(trace_extents *e, const kvt_trace_facts *facts)
{
    const kvt_geometry *g = &facts->model;
    for (int i = 0; i < 26; i++)
        e->n[i] = -1;
    extents_at(e, 'H') = g->n_head;
    extents_at(e, 'G') = g->n_kv_head;
    extents_at(e, 'D') = g->head_dim;
    extents_at(e, 'F') = g->head_dim / 2;
    extents_at(e, 'E') = g->n_hidden;
    extents_at(e, 'V') = g->n_vocab;
    extents_at(e, 'N') = facts->token.n_prompt;
    extents_at(e, 'M') = facts->token.n_response;
    extents_at(e, 'T') = facts->token.n_prompt + facts->token.n_response;
    extents_at(e, 'U') = extents_at(e, 'T') + 1;
    extents_at(e, 'X') = KVT_TOP;
}

int extents_dims(const trace_extents *e, kvt_ds ds, int64_t dim[KVT_RANK_MAX])
{
    int rank = 0;
    for (const char *a = datasets[ds].axes; *a; a++)
        dim[rank++] = extents_at(e, *a);
    return rank;
}

int64_t dims_slab(kvt_ds ds, int rank, const int64_t *dim)
{
    int64_t n = 1;
    for (int i = dataset_has_layers(ds) ? 1 : 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, dim[i], &n))
            return -1;
    /* Bytes must be countable too, for all layers together. */
    return n > INT64_MAX / 8 / KVT_LAYERS_MAX ? -1 : n;
}

static kvt_code in_range(const char *name, int64_t x, int64_t lo, int64_t hi, kvt_err *err)
{
    if (x >= lo && x <= hi)
        return KVT_OK;
    return kvt_fail(err, KVT_FORMAT, "%s: expected %lld to %lld, got %lld", name, (long long)lo,
                    (long long)hi, (long long)x);
}

kvt_code facts_check(const kvt_trace_facts *f, kvt_err *err)
{
    const kvt_geometry *g = &f->model;
    const kvt_token_info *t = &f->token;
    const int64_t most = INT32_MAX / 2; /* positions are i32, and N + M must be one */
    if (in_range("/model n_layer", g->n_layer, 1, KVT_LAYERS_MAX, err) ||
        in_range("/model n_head", g->n_head, 1, 65536, err) ||
        in_range("/model n_kv_head", g->n_kv_head, 1, g->n_head, err) ||
        in_range("/model head_dim", g->head_dim, 1, KVT_HEAD_DIM_MAX, err) ||
        in_range("/model n_hidden", g->n_hidden, 0, INT32_MAX, err) ||
        in_range("/model n_vocab", g->n_vocab, 0, INT32_MAX, err) ||
        in_range("/token n_prompt", t->n_prompt, 1, most, err) ||
        in_range("/token n_response", t->n_response, 0, most, err))
        return err->code;
    int64_t n = t->n_prompt + t->n_response;
    if (in_range("/token look_until", t->look_until, 0, n, err) ||
        in_range("/token prefix_end", t->prefix_end, 0, n, err) ||
        in_range("/token system_begin", t->system_begin, 0, n, err) ||
        in_range("/token system_end", t->system_end, t->system_begin, n, err) ||
        in_range("/attn block_tokens", f->block_tokens, 0, INT32_MAX, err) ||
        in_range("/future delay", f->delay, 0, INT32_MAX, err) ||
        in_range("/decision shift", f->decision_shift, 0, n, err) ||
        in_range("spans of /token", f->n_span, 0, (int64_t)(sizeof f->span / sizeof f->span[0]),
                 err))
        return err->code;
    if (g->n_head % g->n_kv_head != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "/model: %lld query heads are no multiple of %lld kv heads",
                        (long long)g->n_head, (long long)g->n_kv_head);
    const char *cache = f->decision_cache;
    if (f->decision_policy[0] && strcmp(cache, "dense") != 0 && strcmp(cache, "evicted") != 0)
        return kvt_fail(err, KVT_FORMAT, "/decision cache: expected dense or evicted, got '%s'",
                        cache);
    for (int i = 0; i < f->n_span; i++)
        if (in_range("begin of a span of /token", f->span[i].begin, 0, n, err) ||
            in_range("end of a span of /token", f->span[i].end, f->span[i].begin, n, err))
            return err->code;
    for (int64_t l = 0; l < g->n_layer; l++)
        if (in_range("/model window", g->window[l], 0, INT32_MAX, err))
            return err->code;
    return KVT_OK;
}
