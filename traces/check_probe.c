/* check_probe.c - `kvt verify` on what retrofitted models and probes recorded.
 *
 * A probe ran on the stored halves of the prompt's keys; its own queries and keys were floats,
 * which are stored as halves: 2^-11 of each, so that a logit is off by 2^-10 |q||k| scale at
 * worst, and a log-sum-exp by no more than its largest logit. */
#include "traces/check_priv.h"

#include "base/digest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

/* Rows of a layer and head whose log-sum-exp is computed: evenly spread, the last one included.
 */
enum { LSE_ROWS = 8 };

/* ---- decisions -----------------------------------------------------------------------------
 */

/* Decays are factors a token: above 0, at most 1. */
kvt_code check_decisions(checker *c, kvt_err *err)
{
    kvt_trace *t = c->t;
    const kvt_trace_info *i = &t->info;
    const kvt_trace_facts *f = &i->facts;
    worst off = {0};
    if (!i->has[KVT_DS_DECISION] && !i->has[KVT_DS_DECISION_W] && !i->has[KVT_DS_DECISION_G])
        return KVT_OK;
    bool whole = f->decision_policy[0] && i->has[KVT_DS_DECISION];
    check_find(c, whole, "decision",
               whole ? "decisions of '%s', shift %lld, recorded on a cache that was %s"
                     : "expected decision/logit and attribute 'policy' of /decision, got '%s'",
               f->decision_policy, (long long)f->decision_shift, f->decision_cache);
    for (int l = 0; l < i->n_layer && i->has[KVT_DS_DECISION_G]; l++) {
        kvt_view v;
        if (kvt_trace_read(t, KVT_DS_DECISION_G, l, &v, err))
            return err->code;
        for (int64_t g = 0; g < v.dim[0]; g++) {
            double x = (double)((const float *)v.data)[g];
            check_note(&off, x > 0 ? fmax(0, x - 1) : 1 - x, l, g);
        }
        kvt_trace_done(t, &v);
    }
    if (off.n)
        check_report(c, &off, 0, "decision", "decision/gamma above 0 and at most 1");
    return KVT_OK;
}

/* ---- one probe -----------------------------------------------------------------------------
 */

typedef struct look {
    checker *c;
    int probe;
    const kvt_probe_info *p;
    kvt_view part[KVT_PROBE_SETS]; /* of the layer at hand; of sets without layers, all */
    kvt_view key;                  /* of the prompt and response; data NULL: not there */
} look;

static const void *data_of(const look *k, kvt_probe_set set)
{
    return k->part[set].data;
}

static void drop_parts(look *k, bool layers)
{
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        if (probe_has_layers((kvt_probe_set)i) == layers) {
            kvt_free((void *)(uintptr_t)k->part[i].data);
            memset(&k->part[i], 0, sizeof k->part[i]);
        }
}

static kvt_code load_parts(look *k, bool layers, int layer, kvt_err *err)
{
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        if (k->p->has[i] && probe_has_layers((kvt_probe_set)i) == layers &&
            kvt_trace_read_probe(k->c->t, k->probe, (kvt_probe_set)i, layer, &k->part[i], err))
            return err->code;
    return KVT_OK;
}

