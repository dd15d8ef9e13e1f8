/* test_pieces_window.c - votes of the last queries, ends of lanes, shares rounded down, bits in
 * the places of floats: against values that were worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kvt/pieces.h"

static kvt_arena *memory;

/* 2 heads of 2 rows over 3 slots. */
static const float rows[2][2][3] = {{{1, 2, 0}, {3, 0, 4}}, {{5, 1, 1}, {0, 0, 2}}};

static kvt_lane lane_of(float *mark, kvt_arena *scratch)
{
    return (kvt_lane){.n_slot = 3,
                      .mark = mark,
                      .scratch = scratch,
                      .attn = kvt_view_of(rows, KVT_F32, KVT_SHAPE("HQS", 2, 2, 3))};
}

static void votes_are_counted(void **state)
{
    (void)state;
    static const struct {
        int how;
        float all[3], apart[6]; /* [S], [S 2] */
    } cases[] = {
        {KVT_VOTE_SUM, {9, 3, 7}, {4, 5, 2, 1, 4, 3}},
        {KVT_VOTE_MEAN, {2.25F, 0.75F, 1.75F}, {2, 2.5F, 1, 0.5F, 2, 1.5F}},
        {KVT_VOTE_MAX, {5, 2, 4}, {3, 5, 2, 1, 4, 2}},
        {KVT_VOTE_HEAD, {5, 2, 4}, {4, 5, 2, 1, 4, 3}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float mark[6] = {-1, -1, -1, -1, -1, -1};
        kvt_lane lane = lane_of(mark, memory);
        kvt_vote(&lane, 1, cases[i].how);
        assert_memory_equal(mark, cases[i].all, sizeof cases[i].all);
        kvt_vote(&lane, 2, cases[i].how);
        assert_memory_equal(mark, cases[i].apart, sizeof cases[i].apart);
    }
}

/* Two sets over 3 slots, of which the last is not ranked: pools do not see it. */
static void votes_are_pooled_by_set(void **state)
{
    (void)state;
    float mark[6] = {4, 0, 2, 6, 100, 100}, out[3] = {0};
    kvt_lane lane = lane_of(mark, memory);
    kvt_pool_votes(out, &lane, 2, 2, 3, KVT_POOL_MAX, 2);
    assert_true(out[0] == 5 && out[1] == 5 && out[2] == 0); /* (4 + 6) / 2 */
    memset(out, 0, sizeof out);
    kvt_pool_votes(out, &lane, 2, 2, 3, KVT_POOL_AVG, 1);
    assert_true(out[0] == 4 && out[1] == 4); /* (4 + 2) / 3 + (0 + 6) / 3 */
}

static void without_room_a_score_is_no_number(void **state)
{
    (void)state;
    kvt_arena *none = kvt_arena_new(1 << 20);
    float mark[6] = {0}, out[3] = {0};
    kvt_lane lane = lane_of(mark, none);
    kvt_alloc_fail_at(1, true);
    kvt_vote(&lane, 2, KVT_VOTE_SUM);
    for (int i = 0; i < 6; i++)
        assert_true(isnan(mark[i]));
    kvt_pool_votes(out, &lane, 2, 1, 3, KVT_POOL_MAX, 1);
    assert_true(isnan(out[0]) && isnan(out[1]) && out[2] == 0);
    bool keep[3] = {0}, pinned[3] = {0};
    assert_false(kvt_keep_budget(keep, out, pinned, 3, 1, none));
    assert_true(keep[0] && keep[1] && keep[2]); /* more than asked: refused */
    kvt_alloc_fail_at(0, false);
    kvt_arena_free(none);
}

static void the_budget_counts_what_is_pinned(void **state)
{
    (void)state;
    const float score[4] = {1, 3, 3, 2};
    const bool pinned[4] = {true, false, false, false};
    bool keep[4] = {0};
    assert_true(kvt_keep_budget(keep, score, pinned, 4, 2, memory));
    assert_true(keep[0] && keep[1] && !keep[2] && !keep[3]); /* of equals the lower one */
    assert_true(kvt_keep_budget(keep, score, pinned, 4, 0, memory));
    assert_true(keep[0] && !keep[1] && !keep[2] && !keep[3]);
}

static void a_cover_stops_in_front_of_its_share(void **state)
{
    (void)state;
    static const struct {
        double cover;
        int64_t most;
        bool keep[4];
    } cases[] = {
        {0.75, 4, {false, true, false, false}}, /* 4 of 8; the 2 reach 6 of 8 */
        {0.76, 4, {true, true, false, false}},  {1, 4, {true, true, true, false}},
        {1, 1, {false, true, false, false}},    {0, 4, {false, false, false, false}},
    };
    const float mass[4] = {2, 4, 1, 1}, none[4] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool keep[4] = {0};
        assert_true(kvt_keep_cover(keep, mass, 4, cases[i].cover, cases[i].most, memory));
        assert_memory_equal(keep, cases[i].keep, sizeof keep);
    }
    bool keep[4] = {0};
    assert_true(kvt_keep_cover(keep, none, 4, 0.5, 4, memory));
    assert_false(keep[0] || keep[1] || keep[2] || keep[3]);
}

