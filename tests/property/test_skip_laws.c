/* test_skip_laws.c - policies that skip: Quest and H2O's masks against their definitions in
 * double, row by row, on numbers without ties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws.h"

enum { LAYERS = 2, HEADS = 4, GROUPS = 2, EACH = HEADS / GROUPS, N = 50, M = 6, T = N + M };
enum { D = 8 };
static toy *trace;
static const int64_t budgets[] = {3, 8, 17, 32, 41};
enum { N_BUDGET = sizeof budgets / sizeof *budgets };

/* Attention of row i over all it sees, of the heads of a lane together. */
static void row_sum(double *out, int layer, int lane, int n_lane, int64_t i)
{
    int each = HEADS / n_lane;
    int64_t pos[T];
    float row[T];
    for (int64_t j = 0; j < T; j++)
        pos[j] = j, out[j] = 0;
    for (int h = lane * each; h < (lane + 1) * each; h++) {
        toy_row(row, trace, layer, h, i, pos, T);
        for (int64_t j = 0; j <= i; j++)
            out[j] += (double)row[j];
    }
}

/* What row m of a lane reads, [T]. */
static void check_read(const mini_result *r, int64_t m, int layer, int lane, const bool *want)
{
    const uint8_t *held = mini_held(r, trace, m + 1, layer, lane);
    for (int64_t j = 0; j < T; j++)
        if (held[j] != want[j])
            fail_msg("row %lld, layer %d, lane %d: token %lld is%s read", (long long)m, layer,
                     lane, (long long)j, held[j] ? "" : " not");
}

#define EACH_LANE(r, l, a)           \
    for (int l = 0; l < LAYERS; l++) \
        for (int a = 0; a < (r).n_lane; a++)

/* ---- quest ---------------------------------------------------------------------------------
 */

/* sum over channels of max(q m, q M) of tokens from..to - 1, heads first..first + n - 1. */
static double bound(int layer, int group, int first, int n, int64_t i, int64_t from, int64_t to)
{
    double sum = 0;
    for (int d = 0; d < D; d++) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t j = from; j < to; j++) {
            low = fmin(low, laws_at(&trace->more[layer].keys, group, j, d));
            high = fmax(high, laws_at(&trace->more[layer].keys, group, j, d));
        }
        for (int h = first; h < first + n; h++) {
            double q = laws_at(&trace->more[layer].queries, h, i, d);
            sum += fmax(q * low, q * high);
        }
    }
    return sum;
}

typedef struct quest_case {
    const char *params;
    int64_t page, least, dense;
    bool last, by_head;
} quest_case;

static const quest_case quests[] = {
    {"", 16, 1, 0, false, true},
    {"page=4", 4, 1, 0, false, true},
    {"page=5,compat=official", 5, 1, 0, true, true},
    {"page=4,compat=official-eval", 4, 3, 2, false, true},
    {"page=7,compat=sparse-frontier", 7, 1, 0, true, false},
};

static void quest_row(bool *want, const quest_case *q, int64_t budget, int layer, int lane,
                      int64_t m)
{
    int64_t n = N + m + 1, n_page = (n + q->page - 1) / q->page, k = budget / q->page;
    int first = q->by_head ? lane : lane * EACH, each = q->by_head ? 1 : EACH;
    double score[T];
    uint8_t best[T];
    k = k < q->least ? q->least : k;
    for (int64_t i = 0; i < n_page; i++) {
        int64_t to = (i + 1) * q->page < n ? (i + 1) * q->page : n;
        score[i] = bound(layer, first / EACH, first, each, N + m, i * q->page, to);
        if (q->last && i == n_page - 1)
            score[i] = INFINITY;
    }
    laws_best(best, score, n_page, k);
    bool all = n <= budget + 1 || trace->layer_id[layer] < q->dense;
    for (int64_t j = 0; j < T; j++)
        want[j] = j < n && (all || best[j / q->page]);
}

