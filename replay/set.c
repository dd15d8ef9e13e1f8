/* set.c - the traces of a run, and what a trace may know of the others.
 *
 * The set is fixed before passes are dealt out to shards. A trace's others are those of the
 * same model, weights and layers that have a response. */
#include "replay/replay_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "kvt/arena.h"
#include "kvt/pieces.h"

int kvt_position_bin(int64_t j, int64_t n_prompt)
{
    /* The first positions hold sinks: one bin each. Then half octaves of the distance from the
     * end; 2 log2(1 + d) >= k exactly where (1 + d)^2 >= 2^k, which is checked in whole
     * numbers. */
    if (j < 8)
        return (int)j;
    uint64_t d = (uint64_t)(n_prompt - 1 - j) + 1;
    int k = 0;
    while (k < 23 && d >= (UINT64_C(1) << 32))
        k = 23;
    while (k < 23 && d * d >= (UINT64_C(1) << (k + 1)))
        k++;
    return 8 + k;
}

/* ---- opening -------------------------------------------------------------------------------
 */

static void shape_digest(set_trace *s, const kvt_trace_info *i)
{
    char text[512];
    const kvt_geometry *g = &i->facts.model;
    int n =
        snprintf(text, sizeof text, "%s|%lld|%lld|%lld|%lld|", g->name, (long long)g->n_layer,
                 (long long)g->n_head, (long long)g->n_kv_head, (long long)g->head_dim);
    digest *d = digest_new();
    if (!d)
        return; /* an empty digest is equal to none: the trace has no others */
    digest_add(d, text, (size_t)n);
    digest_add(d, i->layer_id, (size_t)i->n_layer * sizeof *i->layer_id);
    digest_get(d, s->shape);
    digest_free(d);
}

/* The others of a set learn from these: damage is found before anything is built on it. */
static kvt_code check_future(kvt_trace *t, kvt_err *err)
{
    kvt_code code = KVT_OK;
    for (int l = 0; !code && l < kvt_trace_info_of(t)->n_layer; l++) {
        kvt_view v;
        code = kvt_trace_read(t, KVT_DS_FUTURE_MEAN, l, &v, err);
        if (!code)
            kvt_trace_done(t, &v);
    }
    return code;
}

static kvt_code look(set_trace *s, const char *path, bool several, kvt_err *err)
{
    kvt_trace *t;
    if (kvt_trace_open(&t, path, 0, err))
        return err->code;
    const kvt_trace_info *i = kvt_trace_info_of(t);
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->name, sizeof s->name, "%s", i->name);
    snprintf(s->digest, sizeof s->digest, "%s", i->digest);
    snprintf(s->folder, sizeof s->folder, "%s-%.8s", i->name, i->digest);
    s->n_prompt = i->facts.token.n_prompt;
    s->n_response = i->facts.token.n_response;
    s->slot_bytes = 2 * i->facts.model.head_dim * 2;
    s->n_lane = i->n_layer * i->facts.model.n_kv_head;
    for (int p = 0; p < kvt_trace_probe_count(t); p++)
        s->probe_kinds |= 1u << kvt_trace_probe_info(t, p)->kind;
    s->has_future = i->has[KVT_DS_FUTURE_MEAN] && s->n_response > 0;
    s->model = kvt_model_id_of(&i->facts);
    shape_digest(s, i);
    kvt_code code = several && s->has_future ? check_future(t, err) : KVT_OK;
    kvt_trace_close(t);
    return code;
}

static bool is_damage(kvt_code code)
{
    return code == KVT_FORMAT || code == KVT_IO || code == KVT_NOTFOUND;
}

static bool is_there(const trace_set *s, const set_trace *one)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->trace[i].digest, one->digest) == 0 &&
            strcmp(s->trace[i].name, one->name) == 0)
            return true;
    return false;
}

kvt_code set_open(trace_set *out, const char *const *path, int n, bool fail_fast,
                  const kvt_ctx *ctx, kvt_err *err)
{
    int n_trace = 0;
    for (int i = 0; i < n; i++)
        n_trace += !kvt_is_result_path(path[i]);
    *out = (trace_set){.trace = kvt_alloc(n, sizeof *out->trace)};
    if (!out->trace)
        return kvt_fail_memory(err, n * (int64_t)sizeof *out->trace);
    for (int i = 0; i < n; i++) {
        set_trace one;
        if (kvt_is_result_path(path[i]))
            continue;
        kvt_code code = kvt_progress(ctx, "traces", i, n, err);
        if (!code)
            code = look(&one, path[i], n_trace > 1, err);
        if (is_damage(code) && n_trace > 1 && !fail_fast) {
            kvt_log(ctx, KVT_LOG_ERROR, "replay", "%s", err->text);
            out->n_bad++;
            continue;
        }
        if (code) {
            set_close(out);
            return code;
        }
        if (is_there(out, &one))
            kvt_log(ctx, KVT_LOG_INFO, "replay", "'%s' is there twice: replayed once", path[i]);
        else
            out->trace[out->n++] = one;
    }
    if (out->n > 0)
        return KVT_OK;
    n = out->n_bad;
    set_close(out);
    if (n > 0)
        return kvt_fail(err, KVT_IO, "none of %d traces can be read", n);
    return kvt_fail(err, KVT_USAGE, "traces: expected at least one, got none");
}

