/* rows.c - attention rows of the stored queries: read, or computed by the one routine that
 * wrote them (compute/rows.h). The bits are the same. */
#include "replay/replay_priv.h"

#include <string.h>

#include "base/half.h"
#include "compute/rows.h"
#include "kvt/arena.h"

/* ---- a whole layer -------------------------------------------------------------------------
 */

/* Queries, keys and positions of a layer, borrowed from the trace. */
typedef struct source {
    kvt_view q, k, pos;
} source;

static void source_done(source *s, kvt_trace *t)
{
    kvt_trace_done(t, &s->q);
    kvt_trace_done(t, &s->k);
    kvt_trace_done(t, &s->pos);
}

static kvt_code source_read(source *s, kvt_trace *t, int layer, kvt_err *err)
{
    *s = (source){0};
    if (kvt_trace_read(t, KVT_DS_QUERIES, layer, &s->q, err) ||
        kvt_trace_read(t, KVT_DS_KEYS, layer, &s->k, err) ||
        kvt_trace_read(t, KVT_DS_QUERY_POS, 0, &s->pos, err)) {
        source_done(s, t);
        return err->code;
    }
    return KVT_OK;
}

/* Rows from..to of a query head into out f16 [to - from, T]. */
static void compute_head(uint16_t *out, const source *s, const kvt_trace_info *i, int layer,
                         int head, int64_t from, int64_t to, void *scratch)
{
    const kvt_geometry *g = &i->facts.model;
    int64_t d = s->q.dim[2], group = head * s->k.dim[0] / s->q.dim[0];
    const float *q = (const float *)s->q.data + head * s->q.stride[0] + from * s->q.stride[1];
    const float *k = (const float *)s->k.data + group * s->k.stride[0];
    rows_head(out, q, k, (const int32_t *)s->pos.data + from, to - from, s->k.dim[1], d,
              (float)g->attn_scale, g->window[i->layer_id[layer]], scratch);
}

static kvt_code compute_layer(layer_rows *out, kvt_trace *t, int layer, int64_t from,
                              int64_t to, kvt_err *err)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    source s;
    if (source_read(&s, t, layer, err))
        return err->code;
    int64_t n_head = s.q.dim[0], n_token = s.k.dim[1], n = to - from;
    void *scratch = kvt_alloc(1, rows_scratch_bytes(n_token, s.q.dim[2]));
    out->owned = kvt_alloc(n_head * n * n_token, sizeof *out->owned);
    kvt_code code = KVT_OK;
    if (!scratch || !out->owned)
        code = kvt_fail_memory(err, n_head * n * n_token * (int64_t)sizeof *out->owned);
    for (int h = 0; !code && h < n_head; h++)
        compute_head(out->owned + h * n * n_token, &s, info, layer, h, from, to, scratch);
    kvt_free(scratch);
    source_done(&s, t);
    if (code) {
        kvt_free(out->owned);
        out->owned = NULL;
        return code;
    }
    *out = (layer_rows){.data = out->owned,
                        .owned = out->owned,
                        .n_head = n_head,
                        .n_query = n,
                        .n_token = n_token,
                        .head_stride = n * n_token,
                        .row_stride = n_token};
    return KVT_OK;
}

kvt_code rows_read(layer_rows *out, kvt_trace *t, int layer, int64_t from, int64_t to,
                   kvt_err *err)
{
    *out = (layer_rows){0};
    if (!kvt_trace_info_of(t)->has[KVT_DS_ROWS])
        return compute_layer(out, t, layer, from, to, err);
    kvt_view v;
    if (kvt_trace_read_raw(t, KVT_DS_ROWS, layer, &v, err))
        return err->code;
    *out = (layer_rows){.data = (const uint16_t *)v.data + from * v.stride[1],
                        .n_head = v.dim[0],
                        .n_query = to - from,
                        .n_token = v.dim[2],
                        .head_stride = v.stride[0],
                        .row_stride = v.stride[1],
                        .borrowed = v};
    return KVT_OK;
}

kvt_code rows_before(float **out, kvt_trace *t, int layer, int64_t from, int64_t to,
                     kvt_err *err)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    const kvt_geometry *g = &info->facts.model;
    source s;
    *out = NULL;
    if (source_read(&s, t, layer, err))
        return err->code;
    int64_t n_head = s.q.dim[0], n_token = s.k.dim[1], d = s.q.dim[2], n = to - from;
    void *scratch = kvt_alloc(1, rows_scratch_bytes(n_token, d));
    *out = kvt_alloc(n_head * n * n_token, sizeof **out);
    kvt_code code = KVT_OK;
    if (!scratch || !*out)
        code = kvt_fail_memory(err, n_head * n * n_token * (int64_t)sizeof **out);
    for (int64_t h = 0; !code && h < n_head; h++)
        rows_logits(*out + h * n * n_token,
                    (const float *)s.q.data + h * s.q.stride[0] + from * s.q.stride[1],
                    (const float *)s.k.data + h * s.k.dim[0] / n_head * s.k.stride[0],
                    (const int32_t *)s.pos.data + from, n, n_token, d, (float)g->attn_scale,
                    g->window[info->layer_id[layer]], scratch);
    kvt_free(scratch);
    source_done(&s, t);
    if (code) {
        kvt_free(*out);
        *out = NULL;
    }
    return code;
}

