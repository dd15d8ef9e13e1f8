/* probes.c - lanes with a probe: see probes.h. */
#include "probes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "../toy.h"

enum { PROMPT_KEY, PROBE_KEY, PROBE_QUERY, PROMPT_QUERY, WO_NORM, H_NORM, D = PROBES_DIM };

static float draw(const probes *p, int kind, int l, int64_t h, int64_t i, int64_t d)
{
    uint64_t at = ((p->seed * 64 + (uint64_t)l) * 64 + (uint64_t)h) * 4096 + (uint64_t)i;
    uint64_t r = toy_mix(at * 4096 + 512 * (uint64_t)kind + (uint64_t)d);
    return ((float)(r % 33) - 16) / 8;
}

probes *probes_new(kvt_arena *a, const char *name)
{
    probes *p = kvt_arena_get(a, sizeof *p);
    unsigned long long seed;
    long long N, M;
    if (sscanf(name, "%llu/%d/%d/%d/%lld/%lld", &seed, &p->n_layer, &p->n_head, &p->n_group, &N,
               &M) != 6)
        return NULL;
    p->seed = seed, p->N = N, p->M = M;
    uint8_t *flag = kvt_arena_get(a, (size_t)N);
    for (int i = 0; i < PROBES_PREFIX; i++)
        flag[i] = KVT_TOKEN_TEMPLATE;
    p->geometry.n_head = p->n_head, p->geometry.n_kv_head = p->n_group;
    p->geometry.n_layer = p->n_layer, p->geometry.head_dim = D;
    p->geometry.attn_scale = 1 / sqrt((double)D);
    p->seq = (kvt_sequence){.n_prompt = N,
                            .look_until = N,
                            .geometry = &p->geometry,
                            .flag = flag,
                            .n_layer = p->n_layer};
    return p;
}

/* f32 [n_head n D] of one kind. */
static kvt_view values(kvt_arena *a, const probes *p, int kind, int l, int64_t head,
                       int64_t n_head, int64_t begin, int64_t n)
{
    float *x = kvt_arena_array(a, n_head * n * D, sizeof *x), *at = x;
    for (int64_t h = 0; h < n_head; h++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = 0; d < D; d++)
                *at++ = draw(p, kind, l, head + h, begin + i, d);
    return kvt_view_of(x, KVT_F32, KVT_SHAPE("HQD", n_head, n, D));
}

static kvt_view keys_of(kvt_arena *a, const probes *p, int kind, int l, int group, int64_t n)
{
    kvt_view v = values(a, p, kind, l, group, 1, 0, n);
    return kvt_view_of(v.data, KVT_F32, KVT_SHAPE("SD", n, D));
}

static double logit(const probes *p, const float *q, const float *k)
{
    double z = 0;
    for (int d = 0; d < D; d++)
        z += (double)q[d] * (double)k[d];
    return z * p->geometry.attn_scale;
}

/* The prompt's part [H Q N] of rows that see prompt tokens below see + i, and own keys up to
 * themselves (own NULL: none). */
static kvt_view rows_of(kvt_arena *a, const probes *p, const kvt_view *query, const float *key,
                        const float *own, int64_t see)
{
    int64_t n = query->dim[1], N = p->N;
    float *out = kvt_arena_array(a, query->dim[0] * n * N, sizeof *out), *row = out;
    double *w = kvt_arena_array(a, N + n, sizeof *w);
    for (int64_t r = 0; r < query->dim[0] * n; r++, row += N) {
        const float *q = (const float *)query->data + r * D;
        int64_t i = r % n, n_see = own ? N : see + i;
        double sum = 0;
        for (int64_t j = 0; j < n_see; j++)
            sum += w[j] = exp(logit(p, q, key + j * D));
        for (int64_t j = 0; own && j <= i; j++)
            sum += exp(logit(p, q, own + j * D));
        for (int64_t j = 0; j < n_see; j++)
            row[j] = half_to_float(half_from_float((float)(w[j] / sum)));
    }
    return kvt_view_of(out, KVT_F32, KVT_SHAPE("HQS", query->dim[0], n, N));
}

