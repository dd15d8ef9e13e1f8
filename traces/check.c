/* check.c - `kvt verify`: checksums, the content digest, and what the numbers must satisfy.
 *
 * Tolerances. u = 2^-11 is half an ulp of a half, relative; values below 2^-14 are denormal and
 * carry an absolute error of up to 2^-25. A row of t visible tokens therefore sums to 1 within
 * u + t 2^-25. Rows come from stored halves of q and k, while /future and /attn/col_* are f32
 * truth of the running model: rounding q and k to halves moves a logit by about 2^-10 of |q||k|
 * scale, which is a few percent of a probability at worst, so the two are compared by sums over
 * heads and with 0.05 absolute on a mean over response rows. */
#include "traces/check_priv.h"

#include "base/digest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

void check_find(checker *c, bool ok, const char *check, const char *fmt, ...)
{
    kvt_finding f = {.ok = ok};
    va_list ap;
    snprintf(f.check, sizeof f.check, "%s", check);
    va_start(ap, fmt);
    vsnprintf(f.text, sizeof f.text, fmt, ap);
    va_end(ap);
    c->n_failed += !ok;
    c->each(c->user, &f);
}

void check_note(worst *w, double off, int64_t layer, int64_t at)
{
    w->n++;
    if (off > w->off || (isnan(off) && !isnan(w->off)))
        *w = (worst){.off = off, .layer = layer, .at = at, .n = w->n};
}

void check_report(checker *c, const worst *w, double limit, const char *check, const char *what)
{
    bool ok = w->off <= limit; /* false for NaN */
    if (ok)
        check_find(c, true, check,
                   "%s: within %.3g of what it must be (at most %.3g), %lld checked", what,
                   w->off, limit, (long long)w->n);
    else
        check_find(c, false, check, "%s: off by %.3g (at most %.3g) in layer %lld at %lld",
                   what, w->off, limit, (long long)w->layer, (long long)w->at);
}

/* ---- checksums and digest ------------------------------------------------------------------
 */

/* Reads every slab, past the cache. What cannot be read is a finding; memory is an error. */
static kvt_code check_sums(checker *c, trace_content *content, kvt_err *err)
{
    kvt_trace *t = c->t;
    int64_t n_slab = 0, n_bad = 0;
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const trace_set *s = &t->set[ds];
        if (!t->info.has[ds])
            continue;
        size_t bytes = (size_t)s->n_element * kvt_dtype_size(kvt_dataset_of((kvt_ds)ds)->dtype);
        void *data = kvt_alloc((int64_t)bytes, 1);
        content->slab[ds] = kvt_alloc(s->n_slab, sizeof *content->slab[ds]);
        if (!data || !content->slab[ds]) {
            kvt_free(data);
            return kvt_fail_memory(err, bytes);
        }
        content->n_slab[ds] = s->n_slab;
        memcpy(content->dim[ds], s->dim, sizeof s->dim);
        for (int64_t l = 0; l < s->n_slab; l++) {
            n_slab++;
            kvt_err why;
            if (trace_load(t, (kvt_ds)ds, (int)l, data, &why)) {
                n_bad++;
                check_find(c, false, "checksum", "%s", why.text);
            } else {
                digest_of(data, bytes, content->slab[ds][l]);
            }
        }
        kvt_free(data);
    }
    if (!n_bad)
        check_find(c, true, "checksum", "%lld slabs have the checksum that was stored",
                   (long long)n_slab);
    return KVT_OK;
}

static kvt_code check_digest(checker *c, const trace_content *content, kvt_err *err)
{
    char sum[KVT_DIGEST_TEXT];
    const kvt_trace_info *i = &c->t->info;
    if (c->n_failed || i->version[1] > KVT_TRACE_MINOR) {
        /* A later format may count more datasets. */
        check_find(c, c->n_failed == 0, "digest", "not computed: %s",
                   c->n_failed ? "a slab could not be read" : "the file has a later format");
        return KVT_OK;
    }
    if (content_digest(sum, content, err))
        return err->code;
    bool same = strcmp(sum, i->digest) == 0;
    check_find(c, same, "digest",
               same ? "%s" : "expected %s of the content, got %s in the file", sum, i->digest);
    return KVT_OK;
}

