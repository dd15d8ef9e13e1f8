/* tracein.c - one trace while a step reads it (train/tracein.h). */
#include "train/tracein.h"

#include <string.h>

#include "base/half.h"
#include "kvt/pieces.h"

static bool has_layers(kvt_ds ds)
{
    return kvt_dataset_of(ds)->axes[0] == 'L';
}

/* only -1: every layer. What has no layers is kept as layer 0. */
static kvt_code read_all(tracein *s, int only, kvt_err *err)
{
    for (int i = 0; i < s->n_ds * s->n_layer; i++) {
        kvt_ds ds = s->ds[i / s->n_layer];
        int layer = i % s->n_layer;
        if (has_layers(ds) ? only >= 0 && layer != only : layer > 0)
            continue;
        if (kvt_trace_read_raw(s->t, ds, layer, &s->view[i], err))
            return err->code;
    }
    return KVT_OK;
}

kvt_code tracein_open_layer(tracein *s, const train_trace *of, const kvt_ds *ds, int n_ds,
                            int layer, kvt_err *err)
{
    *s = (tracein){.of = of, .n_ds = n_ds};
    if (kvt_trace_open(&s->t, of->path, 1 << 20, err))
        return err->code;
    s->info = kvt_trace_info_of(s->t);
    const kvt_geometry *g = &s->info->facts.model;
    s->H = g->n_head;
    s->G = g->n_kv_head;
    s->R = g->n_head / g->n_kv_head;
    s->D = g->head_dim;
    s->E = g->n_hidden;
    s->N = of->n_prompt;
    s->T = of->n_token;
    s->n_layer = s->info->n_layer;
    for (int i = 0; i < n_ds; i++)
        s->ds[i] = ds[i];
    s->view = kvt_alloc((int64_t)n_ds * s->n_layer, sizeof *s->view);
    if (!s->view)
        return kvt_fail_memory(err, (size_t)n_ds * (size_t)s->n_layer * sizeof *s->view);
    return read_all(s, layer, err);
}

kvt_code tracein_open(tracein *s, const train_trace *of, const kvt_ds *ds, int n_ds,
                      kvt_err *err)
{
    return tracein_open_layer(s, of, ds, n_ds, -1, err);
}

void tracein_close(tracein *s)
{
    for (int i = 0; s->view && i < s->n_ds * s->n_layer; i++)
        if (s->view[i].data)
            kvt_trace_done(s->t, &s->view[i]);
    kvt_free(s->view);
    kvt_trace_close(s->t);
    *s = (tracein){0};
}

const void *tracein_at(const tracein *s, kvt_ds ds, int layer)
{
    for (int i = 0; i < s->n_ds; i++)
        if (s->ds[i] == ds)
            return s->view[i * s->n_layer + (has_layers(ds) ? layer : 0)].data;
    return NULL;
}

void tracein_keys(float *out, const tracein *s, int layer, int lane)
{
    const uint16_t *k = tracein_at(s, KVT_DS_KEYS, layer);
    half_to_floats(out, k + lane * s->T * s->D, s->T * s->D);
}

void tracein_lane(float *out, const tracein *s, int layer, int lane, int64_t n, int64_t ld)
{
    const uint16_t *k = tracein_at(s, KVT_DS_KEYS, layer),
                   *v = tracein_at(s, KVT_DS_VALUES, layer);
    for (int64_t t = 0; t < n; t++) {
        half_to_floats(out + t * ld, k + (lane * s->T + t) * s->D, s->D);
        half_to_floats(out + t * ld + s->D, v + (lane * s->T + t) * s->D, s->D);
    }
}

void tracein_row(float *out, const tracein *s, int layer, int64_t head, int64_t row,
                 const float *key, float *query)
{
    const uint16_t *q = tracein_at(s, KVT_DS_QUERIES, layer);
    const int32_t *pos = tracein_at(s, KVT_DS_QUERY_POS, layer);
    const kvt_geometry *g = &s->info->facts.model;
    int64_t at = pos[row], first = kvt_geometry_first(g, s->info->layer_id[layer], at);
    half_to_floats(query, q + (head * s->info->n_query + row) * s->D, s->D);
    memset(out, 0, (size_t)s->T * sizeof *out);
    kvt_softmax_rows(out + first, query, s->D, 1, key + first * s->D, at + 1 - first, s->D,
                     (float)g->attn_scale, NULL);
}

int64_t tracein_find(const tracein *s, int64_t pos)
{
    const int32_t *at = tracein_at(s, KVT_DS_QUERY_POS, 0);
    int64_t low = 0, high = s->info->n_query; /* positions rise */
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (at[mid] < pos)
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->info->n_query && at[low] == pos ? low : -1;
}
