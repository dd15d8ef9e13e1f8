/* test_shares.c - how slots are shared out: the published pyramids (golden vectors 14.2
 * and 14.3, computed there apart from this code) and cases C003, C004, C006. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "kvt/pieces.h"
#include "kvt/share.h"

enum { LAYERS_MAX = 128, ANY = -1 };

/* The budgets of one lane a layer, each seen alone (as the engine does) or all together. */
static void share_out(int64_t *budget, const char *name, const char *params, int64_t B,
                      int64_t W, int64_t T, int n_layer, bool together)
{
    const kvt_share *share = kvt_share_find(name);
    kvt_err err;
    _Alignas(16) char values[64] = {0};
    kvt_lane lane[LAYERS_MAX];
    kvt_sequence seq = {.n_prompt = T};
    int64_t n_pinned[LAYERS_MAX];
    assert_non_null(share);
    assert_true(share->params_size <= sizeof values);
    if (share->params) {
        kvt_param_defaults(share->params, values);
        if (kvt_param_parse(share->params, values, params, &err))
            fail_msg("%s", err.text);
    }
    const float *score[LAYERS_MAX] = {0};
    for (int l = 0; l < n_layer; l++) {
        lane[l] = (kvt_lane){.layer = l,
                             .model_layer = l,
                             .n_layer = n_layer,
                             .n_slot = T,
                             .now = T - 1,
                             .seq = &seq};
        n_pinned[l] = W;
    }
    for (int l = 0; !together && l < n_layer; l++)
        share->split(values, budget + l, lane + l, 1, score, n_pinned + l, B);
    if (together)
        share->split(values, budget, lane, n_layer, score, n_pinned, B * n_layer);
}

static const struct row {
    const char *name, *params;
    int64_t B, W, T;
    int n_layer;
    int64_t first, second, last, sum; /* of what is kept, pinned slots included */
} rows[] = {
    /* 14.2: selected slots there; + W a layer here */
    {"kvcf 128", "form=kvcf", 128, 8, 8192, 32, 242, 235, 25, 4016 + 256},
    {"kvcf 2048", "form=kvcf", 2048, 8, 8192, 32, 3986, 3861, 111, 65296 + 256},
    {"kvcf 64", "form=kvcf", 64, 8, 8192, 32, 118, 115, 25, 2032 + 256},
    {"kvcf 512, 80 layers", "form=kvcf", 512, 32, 8192, 80, 968, 957, 99, 40120 + 2560},
    {"kvcf 40", "form=kvcf", 40, 8, 8192, 32, 71, 69, 9, 1024 + 256},
    {"kvcf 16: step 0", "form=kvcf", 16, 8, 8192, 32, 24, 24, 24, 512 + 256},
    {"kvcf 9: step 0", "form=kvcf", 9, 8, 8192, 32, 10, 10, 10, 64 + 256},
    {"kvcf below 2C: even", "form=kvcf", 2048, 8, 4079, 32, 2048, 2048, 2048, 65536},
    {"kvcf at 2C: clipped", "form=kvcf", 2048, 8, 4080, 32, 3986, 3861, 111, ANY},
    /* 14.3, those whose product of fraction and length is whole */
    {"kvpress 8192 half", "form=kvpress", 4096, 64, 8192, 32, 7987, ANY, 205, 131072},
    {"kvpress 8192 quarter", "form=kvpress", 2048, 64, 8192, 32, 3994, ANY, 102, 65536},
    {"kvpress 4096 half", "form=kvpress", 2048, 64, 4096, 32, 3994, ANY, 102, 65536},
    {"kvpress 256 half: clipped", "form=kvpress", 128, 64, 256, 32, 192, ANY, 64, 4096},
    {"kvpress 8192 tenth: even", "form=kvpress", 819, 64, 8192, 32, 819, 819, 819, 819 * 32},
    {"kvpress 4096 fifth: even", "form=kvpress", 819, 64, 4096, 32, 819, 819, 819, 819 * 32},
    /* the others of 14.3, in whole tokens: 3686.4 and 1280.1 there */
    {"kvpress 4096 nine tenths: clipped", "form=kvpress", 3686, 64, 4096, 32, 4032, ANY, 3340,
     3686 * 32},
    {"kvpress 12801 tenth", "form=kvpress", 1280, 64, 12801, 32, 2496, ANY, 64, 1280 * 32},
    /* 13.19: conditions on the nominal budget, at T = B - 1, B and 2C + 1 */
    {"kvcf B - 1", "form=kvcf", 2048, 8, 2047, 32, 2047, 2047, 2047, 2047 * 32},
    {"kvcf B", "form=kvcf", 2048, 8, 2048, 32, 2048, 2048, 2048, 65536},
    {"kvcf 2C + 1", "form=kvcf", 2048, 8, 4081, 32, 3986, 3861, 111, ANY},
    /* 13.33: beta above 2 adds up, too */
    {"exact, beta 50", "beta=50", 128, 8, 8192, 32, ANY, ANY, ANY, 128 * 32},
    /* C004: 5000 tokens, cache 40, window 32: 16 past tokens everywhere, 512, where the average
       is 8 */
    {"C004 kvcf", "form=kvcf", 40, 32, 5000, 32, 48, 48, 48, 512 + 1024},
    {"C004 exact", "", 40, 32, 5000, 32, 48, 47, 32, 256 + 1024},
    /* C003: one layer gets the average; one slot at least */
    {"C003 one layer", "", 7, 4, 100, 1, 7, ANY, 7, 7},
    {"C003 one layer kvcf", "form=kvcf", 7, 4, 100, 1, 7, ANY, 7, 7},
    {"C003 one layer kvpress", "form=kvpress", 7, 4, 100, 1, 7, ANY, 7, 7},
    {"C003 10 tokens, 1 slot", "", 1, 0, 10, 32, 1, 1, 1, 32},
    {"C003 10 tokens, 1 slot kvpress", "form=kvpress", 1, 0, 10, 32, 2, 2, 1, ANY},
    {"C003 2 slots", "beta=1000", 2, 0, 100, 32, ANY, ANY, 1, 64},
    /* C006 */
    {"C006 kvcf 130 tokens", "form=kvcf", 96, 8, 130, 4, 96, 96, 96, 384},
    {"C006 kvcf cache above the length", "form=kvcf", 2048, 8, 1000, 32, 1000, 1000, 1000,
     32000},
    {"C006 exact cache above the length", "", 2048, 8, 1000, 32, 1000, 1000, 1000, 32000},
    /* 3100 of 1000 would be asked for: the line is clipped at the length, the total stays */
    {"C006 exact clipped", "", 900, 8, 1000, 4, 1000, ANY, 800, 3600},
};