/* ---- invariants ----------------------------------------------------------------------------
 */

/* Values that may not be NaN, and where infinity is allowed. */
static kvt_code check_finite(checker *c, kvt_err *err)
{
    kvt_trace *t = c->t;
    int64_t n = 0, n_bad = 0;
    for (int ds = 0; ds < KVT_DS_COUNT; ds++) {
        const trace_set *s = &t->set[ds];
        kvt_dtype stored = kvt_dataset_of((kvt_ds)ds)->dtype;
        if (!t->info.has[ds] || (stored != KVT_F32 && stored != KVT_F16))
            continue;
        for (int l = 0; l < s->n_slab; l++) {
            kvt_view v;
            if (kvt_trace_read(t, (kvt_ds)ds, l, &v, err))
                return err->code;
            const float *x = v.data;
            int64_t T = t->info.n_token, w = t->info.facts.delay, bad = -1;
            for (int64_t i = 0; i < s->n_element && bad < 0; i++) {
                bool late = ds == KVT_DS_FUTURE_DELAYED && (i % T) + w >= T; /* no such query */
                bool inf = ds == KVT_DS_FUTURE_DELAYED && isinf(x[i]) && x[i] < 0;
                if (late ? !isnan(x[i]) : !isfinite(x[i]) && !inf)
                    bad = i;
            }
            kvt_trace_done(t, &v);
            n++;
            n_bad += bad >= 0;
            if (bad >= 0)
                check_find(c, false, "finite",
                           "%s, layer %d, element %lld: NaN or infinity where there "
                           "may be none, or a number where there may be none",
                           kvt_dataset_of((kvt_ds)ds)->path, l, (long long)bad);
        }
    }
    if (!n_bad)
        check_find(c, true, "finite", "%lld slabs hold numbers only, but where none is defined",
                   (long long)n);
    return KVT_OK;
}

/* Stored rows: each sums to 1, is 0 where it does not see, and over the response gives
 * future/mean. */
static kvt_code check_rows(checker *c, kvt_err *err)
{
    kvt_trace *t = c->t;
    const kvt_trace_info *i = &t->info;
    const kvt_geometry *g = &i->facts.model;
    int64_t T = i->n_token, N = i->facts.token.n_prompt, M = i->facts.token.n_response;
    worst sum = {0}, hidden = {0}, mean = {0};
    if (!i->has[KVT_DS_ROWS] || !i->has[KVT_DS_QUERY_POS])
        return KVT_OK;
    kvt_view pos, rows, future = {0};
    double *total = kvt_alloc(N, sizeof *total);
    if (!total)
        return kvt_fail_memory(err, (size_t)N * sizeof *total);
    kvt_code code = kvt_trace_read(t, KVT_DS_QUERY_POS, 0, &pos, err);
    for (int l = 0; l < i->n_layer && !code; l++) {
        if ((code = kvt_trace_read(t, KVT_DS_ROWS, l, &rows, err)))
            break;
        if (i->has[KVT_DS_FUTURE_MEAN] &&
            (code = kvt_trace_read(t, KVT_DS_FUTURE_MEAN, l, &future, err)))
            break;
        for (int64_t h = 0; h < rows.dim[0]; h++) {
            int64_t n_response = 0;
            memset(total, 0, (size_t)N * sizeof *total);
            for (int64_t q = 0; q < rows.dim[1]; q++) {
                const float *row = (const float *)rows.data + (h * rows.dim[1] + q) * T;
                int64_t p = ((const int32_t *)pos.data)[q];
                double s = 0, unseen = 0;
                for (int64_t k = 0; k < T; k++) {
                    s += (double)row[k];
                    unseen +=
                        kvt_geometry_sees(g, i->layer_id[l], p, k) ? 0 : fabs((double)row[k]);
                }
                check_note(&sum, fabs(s - 1) - (double)T * 0x1p-25, l, p);
                check_note(&hidden, unseen, l, p);
                n_response += p >= N;
                for (int64_t k = 0; k < N && p >= N; k++)
                    total[k] += (double)row[k];
            }
            for (int64_t k = 0; k < N && future.data && n_response == M; k++)
                check_note(&mean,
                           fabs(total[k] / (double)M -
                                (double)((const float *)future.data)[h * N + k]),
                           l, k);
        }
        kvt_trace_done(t, &rows);
        if (future.data)
            kvt_trace_done(t, &future);
    }
    kvt_free(total);
    if (code)
        return code;
    kvt_trace_done(t, &pos);
    check_report(c, &sum, 0x1p-11 + 1e-6, "rows", "the sum of each row of attn/rows against 1");
    check_report(c, &hidden, 0, "rows",
                 "attention of attn/rows on tokens that its query does not see");
    if (mean.n)
        check_report(c, &mean, 0.05, "rows", "rows of the response against future/mean");
    return KVT_OK;
}

