/* test_policies_probe.c - laws of the policies that read a probe, hook by hook on lanes made by
 * hand: policies-learned.md 16.2, 3, 4, 8 and 11, and the edges of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/pieces.h"
#include "../toy.h"

enum { N_MAX = 128 };

static kvt_arena *memory;

/* A policy with its parameters, and one lane's results. */
typedef struct run {
    const kvt_policy *p;
    void *params;
    float score[N_MAX], mark[N_MAX];
    bool pinned[N_MAX], keep[N_MAX];
    kvt_geometry geometry;
    kvt_sequence seq;
    kvt_probe probe;
    kvt_lane lane;
} run;

static run *run_of(const char *name, const char *params, int64_t n)
{
    kvt_err err;
    run *r = kvt_arena_get(memory, sizeof *r);
    r->p = kvt_policy_find(name);
    assert_non_null(r->p);
    r->params = kvt_arena_get(memory, r->p->params_size);
    kvt_param_defaults(r->p->params, r->params);
    if (*params && kvt_param_parse(r->p->params, r->params, params, &err))
        fail_msg("%s", err.text);
    r->geometry = (kvt_geometry){.n_head = 2, .n_kv_head = 1, .attn_scale = 1};
    r->seq = (kvt_sequence){.n_prompt = n, .look_until = n, .geometry = &r->geometry};
    r->lane = (kvt_lane){.n_slot = n,
                         .now = n - 1,
                         .seq = &r->seq,
                         .mark = r->mark,
                         .probe = &r->probe,
                         .scratch = memory};
    return r;
}

static void score(run *r)
{
    memset(r->score, 0, sizeof r->score);
    memset(r->pinned, 0, sizeof r->pinned);
    memset(r->mark, 0, sizeof r->mark);
    if (r->p->step)
        r->p->step(r->params, &r->lane);
    r->p->score(r->params, r->score, r->pinned, &r->lane);
}

/* What a budget keeps; r->keep. */
static void keep(run *r, int64_t budget)
{
    int64_t n_pinned = 0;
    score(r);
    for (int64_t s = 0; s < r->lane.n_slot; s++)
        n_pinned += r->pinned[s];
    kvt_keep_best(r->keep, r->score, r->pinned, r->lane.n_slot, budget - n_pinned, memory);
}

static bool fits(const run *r, int64_t budget)
{
    char why[160] = "";
    bool ok = r->p->fits(r->params, budget, r->seq.n_prompt, why, sizeof why);
    assert_true(ok || *why);
    return ok;
}

