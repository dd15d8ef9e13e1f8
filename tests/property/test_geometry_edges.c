/* test_geometry_edges.c - policies of key and value geometry where their formulae have nothing
 * to go by: lanes of one to five tokens, keys that are all equal or all zero, more sinks than
 * tokens, three equal keys (policies-training-free.md 14b), a lane run again while decoding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws.h"

enum { LAYERS = 2, HEADS = 4, GROUPS = 2, D = 8 };

static const char *const names[][2] = {
    {"l2norm", ""},
    {"keydiff", ""},
    {"keydiff", "block=2"},
    {"keydiff", "compat=mlx"},
    {"cur", ""},
    {"cur", "compat=kvpress,local=2"},
    {"cur", "random=3,of=average"},
    {"leverage", ""},
    {"leverage", "sketch=2"},
    {"leverage", "compat=kvpress"},
    {"noncausal", ""},
    {"noncausal", "compat=kvpress,chunk=2"},
    {"compactor", ""},
    {"compactor", "first=1,last=1,sketch=3"},
    {"expected-attention", ""},
    {"expected-attention", "sinks=0"},
    {"capkv", ""},
    {"capkv", "sinks=1"},
    {"lagkv", ""},
    {"lagkv", "most=0,lag=1,sinks=1"},
    {"lagkv", "compat=kvpress"},
    {"qfilters", ""},
    {"triattention", ""},
    {"triattention", "znorm=true"},
};
enum { N_NAME = sizeof names / sizeof *names };

static float *keys_of(const toy *t, int layer)
{
    return (float *)(uintptr_t)t->more[layer].keys.data;
}

static float *values_of(const toy *t, int layer)
{
    return (float *)(uintptr_t)t->more[layer].values.data;
}

/* Every key and every value becomes this number in each channel. */
static void flatten(const toy *t, float x)
{
    for (int l = 0; l < t->n_layer; l++)
        for (int64_t i = 0; i < GROUPS * t->T * D; i++)
            keys_of(t, l)[i] = values_of(t, l)[i] = x;
}

/* Full where it is not refused, and no score but a finite one. */
static void runs_at_every_budget(const toy *t, const char *policy, const char *params)
{
    bool ran = false;
    for (int64_t B = 1; B <= t->N; B++) {
        mini_result r = laws_try(t, policy, params, B, true);
        assert_false(r.infinite);
        ran |= !r.skipped;
        for (int l = 0; !r.skipped && l < LAYERS; l++)
            for (int g = 0; g < r.n_lane; g++)
                assert_int_equal(mini_count(&r, t, 0, l, g), B);
    }
    assert_true(ran);
}

static void lanes_of_a_few_tokens(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        toy *t = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, n, 2, false);
        for (int i = 0; i < N_NAME; i++)
            runs_at_every_budget(t, names[i][0], names[i][1]);
        toy_close(t);
    }
}

static void keys_that_are_all_alike(void **state)
{
    (void)state;
    static const float level[] = {0, 1, -3};
    toy *t = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, 20, 2, false);
    for (size_t k = 0; k < sizeof level / sizeof *level; k++) {
        flatten(t, level[k]);
        for (int i = 0; i < N_NAME; i++)
            runs_at_every_budget(t, names[i][0], names[i][1]);
    }
    /* No sinks, every score the same: the lower positions stay. */
    static const char *const alike[][2] = {{"l2norm", ""},
                                           {"keydiff", ""},
                                           {"keydiff", "block=3"},
                                           {"cur", "sinks=0,local=4"},
                                           {"qfilters", ""}};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        mini_result r = laws_run(t, alike[i][0], alike[i][1], 7, true);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++)
                for (int s = 0; s < 20; s++)
                    assert_true(mini_held(&r, t, 0, l, g)[s] == (s < 7));
    }
    flatten(t, 0); /* before RoPE, too */
    mini_result r = laws_run(t, "leverage", "", 7, true);
    for (int s = 0; s < 20; s++)
        assert_true(mini_held(&r, t, 0, 0, 0)[s] == (s < 7));
    toy_close(t);
}

/* Where 16 tokens of the window are zeros they share it evenly: 0 / 0 is no score. */
static void a_window_of_zeros_is_shared(void **state)
{
    (void)state;
    enum { N = 40 };
    toy *t = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, 2, false);
    for (int i = 0; i < 16 * D; i++)
        keys_of(t, 0)[i] = 0;
    mini_result r = laws_run(t, "cur", "of=key,sinks=0", 10, true);
    assert_false(r.infinite);
    for (int s = 0; s < 16; s++)
        assert_true(fabs((double)r.score[s] - 1.0 / N) < 1e-6); /* 1/16 of one of 2.5 windows */
    toy_close(t);
}