/* Sums over all prompt queries: N in all, each at most N and at least its maximum. */
static kvt_code check_columns(checker *c, kvt_err *err)
{
    kvt_trace *t = c->t;
    int64_t N = t->info.facts.token.n_prompt;
    worst total = {0}, bounds = {0};
    if (!t->info.has[KVT_DS_COL_SUM] || !t->info.has[KVT_DS_COL_MAX])
        return KVT_OK;
    for (int l = 0; l < t->info.n_layer; l++) {
        kvt_view sum, max;
        if (kvt_trace_read(t, KVT_DS_COL_SUM, l, &sum, err))
            return err->code;
        if (kvt_trace_read(t, KVT_DS_COL_MAX, l, &max, err))
            return err->code;
        for (int64_t h = 0; h < sum.dim[0]; h++) {
            double s = 0;
            for (int64_t k = 0; k < N; k++) {
                double x = (double)((const float *)sum.data)[h * N + k];
                double m = (double)((const float *)max.data)[h * N + k];
                s += x;
                check_note(&bounds,
                           fmax(fmax(-x, m - x), fmax(m - 1, x - (double)(N - k) * m)) /
                               (double)N,
                           l, k);
            }
            check_note(&total, fabs(s - (double)N) / (double)N, l, h);
        }
        kvt_trace_done(t, &sum);
        kvt_trace_done(t, &max);
    }
    /* f32 sums of N terms: N ulps at worst, in practice their square root. */
    check_report(c, &total, 1e-4, "columns",
                 "attn/col_sum of each head, summed, against the number of prompt queries");
    check_report(c, &bounds, 1e-4, "columns",
                 "attn/col_sum between attn/col_max and its multiple");
    return KVT_OK;
}

/* Blocks of prompt queries, undone from mean to sum, against attn/col_sum. */
static kvt_code check_blocks(checker *c, kvt_err *err)
{
    kvt_trace *t = c->t;
    int64_t N = t->info.facts.token.n_prompt, T = t->info.n_token, J = t->info.n_block;
    worst off = {0};
    kvt_view start, block, sum;
    if (!t->info.has[KVT_DS_BLOCK_SUM] || !t->info.has[KVT_DS_COL_SUM])
        return KVT_OK;
    if (kvt_trace_read(t, KVT_DS_BLOCK_START, 0, &start, err))
        return err->code;
    const int32_t *s = start.data;
    kvt_code code = KVT_OK;
    for (int l = 0; l < t->info.n_layer && !code; l++) {
        if ((code = kvt_trace_read(t, KVT_DS_BLOCK_SUM, l, &block, err)) ||
            (code = kvt_trace_read(t, KVT_DS_COL_SUM, l, &sum, err)))
            break;
        for (int64_t h = 0; h < block.dim[0]; h++)
            for (int64_t k = 0; k < N; k++) {
                double x = 0, want = (double)((const float *)sum.data)[h * N + k];
                for (int64_t j = 0; j < J && s[j] < N; j++)
                    x += (double)((const float *)block.data)[(h * J + j) * T + k] / 1024 *
                         (double)(s[j + 1] - s[j]);
                /* Half an ulp relative; below 2^-14 x 2^-10 the scaled mean is denormal. */
                check_note(&off, fabs(x - want) - (double)N * 0x1p-35 - want * 0x1p-11, l, k);
            }
        kvt_trace_done(t, &block);
        kvt_trace_done(t, &sum);
    }
    kvt_trace_done(t, &start);
    if (code)
        return code;
    check_report(c, &off, 1e-4 * (double)(N < 100 ? 1 : N) / 100 + 1e-4, "blocks",
                 "attn/block_sum, summed over the prompt's blocks, against attn/col_sum");
    return KVT_OK;
}

