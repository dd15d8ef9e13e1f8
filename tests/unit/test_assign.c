/* test_assign - the best schedule of irreversible eviction against all schedules of small
 * lanes, against its certificate, against the greedy one. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "assign_small.h"
#include "base/half.h"

static kvt_arena *work;

static void check_schedule(const small *s, const int32_t *drop, int64_t budget)
{
    const assign_lane *l = &s->lane;
    int64_t held = 0, K = l->every;
    for (int64_t j = 0; j < l->n_prompt; j++)
        held += drop[j] > 0;
    assert_true(held <= budget + (l->drop_first && K == 1)); /* step 0 twice */
    for (int64_t m = 0; m < l->n_response; m++) {
        int64_t since = l->drop_first ? (m + 1) % K : m + 1 - m / K * K, seen = 0;
        assert_true(drop[l->n_prompt + m] >= m + !l->drop_first || K > 1);
        for (int64_t j = 0; j <= l->n_prompt + m; j++)
            seen += drop[j] > m;
        assert_true(seen <= budget + since);
    }
}

/* One lane at one budget: feasible, collects what is said, proved by prices. Returns it. */
static double check_proof(assign *a, const small *s, int64_t budget)
{
    int32_t drop[SMALL_TOKENS];
    double price[SMALL_TOKENS + 2], bound;
    assign_mass mass;
    kvt_err err;
    size_t mark = kvt_arena_mark(work);
    assert_true(assign_to(a, budget));
    assign_drop_steps(a, drop);
    assign_prices(a, price);
    check_schedule(s, drop, budget);
    for (int64_t c = 0; c < assign_columns(&s->lane); c++)
        assert_true(price[c] >= 0);
    CHECK_OK(assign_replay(&mass, &s->lane, drop, work, &err), &err);
    CHECK_OK(assign_bound(&bound, &s->lane, budget, price, work, &err), &err);
    if (mass.kept != assign_kept(a) || bound != mass.kept)
        fail_msg("N %d M %d K %d first %d B %d: said %.17g, collected %.17g, bound %.17g",
                 (int)s->lane.n_prompt, (int)s->lane.n_response, (int)s->lane.every,
                 s->lane.drop_first, (int)budget, assign_kept(a), mass.kept, bound);
    kvt_arena_rewind(work, mark);
    return mass.kept;
}

static void check_greedy(const small *s, int64_t budget, double best)
{
    int32_t drop[SMALL_TOKENS];
    double price[SMALL_TOKENS + 2], bound;
    assign_mass mass;
    kvt_err err;
    size_t mark = kvt_arena_mark(work);
    CHECK_OK(assign_greedy(drop, price, &s->lane, budget, work, &err), &err);
    CHECK_OK(assign_replay(&mass, &s->lane, drop, work, &err), &err);
    CHECK_OK(assign_bound(&bound, &s->lane, budget, price, work, &err), &err);
    check_schedule(s, drop, budget);
    assert_true(mass.kept <= best);
    assert_true(bound >= best);
    kvt_arena_rewind(work, mark);
}

/* Budgets from 0 to above all tokens. */
static void check_lane(small *s)
{
    kvt_err err;
    assign *a;
    kvt_arena_rewind(work, 0);
    CHECK_OK(assign_new(&a, &s->lane, work, &err), &err);
    for (int64_t B = 0; B <= s->lane.n_prompt + s->lane.n_response + 1; B++) {
        double found = check_proof(a, s, B), best = small_best(s, B);
        if (found != best)
            fail_msg("N %d M %d K %d first %d B %d: %.17g, all schedules %.17g",
                     (int)s->lane.n_prompt, (int)s->lane.n_response, (int)s->lane.every,
                     s->lane.drop_first, (int)B, found, best);
        if (!s->lane.drop_first)
            assert_true(small_step_bound(s, B) >= found);
        check_greedy(s, B, best);
    }
}

static void is_the_best_of_all_schedules(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 600; i++) {
        static small s;
        int64_t N = 1 + i % 5, M = 1 + i / 5 % 5;
        small_draw(&s, &seed, (small_kind)(i % SMALL_KINDS), N, M, 1 + i % 2);
        for (int64_t every = 1; every <= 3; every++)
            for (int first = 0; first < 2; first++) {
                s.lane.every = every, s.lane.drop_first = first;
                check_lane(&s);
            }
    }
}

