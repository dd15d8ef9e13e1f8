/* probe_prompt.c - a trace as the prompt of probes. */
#include "capture/probe.h"

#include <string.h>

#include "kvt/arena.h"

typedef struct stored {
    kvt_trace *t;
    int64_t n_prompt, head_dim;
    kvt_view id, flag, pos;
    int64_t n_before; /* stored queries of the prompt: its last ones */
} stored;

/* Rows [from, from + n) of one head of a dataset [heads rows D]. */
static kvt_code rows_of(const stored *s, kvt_ds ds, int layer, int head, int64_t from,
                        int64_t n, float *out, kvt_err *err)
{
    kvt_view v;
    if (kvt_trace_read(s->t, ds, layer, &v, err))
        return err->code;
    const float *x = (const float *)v.data + head * v.stride[0] + from * v.stride[1];
    memcpy(out, x, (size_t)(n * s->head_dim) * sizeof *out);
    kvt_trace_done(s->t, &v);
    return KVT_OK;
}

static kvt_code keys(void *self, int layer, int kv_head, float *out, kvt_err *err)
{
    const stored *s = self;
    return rows_of(s, KVT_DS_KEYS, layer, kv_head, 0, s->n_prompt, out, err);
}

static kvt_code values(void *self, int layer, int kv_head, float *out, kvt_err *err)
{
    const stored *s = self;
    return rows_of(s, KVT_DS_VALUES, layer, kv_head, 0, s->n_prompt, out, err);
}

static kvt_code queries(void *self, int layer, int head, int64_t n, float *out, kvt_err *err)
{
    const stored *s = self;
    if (n > s->n_before)
        return kvt_fail(err, KVT_FORMAT,
                        "query/q: expected the last %lld prompt queries, got %lld",
                        (long long)n, (long long)s->n_before);
    return rows_of(s, KVT_DS_QUERIES, layer, head, s->n_before - n, n, out, err);
}

/* How many of the stored queries are the prompt's last ones, without a gap. */
static int64_t count_before(const stored *s, int64_t n_query)
{
    const int32_t *pos = s->pos.data;
    int64_t end = 0, n = 0;
    while (end < n_query && pos[end] < s->n_prompt)
        end++;
    while (n < end && pos[end - 1 - n] == s->n_prompt - 1 - n)
        n++;
    return n;
}

static kvt_code check(const kvt_trace_info *info, kvt_err *err)
{
    const kvt_geometry *g = &info->facts.model;
    for (int l = 0; l < info->n_layer || l < g->n_layer; l++)
        if (l >= info->n_layer || info->layer_id[l] != l)
            return kvt_fail(err, KVT_FORMAT,
                            "a probe runs through all %lld layers, this trace holds %d of them "
                            "(--layers)",
                            (long long)g->n_layer, info->n_layer);
    if (!info->has[KVT_DS_KEYS] || !info->has[KVT_DS_VALUES])
        return kvt_fail(
            err, KVT_FORMAT,
            "a probe needs keys and values (kv/k, kv/v), this trace has none (level "
            "%s)",
            kvt_level_name(info->facts.level));
    return KVT_OK;
}

static kvt_code first_of(kvt_prompt *out, kvt_trace *t, kvt_err *err)
{
    kvt_view v;
    out->first = -1;
    if (!out->n_response || !kvt_trace_info_of(t)->has[KVT_DS_LOGIT_ID])
        return KVT_OK;
    if (kvt_trace_read(t, KVT_DS_LOGIT_ID, 0, &v, err))
        return err->code;
    out->first = *(const int32_t *)v.data;
    kvt_trace_done(t, &v);
    return KVT_OK;
}

static kvt_code open_prompt(kvt_prompt *out, stored *s, kvt_err *err)
{
    const kvt_trace_info *info = kvt_trace_info_of(s->t);
    if (check(info, err) || kvt_trace_read(s->t, KVT_DS_TOKEN_ID, 0, &s->id, err) ||
        kvt_trace_read(s->t, KVT_DS_TOKEN_FLAG, 0, &s->flag, err) || first_of(out, s->t, err))
        return err->code;
    out->id = s->id.data;
    out->flag = s->flag.data;
    if (!info->has[KVT_DS_QUERIES])
        return KVT_OK;
    if (kvt_trace_read(s->t, KVT_DS_QUERY_POS, 0, &s->pos, err))
        return err->code;
    s->n_before = count_before(s, info->n_query);
    out->queries = queries;
    return KVT_OK;
}

kvt_code probe_prompt_open(kvt_prompt *out, kvt_trace *t, kvt_err *err)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    stored *s = kvt_alloc(1, sizeof *s);
    *out = (kvt_prompt){.geometry = &info->facts.model,
                        .n_prompt = info->facts.token.n_prompt,
                        .n_response = info->facts.token.n_response,
                        .self = s,
                        .keys = keys,
                        .values = values};
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    s->t = t;
    s->n_prompt = out->n_prompt;
    s->head_dim = out->geometry->head_dim;
    if (open_prompt(out, s, err)) {
        probe_prompt_close(out);
        return err->code;
    }
    return KVT_OK;
}

void probe_prompt_close(kvt_prompt *p)
{
    stored *s = p->self;
    if (!s)
        return;
    if (s->id.data)
        kvt_trace_done(s->t, &s->id);
    if (s->flag.data)
        kvt_trace_done(s->t, &s->flag);
    if (s->pos.data)
        kvt_trace_done(s->t, &s->pos);
    kvt_free(s);
    p->self = NULL;
}