/* Every slab as it is stored: checksums, and the digest of it all. */
static kvt_code check_sums(look *k, bool *readable, kvt_err *err)
{
    kvt_trace *t = k->c->t;
    char(*part[KVT_PROBE_SETS])[KVT_DIGEST_TEXT] = {NULL}, sum[KVT_DIGEST_TEXT];
    kvt_code code = KVT_OK;
    kvt_err why;
    *readable = true;
    for (int i = 0; i < KVT_PROBE_SETS && !code; i++) {
        const trace_set *s = &t->probe_set[k->probe][i];
        if (!k->p->has[i])
            continue;
        size_t bytes =
            (size_t)s->n_element * kvt_dtype_size(probe_dataset_of((kvt_probe_set)i)->dtype);
        void *x = kvt_alloc((int64_t)bytes, 1);
        part[i] = kvt_alloc(s->n_slab, sizeof *part[i]);
        if (!x || !part[i])
            code = kvt_fail_memory(err, bytes);
        for (int l = 0; l < s->n_slab && !code; l++) {
            if (probe_load(t, k->probe, (kvt_probe_set)i, l, x, &why)) {
                check_find(k->c, false, "checksum", "/probe/%s: %s", k->p->name, why.text);
                *readable = false;
            } else {
                digest_of(x, bytes, part[i][l]);
            }
        }
        kvt_free(x);
    }
    if (!code && *readable &&
        !(code = probe_digest(sum, &t->info.facts, t->info.n_layer, k->p, part, err))) {
        bool same = strcmp(sum, k->p->digest) == 0;
        check_find(k->c, same, "digest",
                   same ? "/probe/%s: %s"
                        : "/probe/%s: expected %s of its content, got %s in the file",
                   k->p->name, sum, k->p->digest);
    }
    for (int i = 0; i < KVT_PROBE_SETS; i++)
        kvt_free(part[i]);
    return code;
}

/* Reals of a layer that may be neither NaN nor infinite; -1, or which one is. */
static int64_t not_finite(const look *k, kvt_probe_set *set)
{
    for (int i = 0; i < KVT_PROBE_SETS; i++) {
        const kvt_view *v = &k->part[i];
        if (!v->data || v->dtype != KVT_F32)
            continue;
        for (int64_t n = kvt_view_count(v), x = 0; x < n; x++)
            if (!isfinite(((const float *)v->data)[x])) {
                *set = (kvt_probe_set)i;
                return x;
            }
    }
    return -1;
}

/* ---- log-sum-exp ---------------------------------------------------------------------------
 */

/* A running log-sum-exp, and the longest key in it. */
typedef struct sum {
    double most, total, longest;
} sum;

static void add(sum *s, const float *q, const float *k, int64_t D, double scale)
{
    double z = 0, n = 0;
    for (int64_t d = 0; d < D; d++) {
        z += (double)q[d] * (double)k[d];
        n += (double)k[d] * (double)k[d];
    }
    z *= scale;
    s->longest = fmax(s->longest, n);
    s->total = z > s->most ? s->total * exp(s->most - z) + 1 : s->total + exp(z - s->most);
    s->most = fmax(s->most, z);
}

/* How far row i of a head lies from the log-sum-exp of what it sees, less the rounding. */
static double lse_gap(const look *k, int layer, int64_t h, int64_t i)
{
    const kvt_trace_info *info = &k->c->t->info;
    const kvt_geometry *g = &info->facts.model;
    const int64_t D = g->head_dim, P = k->p->n_row, N = info->facts.token.n_prompt;
    const int64_t lane = h / (g->n_head / g->n_kv_head), T = info->n_token;
    const int32_t *pos = data_of(k, KVT_PROBE_SET_POS);
    const int32_t *segment = data_of(k, KVT_PROBE_SET_SEGMENT);
    const uint8_t *keep = data_of(k, KVT_PROBE_SET_KEEP);
    const float *q = (const float *)data_of(k, KVT_PROBE_SET_Q) + (h * P + i) * D;
    const float *key = (const float *)k->key.data + lane * T * D;
    const float *own = (const float *)data_of(k, KVT_PROBE_SET_K) + lane * P * D;
    const int32_t model_layer = info->layer_id[layer];
    sum s = {.most = -INFINITY};
    double length = 0;
    if (keep)
        keep += (k->p->n_keep == g->n_head ? h : lane) * N;
    for (int64_t d = 0; d < D; d++)
        length += (double)q[d] * (double)q[d];
    for (int64_t j = 0; j < N; j++)
        if (kvt_geometry_sees(g, model_layer, pos[i], j) && (!keep || keep[j]))
            add(&s, q, key + j * D, D, g->attn_scale);
    for (int64_t j = 0; j <= i; j++)
        if (kvt_geometry_sees(g, model_layer, pos[i], pos[j]) &&
            (!segment || segment[j] == segment[i]))
            add(&s, q, own + j * D, D, g->attn_scale);
    double got = (double)((const float *)data_of(k, KVT_PROBE_SET_LSE))[h * P + i];
    double room = sqrt(length * s.longest) * fabs(g->attn_scale) * 0x1p-10;
    return fabs(got - s.most - log(s.total)) - room;
}

