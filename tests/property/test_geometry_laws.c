/* test_geometry_laws.c - policies that read keys and values alone, against their papers'
 * formulae in double: l2norm, keydiff, cur, lagkv, qfilters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws.h"

enum { LAYERS = 3, HEADS = 4, GROUPS = 2, N = 53, M = 4, D = 8 };
static toy *trace;

static double key(int l, int g, int64_t s, int64_t d)
{
    return laws_at(&trace->more[l].keys, g, s, d);
}

static double value(int l, int g, int64_t s, int64_t d)
{
    return laws_at(&trace->more[l].values, g, s, d);
}

static double key_square(int l, int g, int64_t s)
{
    double sum = 0;
    for (int d = 0; d < D; d++)
        sum += key(l, g, s, d) * key(l, g, s, d);
    return sum;
}

static double value_square(int l, int g, int64_t s)
{
    double sum = 0;
    for (int d = 0; d < D; d++)
        sum += value(l, g, s, d) * value(l, g, s, d);
    return sum;
}

#define FOR_EACH_LANE(l, g)          \
    for (int l = 0; l < LAYERS; l++) \
        for (int g = 0; g < GROUPS; g++)

/* ---- l2norm --------------------------------------------------------------------------------
 */

static void small_norms_stay(void **state)
{
    (void)state;
    static const char *const same[] = {"", "compat=kvpress"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        mini_result r = laws_run(trace, "l2norm", same[i], 20, true);
        FOR_EACH_LANE(l, g)
        {
            double want[N];
            for (int s = 0; s < N; s++)
                want[s] = -sqrt(key_square(l, g, s));
            laws_scores(trace, &r, l, g, want, NULL, false);
            laws_holds(trace, &r, 0, l, g, want, NULL, N, 20);
        }
    }
}

/* The trace's layers are 0, 3 and 6 of the model: the first is whole; a set a query head. */
static void first_layers_stay_whole(void **state)
{
    (void)state;
    mini_result r = laws_run(trace, "l2norm", "compat=kvcf", 20, true);
    assert_int_equal(r.n_lane, HEADS);
    assert_true(r.traits.may_exceed);
    for (int l = 0; l < LAYERS; l++)
        for (int h = 0; h < HEADS; h++)
            assert_int_equal(mini_count(&r, trace, 0, l, h), trace->layer_id[l] < 2 ? N : 20);
    r = laws_try(trace, "l2norm", "compat=official", 20, true); /* N is below 2,048 */
    assert_true(r.skipped);
    assert_non_null(strstr(r.why, "2048"));
    r = laws_run(trace, "l2norm", "compat=official,above=52", 20, true);
    FOR_EACH_LANE(l, g)
    assert_int_equal(mini_count(&r, trace, 0, l, g), trace->layer_id[l] < 2 ? N : 20);
}

/* ---- keydiff -------------------------------------------------------------------------------
 */

/* -cos with the mean of the normalised keys that are there. */
static void differences(double *out, int l, int g, const bool *here)
{
    double mean[D] = {0}, length = 0;
    for (int s = 0; s < N; s++)
        for (int d = 0; here[s] && d < D; d++)
            mean[d] += key(l, g, s, d) / sqrt(key_square(l, g, s));
    for (int d = 0; d < D; d++)
        length += mean[d] * mean[d];
    for (int s = 0; s < N; s++) {
        double dot = 0;
        for (int d = 0; d < D; d++)
            dot += key(l, g, s, d) * mean[d];
        out[s] = -dot / sqrt(key_square(l, g, s) * length);
    }
}

static void different_keys_stay(void **state)
{
    (void)state;
    bool all[N];
    memset(all, true, sizeof all);
    for (int sinks = 0; sinks <= 4; sinks += 4) {
        mini_result r = laws_run(trace, "keydiff", sinks ? "compat=mlx" : "", 11, true);
        FOR_EACH_LANE(l, g)
        {
            double want[N];
            bool pinned[N] = {false};
            for (int s = 0; s < sinks; s++)
                pinned[s] = true;
            differences(want, l, g, all);
            laws_scores(trace, &r, l, g, want, pinned, false);
            laws_holds(trace, &r, 0, l, g, want, pinned, N, 11);
        }
    }
}

