/* test_policy_cases.c - what went wrong elsewhere: reported cases of eviction policies, with
 * positions worked out by hand. C0xx are the project's case numbers; 14.9 is a golden vector of
 * the policy page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../mini.h"

static kvt_arena *memory;

static mini_result run(const char *policy, const char *params, const toy *t, int64_t budget,
                       bool prefill_only)
{
    mini_spec spec = {.trace = t,
                      .policy = kvt_policy_find(policy),
                      .params = params,
                      .budget = budget,
                      .prefill_only = prefill_only};
    mini_result r;
    kvt_err err;
    assert_non_null(spec.policy);
    if (mini_run(&r, &spec, memory, &err))
        fail_msg("%s:%s: %s", policy, params, err.text);
    return r;
}

static toy *prompt_of(int64_t N, int64_t M)
{
    return toy_new(memory, 1, 2, 2, 4, 2, N, M, false);
}

/* Every lane holds exactly these after m tokens. */
static void expect(const mini_result *r, const toy *t, int64_t m, const int64_t *want,
                   int64_t n)
{
    if (r->skipped)
        fail_msg("skipped: %s", r->why);
    for (int l = 0; l < t->n_layer; l++)
        for (int a = 0; a < r->n_lane; a++) {
            const uint8_t *held = mini_held(r, t, m, l, a);
            assert_int_equal(mini_count(r, t, m, l, a), n);
            for (int64_t i = 0; i < n; i++)
                if (!held[want[i]])
                    fail_msg("after %lld tokens: position %lld is gone", (long long)m,
                             (long long)want[i]);
        }
}

static void expect_latest(const mini_result *r, const toy *t, int64_t n)
{
    int64_t want[1024];
    for (int64_t i = 0; i < n; i++)
        want[i] = t->N - n + i;
    expect(r, t, 0, want, n);
}

#define EXPECT(r, t, m, ...)                              \
    expect((r), (t), (m), (const int64_t[]){__VA_ARGS__}, \
           sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* 14.9: S = 4, R = 8. */
static void streaming_vectors(void **state)
{
    (void)state;
    const toy *t = prompt_of(12, 2);
    mini_result r = run("streaming", "", t, 12, false);
    EXPECT(&r, t, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    EXPECT(&r, t, 1, 0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12);
    EXPECT(&r, t, 2, 0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13);
}

/* C016: 1 sink and 3 newest of 10 tokens in one call, and one by one. */
static void prompt_longer_than_the_window(void **state)
{
    (void)state;
    const toy *whole = prompt_of(10, 1), *single = prompt_of(4, 6);
    mini_result r = run("streaming", "sinks=1", whole, 4, true);
    EXPECT(&r, whole, 0, 0, 7, 8, 9);
    r = run("streaming", "sinks=1", single, 4, false);
    EXPECT(&r, single, 6, 0, 7, 8, 9);
}

/* C005: prompts of 1 to 65 tokens, a window of 64, budgets of 8 and 1000. */
static void window_longer_than_the_prompt(void **state)
{
    (void)state;
    static const char *const variants[] = {"compat=official", "compat=kvpress", "window=64",
                                           "window=64,order=pool"};
    static const int64_t lengths[] = {1, 2, 8, 63, 64, 65};
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const toy *t = prompt_of(lengths[i], 1);
            mini_result all = run("snapkv", variants[v], t, 1000, false);
            expect_latest(&all, t, t->N);
            mini_result r = run("snapkv", variants[v], t, 8, false);
            if (t->N <= 64)
                expect_latest(&r, t, kvt_min(t->N, 8));
            else {
                assert_true(r.skipped);
                assert_string_equal(r.why,
                                    "a window of 64 needs a budget of 64 or more, got 8");
            }
        }
}

/* C001: flat scores, window 2, budget 5: 8 and 9 stay, the rest is filled from below; also
 * where "the maximum and one more" would round to the maximum. */
static void flat_scores_keep_the_window(void **state)
{
    (void)state;
    static const float values[] = {0.1f, 0, FLT_MAX / 64};
    const kvt_policy *p = kvt_policy_find("snapkv");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        float attn[2 * 10], mark[10] = {0}, score[10] = {0};
        bool pinned[10] = {0}, keep[10] = {0};
        kvt_err err;
        kvt_geometry geometry = {.n_head = 1, .n_kv_head = 1};
        kvt_sequence seq = {.n_prompt = 10, .geometry = &geometry};
        void *params = kvt_arena_get(memory, p->params_size);
        for (int s = 0; s < 20; s++)
            attn[s] = values[i];
        kvt_param_defaults(p->params, params);
        assert_int_equal(kvt_param_parse(p->params, params, "window=2", &err), KVT_OK);
        assert_int_equal(p->window(params, 10), 2);
        kvt_lane lane = {.n_slot = 10,
                         .now = 9,
                         .mark = mark,
                         .seq = &seq,
                         .scratch = memory,
                         .attn = kvt_view_of(attn, KVT_F32, KVT_SHAPE("HQS", 1, 2, 10))};
        p->step(params, &lane);
        p->score(params, score, pinned, &lane);
        assert_int_equal(kvt_keep_best(keep, score, pinned, 10, 3, memory), 5);
        assert_true(keep[8] && keep[9] && keep[0] && keep[1] && keep[2]);
    }
}