/* Means and maxima over the response: shares, and a mean never above its maximum. */
static kvt_code check_future(checker *c, kvt_err *err)
{
    kvt_trace *t = c->t;
    int64_t N = t->info.facts.token.n_prompt;
    double M = (double)t->info.facts.token.n_response;
    worst off = {0}, total = {0};
    if (!t->info.has[KVT_DS_FUTURE_MEAN] || !t->info.has[KVT_DS_FUTURE_MAX])
        return KVT_OK;
    for (int l = 0; l < t->info.n_layer; l++) {
        kvt_view mean, max;
        if (kvt_trace_read(t, KVT_DS_FUTURE_MEAN, l, &mean, err))
            return err->code;
        if (kvt_trace_read(t, KVT_DS_FUTURE_MAX, l, &max, err))
            return err->code;
        for (int64_t h = 0; h < mean.dim[0]; h++) {
            double s = 0;
            for (int64_t k = 0; k < N; k++) {
                double x = (double)((const float *)mean.data)[h * N + k];
                double m = (double)((const float *)max.data)[h * N + k];
                s += x;
                check_note(&off, fmax(fmax(-x, x - m), fmax(m - 1, m - x * M)), l, k);
            }
            check_note(&total, s - 1, l, h);
        }
        kvt_trace_done(t, &mean);
        kvt_trace_done(t, &max);
    }
    check_report(c, &off, 1e-5, "future",
                 "future/mean x M within 0 and M, and at most future/max x M");
    check_report(c, &total, 1e-4, "future", "future/mean of each head, summed, at most 1");
    return KVT_OK;
}

/* lse against the stored queries and keys: one dot product a pair, on the last row of each
 * head. */
static kvt_code check_lse(checker *c, kvt_err *err)
{
    kvt_trace *t = c->t;
    const kvt_geometry *g = &t->info.facts.model;
    int64_t T = t->info.n_token, D = g->head_dim, Q = t->info.n_query;
    worst off = {0};
    kvt_view lse, q, k, pos;
    if (!t->info.has[KVT_DS_QUERIES] || !t->info.has[KVT_DS_KEYS] || Q == 0)
        return KVT_OK;
    if (kvt_trace_read(t, KVT_DS_QUERY_POS, 0, &pos, err))
        return err->code;
    int64_t p = ((const int32_t *)pos.data)[Q - 1];
    kvt_trace_done(t, &pos);
    for (int l = 0; l < t->info.n_layer; l++) {
        if (kvt_trace_read(t, KVT_DS_LSE, l, &lse, err) ||
            kvt_trace_read(t, KVT_DS_QUERIES, l, &q, err) ||
            kvt_trace_read(t, KVT_DS_KEYS, l, &k, err))
            return err->code;
        for (int64_t h = 0; h < g->n_head; h++) {
            const float *x = (const float *)q.data + (h * Q + Q - 1) * D;
            const float *y = (const float *)k.data + h / (g->n_head / g->n_kv_head) * T * D;
            double sum = 0, most = -INFINITY, length = 0, longest = 0;
            for (int64_t d = 0; d < D; d++)
                length += (double)x[d] * (double)x[d];
            for (int64_t i = kvt_geometry_first(g, t->info.layer_id[l], p); i <= p; i++) {
                double z = 0, n = 0;
                for (int64_t d = 0; d < D; d++) {
                    z += (double)x[d] * (double)y[i * D + d];
                    n += (double)y[i * D + d] * (double)y[i * D + d];
                }
                z *= g->attn_scale;
                longest = fmax(longest, n);
                sum = z > most ? sum * exp(most - z) + 1 : sum + exp(z - most);
                most = fmax(most, z);
            }
            /* Both halves rounded: 2^-11 each of |q||k| scale, at worst. */
            double room = sqrt(length * longest) * fabs(g->attn_scale) * 0x1p-10;
            double got = (double)((const float *)lse.data)[h * T + p];
            check_note(&off, fabs(got - most - log(sum)) - room, l, h);
        }
        kvt_trace_done(t, &lse);
        kvt_trace_done(t, &q);
        kvt_trace_done(t, &k);
    }
    check_report(c, &off, 1e-3, "lse",
                 "attn/lse of the last query against the stored queries and keys");
    return KVT_OK;
}

