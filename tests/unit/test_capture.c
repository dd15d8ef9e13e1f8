/* test_capture.c - whole captures of tiny random models: every dataset against a forward pass
 * in double, levels, layers, blocks, given and generated responses, threads, plans, sets that
 * resume, and what goes wrong. */
#include "kvt/capture.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/half.h"
#include "capture/capture_priv.h"
#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/gguf_make.h"
#include "tests/naive.h"

static const char text[] =
    "Four ships on the first of March, eleven on the second, none on the third; the keeper "
    "wrote "
    "down every one of them, mended the stair, wound the clock, and read the almanac twice.";

static kvt_model *model;
static kvt_ctx ctx;

static int open_model(void **state)
{
    kvt_err err;
    gguf_make_options o = gguf_make_defaults();
    (void)state;
    o.n_layer = 4;
    o.n_head = 6;
    o.n_kv_head = 3;
    o.head_dim = 16;
    o.n_hidden = 64;
    o.n_ff = 128;
    o.n_context = 600;
    o.spread = 0.15f;
    if (!gguf_make_llama(folder_path("tiny.gguf"), &o))
        return -1;
    CHECK_OK(kvt_model_open(&model, folder_path("tiny.gguf"), NULL, &ctx, &err), &err);
    /* A window in layer 1: what a model with sliding layers needs of the recorder. */
    model->weights->geometry.window[1] = 50;
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    kvt_model_close(model);
    return 0;
}

static kvt_capture_spec spec_to(const char *name)
{
    kvt_capture_spec s;
    kvt_capture_defaults(&s);
    s.prompt = text;
    s.out = folder_path(name);
    s.max_new = 30;
    s.delay = 40;
    s.force = true;
    return s;
}

static kvt_capture_counts run_ok(const kvt_capture_spec *s)
{
    kvt_err err;
    kvt_capture_counts c;
    CHECK_OK(kvt_capture(model, s, &c, &ctx, &err), &err);
    assert_int_equal(c.captured, 1);
    return c;
}

/* ---- the datasets --------------------------------------------------------------------------
 */

typedef struct both {
    kvt_trace *t;
    const kvt_trace_info *i;
    naive *n;
    const kvt_geometry *g;
    int64_t N, T, M;
} both;

static both both_open(const char *path)
{
    kvt_err err;
    kvt_view id;
    both b = {0};
    CHECK_OK(kvt_trace_open(&b.t, path, 0, &err), &err);
    b.i = kvt_trace_info_of(b.t);
    CHECK_OK(kvt_trace_read(b.t, KVT_DS_TOKEN_ID, 0, &id, &err), &err);
    b.g = &model->weights->geometry;
    b.N = b.i->facts.token.n_prompt;
    b.M = b.i->facts.token.n_response;
    b.T = b.i->n_token;
    b.n = naive_run(model->weights, id.data, b.T, 0);
    kvt_trace_done(b.t, &id);
    return b;
}

static void both_close(both *b)
{
    naive_free(b->n);
    kvt_trace_close(b->t);
}

static double p_at(const both *b, int model_layer, int64_t h, int64_t q, int64_t k)
{
    return b->n->p[((model_layer * b->g->n_head + h) * b->T + q) * b->T + k];
}

/* Reads a dataset of trace layer l, or fails. */
static kvt_view take(const both *b, kvt_ds ds, int l)
{
    kvt_err err;
    kvt_view v;
    CHECK_OK(kvt_trace_read(b->t, ds, l, &v, &err), &err);
    return v;
}

/* limit: absolute. */
static void same(const char *what, int l, int64_t i, float got, double want, double limit)
{
    if (!(fabs((double)got - want) <= limit) && !((double)got == want))
        fail_msg("%s, layer %d, value %lld: expected %.9g, got %.9g", what, l, (long long)i,
                 want, (double)got);
}