static void more_sinks_than_tokens(void **state)
{
    (void)state;
    static const char *const sinks[][2] = {{"keydiff", "sinks=100"},
                                           {"cur", "sinks=100"},
                                           {"expected-attention", "sinks=100"},
                                           {"capkv", "sinks=100"},
                                           {"compactor", "first=100,last=100"},
                                           {"qfilters", "recent=100"}};
    toy *t = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, 6, 2, false);
    for (size_t i = 0; i < sizeof sinks / sizeof *sinks; i++) {
        mini_result r = laws_try(t, sinks[i][0], sinks[i][1], 5, true);
        assert_true(r.skipped);
        assert_non_null(strstr(r.why, "6"));
        r = laws_run(t, sinks[i][0], sinks[i][1], 6, true);
        assert_int_equal(mini_count(&r, t, 0, 0, 0), 6);
    }
    toy_close(t);
}

/* Two equal tokens penalise each other; of three each still gets its share, the same one. */
static void three_equal_keys(void **state)
{
    (void)state;
    enum { N = 30 };
    static const int at[] = {7, 8, 9};
    toy *t = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, 2, false);
    double freq[D / 2];
    kvt_rope_freq(freq, &t->geometry, 0);
    for (int i = 1; i < 3; i++) { /* equal before RoPE */
        kvt_rotate(keys_of(t, 0) + at[i] * D, keys_of(t, 0) + at[0] * D, freq, D,
                   at[i] - at[0]);
        memcpy(values_of(t, 0) + at[i] * D, values_of(t, 0) + at[0] * D, D * sizeof(float));
    }
    mini_result r = laws_run(t, "leverage", "", 10, true);
    for (int i = 0; i < 3; i++) {
        double x = (double)r.score[at[i]];
        assert_true(x > 0 && x <= 1.0 / 3);
        assert_true(fabs(x - (double)r.score[at[0]]) <= 1e-4 * x);
    }
    r = laws_run(t, "cur", "", 10, true); /* one window, equal norms */
    for (int i = 0; i < 3; i++) {
        double x = (double)r.score[at[i]];
        assert_true(x > 0);
        assert_true(fabs(x - (double)r.score[at[0]]) <= 1e-5 * x);
    }
    toy_close(t);
}

/* Run again while decoding: slots are no longer the positions 0, 1, 2. */
static void again_while_decoding(void **state)
{
    (void)state;
    enum { N = 30, LATER = 12, B = 16 };
    toy *t = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, LATER, false);
    float key[N + LATER][D];
    double norm[N + LATER];
    int64_t pos[B];
    kvt_lane lane = {.model_layer = 0,
                     .now = N + LATER - 1,
                     .budget = 4,
                     .n_slot = B,
                     .pos = pos,
                     .seq = &t->seq,
                     .scratch = laws_memory};
    for (int s = 0; s < B; s++) { /* every second one from 3, then the newest */
        pos[s] = s < 10 ? 3 + 2 * s : N + LATER - B + s;
        memcpy(key[s], keys_of(t, 0) + pos[s] * D, sizeof key[s]);
        norm[s] = 0;
        for (int d = 0; d < D; d++)
            norm[s] += (double)key[s][d] * (double)key[s][d];
    }
    lane.keys = kvt_view_of(key, KVT_F32, KVT_SHAPE("SD", B, D));
    float score[B];
    bool pinned[B] = {false};
    const kvt_policy *p = kvt_policy_find("l2norm");
    _Alignas(max_align_t) char params[256];
    kvt_param_defaults(p->params, params);
    p->score(params, score, pinned, &lane);
    for (int s = 0; s < B; s++)
        assert_true(fabs((double)score[s] + sqrt(norm[s])) < 1e-5);
    /* sinks go by position: 0..3 have left, but 3 */
    p = kvt_policy_find("keydiff");
    kvt_err err;
    kvt_param_defaults(p->params, params);
    assert_int_equal(kvt_param_parse(p->params, params, "sinks=4", &err), KVT_OK);
    memset(pinned, 0, sizeof pinned);
    p->score(params, score, pinned, &lane);
    for (int s = 0; s < B; s++)
        assert_true(pinned[s] == (s == 0));
    toy_close(t);
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)2 << 30);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_of_a_few_tokens),
        cmocka_unit_test(keys_that_are_all_alike),
        cmocka_unit_test(a_window_of_zeros_is_shared),
        cmocka_unit_test(more_sinks_than_tokens),
        cmocka_unit_test(three_equal_keys),
        cmocka_unit_test(again_while_decoding),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvt_arena_free(laws_memory);
    return failed;
}