static void pages_with_the_largest_bounds_are_read(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof quests / sizeof *quests; c++)
        for (int b = 0; b < N_BUDGET; b++) {
            const quest_case *q = &quests[c];
            mini_result r = laws_try(trace, "quest", q->params, budgets[b], false);
            assert_int_equal(r.skipped, q->least == 1 && budgets[b] < q->page);
            if (r.skipped) {
                assert_non_null(strstr(r.why, "needs a budget of"));
                continue;
            }
            assert_int_equal(r.n_lane, q->by_head ? HEADS : GROUPS);
            EACH_LANE(r, l, a)
            for (int64_t m = 0; m < M; m++) {
                bool want[T];
                quest_row(want, q, budgets[b], l, a, m);
                check_read(&r, m, l, a, want);
            }
        }
}

/* Section 10.7: two vectors a page; of halves, 4 D bytes over 16 slots. */
static void pages_have_metadata(void **state)
{
    (void)state;
    const kvt_policy *p = kvt_policy_find("quest");
    void *params = kvt_arena_get(laws_memory, p->params_size);
    kvt_param_defaults(p->params, params);
    kvt_work work = {.head_dim = 64, .lane_heads = 1};
    p->work(params, &work);
    assert_int_equal(work.state_bytes_slot, 4 * 64 / 16);
}

/* ---- h2o-mask ------------------------------------------------------------------------------
 */

typedef struct masked {
    double acc[T];
    bool seen[T];
} masked;

static void mask_start(masked *s, int layer, int lane, int n_lane)
{
    double row[T];
    memset(s, 0, sizeof *s);
    for (int64_t i = 0; i < N; i++) {
        row_sum(row, layer, lane, n_lane, i);
        for (int64_t j = 0; j <= i; j++)
            s->acc[j] += row[j];
    }
}

/* Section 3.1 (b): the mask behind n tokens, for row n. */
static void mask_next(masked *s, int64_t n, int64_t hh, int64_t R)
{
    uint8_t best[T];
    for (int64_t j = 0; j < T; j++)
        s->seen[j] = j <= n;
    if (n <= hh + R)
        return;
    laws_best(best, s->acc, n - R, hh);
    for (int64_t j = 0; j <= n; j++)
        s->seen[j] = j < n - R ? best[j] : j > n - R; /* the last R of n + 1 */
    for (int64_t j = 0; j < n - R && R > 0; j++)      /* the last 0 is everything */
        s->acc[j] *= s->seen[j];
}

/* The softmax over what is seen, head by head. */
static void mask_add(masked *s, int layer, int lane, int n_lane, int64_t i)
{
    int each = HEADS / n_lane;
    for (int h = lane * each; h < (lane + 1) * each; h++) {
        double row[T], sum = 0;
        row_sum(row, layer, h, HEADS, i);
        for (int64_t j = 0; j <= i; j++)
            sum += s->seen[j] ? row[j] : 0;
        for (int64_t j = 0; j <= i; j++)
            s->acc[j] += s->seen[j] ? row[j] / sum : 0;
    }
}

static void masks_hide_and_show_again(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        double recent;
        int n_lane;
    } cases[] = {{"", 0.5, GROUPS},
                 {"compat=official", 0.5, HEADS},
                 {"recent=0.25", 0.25, GROUPS},
                 {"recent=0", 0, GROUPS},
                 {"recent=1,compat=official", 1, HEADS}};
    int64_t back = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int b = 0; b < N_BUDGET; b++) {
            int64_t R = (int64_t)(cases[c].recent * (double)budgets[b]), hh = budgets[b] - R;
            mini_result r = laws_try(trace, "h2o-mask", cases[c].params, budgets[b], false);
            assert_int_equal(r.skipped, cases[c].recent > 0 && R == 0);
            if (r.skipped)
                continue;
            assert_int_equal(r.n_lane, cases[c].n_lane);
            EACH_LANE(r, l, a)
            {
                masked s;
                bool before[T] = {false};
                mask_start(&s, l, a, r.n_lane);
                for (int64_t m = 0; m < M; m++) {
                    mask_next(&s, N + m, hh, R);
                    mask_add(&s, l, a, r.n_lane, N + m);
                    check_read(&r, m, l, a, s.seen);
                    assert_int_equal(mini_count(&r, trace, m + 1, l, a), budgets[b]);
                    /* blind for exactly this row, and a candidate in the next */
                    assert_false(s.seen[N + m - R]);
                    for (int64_t j = 0; j < N + m; j++)
                        back += m > 0 && s.seen[j] && !before[j];
                    memcpy(before, s.seen, sizeof before);
                }
            }
        }
    assert_true(back > 0); /* what an eviction could not do */
}