static void check_sums(const both *b, int l, int m)
{
    int64_t H = b->g->n_head, N = b->N, T = b->T, w = b->i->facts.delay;
    kvt_view sum = take(b, KVT_DS_COL_SUM, l), max = take(b, KVT_DS_COL_MAX, l);
    kvt_view mean = take(b, KVT_DS_FUTURE_MEAN, l), top = take(b, KVT_DS_FUTURE_MAX, l);
    kvt_view late = take(b, KVT_DS_FUTURE_DELAYED, l), lse = take(b, KVT_DS_LSE, l);
    double mass = 0;
    for (int64_t h = 0; h < H; h++)
        for (int64_t k = 0; k < T; k++) {
            double s = 0, x = 0, f = 0, y = 0, d = 0;
            int64_t at = h * N + k, n = T - k - w;
            for (int64_t q = 0; q < N; q++) {
                s += p_at(b, m, h, q, k);
                x = fmax(x, p_at(b, m, h, q, k));
            }
            for (int64_t q = N; q < T; q++) {
                f += p_at(b, m, h, q, k);
                y = fmax(y, p_at(b, m, h, q, k));
                mass += p_at(b, m, h, q, k);
            }
            for (int64_t q = k + w; q < T; q++)
                d += p_at(b, m, h, q, k);
            if (k < N) {
                same("col_sum", l, at, ((const float *)sum.data)[at], s, 1e-5 * (1 + s));
                same("col_max", l, at, ((const float *)max.data)[at], x, 1e-5);
                same("future/mean", l, at, ((const float *)mean.data)[at], f / (double)b->M,
                     1e-5);
                same("future/max", l, at, ((const float *)top.data)[at], y, 1e-5);
            }
            float got = ((const float *)late.data)[h * T + k];
            if (n <= 0)
                assert_true(isnan(got));
            else if (d == 0)
                assert_true(got == -INFINITY);
            else
                same("future/delayed", l, h * T + k, expf(got), d / (double)n, 1e-5);
            same("lse", l, h * T + k, ((const float *)lse.data)[h * T + k],
                 b->n->lse[(m * H + h) * T + k], 1e-4);
        }
    CHECK_NEAR(mass, (double)(H * b->M), 1e-6); /* the reference itself conserves */
    kvt_view *all[] = {&sum, &max, &mean, &top, &late, &lse};
    for (int i = 0; i < CHECK_COUNT(all); i++)
        kvt_trace_done(b->t, all[i]);
}

static void check_blocks(const both *b, int l, int m)
{
    int64_t J = b->i->n_block, T = b->T, block = b->i->facts.block_tokens;
    bool full = b->i->has[KVT_DS_BLOCK_MAX];
    kvt_view start = take(b, KVT_DS_BLOCK_START, 0), sum = take(b, KVT_DS_BLOCK_SUM, l), max;
    if (full)
        max = take(b, KVT_DS_BLOCK_MAX, l);
    const int32_t *s = start.data;
    assert_int_equal(s[J], T);
    bool borders = false;
    for (int64_t j = 0; j < J; j++) {
        borders = borders || s[j] == b->N;
        assert_true(s[j + 1] - s[j] <= block && s[j] < s[j + 1]);
        for (int64_t h = 0; h < b->g->n_head; h++)
            for (int64_t k = 0; k < T; k++) {
                double mean = 0, top = 0;
                int64_t at = (h * J + j) * T + k;
                for (int64_t q = s[j]; q < s[j + 1]; q++) {
                    mean += p_at(b, m, h, q, k);
                    top = fmax(top, p_at(b, m, h, q, k));
                }
                mean *= 1024.0 / (s[j + 1] - s[j]);
                same("block_sum", l, at, ((const float *)sum.data)[at], mean,
                     mean * 6e-4 + 1e-2); /* a half of up to 1024, and the engine's own 1e-5 */
                if (full)
                    same("block_max", l, at, ((const float *)max.data)[at], top,
                         top * 6e-4 + 1e-5);
            }
    }
    assert_true(borders);
    if (full)
        kvt_trace_done(b->t, &max);
    kvt_trace_done(b->t, &start);
    kvt_trace_done(b->t, &sum);
}

static void check_vectors(const both *b, int l, int m)
{
    int64_t H = b->g->n_head, G = b->g->n_kv_head, D = b->g->head_dim, T = b->T;
    int64_t Q = b->i->n_query;
    kvt_view k = take(b, KVT_DS_KEYS, l), v = take(b, KVT_DS_VALUES, l);
    kvt_view q = take(b, KVT_DS_QUERIES, l), pos = take(b, KVT_DS_QUERY_POS, 0);
    const int32_t *at = pos.data;
    for (int64_t i = 0; i < G * T * D; i++) {
        double wk = b->n->k[m * G * T * D + i], wv = b->n->v[m * G * T * D + i];
        same("kv/k", l, i, ((const float *)k.data)[i], wk, fabs(wk) * 6e-4 + 1e-4);
        same("kv/v", l, i, ((const float *)v.data)[i], wv, fabs(wv) * 6e-4 + 1e-4);
    }
    assert_int_equal(at[Q - 1], T - 1);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < Q; i++)
            for (int64_t d = 0; d < D; d++) {
                double want = b->n->q[((m * H + h) * T + at[i]) * D + d];
                same("query/q", l, i, ((const float *)q.data)[(h * Q + i) * D + d], want,
                     fabs(want) * 6e-4 + 1e-4);
            }
    if (b->i->has[KVT_DS_ROWS]) {
        kvt_view rows = take(b, KVT_DS_ROWS, l);
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < Q; i++)
                for (int64_t t = 0; t < T; t++) /* halves of q and k move logits by 1e-3 */
                    same("attn/rows", l, i, ((const float *)rows.data)[(h * Q + i) * T + t],
                         p_at(b, m, h, at[i], t), 8e-3);
        kvt_trace_done(b->t, &rows);
    }
    kvt_view *all[] = {&k, &v, &q, &pos};
    for (int i = 0; i < CHECK_COUNT(all); i++)
        kvt_trace_done(b->t, all[i]);
}

