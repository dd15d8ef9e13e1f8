/* test_window_laws.c - policies that look through the last prompt queries, against their
 * formulae in double: snapkv's variants, finch, dropkv; and reported cases, of these and of
 * test_stage_laws.c. Case numbers are those of the project's pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "window_laws.h"

/* ---- snapkv --------------------------------------------------------------------------------
 */

static void snapkv_takes_the_largest_head(void **state)
{
    (void)state;
    enum { W = 6 };
    mini_result r = laws_run(trace, "snapkv", "window=6,pool=3,order=max", 20, true);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            double one[N], best[N] = {0}, s[N];
            bool pinned[N];
            for (int h = g * EACH; h < (g + 1) * EACH; h++) {
                votes(one, l, h, W, N - W);
                for (int64_t j = 0; j < N - W; j++)
                    best[j] = fmax(best[j], one[j]);
            }
            laws_pool(s, best, N - W, 3);
            pin_last(pinned, W);
            laws_scores(trace, &r, l, g, s, pinned, false);
            laws_holds(trace, &r, 0, l, g, s, pinned, N, 20);
        }
}

/* cold-compress: what lies outside is no part of the mean. */
static void snapkv_edges(void **state)
{
    (void)state;
    static const char *const params[] = {"window=6,pool=5,kind=mean",
                                         "window=6,pool=5,kind=mean,edge=inside"};
    for (int inside = 0; inside < 2; inside++) {
        mini_result r = laws_run(trace, "snapkv", params[inside], 20, true);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                double one[N], sum[N] = {0}, s[N];
                bool pinned[N];
                for (int h = g * EACH; h < (g + 1) * EACH; h++) {
                    votes(one, l, h, 6, N - 6);
                    for (int64_t j = 0; j < N - 6; j++)
                        sum[j] += one[j];
                }
                laws_pool_mean(s, sum, N - 6, 5, inside);
                pin_last(pinned, 6);
                laws_scores(trace, &r, l, g, s, pinned, false);
                laws_holds(trace, &r, 0, l, g, s, pinned, N, 20);
            }
    }
}

/* sparse-frontier: fewer tokens are kept for being the last than vote, and the first ones; what
 * voted and is not kept for that competes. */
static void snapkv_local_and_prefix(void **state)
{
    (void)state;
    mini_result r = laws_run(trace, "snapkv", "window=9,pool=3,local=4,prefix=2", 20, true);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            double one[N], sum[N] = {0}, s[N];
            bool pinned[N];
            for (int h = g * EACH; h < (g + 1) * EACH; h++) {
                votes(one, l, h, 9, N - 4);
                for (int64_t j = 0; j < N - 4; j++)
                    sum[j] += one[j];
            }
            laws_pool(s, sum, N - 4, 3);
            for (int64_t j = 0; j < N; j++)
                pinned[j] = j < 2 || j >= N - 4;
            laws_scores(trace, &r, l, g, s, pinned, false);
            laws_holds(trace, &r, 0, l, g, s, pinned, N, 20);
        }
    assert_true(laws_try(trace, "snapkv", "window=9,local=4,prefix=2", 5, true).skipped);
    assert_false(laws_try(trace, "snapkv", "window=9,local=4,prefix=2", 6, true).skipped);
}

/* Means over rows and heads are sums: a variant of that name keeps the paper's sets. */
static void snapkv_means_are_sums(void **state)
{
    (void)state;
    mini_result paper = laws_run(trace, "snapkv", "compat=paper", 40, true);
    mini_result ada = laws_run(trace, "snapkv", "compat=adakv", 40, true);
    mini_result press = laws_run(trace, "snapkv", "compat=kvpress,window=32", 40, true);
    assert_true(same_sets(&paper, &ada));
    assert_false(same_sets(&paper, &press));
}