/* Keep n, add the next block, score again, keep n. */
static void blocks_are_cut_in_turn(void **state)
{
    (void)state;
    enum { B = 13 };
    for (int block = 1; block <= 64; block = block * 3 + 1) {
        char params[40];
        snprintf(params, sizeof params, "block=%d,sinks=2", block);
        mini_result r = laws_run(trace, "keydiff", params, B, true);
        assert_int_equal(r.traits.exactness, KVT_OPEN_LOOP);
        FOR_EACH_LANE(l, g)
        {
            bool here[N] = {false};
            for (int s = 0; s < B; s++)
                here[s] = true;
            for (int end = B; end < N;) {
                double score[N];
                uint8_t best[N];
                for (int k = 0; k < block && end < N; k++)
                    here[end++] = true;
                differences(score, l, g, here);
                for (int s = 0; s < N; s++)
                    score[s] = s < 2 ? 9 : here[s] ? score[s] : -9;
                laws_best(best, score, N, B);
                for (int s = 0; s < N; s++)
                    here[s] = best[s];
            }
            const uint8_t *held = mini_held(&r, trace, 0, l, g);
            for (int s = 0; s < N; s++)
                assert_true(held[s] == here[s]);
        }
    }
}

/* ---- cur -----------------------------------------------------------------------------------
 */

/* Share of a window of 16; in the last one of 5 tokens, times 5 / 16 unless as published. */
static double share(double (*square)(int, int, int64_t), int l, int g, int s, bool published)
{
    int from = s / 16 * 16, to = from + 16 < N ? from + 16 : N;
    double sum = 0;
    for (int k = from; k < to; k++)
        sum += square(l, g, k);
    return square(l, g, s) / sum * (published ? 1 : (to - from) / 16.0);
}

static void shares_of_a_window(void **state)
{
    (void)state;
    static const char *const of[] = {"product", "key", "value", "average"};
    for (int i = 0; i < 8; i++) {
        char params[60];
        bool published = i >= 4;
        snprintf(params, sizeof params, "of=%s%s", of[i % 4],
                 published ? ",compat=kvpress" : "");
        mini_result r = laws_run(trace, "cur", params, 17, true);
        FOR_EACH_LANE(l, g)
        {
            double want[N], sum = 0;
            bool pinned[N] = {true, true, true, true};
            for (int s = 0; s < N; s++) {
                double a = share(key_square, l, g, s, published);
                double b = share(value_square, l, g, s, published);
                want[s] = i % 4 == 0 ? a * b : i % 4 == 1 ? a : i % 4 == 2 ? b : (a + b) / 2;
                sum += want[s];
            }
            for (int s = 0; s < N; s++)
                want[s] /= sum;
            laws_scores(trace, &r, l, g, want, pinned, false);
            laws_holds(trace, &r, 0, l, g, want, pinned, N, 17);
        }
    }
}

/* As published the last 5 of 53 tokens share what 16 share elsewhere: 53 mod 16 = 5. */
static void a_short_window_is_no_better(void **state)
{
    (void)state;
    int late[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        mini_result r = laws_run(trace, "cur", i ? "compat=kvpress" : "", 12, true);
        FOR_EACH_LANE(l, g)
        for (int s = 48; s < N; s++)
            late[i] += mini_held(&r, trace, 0, l, g)[s];
    }
    assert_true(late[1] > late[0]);
}

/* ---- lagkv ---------------------------------------------------------------------------------
 */

/* Deviation over channels of a row between the ends of the next partition. */
static double lag_deviation(double (*x)(int, int, int64_t, int64_t), int l, int g, int s,
                            int next, int lag)
{
    double u[D], mean = 0, square = 0;
    for (int d = 0; d < D; d++) {
        double low = INFINITY, high = -INFINITY;
        for (int k = next; k < next + lag; k++) {
            low = fmin(low, x(l, g, k, d));
            high = fmax(high, x(l, g, k, d));
        }
        u[d] = (x(l, g, s, d) - low) / (high - low);
        mean += u[d] / D;
    }
    for (int d = 0; d < D; d++)
        square += (u[d] - mean) * (u[d] - mean) / (D - 1);
    return sqrt(square);
}