static float *random_rows(int64_t n, uint64_t seed)
{
    float *x = kvt_arena_array(memory, n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(toy_mix(seed * 1000003 + (uint64_t)i) % 1009) / 65536;
    return x;
}

/* ---- 16.2: a perfect prediction is the oracle ----------------------------------------------
 */

static void perfect_prediction_is_the_oracle(void **state)
{
    (void)state;
    enum { N = 90, M = 37, H = 3 };
    kvt_view rows = kvt_view_of(random_rows(H * M * N, 5), KVT_F32, KVT_SHAPE("HQS", H, M, N));
    run *oracle = run_of("oracle", "", N);
    oracle->lane.future = rows;
    score(oracle);
    static const char *const names[] = {"lookaheadkv", "judgeq", "suffix", "lookahead-oracle"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        run *plain = run_of(names[i], "pool=0", N), *pooled = run_of(names[i], "", N);
        plain->probe.attn = plain->lane.future = rows;
        pooled->probe.attn = pooled->lane.future = rows;
        score(plain);
        score(pooled);
        assert_memory_equal(plain->score, oracle->score, N * sizeof(float));
        assert_memory_not_equal(pooled->score, oracle->score, N * sizeof(float));
    }
}

/* ---- 16.11: five reductions, five answers --------------------------------------------------
 */

enum { T = 4 };
/* Two query heads, two rows: token 0 has the largest mean, token 1 the largest mean of a head,
 * token 2 the largest single value and the largest sum of head 1. */
static const float apart[2][2][T] = {
    {{0.20f, 0.35f, 0.05f, 0.40f}, {0.20f, 0.35f, 0.05f, 0.40f}},
    {{0.20f, 0.01f, 0.45f, 0.34f}, {0.20f, 0.01f, 0.02f, 0.77f}}};

static int64_t best(const run *r, int64_t n)
{
    int64_t at = 0;
    for (int64_t s = 1; s < n; s++)
        at = r->score[s] > r->score[at] ? s : at;
    return at;
}

static void reductions_differ(void **state)
{
    (void)state;
    enum { LAST = T - 1 }; /* the rest of the mass is no candidate */
    kvt_view rows = kvt_view_of(apart, KVT_F32, KVT_SHAPE("HQS", 2, 2, T));
    run *mean = run_of("lookaheadkv", "pool=0", T);
    run *most = run_of("lookaheadkv", "pool=0,reduce=max", T);
    mean->probe.attn = most->probe.attn = rows;
    score(mean);
    score(most);
    assert_int_equal(best(mean, LAST), 0);
    assert_int_equal(best(most, LAST), 1);
    /* SpecKV: the probe's rows, behind 33 prompt rows that say nothing */
    static float none[2 * 33 * N_MAX], wide[2][2][N_MAX];
    run *joint = run_of("speckv", "pool=0", 40);
    for (int h = 0; h < 2; h++)
        for (int q = 0; q < 2; q++)
            memcpy(wide[h][q], apart[h][q], sizeof apart[h][q]);
    joint->lane.attn = kvt_view_of(none, KVT_F32, KVT_SHAPE("HQS", 2, 33, 40));
    joint->probe.attn = kvt_view_of(wide, KVT_F32, KVT_SHAPE("HQS", 2, 2, N_MAX));
    joint->probe.attn.dim[2] = 40;
    score(joint);
    assert_int_equal(best(joint, LAST), 2);
    /* LAQ: logits whose softmax these rows are, one lane for each query head */
    static const float unit[T][T] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    static const int64_t want[2] = {1, 2};
    for (int h = 0; h < 2; h++) {
        float query[2][T];
        for (int q = 0; q < 2; q++)
            for (int s = 0; s < T; s++)
                query[q][s] = logf(apart[h][q][s]);
        run *head = run_of("laq", "pool=0,mask=causal", T);
        head->lane.keys = kvt_view_of(unit, KVT_F32, KVT_SHAPE("SD", T, T));
        head->probe.queries = kvt_view_of(query, KVT_F32, KVT_SHAPE("HQD", 1, 2, T));
        score(head);
        assert_int_equal(best(head, LAST), want[h]);
    }
}

/* ---- 16.3: LAQ's mask ----------------------------------------------------------------------
 */

static run *laq_run(const char *name, const char *params, int64_t n, int64_t m,
                    const float *key, const float *query, int64_t dim)
{
    run *r = run_of(name, params, n);
    r->lane.keys = kvt_view_of(key, KVT_F32, KVT_SHAPE("SD", n, dim));
    r->probe.queries = kvt_view_of(query, KVT_F32, KVT_SHAPE("HQD", 1, m, dim));
    return r;
}

/* Rows 1..m-1 are zero queries, flat rows of a known height: what is left is row 0, and its two
 * masks differ by one factor in front of the hidden columns. */
static void masks_differ_by_a_factor(void **state)
{
    (void)state;
    enum { N = 50, M = 6, D = 4 };
    float *key = random_rows(N * D, 1), query[M * D] = {0};
    for (int64_t i = 0; i < N * D; i++)
        key[i] *= 100;
    for (int d = 0; d < D; d++)
        query[d] = (float)d - 1.2f;
    run *official = laq_run("laq", "pool=0", N, M, key, query, D);
    run *causal = laq_run("laq", "pool=0,mask=causal", N, M, key, query, D);
    score(official);
    score(causal);
    double factor = 0;
    for (int j = 0; j < N; j++) {
        double a = (double)official->score[j], b = (double)causal->score[j];
        for (int i = 1; i < M; i++) {
            a -= j <= N - M + i ? 1.0 / (N - M + i + 1) : 0;
            b -= 1.0 / N;
        }
        if (j == 0)
            factor = a / b;
        if (j <= N - M)
            assert_true(fabs(a / b - factor) < 1e-4);
        else
            assert_true(fabs(a) < 1e-6 && b > 1e-3); /* hidden */
    }
    assert_true(factor > 1.01 && factor < 2);
    official = laq_run("laq", "", N, 1, key, query, D); /* one row: nothing is hidden */
    causal = laq_run("laq", "mask=causal", N, 1, key, query, D);
    score(official);
    score(causal);
    assert_memory_equal(official->score, causal->score, N * sizeof(float));
}

/* In a layer with a window of 8 the draft row at N + i sees N + i - 7 .. N - 1. */
static void drafts_see_a_sliding_window(void **state)
{
    (void)state;
    enum { N = 40, M = 3, D = 2 };
    float key[N * D] = {0}, query[M * D] = {0};
    run *r = laq_run("laq", "pool=0,mask=causal", N, M, key, query, D);
    r->geometry.window[0] = 8;
    score(r);
    for (int j = 0; j < N; j++) {
        double want = 0;
        for (int i = 0; i < M; i++)
            want += j >= N + i - 7 ? 1.0 / (7 - i) : 0;
        assert_true(fabs((double)r->score[j] - want) < 1e-6);
    }
}

static void laq_plus_keeps_its_window(void **state)
{
    (void)state;
    enum { N = 30, M = 2, D = 2 };
    float *key = random_rows(N * D, 7), *query = random_rows(M * D, 8);
    float *last = random_rows(20 * D, 9);
    run *r = laq_run("laq-plus", "", N, M, key, query, D);
    r->lane.queries = kvt_view_of(last, KVT_F32, KVT_SHAPE("HQD", 1, 20, D));
    assert_false(fits(r, 7));
    assert_true(fits(r, 8));
    assert_int_equal(r->p->window(r->params, N), 8);
    keep(r, 10);
    for (int s = 0; s < N; s++)
        assert_true(r->pinned[s] == (s >= N - 8) && isfinite(r->score[s]));
    for (int s = 0; s < 8; s++)
        assert_true(r->keep[N - 1 - s]);
    /* C005: not longer than the window, the latest are kept */
    r = laq_run("laq-plus", "", 8, M, key, query, D);
    r->lane.queries = kvt_view_of(last, KVT_F32, KVT_SHAPE("HQD", 1, 8, D));
    keep(r, 3);
    for (int s = 0; s < 8; s++)
        assert_int_equal(r->keep[s], s >= 5);
}

static void laq_is_by_query_head(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        bool by_head;
    } rows[] = {{"", true}, {"group=mean", false}, {"group=max", false}};
    static const char *const names[] = {"laq", "laq-plus"};
    for (size_t i = 0; i < 6; i++) {
        run *r = run_of(names[i % 2], rows[i / 2].params, 10);
        kvt_traits t = r->p->traits;
        r->p->vary(r->params, &t);
        assert_int_equal(t.by_query_head, rows[i / 2].by_head);
        assert_int_equal(t.exactness, KVT_BUDGET_EXACT);
    }
}