/* Mean, covariance (divided by the count) and pair magnitudes of positions 4 .. N - 1. */
static void check_moments(const both *b, int l, int m)
{
    int64_t D = b->g->head_dim, T = b->T, n = b->N - 4;
    kvt_view mean = take(b, KVT_DS_QUERY_MEAN, l), cov = take(b, KVT_DS_QUERY_COV, l);
    kvt_view freq = take(b, KVT_DS_QUERY_FREQ, l);
    for (int64_t h = 0; h < b->g->n_head; h++) {
        const double *q = b->n->q0 + ((m * b->g->n_head + h) * T + 4) * D;
        double mu[64] = {0}, size = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = 0; d < D; d++)
                mu[d] += q[i * D + d] / (double)n;
        for (int64_t d = 0; d < D; d++)
            same("query/mean", l, d, ((const float *)mean.data)[h * D + d], mu[d], 2e-5);
        for (int64_t d = 0; d < D; d++)
            for (int64_t e = 0; e < D; e++) {
                double s = 0;
                for (int64_t i = 0; i < n; i++)
                    s += (q[i * D + d] - mu[d]) * (q[i * D + e] - mu[e]) / (double)n;
                size = fmax(size, fabs(s));
                same("query/cov", l, d * D + e, ((const float *)cov.data)[(h * D + d) * D + e],
                     s, 2e-5 * (1 + size));
            }
        for (int64_t f = 0; f < D / 2; f++) {
            double s = 0;
            for (int64_t i = 0; i < n; i++)
                s += hypot(q[i * D + f], q[i * D + f + D / 2]) / (double)n;
            same("query/freq_abs", l, f, ((const float *)freq.data)[h * D / 2 + f], s, 2e-5);
        }
    }
    kvt_trace_done(b->t, &mean);
    kvt_trace_done(b->t, &cov);
    kvt_trace_done(b->t, &freq);
}

static void check_norms(const both *b, int l, int m)
{
    int64_t H = b->g->n_head, G = b->g->n_kv_head, D = b->g->head_dim, T = b->T;
    int64_t E = b->g->n_hidden;
    kvt_view l1 = take(b, KVT_DS_WO_L1, l), l2 = take(b, KVT_DS_WO_L2, l);
    kvt_view norm = take(b, KVT_DS_HIDDEN_NORM, l);
    const float *wo = model->weights->layer[m].wo;
    for (int64_t t = 0; t < T; t++) {
        for (int64_t h = 0; h < H; h++) {
            const double *v = b->n->v + ((m * G + h / (H / G)) * T + t) * D;
            double a = 0, s = 0;
            for (int64_t e = 0; e < E; e++) {
                double x = 0;
                for (int64_t d = 0; d < D; d++)
                    x += (double)wo[e * H * D + h * D + d] * v[d];
                a += fabs(x);
                s += x * x;
            }
            same("wo_l1", l, t, ((const float *)l1.data)[h * T + t], a, 2e-5 * a);
            same("wo_l2", l, t, ((const float *)l2.data)[h * T + t], sqrt(s), 2e-5 * sqrt(s));
        }
        double s = 0;
        for (int64_t e = 0; e < E; e++)
            s += pow(b->n->x[(m * T + t) * E + e], 2);
        same("hidden/norm", l, t, ((const float *)norm.data)[t], sqrt(s), 2e-5 * sqrt(s));
    }
    kvt_trace_done(b->t, &l1);
    kvt_trace_done(b->t, &l2);
    kvt_trace_done(b->t, &norm);
}

static void check_hidden(const both *b, int l, int m)
{
    int64_t E = b->g->n_hidden, T = b->T;
    kvt_view x = take(b, KVT_DS_HIDDEN, l);
    for (int64_t t = 0; t < T; t++) {
        const double *r = b->n->x + (m * T + t) * E;
        double s = 0;
        for (int64_t e = 0; e < E; e++)
            s += r[e] * r[e];
        for (int64_t e = 0; e < E; e++) {
            double want = r[e] / sqrt(s / (double)E + b->g->norm_eps) *
                          (double)model->weights->layer[m].attn_norm[e];
            same("hidden/x", l, t * E + e, ((const float *)x.data)[t * E + e], want,
                 fabs(want) * 6e-4 + 2e-5);
        }
    }
    kvt_trace_done(b->t, &x);
}