/* C019: 0.50, 0.30, 0.15, 0.05 and a cache of 3. */
static void tova_and_the_newest_token(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        bool want[4];
    } rows[] = {{"", {true, true, true, false}},
                {"compat=paper", {true, true, true, false}},
                {"keep_last=true", {true, true, false, true}},
                {"compat=kvpress", {true, true, false, true}}};
    const kvt_policy *p = kvt_policy_find("tova");
    /* two heads in each of two lanes, whose mean over all four is the row above */
    const float attn[2][2 * 4] = {{0.6f, 0.2f, 0.1f, 0.1f, 0.4f, 0.4f, 0.2f, 0},
                                  {0.9f, 0, 0.1f, 0, 0.1f, 0.6f, 0.2f, 0.1f}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kvt_err err;
        float mark[2][4] = {{0}}, score[2][4] = {{0}};
        bool pinned[2][4] = {{0}}, keep[2][4] = {{0}};
        void *params = kvt_arena_get(memory, p->params_size);
        kvt_lane lane[2];
        kvt_param_defaults(p->params, params);
        if (*rows[i].params)
            assert_int_equal(kvt_param_parse(p->params, params, rows[i].params, &err), KVT_OK);
        for (int a = 0; a < 2; a++) {
            lane[a] =
                (kvt_lane){.group = a,
                           .n_slot = 4,
                           .now = 3,
                           .mark = mark[a],
                           .scratch = memory,
                           .attn = kvt_view_of(attn[a], KVT_F32, KVT_SHAPE("HQS", 2, 1, 4))};
            p->step(params, &lane[a]);
            p->score(params, score[a], pinned[a], &lane[a]);
        }
        p->select(params, (bool *const[]){keep[0], keep[1]}, lane, 2,
                  (const float *const[]){score[0], score[1]},
                  (const bool *const[]){pinned[0], pinned[1]}, (const int64_t[]){3, 3});
        for (int a = 0; a < 2; a++)
            assert_memory_equal(keep[a], rows[i].want, sizeof rows[i].want);
    }
}

/* C009: budget 14, 43 steps. Without newest tokens the kept set stays the prompt's. */
static void accumulated_scores_freeze(void **state)
{
    (void)state;
    const toy *t = prompt_of(60, 43);
    mini_result frozen = run("h2o", "recent=0", t, 14, false);
    mini_result half = run("h2o", "recent=0.5", t, 14, false);
    for (int64_t m = 0; m <= t->M; m++)
        for (int l = 0; l < t->n_layer; l++)
            for (int a = 0; a < t->n_group; a++) {
                const uint8_t *first = mini_held(&frozen, t, 0, l, a);
                assert_memory_equal(mini_held(&frozen, t, m, l, a), first, (size_t)t->T);
                const uint8_t *held = mini_held(&half, t, m, l, a);
                for (int64_t j = t->N + m - 7; j < t->N + m; j++)
                    if (!held[j])
                        fail_msg("after %lld tokens position %lld is gone", (long long)m,
                                 (long long)j);
            }
}

/* C080: tiny budgets and shares that round to nothing. */
static const struct tiny {
    const char *policy, *params;
    int64_t budget;
    const char *why; /* NULL: runs */
} tinies[] = {
    {"h2o", "recent=0.1", 4, "recent=0.1 of a budget of 4 is no token"},
    {"h2o", "", 1, "recent=0.5 of a budget of 1 is no token"},
    {"h2o", "", 2, NULL},
    {"h2o", "recent=0", 1, NULL},
    {"h2o", "recent=1", 1, NULL},
    {"h2o", "compat=flexgen", 2, "flexgen needs a budget of 3 or more (hh of 2), got 2"},
    {"h2o", "compat=flexgen", 3, NULL},
    {"h2o", "compat=kvcf", 7, "8 newest tokens need a budget of 8 or more, got 7"},
    {"h2o", "compat=kvcf", 8, NULL},
    {"h2o", "compat=kvpress", 1, NULL},
    {"streaming", "", 2, "4 sinks need a budget of 4 or more, got 2"},
    {"streaming", "", 4, NULL},
    {"streaming", "sinks=1", 1, NULL},
    {"streaming", "sinks=1", 2, NULL},
    {"streaming", "compat=kvcf-needle", 31,
     "32 last tokens need a budget of 32 or more, got 31"},
    {"snapkv", "window=8", 8, NULL},
    {"snapkv", "window=8", 7, "a window of 8 needs a budget of 8 or more, got 7"},
    {"pyramidkv", "", 7, "a window of 8 needs a budget of 8 or more, got 7"},
    {"pyramidkv", "", 8, NULL},
    {"tova", "", 1, NULL},
    {"tova", "keep_last=true", 1, NULL},
    {"window", "", 1, NULL},
    {"random", "", 1, NULL},
    {"oracle-step", "", 1, NULL},
};