/* Vector 14.6: n = 8, hh = 2, R = 2: of 9 slots 7 and 8 are newest, heavy ones are of 0..5,
 * slot 6 is invisible once and what it has got stays. */
static void the_blind_slot_of_the_page(void **state)
{
    (void)state;
    toy *t = toy_new(laws_memory, 11, 1, 1, 1, 1, 8, 2, false);
    mini_result r = laws_run(t, "h2o-mask", "", 4, false);
    const uint8_t *first = mini_held(&r, t, 1, 0, 0);
    assert_true(first[7] && first[8] && !first[6]);
    assert_int_equal(first[0] + first[1] + first[2] + first[3] + first[4] + first[5], 2);
    const uint8_t *second = mini_held(&r, t, 2, 0, 0);
    assert_true(second[8] && second[9] && !second[7]);
}

/* ---- h2o-lm-eval ---------------------------------------------------------------------------
 */

/* Section 3.1 (c), what runs: the best columns over all queries, or the band. */
static void heavy_columns_know_the_future(void **state)
{
    (void)state;
    static const char *const params[] = {"", "compat=official", "recent=0", "recent=1"};
    static const double recents[] = {0.5, 0.5, 0, 1};
    for (int c = 0; c < 4; c++)
        for (int b = 0; b < N_BUDGET; b++) {
            int64_t R = (int64_t)(recents[c] * (double)budgets[b]), hh = budgets[b] - R;
            mini_result r = laws_run(trace, "h2o-lm-eval", params[c], budgets[b], false);
            assert_true(r.traits.control);
            EACH_LANE(r, l, a)
            {
                double sum[T] = {0}, row[T];
                uint8_t heavy[T];
                for (int64_t i = 0; i < T; i++) {
                    row_sum(row, l, a, r.n_lane, i);
                    for (int64_t j = 0; j <= i; j++)
                        sum[j] += row[j];
                }
                laws_best(heavy, sum, T, hh);
                for (int64_t m = 0; m < M; m++) {
                    bool want[T];
                    for (int64_t j = 0; j < T; j++)
                        want[j] = j <= N + m && (heavy[j] || N + m - j <= R);
                    check_read(&r, m, l, a, want);
                }
            }
        }
}

/* What is commented out: (i) the first rows dense, (ii) the best `heavy` - 1 and itself, (iii)
 * full rows, (iv) 0 where hidden. LESS: the best hh of [0, t - R) and t - R .. t. */
static void greedy_masks_go_row_by_row(void **state)
{
    (void)state;
    for (int less = 0; less < 2; less++)
        for (int b = 0; b < N_BUDGET; b++) {
            int64_t R = less ? budgets[b] / 2 : 0, hh = budgets[b] - R - !less;
            mini_result r = laws_run(trace, "h2o-lm-eval", less ? "compat=less" : "mask=greedy",
                                     budgets[b], false);
            assert_int_equal(r.n_lane, less ? HEADS : GROUPS);
            EACH_LANE(r, l, a)
            {
                double acc[T] = {0}, row[T];
                for (int64_t i = 0; i < T; i++) {
                    bool want[T] = {false};
                    uint8_t best[T];
                    int64_t n = i > R ? i - R : 0;
                    laws_best(best, acc, n, hh);
                    for (int64_t j = 0; j <= i; j++)
                        want[j] = j >= n || best[j];
                    row_sum(row, l, a, r.n_lane, i);
                    for (int64_t j = 0; j <= i; j++)
                        acc[j] = want[j] ? acc[j] + row[j] : 0;
                    if (i >= N)
                        check_read(&r, i - N, l, a, want);
                }
            }
        }
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)2 << 30);
    trace = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, M, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_with_the_largest_bounds_are_read),
        cmocka_unit_test(pages_have_metadata),
        cmocka_unit_test(masks_hide_and_show_again),
        cmocka_unit_test(the_blind_slot_of_the_page),
        cmocka_unit_test(heavy_columns_know_the_future),
        cmocka_unit_test(greedy_masks_go_row_by_row),
    };
    int failed = cmocka_run_group_tests_name("laws of skipping", tests, NULL, NULL);
    toy_close(trace);
    kvt_arena_free(laws_memory);
    return failed;
}