/* Row m is the distribution that produced response token m: of the query at N + m - 1. */
static void check_logits(const both *b)
{
    int64_t V = tokenizer_count(model->tokenizer), rows = b->g->n_vocab;
    kvt_view id = take(b, KVT_DS_LOGIT_ID, 0), logp = take(b, KVT_DS_LOGIT_LOGP, 0);
    kvt_view nll = take(b, KVT_DS_LOGIT_NLL, 0), entropy = take(b, KVT_DS_LOGIT_ENTROPY, 0);
    kvt_view token = take(b, KVT_DS_TOKEN_ID, 0);
    for (int64_t m = 0; m < b->M; m++) {
        const double *z = b->n->logit + (b->N + m - 1) * rows;
        double top = -INFINITY, sum = 0, e = 0;
        for (int64_t v = 0; v < V; v++)
            top = fmax(top, z[v]);
        for (int64_t v = 0; v < V; v++)
            sum += exp(z[v] - top);
        for (int64_t v = 0; v < V; v++)
            e -= exp(z[v] - top) / sum * (z[v] - top - log(sum));
        int32_t got = ((const int32_t *)token.data)[b->N + m];
        same("nll", 0, m, ((const float *)nll.data)[m], -(z[got] - top - log(sum)), 2e-4);
        same("entropy", 0, m, ((const float *)entropy.data)[m], e, 2e-4);
        for (int i = 0; i < 64; i++) {
            int32_t v = ((const int32_t *)id.data)[m * 64 + i];
            same("logp", 0, i, ((const float *)logp.data)[m * 64 + i], z[v] - top - log(sum),
                 2e-4);
        }
    }
    kvt_view *all[] = {&id, &logp, &nll, &entropy, &token};
    for (int i = 0; i < CHECK_COUNT(all); i++)
        kvt_trace_done(b->t, all[i]);
}

static const struct way {
    const char *name;
    kvt_level level;
    const char *layers, *response;
    int64_t max_new, block_limit;
    bool all, compress;
} ways[] = {
    {"replay", KVT_REPLAY, NULL, NULL, 30, -1, false, false},
    {"full", KVT_FULL, NULL, NULL, 30, -1, true, false},
    {"full, given response of more than a tile", KVT_FULL, NULL, text, -1, -1, true, false},
    {"two layers", KVT_FULL, "1,3", NULL, 7, -1, false, false},
    {"long blocks", KVT_FULL, NULL, text, -1, 30000, false, true},
    {"one block", KVT_FULL, NULL, text, -1, 1, false, false},
    {"one new token", KVT_REPLAY, NULL, NULL, 1, -1, false, true},
};

static void traces_hold_what_was_computed(void **state)
{
    const struct way *w = *state;
    kvt_capture_spec s = spec_to("way.h5");
    s.level = w->level;
    s.layers = w->layers;
    s.response = w->response;
    s.max_new = w->max_new;
    s.block_limit = w->block_limit;
    s.queries_all = w->all;
    s.compress = w->compress;
    run_ok(&s);
    both b = both_open(folder_path("way.h5"));
    assert_int_equal(b.i->n_layer, w->layers ? 2 : 4);
    assert_int_equal(b.i->n_query, w->all ? b.T : 64 + b.M);
    assert_int_equal(b.i->facts.block_tokens > 64, w->block_limit > 0);
    for (int l = 0; l < b.i->n_layer; l++) {
        int m = b.i->layer_id[l];
        check_sums(&b, l, m);
        check_blocks(&b, l, m);
        check_vectors(&b, l, m);
        check_moments(&b, l, m);
        check_norms(&b, l, m);
        if (w->level == KVT_FULL)
            check_hidden(&b, l, m);
    }
    check_logits(&b);
    both_close(&b);
}

/* ---- levels, facts, text -------------------------------------------------------------------
 */

static void levels_hold_their_datasets(void **state)
{
    (void)state;
    for (int level = KVT_SUMMARY; level <= KVT_TRAIN; level++) {
        kvt_err err;
        kvt_trace *t;
        kvt_capture_spec s = spec_to("level.h5");
        s.level = (kvt_level)level;
        s.max_new = 3;
        run_ok(&s);
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        const kvt_trace_info *i = kvt_trace_info_of(t);
        assert_int_equal(i->facts.level, level);
        assert_int_equal(i->has[KVT_DS_KEYS], level != KVT_SUMMARY);
        assert_int_equal(i->has[KVT_DS_QUERIES], level == KVT_REPLAY || level == KVT_FULL);
        assert_int_equal(i->has[KVT_DS_ROWS], level == KVT_REPLAY || level == KVT_FULL);
        assert_int_equal(i->has[KVT_DS_HIDDEN], level == KVT_FULL);
        assert_int_equal(i->has[KVT_DS_COL_SUM], level != KVT_TRAIN);
        kvt_trace_close(t);
    }
}