/* Log-probabilities: falling, at most 0, their shares at most 1; ids within the vocabulary. */
static kvt_code check_logits(checker *c, kvt_err *err)
{
    kvt_trace *t = c->t;
    int64_t M = t->info.facts.token.n_response, V = t->info.facts.model.n_vocab;
    worst off = {0};
    kvt_view id, logp;
    if (!t->info.has[KVT_DS_LOGIT_ID] || M == 0)
        return KVT_OK;
    if (kvt_trace_read(t, KVT_DS_LOGIT_ID, 0, &id, err) ||
        kvt_trace_read(t, KVT_DS_LOGIT_LOGP, 0, &logp, err))
        return err->code;
    for (int64_t m = 0; m < M; m++) {
        const float *p = (const float *)logp.data + m * KVT_TOP;
        const int32_t *v = (const int32_t *)id.data + m * KVT_TOP;
        double share = 0;
        for (int i = 0; i < KVT_TOP; i++) {
            bool known = v[i] >= 0 && (V == 0 || v[i] < V);
            share += exp((double)p[i]);
            check_note(&off, known ? fmax((double)p[i], i ? (double)(p[i] - p[i - 1]) : 0) : 1,
                       0, m);
        }
        check_note(&off, share - 1, 0, m);
    }
    kvt_trace_done(t, &id);
    kvt_trace_done(t, &logp);
    check_report(c, &off, 1e-3, "logits",
                 "logit/logp falling, shares at most 1, ids within the vocabulary");
    return KVT_OK;
}

/* Whether every slab could be read. */
static bool content_is_whole(const trace_content *content)
{
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        for (int64_t l = 0; l < content->n_slab[ds]; l++)
            if (!content->slab[ds][l][0])
                return false;
    return true;
}

kvt_code kvt_trace_check(kvt_trace *t, void (*each)(void *user, const kvt_finding *f),
                         void *user, kvt_err *err)
{
    checker c = {.t = t, .each = each, .user = user};
    static kvt_code (*const checks[])(checker * c, kvt_err * err) = {
        check_finite, check_columns, check_blocks,    check_future, check_rows,
        check_lse,    check_logits,  check_decisions, check_probes};
    trace_content *content = kvt_alloc(1, sizeof *content);
    if (!content)
        return kvt_fail_memory(err, sizeof *content);
    content->facts = &t->info.facts;
    kvt_code code = check_sums(&c, content, err);
    if (!code)
        code = check_digest(&c, content, err);
    /* Numbers that cannot be read are not looked at twice. */
    bool readable = !code && content_is_whole(content);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && !code && readable; i++)
        code = checks[i](&c, err);
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        kvt_free(content->slab[ds]);
    kvt_free(content);
    if (code)
        return kvt_within(err, "'%s'", t->info.path);
    if (c.n_failed)
        return kvt_fail(err, KVT_NO, "'%s': %d checks failed", t->info.path, c.n_failed);
    return KVT_OK;
}