/* More tokens than all schedules can be tried for in the test above: all of them at three
 * budgets. */
static void longer_lanes_too(void **state)
{
    (void)state;
    uint64_t seed = 77;
    for (int i = 0; i < 24; i++) {
        static small s;
        kvt_err err;
        assign *a;
        small_draw(&s, &seed, (small_kind)(i % SMALL_KINDS), 3 + i % 2, 7, 1);
        s.lane.every = 1 + i % 3, s.lane.drop_first = i / 3 % 2;
        kvt_arena_rewind(work, 0);
        CHECK_OK(assign_new(&a, &s.lane, work, &err), &err);
        for (int64_t B = 1; B <= 9; B += 2)
            assert_true(check_proof(a, &s, B) == small_best(&s, B));
    }
}

static void excess_is_what_the_cut_hides(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < 400; i++) {
        static small s;
        int32_t drop[SMALL_TOKENS];
        double price[SMALL_TOKENS], all[SMALL_HEADS * SMALL_TOKENS], sum = 0, excess;
        assign_mass mass;
        kvt_err err;
        kvt_arena_rewind(work, 0);
        small_draw(&s, &seed, (small_kind)(i % 2), 4, 5, 2); /* of ties a row exceeds 1 */
        CHECK_OK(assign_greedy(drop, price, &s.lane, i % 3, work, &err), &err);
        CHECK_OK(assign_replay(&mass, &s.lane, drop, work, &err), &err);
        for (int h = 0; h < 2; h++)
            for (int64_t m = 0; m < 5; m++) {
                double row = 0;
                for (int64_t j = 0; j <= 4 + m; j++)
                    row += (double)half_to_float(s.half[(h * 5 + m) * 9 + j]);
                sum += all[h * 5 + m] = row;
            }
        CHECK_OK(assign_excess(&excess, &s.lane, all, drop, work, &err), &err);
        assert_true(sum - mass.kept - excess == mass.lost);
    }
}

static void odd_numbers_are_refused(void **state)
{
    (void)state;
    static const uint16_t bad[] = {0x7e00, 0x7c00, 0x8001, 0xfc00, 0xbc00};
    uint64_t seed = 9;
    for (int i = 0; i < CHECK_COUNT(bad) * 3; i++) {
        static small s;
        kvt_err err;
        assign *a;
        kvt_arena_rewind(work, 0);
        small_draw(&s, &seed, SMALL_ROWS, 4, 4, 2);
        s.half[i % 3 == 0 ? 0 : i % 3 == 1 ? 16 + 8 + 5 : 32 + 24 + 7] = bad[i / 3];
        assert_int_equal(assign_new(&a, &s.lane, work, &err), KVT_FORMAT);
        assert_non_null(strstr(err.text, "expected finite numbers of 0 or more"));
    }
    static small s;
    kvt_err err;
    assign *a;
    small_draw(&s, &seed, SMALL_ROWS, 4, 4, 2);
    s.half[0] = 0x8000; /* -0 is 0 */
    CHECK_OK(assign_new(&a, &s.lane, work, &err), &err);
}

static void memory_is_what_is_said(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int64_t every = 1; every <= 4; every += 3) {
        static small s;
        kvt_err err;
        assign *a;
        small_draw(&s, &seed, SMALL_ROWS, 6, 6, 2);
        s.lane.every = every;
        kvt_arena *room = kvt_arena_new((size_t)assign_bytes(&s.lane) + 65536);
        CHECK_OK(assign_new(&a, &s.lane, room, &err), &err);
        assert_true(kvt_arena_peak(room) <= (size_t)assign_bytes(&s.lane) + 65536);
        kvt_arena_free(room);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_best_of_all_schedules),
        cmocka_unit_test(longer_lanes_too),
        cmocka_unit_test(excess_is_what_the_cut_hides),
        cmocka_unit_test(odd_numbers_are_refused),
        cmocka_unit_test(memory_is_what_is_said),
    };
    work = kvt_arena_new((size_t)1 << 30);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    kvt_arena_free(work);
    return rc;
}