/* ---- 16.4: SpecKV --------------------------------------------------------------------------
 */

static run *speckv_run(const char *params, int64_t n, const float *rows, int64_t m)
{
    run *r = run_of("speckv", params, n);
    int64_t w = r->p->window(r->params, n);
    r->lane.attn = kvt_view_of(random_rows(2 * w * n, 21), KVT_F32, KVT_SHAPE("HQS", 2, w, n));
    r->probe.attn = kvt_view_of(rows, KVT_F32, KVT_SHAPE("HQS", 2, m, n));
    return r;
}

static void speckv_keeps_the_suffix(void **state)
{
    (void)state;
    enum { N = 80, M = 9 };
    float *rows = random_rows(2 * M * N, 20);
    run *r = speckv_run("", N, rows, M);
    assert_false(fits(r, 33));
    assert_true(fits(r, 34) && fits(r, N));
    for (int64_t budget = 34; budget <= N; budget++) {
        int64_t kept = 0;
        keep(r, budget);
        for (int s = 0; s < N; s++)
            kept += r->keep[s];
        assert_int_equal(kept, budget); /* 34: one is selected */
        for (int s = N - 33; s < N; s++)
            assert_true(r->keep[s]);
    }
    run *thin = speckv_run("", 33, rows, M); /* C005 */
    assert_true(fits(thin, 4));
    keep(thin, 4);
    for (int s = 0; s < 33; s++)
        assert_int_equal(thin->keep[s], s >= 29);
}

