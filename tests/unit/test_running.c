/* test_running.c - the heap and the whole-sequence form keep the same tokens, at every query.
 */
#include "tests/check.h"

#include <math.h>

#include "base/rng.h"
#include "base/running.h"

enum { LONGEST = 48, SEQUENCES = 10000 };

typedef struct sequence {
    running_spec spec;
    double score[LONGEST];
} sequence;

/* Few different values, so that ties are common; sometimes NaN. */
static void make(sequence *s, int number)
{
    uint64_t rng[RNG_WORDS];
    rng_init(rng, &number, sizeof number);
    s->spec = (running_spec){.n_token = 1 + rng_below(rng, LONGEST),
                             .sinks = rng_below(rng, 5),
                             .window = 1 + rng_below(rng, 6),
                             .slots = rng_below(rng, 9)};
    int64_t kinds = 1 + rng_below(rng, 12);
    for (int64_t t = 0; t < s->spec.n_token; t++) {
        s->score[t] = (double)rng_below(rng, kinds) - 3.0;
        if (number % 7 == 0 && rng_below(rng, 9) == 0)
            s->score[t] = NAN;
    }
}

static void both_forms_agree(void **state)
{
    (void)state;
    kvt_arena *work = kvt_arena_new(1 << 20);
    assert_non_null(work);
    for (int number = 0; number < SEQUENCES; number++) {
        sequence s;
        make(&s, number);
        const running_spec *p = &s.spec;
        int32_t cut[LONGEST], place[LONGEST], token[LONGEST];
        double kept[LONGEST];
        bool there[LONGEST];
        running_heap heap = {.score = kept, .token = token, .size = p->slots};
        assert_true(running_cutoffs(cut, place, s.score, p, work));
        for (int64_t q = 0; q < p->n_token; q++) {
            there[q] = true;
            int64_t leaving = q - p->window, n = 0;
            if (leaving >= p->sinks) {
                int32_t gone = running_heap_push(&heap, (int32_t)leaving, s.score[leaving]);
                if (gone >= 0) {
                    assert_true(there[gone]);
                    there[gone] = false;
                }
            }
            for (int64_t j = 0; j <= q; j++) {
                assert_int_equal(running_sees(p, cut, place, q, j), there[j]);
                n += there[j];
            }
            /* Sinks and window overlap at first; both count a token once. */
            int64_t budget = p->sinks + p->window + p->slots;
            assert_int_equal(n, q + 1 < budget ? q + 1 : budget);
            assert_true(q == 0 || cut[q] <= cut[q - 1]);
        }
    }
    kvt_arena_free(work);
}

/* By hand: scores 3 1 3 2, two slots. */
static void ties_keep_the_lower(void **state)
{
    (void)state;
    double score[2];
    int32_t token[2];
    running_heap h = {.score = score, .token = token, .size = 2};
    assert_int_equal(running_heap_push(&h, 0, 3.0), -1);
    assert_int_equal(running_heap_push(&h, 1, 1.0), -1);
    assert_int_equal(running_heap_push(&h, 2, 3.0), 1);
    assert_int_equal(running_heap_push(&h, 3, 3.0), 3);
    assert_int_equal(running_heap_push(&h, 4, 4.0), 2);
    assert_int_equal(running_heap_push(&h, 5, (double)NAN), 5);
}

static void kth_of_a_tree(void **state)
{
    (void)state;
    static const double score[] = {0.5, 2.0, -1.0, 2.0, 7.0};
    kvt_arena *work = kvt_arena_new(1 << 16);
    running_tree r;
    assert_true(running_tree_new(&r, score, 5, work));
    assert_int_equal(running_tree_kth(&r, 1), -1);
    for (int t = 0; t < 4; t++)
        running_tree_add(&r, t);
    assert_int_equal(running_tree_kth(&r, 1), 1);
    assert_int_equal(running_tree_kth(&r, 2), 3);
    assert_int_equal(running_tree_kth(&r, 4), 2);
    assert_int_equal(running_tree_kth(&r, 5), -1);
    running_tree_add(&r, 4);
    assert_int_equal(running_tree_kth(&r, 1), 4);
    assert_int_equal(running_tree_kth(&r, 0), -1);
    kvt_arena_free(work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_agree),
        cmocka_unit_test(ties_keep_the_lower),
        cmocka_unit_test(kth_of_a_tree),
    };
    return cmocka_run_group_tests_name("running", tests, NULL, NULL);
}
