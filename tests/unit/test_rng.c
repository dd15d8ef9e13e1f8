/* test_rng.c - random streams against their published values. */
#include "tests/check.h"

#include "base/digest.h"
#include "base/rng.h"

/* xoshiro256** from the state 1 2 3 4: rand_xoshiro 0.6, src/xoshiro256starstar.rs, its test
 * `reference`, which was made with the authors' xoshiro256starstar.c. */
static void words_are_the_published_ones(void **state)
{
    (void)state;
    static const uint64_t want[] = {UINT64_C(11520),
                                    UINT64_C(0),
                                    UINT64_C(1509978240),
                                    UINT64_C(1215971899390074240),
                                    UINT64_C(1216172134540287360),
                                    UINT64_C(607988272756665600),
                                    UINT64_C(16172922978634559625),
                                    UINT64_C(8476171486693032832),
                                    UINT64_C(10595114339597558777),
                                    UINT64_C(2904607092377533576)};
    uint64_t rng[RNG_WORDS] = {1, 2, 3, 4};
    for (int i = 0; i < CHECK_COUNT(want); i++)
        assert_true(rng_bits(rng) == want[i]);
}

/* SplitMix64 from 1234567: first two words of the Rosetta Code page "Pseudo-random
 * numbers/Splitmix64", 6457827717110365317 and 3203168211198807973. The key is chosen so that
 * the chain can be checked: the state must be four steps of SplitMix64 from the hash of the
 * key. */
static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void state_follows_from_the_key(void **state)
{
    (void)state;
    uint64_t x = 1234567;
    assert_true(splitmix(&x) == UINT64_C(6457827717110365317));
    assert_true(splitmix(&x) == UINT64_C(3203168211198807973));
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "seed 7|random|3|1", 17);
    x = digest_64("seed 7|random|3|1", 17);
    for (int i = 0; i < RNG_WORDS; i++)
        assert_true(rng[i] == splitmix(&x));
}

static void keys_give_their_own_streams(void **state)
{
    (void)state;
    uint64_t a[RNG_WORDS], b[RNG_WORDS];
    rng_init(a, "3|1", 3);
    rng_init(b, "3|2", 3);
    assert_memory_not_equal(a, b, sizeof a);
    rng_init(b, "3|1", 3);
    assert_memory_equal(a, b, sizeof a);
    rng_init(b, "", 0);
    assert_true(b[0] | b[1] | b[2] | b[3]);
}

/* 6 000 000 draws from 6: 1e6 each, standard deviation 913; 5 of those are allowed. */
static void draws_below_n_are_even(void **state)
{
    (void)state;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "dice", 4);
    int64_t count[6] = {0};
    for (int i = 0; i < 6000000; i++)
        count[rng_below(rng, 6)]++;
    for (int i = 0; i < 6; i++)
        assert_in_range(count[i], 1000000 - 4565, 1000000 + 4565);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rng_below(rng, 1), 0);
    /* A range of 3/4 of 2^63: a plain remainder would give its lower third twice as often. */
    int64_t n = INT64_C(3) << 61, low = 0;
    for (int i = 0; i < 100000; i++)
        low += rng_below(rng, n) < n / 3;
    assert_in_range(low, 33333 - 745, 33333 + 745); /* 5 standard deviations of 149 */
}

static void reals_lie_in_the_unit_interval(void **state)
{
    (void)state;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "real", 4);
    double sum = 0;
    for (int i = 0; i < 1000000; i++) {
        double x = rng_real(rng);
        assert_true(x >= 0 && x < 1);
        sum += x;
    }
    assert_true(sum / 1e6 > 0.5 - 0.0015 && sum / 1e6 < 0.5 + 0.0015); /* 5 x 0.289/1000 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_the_published_ones),
        cmocka_unit_test(state_follows_from_the_key),
        cmocka_unit_test(keys_give_their_own_streams),
        cmocka_unit_test(draws_below_n_are_even),
        cmocka_unit_test(reals_lie_in_the_unit_interval),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