/* The first rows of a longer draft are the rows of a shorter one. */
static void speckv_cuts_the_draft(void **state)
{
    (void)state;
    enum { N = 60, M = 9, SHORT = 4 };
    float *rows = random_rows(2 * M * N, 30);
    for (int64_t i = 0; i < 2 * M * N; i++)
        rows[i] *= 4; /* above those of the prompt */
    static const char *const reduce[] = {"max", "mean"};
    for (int i = 0; i < 2; i++) {
        char text[40];
        snprintf(text, sizeof text, "tokens=%d,reduce=%s", SHORT, reduce[i]);
        run *cut = speckv_run(text, N, rows, M);
        run *all = speckv_run(strchr(text, ',') + 1, N, rows, M);
        run *few = speckv_run(strchr(text, ',') + 1, N, rows, M);
        few->probe.attn.dim[1] = SHORT;
        score(cut);
        score(all);
        score(few);
        assert_memory_equal(cut->score, few->score, N * sizeof(float));
        assert_memory_not_equal(cut->score, all->score, N * sizeof(float));
    }
}

/* ---- 16.8: KVzip ---------------------------------------------------------------------------
 */

enum { ZN = 20, ZD = 4, ZROWS = 23 }; /* one chunk: three rows of instruction, and itself */

static run *kvzip_run(const char *params, const float *key, const float *query)
{
    static const int32_t begin[1] = {0}, end[1] = {ZN}, from[1] = {3};
    static uint8_t flag[ZN] = {KVT_TOKEN_TEMPLATE, KVT_TOKEN_SYSTEM};
    static const float own[ZROWS * ZD], norm[ZROWS];
    run *r = run_of("kvzip", params, ZN);
    r->seq.flag = flag;
    r->lane.keys = kvt_view_of(key, KVT_F32, KVT_SHAPE("SD", ZN, ZD));
    r->probe.queries = kvt_view_of(query, KVT_F32, KVT_SHAPE("HQD", 2, ZROWS, ZD));
    r->probe.keys = kvt_view_of(own, KVT_F32, KVT_SHAPE("QD", ZROWS, ZD));
    r->probe.h_norm = kvt_view_of(norm, KVT_F32, KVT_SHAPE("Q", ZROWS));
    r->probe.n_segment = 1;
    r->probe.begin = begin, r->probe.end = end, r->probe.from = from;
    return r;
}

static int64_t selected(run *r, int64_t budget)
{
    const float *scores[1] = {r->score};
    const bool *pins[1] = {r->pinned};
    bool *keeps[1] = {r->keep};
    int64_t n = 0;
    memset(r->keep, 0, sizeof r->keep);
    score(r);
    r->p->select(r->params, keeps, &r->lane, 1, scores, pins, &budget);
    for (int s = 0; s < ZN; s++)
        n += r->keep[s];
    return n;
}

/* Zero queries: flat rows, the highest of them the first that counts. */
static void kvzip_constant_scores(void **state)
{
    (void)state;
    static const float zero[2 * ZROWS * ZD], key[ZN * ZD];
    run *r = kvzip_run("", key, zero);
    assert_int_equal(selected(r, 7), 7);
    for (int s = 0; s < ZN; s++) {
        assert_int_equal(r->keep[s], s < 7);
        assert_int_equal(r->pinned[s], s < 2);
        assert_true(s < 2 || fabs((double)r->score[s] - 1.0 / (ZN + 4)) < 1e-7);
    }
    r = kvzip_run("ties=drop", key, zero);
    assert_int_equal(selected(r, 7), 2); /* the prefix, nothing by score */
    r = kvzip_run("ties=drop,sinks=four", key, zero);
    assert_int_equal(selected(r, 7), 4); /* score 1 is above the threshold */
}

/* Instruction rows do not count; a row sees the repeated rows up to itself. */
static void kvzip_rows_that_count(void **state)
{
    (void)state;
    float query[2][ZROWS][ZD] = {{{0}}}, key[ZN][ZD] = {{0}};
    key[9][1] = 1;
    key[11][2] = 1;
    query[0][2][1] = 5;  /* the last of the instruction: token 9 */
    query[1][22][2] = 3; /* the last row: token 11 */
    run *r = kvzip_run("", &key[0][0], &query[0][0][0]);
    score(r);
    double flat = 1.0 / (ZN + 4), peak = exp(3) / (exp(3) + ZN - 1 + ZROWS);
    assert_true(fabs((double)r->score[9] - flat) < 1e-7);
    assert_true(fabs((double)r->score[11] - peak) < 1e-6);
}

