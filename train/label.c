/* label.c - labels from the response or from a repeat probe (train/label.h). */
#include "train/label.h"

#include <string.h>

#include "kvt/pieces.h"

enum { LABEL_ROWS = 16 }; /* rows of a probe at a time */

int label_probe(const tracein *s)
{
    for (int i = 0; i < kvt_trace_probe_count(s->t); i++)
        if (kvt_trace_probe_info(s->t, i)->kind == KVT_PROBE_REPEAT)
            return i;
    return -1;
}

kvt_code label_check(const tracein *s, label_kind kind, kvt_err *err)
{
    if (kind == LABEL_FUTURE)
        return KVT_OK;
    if (label_probe(s) < 0)
        return kvt_fail(err, KVT_FORMAT,
                        "label=repeat reads a probe of kind repeat, which this trace lacks");
    if (!s->info->has[KVT_DS_KEYS] || !s->info->has[KVT_DS_WO_L2])
        return kvt_fail(err, KVT_FORMAT,
                        "label=repeat reads kv/k and value/wo_l2, which this trace lacks");
    return KVT_OK;
}

/* What of a repeat probe one layer's label reads; freed by close_probe. */
typedef struct label_rows {
    kvt_view set[KVT_PROBE_SETS], keys, wo;
    int probe, n_segment;
    int64_t n_row, n_sink;
} label_rows;

static kvt_code open_probe(label_rows *r, const tracein *s, int layer, kvt_err *err)
{
    static const kvt_probe_set want[] = {
        KVT_PROBE_SET_Q,     KVT_PROBE_SET_K,   KVT_PROBE_SET_NORM, KVT_PROBE_SET_SEGMENT,
        KVT_PROBE_SET_BEGIN, KVT_PROBE_SET_END, KVT_PROBE_SET_FROM};
    const kvt_probe_info *info = kvt_trace_probe_info(s->t, r->probe = label_probe(s));
    kvt_sequence seq;
    kvt_code code = kvt_trace_sequence(s->t, &seq, err);
    for (size_t i = 0; !code && i < sizeof want / sizeof *want; i++)
        if (info->has[want[i]])
            code = kvt_trace_read_probe(s->t, r->probe, want[i], layer, &r->set[want[i]], err);
    if (!code)
        code = kvt_trace_read(s->t, KVT_DS_KEYS, layer, &r->keys, err);
    if (!code)
        code = kvt_trace_read(s->t, KVT_DS_WO_L2, layer, &r->wo, err);
    if (code)
        return code;
    r->n_row = info->n_row;
    r->n_segment = info->n_segment;
    while (r->n_sink < s->N &&
           seq.flag[r->n_sink] & (KVT_TOKEN_SPECIAL | KVT_TOKEN_TEMPLATE | KVT_TOKEN_SYSTEM))
        r->n_sink++;
    return KVT_OK;
}

static void close_probe(label_rows *r, const tracein *s)
{
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        kvt_free((void *)(uintptr_t)r->set[i].data);
    if (r->keys.data)
        kvt_trace_done(s->t, &r->keys);
    if (r->wo.data)
        kvt_trace_done(s->t, &r->wo);
}

/* One segment: rows first..end, of which those from `from` count, about the chunk. */
typedef struct label_segment {
    int64_t first, from, end, begin, n_chunk, n_sink, n_key;
    float *key, *row;
} label_segment;