static void both_ends_must_fit(void **state)
{
    (void)state;
    char why[128] = "";
    assert_true(kvt_ends_fit(4, 10, 14, 100, why, sizeof why));
    assert_true(kvt_ends_fit(4, 10, 5, 5, why, sizeof why)); /* nothing goes */
    assert_string_equal(why, "");
    assert_false(kvt_ends_fit(4, 10, 13, 100, why, sizeof why));
    assert_string_equal(why,
                        "4 first and 10 newest tokens need a budget of 14 or more, got 13");
}

/* 3 lanes of 6 slots; lanes 2 and 0 are cut, in this order. */
static void cut_lanes_keep_their_ends(void **state)
{
    (void)state;
    static const struct {
        int64_t first, hold, total;
        const char *kept[3];
    } cases[] = {
        {1, 3, 0, {"x...xx", "xxxxxx", "x...xx"}},
        {2, 1, 0, {"x.....", "xxxxxx", "x....."}},  /* no more sinks than slots */
        {1, 0, 13, {"x...xx", "xxxxxx", "x..xxx"}}, /* 7 left: the first gets 4 */
        {0, 9, 0, {"xxxxxx", "xxxxxx", "xxxxxx"}},  /* all there are */
    };
    const int32_t cut[2] = {2, 0};
    kvt_lane lane[3] = {{.n_slot = 6}, {.n_slot = 6}, {.n_slot = 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool marks[3][6] = {{0}}, *keep[3] = {marks[0], marks[1], marks[2]};
        kvt_keep_ends(keep, lane, 3, cut, 2, cases[i].first, cases[i].hold, cases[i].total);
        for (int a = 0; a < 3; a++)
            for (int s = 0; s < 6; s++)
                assert_int_equal(marks[a][s], cases[i].kept[a][s] == 'x');
    }
}

/* floor(x part) with the largest x that fits. */
static void shares_are_rounded_down(void **state)
{
    (void)state;
    int64_t count[3];
    double part[3] = {1, 2, 4};
    kvt_share_floors(count, part, 3, 14, 100); /* x = 2 */
    assert_true(count[0] == 2 && count[1] == 4 && count[2] == 8);
    kvt_share_floors(count, part, 3, 15, 100); /* at 9 / 4 one more for the last */
    assert_true(count[0] == 2 && count[1] == 4 && count[2] == 9);
    kvt_share_floors(count, part, 3, 14, 5); /* what one cannot take goes to the others */
    assert_true(count[0] == 4 && count[1] == 5 && count[2] == 5);
    double small[3] = {0, 0, 9};
    kvt_share_floors(count, small, 3, 10, 100); /* one at least */
    assert_true(count[0] == 1 && count[1] == 1 && count[2] == 8);
    double none[3] = {0};
    kvt_share_floors(count, none, 3, 7, 100); /* of equal ones the first */
    assert_true(count[0] == 3 && count[1] == 2 && count[2] == 2);
}

static void lanes_of_a_layer_lie_together(void **state)
{
    (void)state;
    kvt_lane lane[4] = {{.layer = 2}, {.layer = 2}, {.layer = 5}, {.layer = 5}};
    assert_int_equal(kvt_layer_lanes(lane, 4), 2);
    assert_int_equal(kvt_layer_lanes(lane + 2, 2), 2);
    assert_int_equal(kvt_layer_lanes(lane, 1), 1);
}

/* Those hooks read the first number of the parameters. */
static void window_hooks_find_their_window(void **state)
{
    (void)state;
    int found = 0;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        if ((*p)->window != kvt_window_rows && (*p)->fits != kvt_window_held)
            continue;
        const kvt_param *window = kvt_param_find((*p)->params, "window");
        assert_non_null(window);
        assert_true(window->type == KVT_INT && window->offset == 0);
        found++;
    }
    assert_true(found > 5);
}

static void bits_are_put_and_counted(void **state)
{
    (void)state;
    float row[3] = {0};
    assert_int_equal(kvt_bit_words(64), 2);
    assert_int_equal(kvt_bit_words(65), 3);
    for (int64_t i = 0; i < 65; i += 2)
        kvt_put_bit(row, i, true);
    assert_int_equal(kvt_count_bits(row, 3), 33);
    assert_int_equal(kvt_count_bits(row, 2), 32);
    kvt_put_bit(row, 64, false);
    kvt_put_bit(row, 31, true);
    kvt_put_bit(row, 31, true);
    assert_int_equal(kvt_count_bits(row, 3), 33);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_are_counted),
        cmocka_unit_test(votes_are_pooled_by_set),
        cmocka_unit_test(without_room_a_score_is_no_number),
        cmocka_unit_test(the_budget_counts_what_is_pinned),
        cmocka_unit_test(a_cover_stops_in_front_of_its_share),
        cmocka_unit_test(both_ends_must_fit),
        cmocka_unit_test(cut_lanes_keep_their_ends),
        cmocka_unit_test(shares_are_rounded_down),
        cmocka_unit_test(lanes_of_a_layer_lie_together),
        cmocka_unit_test(window_hooks_find_their_window),
        cmocka_unit_test(bits_are_put_and_counted),
    };
    memory = kvt_arena_new(1 << 20);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvt_arena_free(memory);
    return failed;
}