/* Segments of `repeat`; returns how many rows they have. */
static int64_t segments(kvt_arena *a, const probes *p, kvt_probe *probe)
{
    int n = (int)((p->N + PROBES_CHUNK - 1) / PROBES_CHUNK), at = 0;
    int32_t *segment = kvt_arena_array(a, p->N + n * PROBES_LEAD, sizeof *segment);
    int32_t *begin = kvt_arena_array(a, n, sizeof *begin);
    int32_t *end = kvt_arena_array(a, n, sizeof *end);
    int32_t *from = kvt_arena_array(a, n, sizeof *from);
    for (int c = 0; c < n; c++) {
        begin[c] = c * PROBES_CHUNK;
        end[c] = (int32_t)kvt_min(begin[c] + PROBES_CHUNK, p->N);
        from[c] = at; /* the instruction's rows count, too */
        while (at < from[c] + PROBES_LEAD + end[c] - begin[c])
            segment[at++] = c;
    }
    probe->n_segment = n, probe->segment = segment;
    probe->begin = begin, probe->end = end, probe->from = from;
    return at;
}

static kvt_view norms(kvt_arena *a, const probes *p, int kind, int l, int64_t head,
                      int64_t n_head, int64_t n)
{
    float *x = kvt_arena_array(a, n_head * n, sizeof *x);
    for (int64_t i = 0; i < n_head * n; i++)
        x[i] = 2.125f + draw(p, kind, l, head + i / n, i % n, 0);
    return kvt_view_of(x, KVT_F32, KVT_SHAPE("HS", n_head, n));
}

static void fill_lane(kvt_arena *a, kvt_lane *v, probes *p, const kvt_traits *t, int lane,
                      int n_lane, int64_t window)
{
    int l = v->layer, n_head = p->n_head / n_lane, head = lane * n_head;
    int group = head * p->n_group / p->n_head;
    kvt_probe *probe = kvt_arena_get(a, sizeof *probe);
    bool repeat = t->probe && t->probe[0] == 'r';
    int64_t m = repeat ? segments(a, p, probe) : p->M;
    kvt_view key = keys_of(a, p, PROMPT_KEY, l, group, p->N);
    kvt_view asked = values(a, p, PROMPT_QUERY, l, head, n_head, p->N - window, window);
    probe->queries = values(a, p, PROBE_QUERY, l, head, n_head, 0, m);
    probe->keys = keys_of(a, p, PROBE_KEY, l, group, m);
    probe->h_norm = norms(a, p, H_NORM, l, 0, 1, m);
    probe->h_norm = kvt_view_of(probe->h_norm.data, KVT_F32, KVT_SHAPE("Q", m));
    if (!repeat && strcmp(t->probe, "draft") != 0)
        probe->attn = rows_of(a, p, &probe->queries, key.data, probe->keys.data, 0);
    if (t->needs & KVT_NEED_ATTN)
        v->attn = rows_of(a, p, &asked, key.data, NULL, p->N - window + 1);
    if (t->needs & KVT_NEED_QUERIES)
        v->queries = asked;
    if (t->needs & KVT_NEED_KEYS)
        v->keys = key;
    if (t->needs & KVT_NEED_WO_NORM)
        v->wo_l2 = norms(a, p, WO_NORM, l, head, n_head, p->N);
    v->probe = probe;
}

kvt_lane *probes_lanes(kvt_arena *a, probes *p, const kvt_traits *traits, int64_t window,
                       int *n_lane)
{
    int each = traits->by_query_head ? p->n_head : p->n_group;
    int64_t *pos = kvt_arena_array(a, p->N, sizeof *pos);
    for (int64_t s = 0; s < p->N; s++)
        pos[s] = s;
    *n_lane = p->n_layer * each;
    kvt_lane *lane = kvt_arena_array(a, *n_lane, sizeof *lane);
    for (int i = 0; i < *n_lane; i++) {
        lane[i] = (kvt_lane){.layer = i / each,
                             .group = i % each,
                             .n_layer = p->n_layer,
                             .model_layer = i / each,
                             .now = p->N - 1,
                             .n_slot = p->N,
                             .pos = pos,
                             .mark = kvt_arena_array(a, p->N, sizeof(float)),
                             .seq = &p->seq,
                             .scratch = a};
        fill_lane(a, &lane[i], p, traits, i % each, each, window);
    }
    return lane;
}