/* Softmax in the partition, keys plus values. */
static void lag_scores(double *out, int l, int g, int at, int lag)
{
    double e[2][64], sum[2] = {0, 0};
    for (int i = 0; i < lag; i++) {
        e[0][i] = exp(lag_deviation(key, l, g, at + i, at + lag, lag));
        e[1][i] = exp(lag_deviation(value, l, g, at + i, at + lag, lag));
        sum[0] += e[0][i];
        sum[1] += e[1][i];
    }
    for (int i = 0; i < lag; i++)
        out[i] = e[0][i] / sum[0] + e[1][i] / sum[1];
}

/* sinks 5, lag 7: partitions at 5, 12, .. 47 (6 of them: 5 compressed), tail 40..52. */
static void partitions_keep_the_same_number(void **state)
{
    (void)state;
    enum { SINKS = 5, LAG = 7, PARTS = 5, TAIL = N - SINKS - PARTS * LAG };
    for (int each = 0; each <= 3; each++) {
        int B = SINKS + TAIL + each * PARTS;
        mini_result r = laws_run(trace, "lagkv", "most=0,sinks=5,lag=7", B, true);
        FOR_EACH_LANE(l, g)
        {
            const uint8_t *held = mini_held(&r, trace, 0, l, g);
            for (int s = 0; s < N; s++)
                if (s < SINKS || s >= N - TAIL)
                    assert_true(held[s]);
            for (int p = 0; p < PARTS; p++) {
                double x[LAG];
                uint8_t best[LAG];
                lag_scores(x, l, g, SINKS + p * LAG, LAG);
                laws_best(best, x, LAG, each);
                assert_memory_equal(best, held + SINKS + p * LAG, LAG);
            }
        }
    }
}

/* What is over goes to the best of the next rank; kvpress: to the lowest position. */
static void what_is_over(void **state)
{
    (void)state;
    enum {
        SINKS = 5,
        LAG = 7,
        PARTS = 5,
        TAIL = N - SINKS - PARTS * LAG,
        B = SINKS + TAIL + 7
    };
    mini_result r = laws_run(trace, "lagkv", "most=0,sinks=5,lag=7", B, true);
    mini_result k = laws_run(trace, "lagkv", "compat=kvpress,sinks=5,lag=7", B, true);
    FOR_EACH_LANE(l, g)
    {
        double second[PARTS];
        int at[PARTS];
        uint8_t best[PARTS];
        for (int p = 0; p < PARTS; p++) {
            double x[LAG];
            uint8_t one[LAG], two[LAG];
            lag_scores(x, l, g, SINKS + p * LAG, LAG);
            laws_best(one, x, LAG, 1);
            laws_best(two, x, LAG, 2);
            for (int i = 0; i < LAG; i++)
                if (two[i] && !one[i])
                    second[p] = x[i], at[p] = SINKS + p * LAG + i;
        }
        laws_best(best, second, PARTS, 2);
        for (int p = 0; p < PARTS; p++) {
            assert_true(mini_held(&r, trace, 0, l, g)[at[p]] == best[p]);
            assert_true(mini_held(&k, trace, 0, l, g)[at[p]] == (p < 2));
        }
    }
}

/* kvpress below sinks + 2 lag: the sinks and the latest. */
static void a_short_prompt_keeps_the_latest(void **state)
{
    (void)state;
    mini_result r = laws_run(trace, "lagkv", "compat=kvpress", 20, true);
    for (int s = 0; s < N; s++)
        assert_true(mini_held(&r, trace, 0, 1, 1)[s] == (s < 4 || s >= N - 16));
    r = laws_try(trace, "lagkv", "compat=official", 20, true); /* it would keep them all */
    assert_true(r.skipped);
    assert_non_null(strstr(r.why, "2064"));
}

/* policies-training-free.md 14.10: 4,112 tokens, sinks 16, lag 1024, half kept: 2,576 in all.
 */
