/* test_allocators.c - allocators that read scores or a file: golden vectors 5.2 and 14.4 of the
 * policies' page, cases C007 and C008, totals. Expectations are written from the page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/pieces.h"
#include "kvt/share.h"

enum { LANES = 16, SLOTS = 128 };

/* Lanes with scores, pinned slots and table entries. */
typedef struct bench {
    kvt_arena *scratch;
    kvt_sequence seq;
    kvt_lane lane[LANES];
    kvt_view table[LANES];
    float number[LANES], score[LANES][SLOTS], mark[LANES][SLOTS];
    bool pinned[LANES][SLOTS];
    const float *scores[LANES];
    int64_t n_pinned[LANES], budget[LANES];
    int n;
} bench;

/* Every slot of every lane scores 0; the last W are pinned. */
static void set_up(bench *b, kvt_arena *scratch, int n_lane, int64_t T, int64_t W)
{
    memset(b, 0, sizeof *b);
    b->scratch = scratch;
    b->n = n_lane;
    b->seq.n_prompt = T;
    for (int i = 0; i < n_lane; i++) {
        b->table[i] = kvt_view_of(&b->number[i], KVT_F32, "", 0, NULL);
        b->lane[i] = (kvt_lane){.layer = i,
                                .model_layer = i,
                                .n_layer = n_lane,
                                .n_slot = T,
                                .now = T - 1,
                                .seq = &b->seq,
                                .scratch = scratch,
                                .share_mark = b->mark[i],
                                .share_weights = &b->table[i],
                                .share_pinned = b->pinned[i]};
        b->scores[i] = b->score[i];
        b->n_pinned[i] = W;
        for (int64_t s = T - W; s < T; s++)
            b->pinned[i][s] = true;
    }
}

static void share_out(bench *b, const char *name, const char *params, int64_t total)
{
    _Alignas(16) char values[64] = {0};
    kvt_err err;
    const kvt_share *share = kvt_share_find(name);
    assert_non_null(share);
    assert_true(share->params_size <= sizeof values);
    if (share->params) {
        kvt_param_defaults(share->params, values);
        if (kvt_param_parse(share->params, values, params, &err))
            fail_msg("%s", err.text);
    }
    share->split(values, b->budget, b->lane, b->n, b->scores, b->n_pinned, total);
    kvt_arena_rewind(b->scratch, 0);
}

static int64_t sum_of(const bench *b)
{
    int64_t sum = 0;
    for (int i = 0; i < b->n; i++)
        sum += b->budget[i];
    return sum;
}

/* 5.2 and 14.4: m of each head among the best of all -> selected slots of each head. */
static void ada_rounds_as_published(void **state)
{
    static const struct {
        const char *params;
        int64_t C, m[4], want[4];
    } golden[] = {
        {"rule=official,floor=0.5", 11, {21, 13, 7, 3}, {16, 12, 8, 6}},
        {"rule=official,floor=0.2", 10, {25, 9, 4, 2}, {22, 9, 5, 4}},
        {"rule=official,floor=0.5", 10, {31, 5, 3, 1}, {20, 8, 6, 6}},
        {"rule=kvcf,normalise=false", 10, {25, 9, 4, 2}, {22, 9, 5, 4}},
    };
    bench *b = kvt_alloc(1, sizeof *b);
    for (size_t g = 0; g < sizeof golden / sizeof *golden; g++)
        for (int64_t W = 0; W <= 8; W += 8) {
            set_up(b, *state, 4, 60, W);
            for (int i = 0; i < 4; i++)
                for (int64_t k = 0; k < golden[g].m[i]; k++)
                    b->score[i][k] = 1;
            share_out(b, "ada", golden[g].params, 4 * (golden[g].C + W));
            for (int i = 0; i < 4; i++)
                assert_int_equal(b->budget[i], golden[g].want[i] + W);
        }
    kvt_free(b);
}