static void text_is_kept_or_left_out(void **state)
{
    kvt_err err;
    (void)state;
    for (int no = 0; no < 2; no++) {
        kvt_trace *t;
        kvt_view flag;
        const uint8_t *bytes;
        int64_t n = 0, all = 0;
        kvt_capture_spec s = spec_to("text.h5");
        s.no_text = no;
        s.raw = true;
        s.response = " And then?";
        run_ok(&s);
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        const kvt_trace_info *i = kvt_trace_info_of(t);
        assert_int_equal(i->has[KVT_DS_TEXT_BYTES], !no);
        assert_int_equal(i->has[KVT_DS_TEXT_RAW], !no);
        assert_string_equal(i->facts.token.stop_reason, "forced");
        CHECK_OK(kvt_trace_read(t, KVT_DS_TOKEN_FLAG, 0, &flag, &err), &err);
        for (int64_t k = 0; k < i->n_token; k++) {
            bool response = ((const uint8_t *)flag.data)[k] & KVT_TOKEN_RESPONSE;
            assert_int_equal(response, k >= i->facts.token.n_prompt);
            CHECK_OK(kvt_trace_token_text(t, k, &bytes, &n, &err), &err);
            if (!no && n)
                assert_memory_equal(bytes,
                                    all < (int64_t)sizeof text - 1
                                        ? text + all
                                        : &" And then?"[all - (int64_t)(sizeof text - 1)],
                                    (size_t)n);
            all += n;
        }
        if (!no)
            assert_int_equal(all, sizeof text - 1 + strlen(" And then?"));
        kvt_trace_done(t, &flag);
        kvt_trace_close(t);
    }
}

/* design.md 8 */
static void threads_change_no_bytes(void **state)
{
    static const int threads[] = {1, 2, 8};
    char content[3][KVT_DIGEST_TEXT];
    (void)state;
    for (int forced = 0; forced < 2; forced++) {
        for (int i = 0; i < 3; i++) {
            kvt_err err;
            kvt_trace *t;
            kvt_capture_spec s = spec_to("threads.h5");
            s.level = KVT_FULL;
            s.response = forced ? text : NULL;
            ctx.n_thread = threads[i];
            run_ok(&s);
            CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
            snprintf(content[i], sizeof content[i], "%s", kvt_trace_info_of(t)->digest);
            kvt_trace_close(t);
        }
        assert_string_equal(content[0], content[1]);
        assert_string_equal(content[0], content[2]);
    }
    ctx.n_thread = 0;
}

static void sampling_follows_the_seed(void **state)
{
    char said[3][4096];
    (void)state;
    for (int i = 0; i < 3; i++) {
        kvt_capture_spec s = spec_to("seed.h5");
        s.temperature = 1.0;
        s.top_p = 0.9;
        ctx.seed = i == 2 ? 8 : 7;
        kvt_capture_counts c = run_ok(&s);
        snprintf(said[i], sizeof said[i], "%s", c.text);
    }
    ctx.seed = 0;
    assert_string_equal(said[0], said[1]);
    assert_true(strcmp(said[0], said[2]) != 0);
}

/* What is recorded of an answer does not change the answer. */
static void sampling_does_not_follow_the_options(void **state)
{
    char said[4][4096];
    (void)state;
    for (int i = 0; i < 4; i++) {
        kvt_capture_spec s = spec_to("options.h5");
        s.temperature = 1.0;
        s.level = i == 1 ? KVT_FULL : KVT_REPLAY;
        s.layers = i == 2 ? "1" : NULL;
        s.compress = i == 3;
        s.delay = 40 + i;
        kvt_capture_counts c = run_ok(&s);
        snprintf(said[i], sizeof said[i], "%s", c.text);
        assert_string_equal(said[i], said[0]);
    }
}

static void each_is_ok(void *user, const kvt_finding *f)
{
    (void)user;
    if (!f->ok)
        fail_msg("%s: %s", f->check, f->text);
}

/* Prompts of one token and more, no response or one: what is written passes every check. */
static void very_short_prompts_run(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 6; n++) {
        char prompt[8];
        kvt_capture_spec s = spec_to("short.h5");
        snprintf(prompt, sizeof prompt, "%.*s", (int)n, "abcdef");
        s.prompt = prompt;
        s.raw = true;
        s.level = KVT_FULL;
        s.max_new = (int64_t)n % 3;
        run_ok(&s);
        kvt_err err;
        kvt_trace *t;
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        CHECK_OK(kvt_trace_check(t, each_is_ok, NULL, &err), &err);
        kvt_trace_close(t);
    }
}

/* ---- plans ---------------------------------------------------------------------------------
 */

static void plans_say_the_bytes(void **state)
{
    (void)state;
    for (int level = KVT_SUMMARY; level <= KVT_TRAIN; level++) {
        kvt_err err;
        kvt_capture_plan plan;
        kvt_capture_spec s = spec_to("plan.h5");
        s.level = (kvt_level)level;
        s.response = text;
        CHECK_OK(kvt_capture_planned(model, &s, &plan, &ctx, &err), &err);
        kvt_capture_counts c = run_ok(&s);
        assert_int_equal(plan.n_prompt, c.n_prompt);
        assert_int_equal(plan.n_response, c.n_response);
        /* Exact but for the headers, which the estimate counts as 64 KiB. */
        CHECK_NEAR((double)plan.file_bytes, (double)file_size(s.out), 65536.0);
        assert_true(plan.seconds > 0 && plan.memory_bytes > plan.weight_bytes);
    }
}