static void check_lse(const look *k, int layer, worst *off)
{
    const int64_t P = k->p->n_row, H = k->c->t->info.facts.model.n_head;
    const int64_t n = P < LSE_ROWS ? P : LSE_ROWS;
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 1; i <= n; i++)
            check_note(off, lse_gap(k, layer, h, P * i / n - 1), layer, h);
}

/* 0 or 1, and as many as the cache had room for, on average over its lanes. */
static void count_kept(const look *k, int layer, worst *values, double *kept)
{
    const kvt_view *v = &k->part[KVT_PROBE_SET_KEEP];
    for (int64_t n = v->data ? kvt_view_count(v) : 0, i = 0; i < n; i++) {
        uint8_t x = ((const uint8_t *)v->data)[i];
        check_note(values, x > 1 ? x - 1 : 0, layer, i);
        *kept += x;
    }
}

static kvt_code check_layers(look *k, kvt_err *err)
{
    kvt_trace *t = k->c->t;
    worst off = {0}, values = {0};
    double kept = 0;
    kvt_code code = KVT_OK;
    int64_t bad = -1;
    for (int l = 0; l < t->info.n_layer && !code && bad < 0; l++) {
        kvt_probe_set set = KVT_PROBE_SET_Q;
        if (t->info.has[KVT_DS_KEYS])
            code = kvt_trace_read(t, KVT_DS_KEYS, l, &k->key, err);
        if (!code && !(code = load_parts(k, true, l, err))) {
            if ((bad = not_finite(k, &set)) >= 0)
                check_find(k->c, false, "finite",
                           "/probe/%s/%s, layer %d, element %lld: NaN or "
                           "infinity",
                           k->p->name, probe_dataset_of(set)->path, l, (long long)bad);
            else if (k->key.data)
                check_lse(k, l, &off);
            count_kept(k, l, &values, &kept);
        }
        drop_parts(k, true);
        if (k->key.data)
            kvt_trace_done(t, &k->key);
        k->key.data = NULL;
    }
    if (code || bad >= 0)
        return code;
    char text[200];
    snprintf(text, sizeof text,
             "/probe/%s/lse against its queries, the prompt's keys and its own", k->p->name);
    if (off.n)
        check_report(k->c, &off, 1e-3, "lse", text);
    if (values.n) {
        double lanes = (double)t->info.n_layer * k->p->n_keep;
        snprintf(text, sizeof text, "/probe/%s/keep is 0 or 1", k->p->name);
        check_report(k->c, &values, 0, "keep", text);
        bool fits = kept / lanes <= (double)k->p->budget + 1e-9;
        check_find(k->c, fits, "keep", "/probe/%s: %.6g tokens a lane, a budget of %lld",
                   k->p->name, kept / lanes, (long long)k->p->budget);
    }
    return KVT_OK;
}

kvt_code check_probes(checker *c, kvt_err *err)
{
    for (int i = 0; i < kvt_trace_probe_count(c->t); i++) {
        look k = {.c = c, .probe = i, .p = kvt_trace_probe_info(c->t, i)};
        bool readable;
        kvt_code code = check_sums(&k, &readable, err);
        if (!code && readable && !(code = load_parts(&k, false, 0, err)))
            code = check_layers(&k, err);
        drop_parts(&k, false);
        if (code)
            return code;
    }
    return KVT_OK;
}