/* The default form: (1 - alpha) m + alpha C by largest remainders, worked out by hand.
 * C = 11, alpha = 0.5: 16, 12, 9, 7 (from 16, 12, 9, 7 exactly);
 * C = 10, alpha = 0.2: 22, 9.2, 5.2, 3.6 -> 22, 9, 5, 4. */
static void ada_adds_up(void **state)
{
    static const struct {
        const char *params;
        int64_t C, m[4], want[4];
    } cases[] = {
        {"floor=0.5", 11, {21, 13, 7, 3}, {16, 12, 9, 7}},
        {"", 10, {25, 9, 4, 2}, {22, 9, 5, 4}},
        {"floor=0", 10, {25, 9, 4, 2}, {25, 9, 4, 2}},
        {"floor=1", 10, {25, 9, 4, 2}, {10, 10, 10, 10}},
    };
    bench *b = kvt_alloc(1, sizeof *b);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        set_up(b, *state, 4, 60, 0);
        for (int i = 0; i < 4; i++)
            for (int64_t k = 0; k < cases[c].m[i]; k++)
                b->score[i][k] = 1;
        share_out(b, "ada", cases[c].params, 4 * cases[c].C);
        for (int i = 0; i < 4; i++)
            assert_int_equal(b->budget[i], cases[c].want[i]);
    }
    kvt_free(b);
}

/* kvpress: the int(alpha B) best of each head, window included, are safe. B = 10, W = 2, alpha
 * = 0.5: 3 beside the window; the other 10 go to the best, all of head 0. */
static void ada_kvpress_keeps_the_safe(void **state)
{
    bench *b = kvt_alloc(1, sizeof *b);
    set_up(b, *state, 2, 60, 2);
    for (int64_t s = 0; s < 58; s++) {
        b->score[0][s] = 2 + (float)s;
        b->score[1][s] = 1 / (1 + (float)s);
    }
    share_out(b, "ada", "rule=kvpress,floor=0.5", 20);
    assert_int_equal(b->budget[0], 15);
    assert_int_equal(b->budget[1], 5);
    share_out(b, "ada", "rule=kvpress,floor=0", 20);
    assert_int_equal(b->budget[0], 18);
    assert_int_equal(b->budget[1], 2); /* its window */
    kvt_free(b);
}

/* C007: 2 heads, 10 keys, budget 2, head 0 holds all the large scores: 1 at least, 4 in all. */
static void no_head_is_emptied(void **state)
{
    static const char *const names[][2] = {{"ada", ""},
                                           {"ada", "rule=kvpress"},
                                           {"ada", "floor=0"},
                                           {"ada", "rule=kvpress,floor=0"},
                                           {"global", ""}};
    bench *b = kvt_alloc(1, sizeof *b);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        set_up(b, *state, 2, 10, 0);
        for (int64_t s = 0; s < 10; s++)
            b->score[0][s] = 1;
        share_out(b, names[k][0], names[k][1], 4);
        assert_int_equal(b->budget[0], 3);
        assert_int_equal(b->budget[1], 1);
    }
    kvt_free(b);
}

/* C008: all mass on 1 key against 100 equal ones: the flat head gets more, 32 in all. */
static void unequal_heads_get_unequal_budgets(void **state)
{
    static const char *const names[][2] = {
        {"ada", ""}, {"ada", "rule=kvpress"}, {"global", ""}, {"oracle-budget", ""}};
    bench *b = kvt_alloc(1, sizeof *b);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        set_up(b, *state, 2, 100, 0);
        b->score[0][17] = b->mark[0][17] = 1;
        for (int64_t s = 0; s < 100; s++)
            b->score[1][s] = b->mark[1][s] = 0.01F;
        share_out(b, names[k][0], names[k][1], 32);
        assert_int_equal(sum_of(b), 32);
        assert_true(b->budget[0] < b->budget[1]);
    }
    kvt_free(b);
}

