/* feed_probe.c - one layer of a trace's probes, in the form in which the engine takes them.
 *
 * Rows are made by the one routine of attention rows (compute/rows.h) over the prompt's keys
 * and the probe's own behind them; the prompt's part is what a policy sees. Only where each row
 * of the probe sees the whole prompt and all of its own kind before it: a probe that ran on an
 * evicted cache, or in segments, hands over queries and keys. */
#include "replay/feed_priv.h"

#include <string.h>

#include "base/half.h"
#include "compute/rows.h"
#include "kvt/arena.h"

static void release(const kvt_view *v)
{
    kvt_free((void *)(uintptr_t)v->data);
}

static void close_one(kvt_probe_feed *p)
{
    release(&p->attn);
    release(&p->queries);
    release(&p->keys);
    release(&p->lse);
    release(&p->norm);
    release(&p->pos);
    kvt_free((void *)(uintptr_t)p->segment);
    kvt_free((void *)(uintptr_t)p->begin);
    kvt_free((void *)(uintptr_t)p->end);
    kvt_free((void *)(uintptr_t)p->from);
    *p = (kvt_probe_feed){0};
}

void probes_close(layer_feed *f)
{
    for (int i = 0; f->probe && i < f->n_probe; i++)
        close_one(&f->probe[i]);
    kvt_free(f->probe);
    f->probe = NULL, f->n_probe = 0;
}

/* f32 [P N] of each query head into out, through rows over [prompt keys ; probe keys]. */
static void make_rows(float *out, const kvt_probe_feed *p, const kvt_view *keys,
                      const kvt_trace_info *info, int layer, float *joined, uint16_t *half,
                      int32_t *at, void *scratch)
{
    const kvt_geometry *g = &info->facts.model;
    int64_t N = info->facts.token.n_prompt, P = p->queries.dim[1], D = p->queries.dim[2];
    int64_t per = p->queries.dim[0] / keys->dim[0];
    for (int64_t i = 0; i < P; i++)
        at[i] = (int32_t)(N + i);
    for (int64_t h = 0; h < p->queries.dim[0]; h++) {
        int64_t group = h / per;
        if (h % per == 0) {
            memcpy(joined, (const float *)keys->data + group * keys->stride[0],
                   (size_t)(N * D) * sizeof *joined);
            memcpy(joined + N * D, (const float *)p->keys.data + group * p->keys.stride[0],
                   (size_t)(P * D) * sizeof *joined);
        }
        rows_head(half, (const float *)p->queries.data + h * p->queries.stride[0], joined, at,
                  P, N + P, D, (float)g->attn_scale, g->window[info->layer_id[layer]], scratch);
        for (int64_t i = 0; i < P; i++)
            half_to_floats(out + (h * P + i) * N, half + i * (N + P), N);
    }
}

static kvt_code add_rows(kvt_probe_feed *p, kvt_trace *t, int layer, kvt_err *err)
{
    const kvt_trace_info *info = kvt_trace_info_of(t);
    int64_t N = info->facts.token.n_prompt, P = p->queries.dim[1], D = p->queries.dim[2];
    int64_t H = p->queries.dim[0];
    kvt_view keys;
    if (kvt_trace_read(t, KVT_DS_KEYS, layer, &keys, err))
        return err->code;
    float *out = kvt_alloc(H * P * N, sizeof *out);
    float *joined = kvt_alloc((N + P) * D, sizeof *joined);
    uint16_t *half = kvt_alloc(P * (N + P), sizeof *half);
    int32_t *at = kvt_alloc(P, sizeof *at);
    void *scratch = kvt_alloc(1, rows_scratch_bytes(N + P, D));
    kvt_code code = KVT_OK;
    if (out && joined && half && at && scratch) {
        make_rows(out, p, &keys, info, layer, joined, half, at, scratch);
        p->attn = kvt_view_of(out, KVT_F32, KVT_SHAPE("HPN", H, P, N));
    } else {
        code = kvt_fail_memory(err, H * P * N * (int64_t)sizeof *out);
        kvt_free(out);
    }
    kvt_free(joined);
    kvt_free(half);
    kvt_free(at);
    kvt_free(scratch);
    kvt_trace_done(t, &keys);
    return code;
}

static kvt_code read_list(const int32_t **out, kvt_trace *t, int probe, kvt_probe_set set,
                          kvt_err *err)
{
    kvt_view v;
    if (!kvt_trace_probe_info(t, probe)->has[set])
        return KVT_OK;
    if (kvt_trace_read_probe(t, probe, set, 0, &v, err))
        return err->code;
    *out = v.data;
    return KVT_OK;
}

static kvt_code open_one(kvt_probe_feed *p, kvt_trace *t, int probe, int layer, kvt_err *err)
{
    const kvt_probe_info *info = kvt_trace_probe_info(t, probe);
    const struct {
        kvt_probe_set set;
        kvt_view *to;
    } views[] = {{KVT_PROBE_SET_Q, &p->queries},
                 {KVT_PROBE_SET_K, &p->keys},
                 {KVT_PROBE_SET_LSE, &p->lse},
                 {KVT_PROBE_SET_NORM, &p->norm},
                 {KVT_PROBE_SET_POS, &p->pos}};
    p->budget = info->budget;
    p->n_segment = info->n_segment;
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        if (kvt_trace_read_probe(t, probe, views[i].set, layer, views[i].to, err))
            return err->code;
    if (read_list(&p->segment, t, probe, KVT_PROBE_SET_SEGMENT, err) ||
        read_list(&p->begin, t, probe, KVT_PROBE_SET_BEGIN, err) ||
        read_list(&p->end, t, probe, KVT_PROBE_SET_END, err) ||
        read_list(&p->from, t, probe, KVT_PROBE_SET_FROM, err))
        return err->code;
    bool whole = !info->has[KVT_PROBE_SET_KEEP] && !info->has[KVT_PROBE_SET_SEGMENT];
    return whole ? add_rows(p, t, layer, err) : KVT_OK;
}

kvt_code probes_open(layer_feed *f, const bool *wanted, kvt_err *err)
{
    int n = wanted ? kvt_trace_probe_count(f->trace) : 0;
    if (n == 0)
        return KVT_OK;
    f->probe = kvt_alloc(n, sizeof *f->probe);
    if (!f->probe)
        return kvt_fail_memory(err, n * (int64_t)sizeof *f->probe);
    f->n_probe = n;
    for (int i = 0; i < n; i++)
        if (wanted[i] && open_one(&f->probe[i], f->trace, i, f->layer, err))
            return kvt_within(err, "probe %s", kvt_trace_probe_info(f->trace, i)->name);
    return KVT_OK;
}