/* ---- sets ----------------------------------------------------------------------------------
 */

static void write_text(const char *path, const char *what)
{
    kvt_err err;
    CHECK_OK(file_write(path, what, strlen(what), &err), &err);
}

static int64_t changed(const char *path) /* when, in ns */
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
}

static void sets_resume(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("set");
    char list[1024], one[1200];
    (void)state;
    snprintf(list, sizeof list, "%s", folder_path("set.jsonl"));
    snprintf(one, sizeof one, "%s/one.h5", s.out);
    write_text(list, "{\"id\":\"one\",\"prompt\":\"Why so?\",\"spans\":{\"question\":\"so\"}}\n"
                     "{\"id\":\"two\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
                     "{\"role\":\"assistant\",\"content\":\"Yes?\"},"
                     "{\"role\":\"user\",\"content\":\"Go on.\"}],\"max_new\":2}\n"
                     "{\"id\":\"three\",\"prompt\":\"Count.\",\"response\":\"One two.\"}\n");
    s.prompt = NULL;
    s.prompts = list;
    s.max_new = 4;
    s.force = false;
    CHECK_OK(kvt_capture(model, &s, &c, &ctx, &err), &err);
    assert_int_equal(c.captured, 3);
    int64_t was = changed(one);
    CHECK_OK(kvt_capture(model, &s, &c, &ctx, &err), &err);
    assert_int_equal(c.captured, 0);
    assert_int_equal(c.skipped, 3);
    assert_int_equal(changed(one), was);
    /* Another option: an error for each, and with --force new files. */
    s.delay = 41;
    CHECK_FAILS(kvt_capture(model, &s, &c, &ctx, &err), KVT_USAGE, "none of 3 prompts", &err);
    assert_int_equal(c.failed, 3);
    s.force = true;
    CHECK_OK(kvt_capture(model, &s, &c, &ctx, &err), &err);
    assert_int_equal(c.captured, 3);
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, one, 0, &err), &err);
    const kvt_trace_facts *f = &kvt_trace_info_of(t)->facts;
    assert_int_equal(f->n_span, 1);
    assert_string_equal(f->span[0].name, "question");
    assert_true(f->span[0].begin < f->span[0].end && f->span[0].end < f->token.n_prompt);
    kvt_trace_close(t);
}

static char heard[4096], warned[4096];

static void hear(void *user, kvt_log_level level, const char *area, const char *what)
{
    (void)user, (void)area;
    if (level == KVT_LOG_ERROR)
        snprintf(heard, sizeof heard, "%s", what);
    if (level == KVT_LOG_WARN)
        snprintf(warned, sizeof warned, "%s", what);
}

static void a_bad_prompt_does_not_stop_the_others(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("partly");
    char list[1024];
    buf line;
    (void)state;
    snprintf(list, sizeof list, "%s", folder_path("partly.jsonl"));
    buf_init(&line, 1 << 16);
    buf_text(&line, "{\"id\":\"long\",\"prompt\":\"");
    for (int i = 0; i < 700; i++)
        buf_text(&line, "a b c d ");
    buf_text(&line, "\"}\n{\"id\":\"good\",\"prompt\":\"Yes.\"}\n");
    write_text(list, buf_get(&line));
    buf_fini(&line);
    s.prompt = NULL;
    s.prompts = list;
    s.max_new = 2;
    ctx.log = hear;
    CHECK_FAILS(kvt_capture(model, &s, &c, &ctx, &err), KVT_PARTLY, "1 of 2 prompts failed",
                &err);
    ctx.log = NULL;
    assert_int_equal(c.captured, 1);
    assert_non_null(strstr(heard, "prompt 'long': the prompt has "));
    assert_non_null(strstr(heard, "the model's context 600"));
    assert_int_equal(folder_count(s.out), 1);
}

/* A span that the template trims away: its name stands in the error once. */
static void a_lost_span_is_told_once(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("trimmed");
    char list[1024];
    (void)state;
    snprintf(list, sizeof list, "%s", folder_path("trimmed.jsonl"));
    write_text(list, "{\"id\":\"a\",\"prompt\":\"  Yes.\",\"spans\":{\"gone\":[0,2]}}\n");
    s.prompt = NULL;
    s.prompts = list;
    s.chat = "gemma";
    ctx.log = hear;
    CHECK_FAILS(kvt_capture(model, &s, &c, &ctx, &err), KVT_USAGE, "none of 1 prompts", &err);
    ctx.log = NULL;
    const char *once = strstr(heard, "prompt 'a': span 'gone': bytes 0 to 2 are not in");
    assert_non_null(once);
    assert_null(strstr(once + 20, "gone"));
}