/* normalise: (top-C share) x score. Head 0 is 0.9 0.1 and nothing, head 1 is flat 0.5: with C =
 * 1 the weights are 0.9 and 1/8; 0.81 and 0.09 lie above 0.0625. */
static void normalised_scores_favour_the_concentrated(void **state)
{
    bench *b = kvt_alloc(1, sizeof *b);
    set_up(b, *state, 2, 8, 0);
    b->score[0][3] = 0.9F;
    b->score[0][4] = 0.1F;
    for (int64_t s = 0; s < 8; s++)
        b->score[1][s] = 0.5F;
    share_out(b, "ada", "floor=0", 2); /* 0.9 and the first 0.5 */
    assert_int_equal(b->budget[0], 1);
    share_out(b, "ada", "floor=0,normalise=true", 2); /* both of head 0, but 1 at least */
    assert_int_equal(b->budget[0], 1);
    set_up(b, *state, 2, 8, 1);
    b->score[0][3] = 0.9F;
    b->score[0][4] = 0.1F;
    for (int64_t s = 0; s < 8; s++)
        b->score[1][s] = 0.5F;
    share_out(b, "ada", "floor=0", 4); /* 2 are windows */
    assert_int_equal(b->budget[0], 2);
    share_out(b, "ada", "floor=0,normalise=true", 4);
    assert_int_equal(b->budget[0], 3);
    kvt_free(b);
}

/* What a rule pins is not among the scores that are compared, whatever stands there. */
static void pinned_slots_are_out_of_the_comparison(void **state)
{
    bench *b = kvt_alloc(1, sizeof *b);
    for (int k = 0; k < 2; k++) {
        set_up(b, *state, 2, 20, 4);
        for (int64_t s = 16; s < 20; s++)
            b->score[0][s] = k ? 1e9F : -1e9F;
        for (int64_t s = 0; s < 16; s++)
            b->score[1][s] = 1;
        share_out(b, "global", "", 16);
        assert_int_equal(b->budget[0], 4);
        assert_int_equal(b->budget[1], 12);
    }
    kvt_free(b);
}

static void global_keeps_a_floor(void **state)
{
    bench *b = kvt_alloc(1, sizeof *b);
    set_up(b, *state, 3, 40, 0);
    for (int64_t s = 0; s < 40; s++)
        b->score[2][s] = 5;
    share_out(b, "global", "floor=0.29", 90); /* 0.29 x 30 = 8.7: 8, 8, 40, then the first */
    assert_int_equal(b->budget[0], 40);
    assert_int_equal(b->budget[1], 10);
    share_out(b, "global", "floor=0.5", 30);
    assert_int_equal(b->budget[0], 5);
    assert_int_equal(b->budget[1], 5);
    assert_int_equal(b->budget[2], 20);
    kvt_free(b);
}

static void tables_are_proportions(void **state)
{
    static const struct {
        const char *params;
        int64_t W, total;
        float share[4];
        int64_t want[4];
    } cases[] = {
        {"", 0, 40, {1, 1, 1, 1}, {10, 10, 10, 10}},
        {"", 0, 40, {4, 3, 2, 1}, {16, 12, 8, 4}},
        {"", 0, 40, {0.4F, 0.3F, 0.2F, 0.1F}, {16, 12, 8, 4}},
        {"", 0, 42, {1, 1, 1, 1}, {11, 11, 10, 10}}, /* remainders: the first */
        {"", 0, 40, {1, 0, 1, 0}, {19, 1, 19, 1}},
        {"", 8, 40, {10, 1, 1, 1}, {16, 8, 8, 8}}, /* what is pinned stays */
        {"floor=0.5", 0, 40, {7, 1, 1, 1}, {25, 5, 5, 5}},
        {"", 0, 200, {100, 1, 1, 2}, {100, 25, 25, 50}}, /* no more than it holds */
        {"", 0, 400, {4, 3, 2, 1}, {100, 100, 100, 100}},
    };
    bench *b = kvt_alloc(1, sizeof *b);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        set_up(b, *state, 4, 100, cases[c].W);
        memcpy(b->number, cases[c].share, 4 * sizeof *b->number);
        share_out(b, "table", cases[c].params, cases[c].total);
        for (int i = 0; i < 4; i++)
            if (b->budget[i] != cases[c].want[i])
                fail_msg("case %zu lane %d: expected %lld, got %lld", c, i,
                         (long long)cases[c].want[i], (long long)b->budget[i]);
    }
    kvt_free(b);
}