void set_close(trace_set *s)
{
    kvt_free(s->trace);
    *s = (trace_set){0};
}

/* ---- others --------------------------------------------------------------------------------
 */

bool set_is_peer(const trace_set *s, int i, int k)
{
    const set_trace *a = &s->trace[i], *b = &s->trace[k];
    return k != i && a->shape[0] && strcmp(a->shape, b->shape) == 0 &&
           kvt_model_id_same(&a->model, &b->model);
}

static bool is_other(const trace_set *s, int i, int k)
{
    return set_is_peer(s, i, k) && s->trace[k].has_future;
}

int set_others(const trace_set *s, int i)
{
    int n = 0;
    for (int k = 0; k < s->n; k++)
        n += is_other(s, i, k);
    return n;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void set_digest(const trace_set *s, int i, bool peers, char out[KVT_DIGEST_TEXT])
{
    const char **list = kvt_alloc(s->n, sizeof *list);
    digest *d = digest_new();
    int n = 0;
    for (int k = 0; list && k < s->n; k++)
        if (peers ? set_is_peer(s, i, k) : is_other(s, i, k))
            list[n++] = s->trace[k].digest;
    if (n > 1)
        qsort(list, (size_t)n, sizeof *list, by_text);
    for (int k = 0; d && k < n; k++)
        digest_add_text(d, list[k]);
    snprintf(out, KVT_DIGEST_TEXT, "%s", "");
    if (d)
        digest_get(d, out);
    digest_free(d);
    kvt_free(list);
}

/* Adds the mean of each bin of one layer to sum, and 1 to n where the bin has a token. */
static void add_layer(double *sum, int *n, const kvt_view *mean, int n_kv)
{
    int64_t N = mean->dim[1], per = mean->dim[0] / n_kv;
    for (int g = 0; g < n_kv; g++) {
        double mass[KVT_POSITION_BINS] = {0};
        int64_t count[KVT_POSITION_BINS] = {0};
        for (int64_t j = 0; j < N; j++) {
            int bin = kvt_position_bin(j, N);
            for (int64_t h = g * per; h < (g + 1) * per; h++)
                mass[bin] += (double)((const float *)mean->data)[h * mean->stride[0] + j];
            count[bin] += per;
        }
        for (int b = 0; b < KVT_POSITION_BINS; b++, sum++, n++) {
            if (count[b] > 0) {
                *sum += mass[b] / (double)count[b];
                ++*n;
            }
        }
    }
}

static kvt_code add_trace(double *sum, int *n, const set_trace *s, size_t cache_bytes,
                          kvt_err *err)
{
    kvt_trace *t;
    if (kvt_trace_open(&t, s->path, cache_bytes, err))
        return err->code;
    const kvt_trace_info *i = kvt_trace_info_of(t);
    int n_kv = (int)i->facts.model.n_kv_head, step = n_kv * KVT_POSITION_BINS;
    kvt_code code = KVT_OK;
    for (int l = 0; !code && l < i->n_layer; l++) {
        kvt_view v;
        code = kvt_trace_read(t, KVT_DS_FUTURE_MEAN, l, &v, err);
        if (!code) {
            add_layer(sum + l * step, n + l * step, &v, n_kv);
            kvt_trace_done(t, &v);
        }
    }
    kvt_trace_close(t);
    return code;
}

/* Bins that no trace fills take the nearest filled one, the lower of two. */
static void fill_bins(float *out, const double *sum, const int *n)
{
    for (int b = 0; b < KVT_POSITION_BINS; b++) {
        int from = -1;
        for (int d = 0; d < KVT_POSITION_BINS && from < 0; d++) {
            if (b - d >= 0 && n[b - d] > 0)
                from = b - d;
            else if (b + d < KVT_POSITION_BINS && n[b + d] > 0)
                from = b + d;
        }
        out[b] = from < 0 ? 0 : (float)(sum[from] / n[from]);
    }
}

kvt_code set_positions(float **out, const trace_set *s, int i, size_t cache_bytes, kvt_err *err)
{
    int64_t lanes = s->trace[i].n_lane, all = lanes * KVT_POSITION_BINS;
    double *sum = kvt_alloc(all, sizeof *sum);
    int *n = kvt_alloc(all, sizeof *n);
    *out = kvt_alloc(all, sizeof **out);
    kvt_code code =
        sum && n && *out ? KVT_OK : kvt_fail_memory(err, all * (int64_t)sizeof *sum);
    for (int k = 0; !code && k < s->n; k++)
        if (is_other(s, i, k))
            code = add_trace(sum, n, &s->trace[k], cache_bytes, err);
    for (int64_t a = 0; !code && a < lanes; a++)
        fill_bins(*out + a * KVT_POSITION_BINS, sum + a * KVT_POSITION_BINS,
                  n + a * KVT_POSITION_BINS);
    kvt_free(sum);
    kvt_free(n);
    if (code) {
        kvt_free(*out);
        *out = NULL;
    }
    return code;
}