/* All that is said in a capture of `prompt`, by a model with these options. */
static void warnings(const gguf_make_options *o, const char *prompt, const char *response,
                     bool raw)
{
    kvt_err err;
    kvt_model *m;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("warned.h5");
    assert_true(gguf_make_llama(folder_path("other.gguf"), o));
    CHECK_OK(kvt_model_open(&m, folder_path("other.gguf"), NULL, &ctx, &err), &err);
    s.out = folder_path("warned.h5");
    s.prompt = prompt;
    s.response = response;
    s.raw = raw;
    s.max_new = 2;
    warned[0] = 0;
    ctx.log = hear;
    CHECK_OK(kvt_capture(m, &s, &c, &ctx, &err), &err);
    ctx.log = NULL;
    kvt_model_close(m);
}

/* C049: a model without a template is run as with --raw, and says so. */
static void a_missing_template_is_told(void **state)
{
    gguf_make_options o = gguf_make_defaults();
    (void)state;
    warnings(&o, "Why?", NULL, false);
    assert_string_equal(warned, "");
    o.no_template = true;
    warnings(&o, "Why?", NULL, false);
    assert_non_null(strstr(warned, "the model file has no chat template"));
    assert_non_null(strstr(warned, "--chat NAME"));
    warnings(&o, "Why?", NULL, true);
    assert_string_equal(warned, "");
}

static void lost_bytes_are_told(void **state)
{
    gguf_make_options o = gguf_make_defaults();
    (void)state;
    o.no_byte = '~';
    warnings(&o, "A tilde", "or two", false);
    assert_string_equal(warned, "");
    warnings(&o, "A ~ tilde~", "or two", false);
    assert_non_null(strstr(warned, "of the prompt"));
    assert_non_null(strstr(warned, "no token for 2 bytes"));
    warnings(&o, "A tilde", "or ~", false);
    assert_non_null(strstr(warned, "of the response"));
    assert_non_null(strstr(warned, "no token for 1 bytes"));
}

/* A command line may hold the prompt: without the text it is left out, too. */
static void no_text_means_no_command(void **state)
{
    (void)state;
    for (int no = 0; no < 2; no++) {
        kvt_err err;
        kvt_trace *t;
        kvt_capture_spec s = spec_to("command.h5");
        s.command = "kvt capture --prompt secret";
        s.no_text = no;
        run_ok(&s);
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        assert_string_equal(kvt_trace_info_of(t)->facts.command, no ? "" : s.command);
        kvt_trace_close(t);
    }
}

/* The model's template has a digest; one of ours, asked for by name, has no text. */
static void only_the_models_template_has_a_digest(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        kvt_err err;
        kvt_trace *t;
        kvt_capture_spec s = spec_to("named.h5");
        s.chat = named ? "gemma" : NULL;
        run_ok(&s);
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        const kvt_token_info *i = &kvt_trace_info_of(t)->facts.token;
        assert_int_equal(strlen(i->template_digest), named ? 0 : KVT_DIGEST_TEXT - 1);
        if (named)
            assert_string_equal(i->template_name, "gemma");
        kvt_trace_close(t);
    }
}

/* ---- what goes wrong -----------------------------------------------------------------------
 */

static const struct wrong {
    const char *name, *prompt, *part;
    kvt_code code;
    const char *layers, *out, *chat;
} wrongs[] = {
    {"empty prompt", "", "the prompt is empty", KVT_USAGE, NULL, "w.h5", NULL},
    {"not UTF-8", "abc\xff", "not UTF-8: byte 3", KVT_FORMAT, NULL, "w.h5", NULL},
    {"no such layer", "Hi", "layers", KVT_USAGE, "0-9", "w.h5", NULL},
    {"no such template", "Hi", "chatty", KVT_USAGE, NULL, "w.h5", "chatty"},
    {"no such folder", "Hi", "nowhere", KVT_IO, NULL, "nowhere/w.h5", NULL},
};

static void mistakes_are_told(void **state)
{
    const struct wrong *w = *state;
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to(w->out);
    s.prompt = w->prompt;
    s.layers = w->layers;
    s.chat = w->chat;
    kvt_code code = kvt_capture(model, &s, &c, &ctx, &err);
    if (w->code == KVT_IO && code == KVT_NOTFOUND)
        code = KVT_IO;
    CHECK_FAILS(code, w->code, w->part, &err);
    assert_false(file_exists(s.out));
}

static bool stop_in_decode(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user, (void)total;
    return !(strcmp(what, "decode") == 0 && done == 3);
}

static bool stop_in_write(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user, (void)total;
    return !(strcmp(what, "write") == 0 && done == 1);
}

