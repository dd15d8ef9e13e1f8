/* test_capture.c - whole captures of tiny random models: every dataset against a forward pass
 * in double, with layers left out, blocks, given and generated responses, of every
 * architecture and from weights of several types. */
#include <math.h>

#include "base/half.h"
#include "kvt/arena.h"
#include "tests/naive.h"
#include "tiny_capture.h"

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
    const kvt_matrix *matrix = &model->weights->layer[m].wo;
    float *room = malloc((size_t)(E * H * D) * sizeof *room);
    const float *wo = matrix_rows(matrix, 0, E, room);
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
    free(room);
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
    int64_t delay; /* 0: spec_to's */
} ways[] = {
    {"replay", KVT_REPLAY, NULL, NULL, 30, -1, false, false, 0},
    {"full", KVT_FULL, NULL, NULL, 30, -1, true, false, 0},
    {"full, given response of more than a tile", KVT_FULL, NULL, text, -1, -1, true, false, 0},
    {"two layers", KVT_FULL, "1,3", NULL, 7, -1, false, false, 0},
    {"long blocks", KVT_FULL, NULL, text, -1, 30000, false, true, 0},
    {"one block", KVT_FULL, NULL, text, -1, 1, false, false, 0},
    {"one new token", KVT_REPLAY, NULL, NULL, 1, -1, false, true, 0},
    {"delay beyond the window", KVT_REPLAY, NULL, NULL, 30, -1, true, false, 60},
    {"every query is late", KVT_REPLAY, NULL, NULL, 30, -1, true, false, 1},
};

static void check_all(const both *b, kvt_level level)
{
    for (int l = 0; l < b->i->n_layer; l++) {
        int m = b->i->layer_id[l];
        check_sums(b, l, m);
        check_blocks(b, l, m);
        check_vectors(b, l, m);
        check_moments(b, l, m);
        check_norms(b, l, m);
        if (level == KVT_FULL)
            check_hidden(b, l, m);
    }
    check_logits(b);
}

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
    s.delay = w->delay ? w->delay : s.delay;
    run_ok(&s);
    both b = both_open(folder_path("way.h5"));
    assert_int_equal(b.i->n_layer, w->layers ? 2 : 4);
    assert_int_equal(b.i->n_query, w->all ? b.T : 64 + b.M);
    assert_int_equal(b.i->facts.block_tokens > 64, w->block_limit > 0);
    check_all(&b, w->level);
    both_close(&b);
}

static const struct kind {
    const char *name, *arch;
    int layers, kv_heads, window, type;
} kinds[] = {
    {"qwen2", "qwen2", 4, 3, 0, QUANT_F32},
    {"qwen3", "qwen3", 4, 3, 0, QUANT_F32},
    {"gemma3", "gemma3", 7, 1, 50, QUANT_F32},
    {"llama of Q8_0", "llama", 4, 3, 0, QUANT_Q8_0},
    {"qwen2 of BF16", "qwen2", 4, 3, 0, QUANT_BF16},
    {"gemma3 of Q4_0", "gemma3", 7, 1, 50, QUANT_Q4_0},
};

static void every_architecture_and_type(void **state)
{
    const struct kind *k = *state;
    model_make_options o = model_make_of(k->arch);
    kvt_model *kept = model;
    kvt_err err;
    o.n_layer = k->layers;
    o.n_head = 6;
    o.n_kv_head = k->kv_heads;
    o.head_dim = 16;
    o.n_hidden = 64;
    o.n_ff = 128;
    o.n_context = 600;
    o.window = k->window;
    o.type = k->type;
    o.spread = 0.1f;
    assert_true(model_make_gguf(folder_path("kind.gguf"), &o));
    CHECK_OK(kvt_model_open(&model, folder_path("kind.gguf"), NULL, &ctx, &err), &err);
    assert_int_equal(model->weights->layer[0].wo.type, k->type);
    for (int given = 0; given < 2; given++) {
        kvt_capture_spec s = spec_to("kind.h5");
        s.level = KVT_FULL;
        s.response = given ? text : NULL;
        s.max_new = given ? -1 : 30;
        s.queries_all = true;
        run_ok(&s);
        both b = both_open(folder_path("kind.h5"));
        assert_string_equal(b.i->facts.model.arch, k->arch);
        assert_int_equal(b.i->n_layer, k->layers);
        check_all(&b, KVT_FULL);
        CHECK_OK(kvt_trace_check(b.t, each_is_ok, NULL, &err), &err);
        both_close(&b);
    }
    kvt_model_close(model);
    model = kept;
}

int main(void)
{
    static struct CMUnitTest tests[64];
    int n = 0;
    CHECK_ROWS(tests, &n, ways, traces_hold_what_was_computed);
    CHECK_ROWS(tests, &n, kinds, every_architecture_and_type);
    folder_new();
    int failed = _cmocka_run_group_tests("capture", tests, (size_t)n, open_model, close_model);
    folder_drop(folder_name);
    return failed;
}