static void kvzip_plus_weighs(void **state)
{
    (void)state;
    static const float zero[2 * ZROWS * ZD], key[ZN * ZD];
    float wo[2][ZN], norm[ZROWS];
    run *r = kvzip_run("plus=true", key, zero);
    for (int s = 0; s < ZN; s++) {
        wo[0][s] = 1 + (float)s;
        wo[1][s] = s == 5 ? 1000 : 0;
    }
    for (int i = 0; i < ZROWS; i++)
        norm[i] = i == 22 ? 0.5f : 2;
    r->lane.wo_l2 = kvt_view_of(wo, KVT_F32, KVT_SHAPE("HS", 2, ZN));
    r->probe.h_norm = kvt_view_of(norm, KVT_F32, KVT_SHAPE("Q", ZROWS));
    score(r);
    for (int s = 2; s < ZN; s++) { /* the last row is lower, its norm makes up for it */
        double weight = s == 5 ? 1000 : 1 + s, row = 1.0 / (ZN + ZROWS) / 0.5;
        assert_true(fabs((double)r->score[s] - weight * row) < 1e-5 * weight);
    }
}

static void kvzip_asks_for_what_it_reads(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        unsigned needs;
        kvt_scope scope;
    } rows[] = {
        {"", KVT_NEED_PROBE | KVT_NEED_KEYS | KVT_NEED_TOKENS, KVT_BY_LANE},
        {"sinks=four", KVT_NEED_PROBE | KVT_NEED_KEYS, KVT_BY_LANE},
        {"plus=true,scope=model",
         KVT_NEED_PROBE | KVT_NEED_KEYS | KVT_NEED_TOKENS | KVT_NEED_WO_NORM, KVT_BY_MODEL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run *r = run_of("kvzip", rows[i].params, 10);
        kvt_traits t = r->p->traits;
        r->p->vary(r->params, &t);
        assert_int_equal(t.needs, rows[i].needs);
        assert_int_equal(t.scope, rows[i].scope);
    }
}

/* ---- no memory -----------------------------------------------------------------------------
 */

static void no_room_is_said(void **state)
{
    (void)state;
    enum { N = 80, D = 4, M = 3 };
    kvt_arena *tight = kvt_arena_new(64);
    float *x = random_rows(2 * 33 * N, 50);
    static const char *const names[] = {"lookaheadkv", "judgeq",   "suffix", "lookahead-oracle",
                                        "laq",         "laq-plus", "speckv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        run *r = run_of(names[i], "", N);
        r->lane.keys = kvt_view_of(x, KVT_F32, KVT_SHAPE("SD", N, D));
        r->lane.queries = kvt_view_of(x, KVT_F32, KVT_SHAPE("HQD", 2, 8, D));
        r->probe.queries = kvt_view_of(x, KVT_F32, KVT_SHAPE("HQD", 2, M, D));
        r->probe.attn = kvt_view_of(x, KVT_F32, KVT_SHAPE("HQS", 2, M, N));
        r->lane.future = r->probe.attn;
        r->lane.attn = kvt_view_of(x, KVT_F32, KVT_SHAPE("HQS", 2, 33, N));
        r->lane.scratch = tight;
        score(r);
        if (!isnan(r->score[0]))
            fail_msg("%s: score %g without memory", names[i], (double)r->score[0]);
    }
    static const float zero[2 * ZROWS * ZD], key[ZN * ZD];
    run *r = kvzip_run("", key, zero);
    r->lane.scratch = tight;
    score(r);
    assert_true(isnan(r->score[ZN - 1]));
    kvt_arena_free(tight);
}

int main(void)
{
    memory = kvt_arena_new((size_t)64 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perfect_prediction_is_the_oracle),
        cmocka_unit_test(reductions_differ),
        cmocka_unit_test(masks_differ_by_a_factor),
        cmocka_unit_test(drafts_see_a_sliding_window),
        cmocka_unit_test(laq_plus_keeps_its_window),
        cmocka_unit_test(laq_is_by_query_head),
        cmocka_unit_test(speckv_keeps_the_suffix),
        cmocka_unit_test(speckv_cuts_the_draft),
        cmocka_unit_test(kvzip_constant_scores),
        cmocka_unit_test(kvzip_rows_that_count),
        cmocka_unit_test(kvzip_plus_weighs),
        cmocka_unit_test(kvzip_asks_for_what_it_reads),
        cmocka_unit_test(no_room_is_said),
    };
    int failed = cmocka_run_group_tests_name("policies with a probe", tests, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