static void a_stop_leaves_nothing_half_written(void **state)
{
    bool (*stops[])(void *, const char *, int64_t, int64_t) = {stop_in_decode, stop_in_write};
    (void)state;
    for (int i = 0; i < 2; i++) {
        kvt_err err;
        kvt_capture_counts c;
        kvt_capture_spec s = spec_to("stopped.h5");
        int before = folder_count(folder_name);
        ctx.progress = stops[i];
        CHECK_FAILS(kvt_capture(model, &s, &c, &ctx, &err), KVT_STOPPED, NULL, &err);
        ctx.progress = NULL;
        assert_false(file_exists(s.out));
        assert_int_equal(folder_count(folder_name), before); /* no temporary file either */
    }
}

static void a_model_must_be_one(void **state)
{
    kvt_err err;
    kvt_model *m;
    (void)state;
    CHECK_FAILS(kvt_model_open(&m, folder_path("none.gguf"), NULL, &ctx, &err), KVT_NOTFOUND,
                "none.gguf", &err);
    write_text(folder_path("text.gguf"), "this is no model");
    CHECK_FAILS(kvt_model_open(&m, folder_path("text.gguf"), NULL, &ctx, &err), KVT_FORMAT,
                "text.gguf", &err);
    CHECK_FAILS(kvt_model_open(&m, folder_name, NULL, &ctx, &err), KVT_FORMAT, "folder", &err);
    CHECK_FAILS(kvt_model_open(&m, folder_path("tiny.gguf"),
                               &(kvt_model_options){.device = "cuda:0"}, &ctx, &err),
                KVT_DEVICE, "cuda:0", &err);
}

/* Every allocation fails in turn: an error, nothing leaked (the sanitizers say), no file. */
static void short_memory_is_an_error(void **state)
{
    int64_t n = 1;
    (void)state;
    for (;; n += 1 + n / 4) {
        kvt_err err;
        kvt_capture_counts c;
        kvt_capture_spec s = spec_to("memory.h5");
        s.max_new = 2;
        s.prompt = "Hi";
        kvt_alloc_fail_at(n, true);
        kvt_code code = kvt_capture(model, &s, &c, &ctx, &err);
        kvt_alloc_fail_at(0, false);
        if (code == KVT_OK)
            break;
        if (code != KVT_NOMEM)
            fail_msg("allocation %lld: expected NOMEM, got %s: %s", (long long)n,
                     kvt_code_name(code), err.text);
        assert_false(file_exists(s.out));
    }
    assert_true(n > 20);
}

/* C076: memory that is short once costs speed, not the trace: the engine goes on with smaller
 * tiles, or says so. */
static void short_memory_once_is_got_over(void **state)
{
    int64_t n = 1, ok = 0;
    (void)state;
    for (int last = 0; !last; n += 1 + n / 6) {
        kvt_err err;
        kvt_capture_counts c;
        kvt_trace *t;
        kvt_capture_spec s = spec_to("once.h5");
        s.max_new = 2;
        (void)kvt_alloc_count();
        kvt_alloc_fail_at(n, false);
        kvt_code code = kvt_capture(model, &s, &c, &ctx, &err);
        last = kvt_alloc_count() < n;
        kvt_alloc_fail_at(0, false);
        if (code) {
            assert_int_equal(code, KVT_NOMEM);
            continue;
        }
        ok += !last;
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        CHECK_OK(kvt_trace_check(t, each_is_ok, NULL, &err), &err);
        kvt_trace_close(t);
    }
    assert_true(ok > 2);
}

int main(void)
{
    static struct CMUnitTest tests[64];
    int n = 0;
    const struct CMUnitTest rest[] = {
        cmocka_unit_test(levels_hold_their_datasets),
        cmocka_unit_test(text_is_kept_or_left_out),
        cmocka_unit_test(threads_change_no_bytes),
        cmocka_unit_test(sampling_follows_the_seed),
        cmocka_unit_test(sampling_does_not_follow_the_options),
        cmocka_unit_test(a_missing_template_is_told),
        cmocka_unit_test(a_lost_span_is_told_once),
        cmocka_unit_test(lost_bytes_are_told),
        cmocka_unit_test(no_text_means_no_command),
        cmocka_unit_test(only_the_models_template_has_a_digest),
        cmocka_unit_test(very_short_prompts_run),
        cmocka_unit_test(plans_say_the_bytes),
        cmocka_unit_test(sets_resume),
        cmocka_unit_test(a_bad_prompt_does_not_stop_the_others),
        cmocka_unit_test(a_stop_leaves_nothing_half_written),
        cmocka_unit_test(a_model_must_be_one),
        cmocka_unit_test(short_memory_is_an_error),
        cmocka_unit_test(short_memory_once_is_got_over),
    };
    CHECK_ROWS(tests, &n, ways, traces_hold_what_was_computed);
    CHECK_ROWS(tests, &n, wrongs, mistakes_are_told);
    for (int i = 0; i < CHECK_COUNT(rest); i++)
        tests[n++] = rest[i];
    folder_new();
    int failed = _cmocka_run_group_tests("capture", tests, (size_t)n, open_model, close_model);
    folder_drop(folder_name);
    return failed;
}