static bool open_segment(label_segment *g, const label_rows *r, const tracein *s, int which,
                         int lane, kvt_arena *work)
{
    const int32_t *segment = r->set[KVT_PROBE_SET_SEGMENT].data;
    const int32_t *begin = r->set[KVT_PROBE_SET_BEGIN].data;
    const int32_t *end = r->set[KVT_PROBE_SET_END].data;
    const int32_t *from = r->set[KVT_PROBE_SET_FROM].data;
    int64_t D = s->D, n = (int64_t)sizeof(float) * D;
    *g = (label_segment){.begin = begin ? begin[which] : 0};
    while (segment && g->first < r->n_row && segment[g->first] < which)
        g->first++;
    g->end = g->first;
    while (g->end < r->n_row && (!segment || segment[g->end] == which))
        g->end++;
    g->from = from && from[which] > g->first ? from[which] : g->first;
    g->n_chunk = (end ? end[which] : s->N) - g->begin;
    g->n_sink = r->n_sink < g->begin ? r->n_sink : g->begin;
    g->n_key = g->n_sink + g->n_chunk + g->end - g->first;
    g->key = kvt_arena_array(work, g->n_key * D, sizeof *g->key);
    g->row = kvt_arena_array(work, LABEL_ROWS * g->n_key, sizeof *g->row);
    if (!g->key || !g->row)
        return false;
    const float *keys = (const float *)r->keys.data + lane * s->T * D;
    const float *mine = (const float *)r->set[KVT_PROBE_SET_K].data + lane * r->n_row * D;
    memcpy(g->key, keys, (size_t)(n * g->n_sink));
    memcpy(g->key + g->n_sink * D, keys + g->begin * D, (size_t)(n * g->n_chunk));
    memcpy(g->key + (g->n_sink + g->n_chunk) * D, mine + g->first * D,
           (size_t)(n * (g->end - g->first)));
    return true;
}

/* out [N] of a lane rises to what one query head's rows of a segment give. */
static void raise_to(double *out, label_segment *g, const label_rows *r, const tracein *s,
                     int64_t head, bool plus)
{
    const float *q = (const float *)r->set[KVT_PROBE_SET_Q].data + head * r->n_row * s->D;
    const float *norm = r->set[KVT_PROBE_SET_NORM].data;
    const float *wo = (const float *)r->wo.data + head * s->T + g->begin;
    int64_t n_see[LABEL_ROWS];
    for (int64_t at = g->from; at < g->end; at += LABEL_ROWS) {
        int64_t n = g->end - at < LABEL_ROWS ? g->end - at : LABEL_ROWS;
        for (int64_t i = 0; i < n; i++)
            n_see[i] = g->n_sink + g->n_chunk + at + i - g->first + 1;
        kvt_softmax_rows(g->row, q + at * s->D, s->D, n, g->key, g->n_key, s->D,
                         (float)s->info->facts.model.attn_scale, n_see);
        for (int64_t i = 0; i < n; i++) {
            const float *a = g->row + i * g->n_key + g->n_sink;
            double factor = plus && norm[at + i] > 0 ? 1 / (double)norm[at + i] : 1;
            for (int64_t j = 0; j < g->n_chunk; j++) {
                double value = (double)a[j] * (plus ? factor * (double)wo[j] : 1);
                if (value > out[g->begin + j])
                    out[g->begin + j] = value;
            }
        }
    }
}

kvt_code label_layer(double *out, const tracein *s, int layer, label_kind kind, kvt_arena *work,
                     kvt_err *err)
{
    if (kind == LABEL_FUTURE) {
        for (int g = 0; g < s->G; g++)
            target_prompt(out + g * s->N, s, KVT_DS_FUTURE_MAX, layer, g, TARGET_MAX);
        return KVT_OK;
    }
    label_rows r = {0};
    kvt_code code = open_probe(&r, s, layer, err);
    for (int64_t i = 0; i < s->G * s->N; i++)
        out[i] = 0;
    for (int i = 0; !code && i < r.n_segment * s->G; i++) {
        int lane = i % (int)s->G;
        label_segment g;
        size_t mark = kvt_arena_mark(work);
        if (!open_segment(&g, &r, s, i / (int)s->G, lane, work))
            code = kvt_fail_memory(err, (size_t)(g.n_key * s->D) * sizeof(float));
        for (int64_t h = lane * s->R; !code && h < (lane + 1) * s->R; h++)
            raise_to(out + lane * s->N, &g, &r, s, h, kind == LABEL_REPEAT_PLUS);
        kvt_arena_rewind(work, mark);
    }
    close_probe(&r, s);
    return code;
}