/* Any scores, sizes and windows: the total is met, bounds hold; the same again. */
static void totals_are_exact(void **state)
{
    static const char *const names[][2] = {{"ada", ""},
                                           {"ada", "floor=0"},
                                           {"ada", "rule=kvpress"},
                                           {"ada", "normalise=true"},
                                           {"global", ""},
                                           {"global", "floor=0.3"},
                                           {"table", ""},
                                           {"table", "floor=0.7"},
                                           {"oracle-budget", ""}};
    uint64_t rng[KVT_RNG_WORDS] = {1, 2, 3, 4};
    bench *b = kvt_alloc(1, sizeof *b);
    for (int run = 0; run < 400; run++) {
        int n = 1 + (int)(kvt_random_bits(rng) % LANES);
        int64_t T = 1 + (int64_t)(kvt_random_bits(rng) % SLOTS);
        int64_t W = (int64_t)(kvt_random_bits(rng) % 9);
        W = W >= T ? 0 : W;
        int64_t B = kvt_max(W, 1) + (int64_t)(kvt_random_bits(rng) % (uint64_t)T);
        set_up(b, *state, n, T, W);
        for (int i = 0; i < n; i++) {
            b->number[i] = (float)(kvt_random_bits(rng) % 5);
            for (int64_t s = 0; s < T; s++) {
                b->score[i][s] = run % 3 ? (float)(kvt_random(rng) * (i + 1)) : 0;
                b->mark[i][s] = run % 4 ? (float)kvt_random(rng) : 0;
            }
        }
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            share_out(b, names[k][0], names[k][1], B * n);
            for (int i = 0; i < n; i++)
                assert_true(b->budget[i] >= kvt_max(W, 1) && b->budget[i] <= T);
            if (sum_of(b) != kvt_min(B, T) * n)
                fail_msg("%s %s: %lld of %lld", names[k][0], names[k][1], (long long)sum_of(b),
                         (long long)(kvt_min(B, T) * n));
        }
    }
    kvt_free(b);
}

/* A budget below what is pinned is left to the engine, which refuses it. */
static void too_little_is_not_made_up(void **state)
{
    bench *b = kvt_alloc(1, sizeof *b);
    static const char *const names[] = {"ada", "global", "table", "oracle-budget"};
    for (size_t k = 0; k < 4; k++) {
        set_up(b, *state, 3, 20, 8);
        share_out(b, names[k], "", 15);
        for (int i = 0; i < 3; i++)
            assert_true(b->budget[i] < 8);
    }
    kvt_free(b);
}

static int make_scratch(void **state)
{
    *state = kvt_arena_new((size_t)64 << 20);
    return *state == NULL;
}

static int free_scratch(void **state)
{
    kvt_arena_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ada_rounds_as_published),
        cmocka_unit_test(ada_adds_up),
        cmocka_unit_test(ada_kvpress_keeps_the_safe),
        cmocka_unit_test(no_head_is_emptied),
        cmocka_unit_test(unequal_heads_get_unequal_budgets),
        cmocka_unit_test(normalised_scores_favour_the_concentrated),
        cmocka_unit_test(pinned_slots_are_out_of_the_comparison),
        cmocka_unit_test(global_keeps_a_floor),
        cmocka_unit_test(tables_are_proportions),
        cmocka_unit_test(totals_are_exact),
        cmocka_unit_test(too_little_is_not_made_up),
    };
    return cmocka_run_group_tests_name("allocators", tests, make_scratch, free_scratch);
}
