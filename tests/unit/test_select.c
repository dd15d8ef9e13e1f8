/* test_select.c - the best k and rankings against the plain definition; ties, NaN, signed zero.
 */
#include "tests/check.h"

#include "base/half.h"
#include "base/rng.h"
#include "base/select.h"

#include <math.h>
#include <stdio.h>

enum { N_MAX = 6000 };
static float score[N_MAX];
static double score_double[N_MAX];
static bool keep[N_MAX], want[N_MAX];
static int32_t order[N_MAX];
static kvt_arena *work;

/* Cases of C078 and of the rule itself, worked out by hand: kept indices in a mask, bit i for
 * i. */
static const struct row {
    const char *name;
    int n, k;
    float score[8];
    unsigned keep;
} rows[] = {
    {"ties: the lower index", 6, 2, {3, 2, 3, 2, 1, 1}, 0x05},
    {"ties: one of three", 6, 3, {3, 2, 3, 2, 1, 1}, 0x07},
    {"k 1", 5, 1, {1, 2, 5, 4, 5}, 0x04},
    {"k 2", 5, 2, {1, 2, 5, 4, 5}, 0x14},
    {"k 3", 5, 3, {1, 2, 5, 4, 5}, 0x1c},
    {"k 4", 5, 4, {1, 2, 5, 4, 5}, 0x1e},
    {"k 5", 5, 5, {1, 2, 5, 4, 5}, 0x1f},
    {"k 0", 5, 0, {1, 2, 5, 4, 5}, 0},
    {"k below 0", 5, -2, {1, 2, 5, 4, 5}, 0},
    {"k above n", 5, 9, {1, 2, 5, 4, 5}, 0x1f},
    {"NaN is last", 4, 2, {NAN, -INFINITY, NAN, -1}, 0x0a},
    {"NaN ties with NaN", 4, 3, {NAN, -INFINITY, NAN, -1}, 0x0b},
    {"a negative NaN is NaN", 3, 1, {-NAN, -INFINITY, NAN}, 0x02},
    {"-0 equals 0", 4, 2, {-0.0f, 0.0f, -0.0f, 0.0f}, 0x03},
    {"0 is above the smallest negative", 3, 1, {-1e-45f, -0.0f, 0.0f}, 0x02},
    {"infinities", 4, 2, {-INFINITY, 1, INFINITY, 3e38f}, 0x0c},
    {"one", 1, 1, {7}, 0x01},
    {"none", 0, 0, {0}, 0},
};

static void kept_by_hand(void **state)
{
    const struct row *r = *state;
    unsigned got = 0;
    assert_true(select_best(keep, r->score, r->n, r->k, work));
    select_best_plain(want, r->score, r->n, r->k);
    for (int i = 0; i < r->n; i++) {
        got |= (unsigned)keep[i] << i;
        assert_int_equal(keep[i], want[i]);
    }
    if (got != r->keep)
        fail_msg("expected %#x, got %#x", r->keep, got);
}

/* Whether a stands before b: the definition, once more and apart from base/select.c. */
static bool before(double sa, int a, double sb, int b)
{
    if (isnan(sa) != isnan(sb))
        return isnan(sb);
    if (!isnan(sa) && sa != sb)
        return sa > sb;
    return a < b;
}

static void fill(uint64_t *rng, int n, int kind)
{
    static const float special[] = {NAN,  -NAN,   INFINITY, -INFINITY, 0.0f,     -0.0f,
                                    1.0f, 1e-45f, -1e-45f,  3.4e38f,   -3.4e38f, 0.5f};
    for (int i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)rng_bits(rng);
        double real = rng_real(rng);
        switch (kind) {
        case 0: score[i] = (float)rng_below(rng, 5); break;
        case 1: score[i] = special[rng_below(rng, CHECK_COUNT(special))]; break;
        case 2: memcpy(&score[i], &bits, sizeof bits); break; /* any float, many NaN payloads */
        case 3: score[i] = (float)exp(-20 * real); break;     /* like attention */
        case 4: score[i] = (float)(i - n / 2); break;         /* rising */
        case 5: score[i] = 0; break;
        default:
            score[i] = bf16_to_float(bf16_from_float((float)(1 + rng_below(rng, 200))));
            break;
        }
    }
}
enum { N_KIND = 7 };