static void tiny_budgets(void **state)
{
    (void)state;
    const toy *t = prompt_of(40, 5);
    for (size_t i = 0; i < sizeof tinies / sizeof *tinies; i++) {
        const struct tiny *c = &tinies[i];
        mini_result r = run(c->policy, c->params, t, c->budget, false);
        if (r.skipped != (c->why != NULL) || (c->why && strcmp(r.why, c->why) != 0))
            fail_msg("%s:%s b=%lld: '%s'", c->policy, c->params, (long long)c->budget, r.why);
        for (int64_t m = 0; !r.skipped && r.traits.effect == KVT_EVICT && m < r.n_step; m++)
            assert_int_equal(mini_count(&r, t, m, 1, 1), c->budget);
    }
}

/* A row of streaming and window sees B slots, its own among them; elsewhere B and its own. */
static void rows_see_as_many_as_published(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        int64_t beyond;
    } rows[] = {{"streaming", 0}, {"window", 0}, {"h2o", 1}, {"tova", 1}};
    const toy *t = prompt_of(40, 5);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mini_result r = run(rows[i].policy, "", t, 12, false);
        assert_true(r.decodes);
        assert_int_equal(r.most, 12 + rows[i].beyond);
    }
}

/* A hook cannot fail; without memory it says what the engine refuses: scores that are no
 * numbers, or more slots than there may be. */
static void no_memory_is_loud(void **state)
{
    (void)state;
    enum { S = 4000 };
    static float attn[2 * S], mark[2 * S], score[S];
    static bool pinned[S], keep[S];
    kvt_geometry geometry = {.n_head = 2, .n_kv_head = 1};
    kvt_sequence seq = {.n_prompt = S, .geometry = &geometry};
    static const char *const texts[][2] = {
        {"snapkv", "window=8"}, {"snapkv", "order=pool"}, {"tova", ""}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const kvt_policy *p = kvt_policy_find(texts[i][0]);
        kvt_err err;
        void *params = kvt_arena_get(memory, p->params_size);
        kvt_arena *tight = kvt_arena_new(256);
        kvt_lane lane = {.n_slot = S,
                         .now = S - 1,
                         .mark = mark,
                         .seq = &seq,
                         .scratch = tight,
                         .attn = kvt_view_of(attn, KVT_F32, KVT_SHAPE("HQS", 2, 1, S))};
        kvt_param_defaults(p->params, params);
        if (*texts[i][1])
            assert_int_equal(kvt_param_parse(p->params, params, texts[i][1], &err), KVT_OK);
        p->step(params, &lane);
        p->score(params, score, pinned, &lane);
        int64_t kept = 0;
        if (p->select) {
            p->select(params, (bool *const[]){keep}, &lane, 1, (const float *const[]){score},
                      (const bool *const[]){pinned}, (const int64_t[]){10});
            for (int s = 0; s < S; s++)
                kept += keep[s];
        }
        if (p->select ? kept <= 10 : !isnan(score[0]))
            fail_msg("%s:%s is silent", texts[i][0], texts[i][1]);
        kvt_arena_free(tight);
        memset(mark, 0, sizeof mark);
        memset(score, 0, sizeof score);
        memset(pinned, 0, sizeof pinned);
    }
}

/* What fits() lets through never pins more than the budget, and what it refuses always would.
 */
static void fits_tells_the_truth(void **state)
{
    (void)state;
    static const char *const texts[][2] = {{"streaming", ""},
                                           {"streaming", "compat=kvcf-needle"},
                                           {"snapkv", "window=8"},
                                           {"pyramidkv", ""},
                                           {"h2o", "compat=kvcf"}};
    const toy *t = prompt_of(40, 3);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int64_t B = 1; B <= 45; B++) {
            mini_spec spec = {.trace = t,
                              .policy = kvt_policy_find(texts[i][0]),
                              .params = texts[i][1],
                              .budget = B};
            mini_result asked, not_asked;
            kvt_err err;
            assert_int_equal(mini_run(&asked, &spec, memory, &err), KVT_OK);
            spec.no_fits = true;
            assert_int_equal(mini_run(&not_asked, &spec, memory, &err), KVT_OK);
            if (asked.skipped != not_asked.skipped)
                fail_msg("%s:%s b=%lld: '%s' '%s'", texts[i][0], texts[i][1], (long long)B,
                         asked.why, not_asked.why);
        }
}

int main(void)
{
    memory = kvt_arena_new((size_t)1 << 30);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streaming_vectors),
        cmocka_unit_test(prompt_longer_than_the_window),
        cmocka_unit_test(window_longer_than_the_prompt),
        cmocka_unit_test(flat_scores_keep_the_window),
        cmocka_unit_test(tova_and_the_newest_token),
        cmocka_unit_test(accumulated_scores_freeze),
        cmocka_unit_test(tiny_budgets),
        cmocka_unit_test(rows_see_as_many_as_published),
        cmocka_unit_test(no_memory_is_loud),
        cmocka_unit_test(fits_tells_the_truth),
    };
    int failed = cmocka_run_group_tests_name("policy cases", tests, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