/* What the issue asks of a long prompt: three codes, three rows. */
static void snapkv_variants_differ(void **state)
{
    (void)state;
    enum { LONG = 260, B = 100 };
    static const char *const params[] = {"", "compat=kvpress", "compat=official",
                                         "compat=cold-compress", "compat=kvcf-kv"};
    enum { N_PARAMS = sizeof params / sizeof *params };
    toy *t = toy_rich(laws_memory, 1, 1, HEADS, GROUPS, LONG, 1, false);
    mini_result r[N_PARAMS];
    for (int i = 0; i < N_PARAMS; i++) {
        r[i] = laws_run(t, "snapkv", params[i], B, true);
        assert_int_equal(r[i].n_lane, i == 2 ? HEADS : GROUPS); /* repeated keys and values */
        for (int k = 0; k < i; k++) {
            int64_t differ = 0;
            for (int h = 0; h < HEADS; h++)
                for (int64_t s = 0; s < LONG; s++)
                    differ += mini_held(&r[i], t, 0, 0, h * r[i].n_lane / HEADS)[s] !=
                              mini_held(&r[k], t, 0, 0, h * r[k].n_lane / HEADS)[s];
            assert_true(differ > 0);
        }
    }
    toy_close(t);
}

/* ---- finch ---------------------------------------------------------------------------------
 */

/* Weighted sum over the last W rows of some heads; the i-th counts n + i where by_keys. */
static void question(double *out, const toy *t, int layer, int first, int count, int64_t W,
                     bool by_keys)
{
    for (int64_t s = 0; s < N; s++)
        out[s] = 0;
    for (int h = first; h < first + count; h++)
        for (int64_t i = 0; i < W; i++)
            for (int64_t s = 0; s < N - W; s++)
                out[s] +=
                    (by_keys ? (double)(N - W + i) : 1) * attention(t, layer, h, N - W + i, s);
}

static void finch_keeps_one_set_a_layer(void **state)
{
    (void)state;
    for (int64_t W = 1; W < 12; W += 5) {
        char params[32];
        bool pinned[N];
        snprintf(params, sizeof params, "window=%lld", (long long)W);
        mini_result r = laws_run(trace, "finch", params, 20, true);
        pin_last(pinned, W);
        for (int l = 0; l < LAYERS; l++) {
            double s[N];
            question(s, trace, l, 0, HEADS, W, false);
            for (int g = 0; g < GROUPS; g++)
                laws_holds(trace, &r, 0, l, g, s, pinned, N, 20);
            assert_memory_equal(mini_held(&r, trace, 0, l, 0), mini_held(&r, trace, 0, l, 1),
                                (size_t)trace->T);
        }
    }
}

static void finch_of_kvpress_counts_keys(void **state)
{
    (void)state;
    mini_result r = laws_run(trace, "finch", "compat=kvpress,window=7", 20, true);
    bool pinned[N];
    pin_last(pinned, 7);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            double s[N];
            question(s, trace, l, g * EACH, EACH, 7, true);
            laws_scores(trace, &r, l, g, s, pinned, false);
            laws_holds(trace, &r, 0, l, g, s, pinned, N, 20);
        }
}

/* The question is the trace's span, to the prompt's end; without one the last 32. */
static void finch_finds_the_question(void **state)
{
    (void)state;
    const kvt_span span[] = {{.name = "context", .begin = 0, .end = 41},
                             {.name = "question", .begin = 41, .end = 45}};
    toy asked = *trace, silent = *trace;
    asked.seq.span = span, asked.seq.n_span = 2;
    silent.seq.span = NULL, silent.seq.n_span = 0;
    mini_result by_span = laws_run(&asked, "finch", "", 38, true);
    mini_result by_window = laws_run(&silent, "finch", "window=9", 38, true);
    mini_result without = laws_run(&silent, "finch", "", 38, true);
    mini_result last = laws_run(&silent, "finch", "window=32", 38, true);
    assert_true(same_sets(&by_span, &by_window));
    assert_true(same_sets(&without, &last));
    assert_false(same_sets(&by_span, &without));
    mini_result typed = laws_run(&asked, "finch", "window=32", 38, true);
    assert_true(same_sets(&typed, &last));
}

static void finch_of_many_segments_is_refused(void **state)
{
    (void)state;
    assert_int_equal(kvt_policy_find("finch")->traits.exactness, KVT_EXACT);
    assert_int_equal(laws_try(trace, "finch", "segments=2", 20, true).traits.exactness,
                     KVT_NOT_REPLAYABLE);
    assert_non_null(kvt_policy_find("finch")->why_not);
}

/* ---- dropkv --------------------------------------------------------------------------------
 */