static void best_agrees_with_the_definition(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        uint64_t rng[RNG_WORDS];
        rng_init(rng, &seed, sizeof seed);
        int n = 1 + (int)rng_below(rng, seed % 50 ? 90 : 1500), kind = (int)(seed % N_KIND);
        int k = seed % 5 ? (int)rng_below(rng, n + 1) : n - 1; /* decode drops one */
        fill(rng, n, kind);
        assert_true(select_best(keep, score, n, k, work));
        select_best_plain(want, score, n, k);
        if (memcmp(keep, want, (size_t)n))
            fail_msg("seed %d, kind %d: n %d, k %d", (int)seed, kind, n, k);
    }
}

static void check_order(int n, const double *s, uint64_t seed)
{
    static bool seen[N_MAX];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < n; i++) {
        if (order[i] < 0 || order[i] >= n || seen[order[i]])
            fail_msg("seed %d: no permutation of %d at %d", (int)seed, n, i);
        seen[order[i]] = true;
        if (i && !before(s[order[i - 1]], order[i - 1], s[order[i]], order[i]))
            fail_msg("seed %d: n %d, wrong at %d", (int)seed, n, i);
    }
}

static void rankings_agree_with_the_definition(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        uint64_t rng[RNG_WORDS];
        rng_init(rng, &seed, sizeof seed);
        int n = (int)rng_below(rng, seed % 20 ? 120 : N_MAX);
        fill(rng, n, (int)(seed % N_KIND));
        for (int i = 0; i < n; i++)
            score_double[i] = (double)score[i];
        assert_true(select_rank(order, score, n, work));
        check_order(n, score_double, seed);
        for (int i = 0; i < n; i++) { /* bits that no float holds, too */
            uint64_t bits = rng_bits(rng);
            if (seed & 1)
                memcpy(&score_double[i], &bits, sizeof bits);
            else
                score_double[i] += (double)rng_below(rng, 3) * 1e-12;
        }
        assert_true(select_rank_double(order, score_double, n, work));
        check_order(n, score_double, seed);
    }
}

/* One sort gives every budget: the k best are the first k of the ranking. */
static void best_is_a_cut_of_the_ranking(void **state)
{
    (void)state;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "cut", 3);
    for (int kind = 0; kind < N_KIND; kind++) {
        int n = 4096; /* kind 6: the BF16 scores of C078 */
        fill(rng, n, kind);
        assert_true(select_rank(order, score, n, work));
        for (int k = 1; k < n; k += 97) {
            assert_true(select_best(keep, score, n, k, work));
            int kept = 0;
            for (int i = 0; i < n; i++)
                kept += keep[i];
            assert_int_equal(kept, k);
            for (int i = 0; i < k; i++)
                assert_true(keep[order[i]]);
        }
    }
}

static void memory_comes_from_the_arena(void **state)
{
    (void)state;
    kvt_arena *small = kvt_arena_new(1000), *enough = kvt_arena_new(100000);
    assert_false(select_best(keep, score, 2000, 5, small));
    assert_false(select_rank(order, score, 2000, small));
    assert_false(select_rank_double(order, score_double, 2000, small));
    assert_int_equal(kvt_arena_mark(small), 0);
    assert_true(select_best(keep, score, 2000, 5, enough));
    kvt_alloc_fail_at(0, false);
    for (int i = 0; i < 100; i++) {
        assert_true(select_best(keep, score, 2000, 5, enough));
        assert_int_equal(kvt_arena_mark(enough), 0);
    }
#ifndef KVT_ALLOC_PASS
    assert_int_equal(kvt_alloc_count(), 0);
#endif
    kvt_arena_free(small);
    kvt_arena_free(enough);
}

/* Doubles that differ in their lowest bits only: rising, all are out of place; falling, none.
 */
static void lowest_bits_decide(void **state)
{
    (void)state;
    for (int rising = 0; rising < 2; rising++) {
        for (int i = 0; i < N_MAX; i++)
            score_double[i] = 1 + (rising ? i : N_MAX - i) * 0x1p-52;
        assert_true(select_rank_double(order, score_double, N_MAX, work));
        for (int i = 0; i < N_MAX; i++)
            assert_int_equal(order[i], rising ? N_MAX - 1 - i : i);
    }
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(rows) + 5];
    int n = 0;
    CHECK_ROWS(tests, &n, rows, kept_by_hand);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(best_agrees_with_the_definition);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(rankings_agree_with_the_definition);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(lowest_bits_decide);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(best_is_a_cut_of_the_ranking);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(memory_comes_from_the_arena);
    work = kvt_arena_new((size_t)1 << 20);
    int failed = CHECK_RUN("select", tests, n);
    kvt_arena_free(work);
    return failed;
}