static void pyramid_is_as_published(void **state)
{
    const struct row *r = *state;
    for (int together = 0; together < 2; together++) {
        int64_t b[LAYERS_MAX], sum = 0;
        share_out(b, "pyramid", r->params, r->B, r->W, r->T, r->n_layer, together);
        for (int l = 0; l < r->n_layer; l++) {
            sum += b[l];
            if (b[l] < 1 || b[l] > r->T || (l > 0 && b[l] > b[l - 1]))
                fail_msg("layer %d: %lld slots", l, (long long)b[l]);
        }
        if ((r->first != ANY && b[0] != r->first) ||
            (r->last != ANY && b[r->n_layer - 1] != r->last) ||
            (r->second != ANY && b[1] != r->second) || (r->sum != ANY && sum != r->sum))
            fail_msg("expected %lld %lld ... %lld sum %lld, got %lld %lld ... %lld sum %lld",
                     (long long)r->first, (long long)r->second, (long long)r->last,
                     (long long)r->sum, (long long)b[0], (long long)b[1],
                     (long long)b[r->n_layer - 1], (long long)sum);
    }
}

/* C004: layers x average within one a layer, here exactly, for any numbers. */
static void exact_pyramid_keeps_the_total(void **state)
{
    (void)state;
    static const char *const betas[] = {"beta=1", "beta=1.5", "beta=3", "beta=20",
                                        "beta=1000000"};
    for (int n_layer = 1; n_layer <= 80; n_layer += 13)
        for (int64_t T = 1; T < 400; T = T * 3 + 1)
            for (int64_t W = 0; W <= 8; W += 4)
                for (int64_t B = kvt_max(W, 1); B <= T; B = B + 1 + B / 5)
                    for (size_t k = 0; k < sizeof betas / sizeof *betas; k++) {
                        int64_t b[LAYERS_MAX], sum = 0;
                        share_out(b, "pyramid", betas[k], B, W, T, n_layer, false);
                        for (int l = 0; l < n_layer; l++) {
                            sum += b[l];
                            assert_true(b[l] >= kvt_max(W, 1) && b[l] <= T);
                            assert_true(l == 0 || b[l] <= b[l - 1]);
                        }
                        if (sum != B * n_layer)
                            fail_msg("B %lld W %lld T %lld L %d %s: %lld of %lld", (long long)B,
                                     (long long)W, (long long)T, n_layer, betas[k],
                                     (long long)sum, (long long)(B * n_layer));
                    }
}

static void even_gives_to_those_with_room(void **state)
{
    (void)state;
    static const struct {
        int64_t total, n_slot[4], want[4];
    } cases[] = {
        {40, {100, 100, 100, 100}, {10, 10, 10, 10}},
        {42, {100, 100, 100, 100}, {11, 11, 10, 10}},
        {40, {3, 100, 5, 100}, {3, 16, 5, 16}},
        {400, {3, 4, 5, 6}, {3, 4, 5, 6}},
        {0, {9, 9, 9, 9}, {1, 1, 1, 1}},
    };
    kvt_sequence seq = {.n_prompt = 100};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvt_lane lane[4];
        int64_t b[4], pinned[4] = {0};
        const float *score[4] = {0};
        for (int k = 0; k < 4; k++)
            lane[k] = (kvt_lane){.n_slot = cases[i].n_slot[k], .seq = &seq};
        kvt_share_find("even")->split(NULL, b, lane, 4, score, pinned, cases[i].total);
        for (int k = 0; k < 4; k++)
            if (b[k] != cases[i].want[k])
                fail_msg("case %zu lane %d: expected %lld, got %lld", i, k,
                         (long long)cases[i].want[k], (long long)b[k]);
    }
}

int main(void)
{
    enum { N_ROW = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[N_ROW + 2];
    for (int i = 0; i < N_ROW; i++)
        tests[i] = (struct CMUnitTest){.name = rows[i].name,
                                       .test_func = pyramid_is_as_published,
                                       .initial_state = (void *)(uintptr_t)&rows[i]};
    tests[N_ROW] = (struct CMUnitTest)cmocka_unit_test(exact_pyramid_keeps_the_total);
    tests[N_ROW + 1] = (struct CMUnitTest)cmocka_unit_test(even_gives_to_those_with_room);
    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