/* |o without j - o|^2, the row made anew without it. */
static double removal(int layer, int group, int head, int64_t i, int64_t j)
{
    double rest = 0, square = 0;
    for (int64_t k = 0; k <= i; k++)
        rest += k == j ? 0 : attention(trace, layer, head, i, k);
    for (int d = 0; d < D; d++) {
        double with = 0, without = 0;
        for (int64_t k = 0; k <= i; k++) {
            double x = attention(trace, layer, head, i, k) *
                       laws_at(&trace->more[layer].values, group, k, d);
            with += x;
            without += k == j ? 0 : x / rest;
        }
        square += (without - with) * (without - with);
    }
    return square;
}

/* 14.8, by definition: each key is taken away, and the rows are made anew. */
static void dropkv_is_what_removal_changes(void **state)
{
    (void)state;
    enum { W = 4 };
    mini_result r = laws_run(trace, "dropkv", "window=4,pool=1,epsilon=0", 20, true);
    mini_result pooled = laws_run(trace, "dropkv", "window=4,pool=5,epsilon=0", 20, true);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            double s[N], near[N];
            bool pinned[N];
            for (int64_t j = 0; j < N; j++) {
                s[j] = 0;
                for (int h = g * EACH; h < (g + 1) * EACH; h++)
                    for (int64_t i = kvt_max(N - W, j); i < N; i++)
                        s[j] += removal(l, g, h, i, j) / EACH;
            }
            pin_last(pinned, W);
            laws_pool_mean(near, s, N, 5, false); /* the window's own, too */
            laws_scores(trace, &r, l, g, s, pinned, false);
            laws_holds(trace, &r, 0, l, g, s, pinned, N, 20);
            laws_scores(trace, &pooled, l, g, near, pinned, false);
        }
}

/* ---- reported cases ------------------------------------------------------------------------
 */

static const char *const names[] = {"finch",      "cake",    "defensivekv", "dropkv",
                                    "criticalkv", "chunkkv", "snapkv"};
enum { N_NAME = sizeof names / sizeof *names };

/* C005, C013, 8: prompts of 1 to 33 tokens before a window of 32, with 8 query heads a kv head:
 * the latest stay where nothing lies before the window, and never NaN. */
static void short_prompts(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 31, 32, 33};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        int64_t n = lengths[k];
        toy *t = toy_rich(laws_memory, 1, 1, 8, 1, n, 1, false);
        for (int i = 0; i < N_NAME; i++)
            for (int64_t B = 1; B <= n + 1; B += 1 + n / 3) {
                mini_result r = laws_try(t, names[i], "", B, true);
                if (n > 32 && B < 32) {
                    assert_true(r.skipped || strcmp(names[i], "finch") == 0);
                    continue;
                }
                assert_false(r.skipped || r.infinite);
                const uint8_t *held = mini_held(&r, t, 0, 0, 0);
                int64_t kept = B < n ? B : n;
                assert_int_equal(mini_count(&r, t, 0, 0, 0), kept);
                for (int64_t s = n - kept; n <= 32 && s < n; s++)
                    assert_true(held[s]);
            }
        toy_close(t);
    }
}

/* 1, 8: a budget of the window alone keeps the window; one more slot keeps one more. */
static void window_is_a_rule(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++)
        for (int64_t B = 32; B < 34; B++) {
            mini_result r = laws_run(trace, names[i], "", B, true);
            for (int l = 0; l < LAYERS; l++)
                for (int g = 0; g < GROUPS; g++)
                    for (int64_t s = N - 32; s < N && strcmp(names[i], "finch") != 0; s++)
                        assert_true(mini_held(&r, trace, 0, l, g)[s]);
        }
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)2 << 30);
    trace = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, M, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapkv_takes_the_largest_head),
        cmocka_unit_test(snapkv_edges),
        cmocka_unit_test(snapkv_local_and_prefix),
        cmocka_unit_test(snapkv_means_are_sums),
        cmocka_unit_test(snapkv_variants_differ),
        cmocka_unit_test(finch_keeps_one_set_a_layer),
        cmocka_unit_test(finch_of_kvpress_counts_keys),
        cmocka_unit_test(finch_finds_the_question),
        cmocka_unit_test(finch_of_many_segments_is_refused),
        cmocka_unit_test(dropkv_is_what_removal_changes),
        cmocka_unit_test(short_prompts),
        cmocka_unit_test(window_is_a_rule),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    toy_close(trace);
    kvt_arena_free(laws_memory);
    return failed;
}