static void count_of_the_official_code(void **state)
{
    (void)state;
    enum { T = 4112, C = 2, B = 2576 };
    const kvt_policy *p = kvt_policy_find("lagkv");
    _Alignas(max_align_t) char params[256];
    kvt_err err;
    char why[200];
    float *x = kvt_arena_array(laws_memory, 3 * T * C, sizeof *x);
    int64_t *pos = kvt_arena_array(laws_memory, T, sizeof *pos);
    bool *pinned = kvt_arena_array(laws_memory, T, 1),
         *keep = kvt_arena_array(laws_memory, T, 1);
    for (int i = 0; i < 2 * T * C; i++)
        x[i] = (float)(toy_mix((uint64_t)i) % 1009) / 1009;
    for (int i = 0; i < T; i++)
        pos[i] = i;
    kvt_param_defaults(p->params, params);
    assert_int_equal(kvt_param_parse(p->params, params, "compat=official", &err), KVT_OK);
    kvt_lane lane = {.now = T - 1,
                     .budget = B,
                     .n_slot = T,
                     .pos = pos,
                     .keys = kvt_view_of(x, KVT_F32, KVT_SHAPE("SD", T, C)),
                     .values = kvt_view_of(x + T * C, KVT_F32, KVT_SHAPE("SD", T, C)),
                     .scratch = laws_memory};
    assert_true(p->fits(params, B, T, why, sizeof why));
    assert_false(p->fits(params, 1000, T, why, sizeof why)); /* the last partition alone */
    assert_false(p->fits(params, 1000, 2063, why, sizeof why));
    assert_true(p->fits(params, 2064, 2064, why, sizeof why));
    p->score(params, x + 2 * T * C, pinned, &lane);
    int64_t n_pinned = 0, kept = 0;
    for (int s = 0; s < T; s++)
        n_pinned += pinned[s];
    assert_int_equal(n_pinned, 16 + 1024);
    assert_int_equal(kvt_keep_best(keep, x + 2 * T * C, pinned, T, B - n_pinned, laws_memory),
                     B);
    for (int part = 0; part < 3; part++, kept = 0) {
        for (int s = 0; s < 1024; s++)
            kept += keep[16 + part * 1024 + s];
        assert_int_equal(kept, 512);
    }
}

/* ---- qfilters ------------------------------------------------------------------------------
 */

static const kvt_view *tensor_of(const char *kind, const char *name)
{
    for (int i = 0; i < trace->n_weights; i++)
        for (int k = 0; strcmp(trace->weights[i].kind, kind) == 0 && k < trace->weights[i].n;
             k++)
            if (strcmp(trace->weights[i].tensor[k].name, name) == 0)
                return &trace->weights[i].tensor[k].view;
    fail_msg("no tensor %s of %s", name, kind);
    return NULL;
}

static void against_the_filter(void **state)
{
    (void)state;
    const kvt_view *u = tensor_of("qfilters", "filter");
    mini_result r = laws_run(trace, "qfilters", "", 9, true);
    mini_result o = laws_run(trace, "qfilters", "compat=official,recent=3", 9, false);
    assert_false(r.decodes);
    assert_true(o.decodes);
    assert_int_equal(o.most, 10);
    FOR_EACH_LANE(l, g)
    {
        double want[N];
        bool pinned[N] = {false};
        for (int s = 0; s < N; s++) {
            want[s] = 0;
            for (int d = 0; d < D; d++)
                want[s] -= (double)((const float *)u->data)[(l * GROUPS + g) * D + d] *
                           key(l, g, s, d);
            pinned[s] = s >= N - 3;
        }
        laws_scores(trace, &r, l, g, want, NULL, false);
        laws_holds(trace, &r, 0, l, g, want, NULL, N, 9);
        laws_holds(trace, &o, 0, l, g, want, pinned, N, 9);
    }
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)2 << 30);
    trace = toy_rich(laws_memory, LAYERS, 7, HEADS, GROUPS, N, M, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_norms_stay),
        cmocka_unit_test(first_layers_stay_whole),
        cmocka_unit_test(different_keys_stay),
        cmocka_unit_test(blocks_are_cut_in_turn),
        cmocka_unit_test(shares_of_a_window),
        cmocka_unit_test(a_short_window_is_no_better),
        cmocka_unit_test(partitions_keep_the_same_number),
        cmocka_unit_test(what_is_over),
        cmocka_unit_test(a_short_prompt_keeps_the_latest),
        cmocka_unit_test(count_of_the_official_code),
        cmocka_unit_test(against_the_filter),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    toy_close(trace);
    kvt_arena_free(laws_memory);
    return failed;
}