void rows_done(layer_rows *r, kvt_trace *t)
{
    if (r->borrowed.data)
        kvt_trace_done(t, &r->borrowed);
    kvt_free(r->owned);
    *r = (layer_rows){0};
}

/* ---- head by head, for browsers ------------------------------------------------------------
 */

enum { CACHED = 8 };

typedef struct cached_head {
    int layer, head;
    int64_t used;
    uint16_t *rows; /* f16 [Q T] */
} cached_head;

struct kvt_rows {
    kvt_trace *t;
    const kvt_trace_info *info;
    cached_head head[CACHED];
    int64_t clock;
    kvt_view borrowed; /* of attn/rows, where the trace has it */
    int borrowed_layer;
    float *group; /* f32 [M T] */
    float *line;  /* f32 [T] */
    void *scratch;
};

kvt_code kvt_rows_open(kvt_rows **out, kvt_trace *t, kvt_err *err)
{
    char lacks[256];
    const kvt_trace_info *info = kvt_trace_info_of(t);
    *out = NULL;
    if (kvt_trace_lacks(t, KVT_NEED_ATTN, lacks, sizeof lacks))
        return kvt_fail(err, KVT_NOTFOUND, "attention rows: %s", lacks);
    int64_t n = info->n_token, m = info->facts.token.n_response;
    kvt_rows *r = kvt_alloc(1, sizeof *r);
    if (r) {
        *r = (kvt_rows){.t = t, .info = info, .borrowed_layer = -1};
        r->group = kvt_alloc(m * n, sizeof *r->group);
        r->line = kvt_alloc(n, sizeof *r->line);
        r->scratch = kvt_alloc(1, rows_scratch_bytes(n, info->facts.model.head_dim));
    }
    if (!r || !r->group || !r->line || !r->scratch) {
        kvt_rows_close(r);
        return kvt_fail_memory(err, m * n * (int64_t)sizeof(float));
    }
    *out = r;
    return KVT_OK;
}

static kvt_code borrow(kvt_rows *r, int layer, int head, const uint16_t **rows, kvt_err *err)
{
    if (r->borrowed_layer != layer) {
        if (r->borrowed_layer >= 0)
            kvt_trace_done(r->t, &r->borrowed);
        r->borrowed_layer = -1;
        if (kvt_trace_read_raw(r->t, KVT_DS_ROWS, layer, &r->borrowed, err))
            return err->code;
        r->borrowed_layer = layer;
    }
    *rows = (const uint16_t *)r->borrowed.data + head * r->borrowed.stride[0];
    return KVT_OK;
}

static kvt_code compute_cached(kvt_rows *r, int layer, int head, const uint16_t **rows,
                               kvt_err *err)
{
    cached_head *oldest = &r->head[0];
    int64_t n = r->info->n_query * r->info->n_token;
    for (int i = 0; i < CACHED; i++) {
        cached_head *c = &r->head[i];
        if (c->rows && c->used && c->layer == layer && c->head == head) {
            c->used = ++r->clock;
            *rows = c->rows;
            return KVT_OK;
        }
        if (c->used < oldest->used)
            oldest = c;
    }
    source s;
    if (source_read(&s, r->t, layer, err))
        return err->code;
    oldest->used = 0;
    if (!oldest->rows)
        oldest->rows = kvt_alloc(n, sizeof *oldest->rows);
    if (oldest->rows) {
        compute_head(oldest->rows, &s, r->info, layer, head, 0, r->info->n_query, r->scratch);
        *oldest = (cached_head){layer, head, ++r->clock, oldest->rows};
    }
    source_done(&s, r->t);
    *rows = oldest->rows;
    return oldest->rows ? KVT_OK : kvt_fail_memory(err, n * (int64_t)sizeof *oldest->rows);
}

kvt_code kvt_rows_head(kvt_rows *r, int layer, int head, const uint16_t **rows, kvt_err *err)
{
    if (r->info->has[KVT_DS_ROWS])
        return borrow(r, layer, head, rows, err);
    return compute_cached(r, layer, head, rows, err);
}

kvt_code kvt_rows_group(kvt_rows *r, int layer, int group, const float **rows, kvt_err *err)
{
    const kvt_geometry *g = &r->info->facts.model;
    int64_t n = r->info->n_token, m = r->info->facts.token.n_response;
    int n_head = (int)(g->n_head / g->n_kv_head);
    memset(r->group, 0, (size_t)(m * n) * sizeof *r->group);
    for (int h = 0; h < n_head; h++) {
        const uint16_t *head;
        if (kvt_rows_head(r, layer, group * n_head + h, &head, err))
            return err->code;
        head += (r->info->n_query - m) * n;
        for (int64_t i = 0; i < m; i++) {
            half_to_floats(r->line, head + i * n, n);
            for (int64_t t = 0; t < n; t++)
                r->group[i * n + t] += r->line[t] / (float)n_head;
        }
    }
    *rows = r->group;
    return KVT_OK;
}

void kvt_rows_close(kvt_rows *r)
{
    if (!r)
        return;
    if (r->borrowed_layer >= 0)
        kvt_trace_done(r->t, &r->borrowed);
    for (int i = 0; i < CACHED; i++)
        kvt_free(r->head[i].rows);
    kvt_free(r->group);
    kvt_free(r->line);
    kvt_free(r->scratch);
    kvt_free(r);
}
