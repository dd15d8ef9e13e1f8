/* test_arena.c - heap memory, arenas, failing allocations. */
#include "tests/check.h"

#include "base/rng.h"
#include "kvt/arena.h"

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define IS_POISONED(p) __asan_address_is_poisoned(p)
#endif

static bool is_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

static void heap_memory_is_zero_and_aligned(void **state)
{
    (void)state;
    for (int64_t n = -1; n < 300; n++) {
        unsigned char *p = kvt_alloc(n, 3);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(is_zero(p, n > 0 ? (size_t)n * 3 : 0));
        memset(p, 0xff, n > 0 ? (size_t)n * 3 : 0);
        kvt_free(p);
    }
    kvt_free(NULL);
}

static void overflow_is_out_of_memory(void **state)
{
    (void)state;
    assert_null(kvt_alloc(INT64_MAX, 2));
    assert_null(kvt_alloc(INT64_MAX, 1));
    assert_null(kvt_alloc(INT64_C(1) << 62, 8)); /* 2^65 is 0 in 64 bits */
    char *old = kvt_copy_text("kept");
    assert_null(kvt_resize(old, 5, INT64_C(1) << 62, 8));
    assert_string_equal(old, "kept");
    kvt_free(old);
    kvt_arena *a = kvt_arena_new(SIZE_MAX);
    assert_null(kvt_arena_array(a, INT64_C(1) << 62, 8));
    assert_null(kvt_arena_get(a, SIZE_MAX));
    kvt_arena_free(a);
}

static void resize_keeps_what_fits(void **state)
{
    (void)state;
    int32_t *p =
        kvt_resize(NULL, 7, 3, sizeof *p); /* n_old does not matter without an old one */
    for (int i = 0; i < 3; i++)
        p[i] = i;
    p = kvt_resize(p, 3, 1000, sizeof *p);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(p[i], i);
    p = kvt_resize(p, 1000, 2, sizeof *p);
    assert_int_equal(p[1], 1);
    kvt_free(p);
}

static void limit_counts_objects_of_64_bytes(void **state)
{
    (void)state;
    kvt_arena *a = kvt_arena_new(640);
    for (int i = 0; i < 10; i++)
        assert_non_null(kvt_arena_get(a, i % 2 ? 1 : 64));
    assert_null(kvt_arena_get(a, 1));
    assert_int_equal(kvt_arena_peak(a), 640);
    kvt_arena_free(a);
    a = kvt_arena_new(0);
    assert_null(kvt_arena_get(a, 0));
    kvt_arena_free(a);
    kvt_arena_free(NULL);
}

typedef struct object {
    unsigned char *p;
    size_t n, mark; /* mark: before it */
    unsigned char value;
} object;

/* Objects keep their bytes through any order of gets and rewinds, over blocks of many sizes. */
static void objects_survive_until_their_rewind(void **state)
{
    (void)state;
    enum { MOST = 400 };
    static object objects[MOST];
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint64_t rng[RNG_WORDS];
        rng_init(rng, &seed, sizeof seed);
        kvt_arena *a = kvt_arena_new((size_t)1 << 30);
        int n = 0;
        for (int step = 0; step < 1500; step++) {
            if (n == MOST || (n && rng_below(rng, 100) < 8)) {
                n = (int)rng_below(rng, n);
                kvt_arena_rewind(a, objects[n].mark);
                assert_int_equal(kvt_arena_mark(a), objects[n].mark);
            }
            object *o = &objects[n++];
            o->mark = kvt_arena_mark(a);
            o->n = (size_t)rng_below(rng, rng_below(rng, 20) ? 700 : 200000);
            o->p = kvt_arena_get(a, o->n);
            assert_non_null(o->p);
            assert_int_equal((uintptr_t)o->p % 64, 0);
            if (!is_zero(o->p, o->n))
                fail_msg("seed %d: object is not zero", (int)seed);
            o->value = (unsigned char)(1 + rng_below(rng, 255));
            memset(o->p, o->value, o->n);
            const object *old = &objects[rng_below(rng, n)];
            for (size_t i = 0; i < old->n; i++)
                if (old->p[i] != old->value)
                    fail_msg("seed %d: object changed", (int)seed);
        }
        kvt_arena_free(a);
    }
}

static void rewound_memory_is_taken_again(void **state)
{
    (void)state;
    kvt_arena *a = kvt_arena_new((size_t)64 << 20);
    kvt_arena_get(a, 60000);
    size_t mark = kvt_arena_mark(a);
    kvt_arena_get(a, 200000);
    kvt_arena_rewind(a, mark);
    kvt_alloc_fail_at(0, false);
    for (int i = 0; i < 1000; i++) { /* each goes over the border of the first block */
        assert_non_null(kvt_arena_get(a, 1000));
        assert_non_null(kvt_arena_get(a, 150000));
        kvt_arena_rewind(a, mark);
    }
#ifndef KVT_ALLOC_PASS
    assert_int_equal(kvt_alloc_count(), 0);
#endif
    assert_int_equal(kvt_arena_peak(a), 60032 + 200000); /* rounded up to 64 */
    kvt_arena_free(a);
}

static void text_is_copied(void **state)
{
    (void)state;
    kvt_arena *a = kvt_arena_new(1000);
    char text[] = "caf\xc3\xa9";
    char *copy = kvt_arena_text(a, text);
    text[0] = 'x';
    assert_string_equal(copy, "caf\xc3\xa9");
    assert_null(kvt_arena_array(a, 1000, 1));
    assert_non_null(kvt_arena_array(a, -3, 8));
    kvt_arena_free(a);
}

static void countdown_fails_once_or_stays(void **state)
{
    (void)state;
    for (int stays = 0; stays < 2; stays++) {
        kvt_alloc_fail_at(2, stays);
        for (int i = 1; i <= 4; i++) {
            void *p = kvt_alloc(1, 1);
            assert_int_equal(!p, stays ? i >= 2 : i == 2);
            kvt_free(p);
        }
        assert_int_equal(kvt_alloc_count(), 4);
    }
    kvt_alloc_fail_at(1, false);
    assert_null(kvt_arena_new(100));
    kvt_arena *a = kvt_arena_new(100);
    kvt_alloc_fail_at(1, true);
    assert_null(kvt_arena_get(a, 10));
    assert_null(kvt_copy_text("x"));
    kvt_alloc_fail_at(0, false);
    assert_non_null(kvt_arena_get(a, 10));
    kvt_arena_free(a);
}

#ifdef IS_POISONED
static void borders_and_rewound_memory_are_poisoned(void **state)
{
    (void)state;
    kvt_arena *a = kvt_arena_new(10000);
    char *p = kvt_arena_get(a, 10), *q = kvt_arena_get(a, 64);
    size_t mark = kvt_arena_mark(a);
    char *r = kvt_arena_get(a, 5);
    assert_false(IS_POISONED(p + 9));
    assert_true(IS_POISONED(p + 10));
    assert_true(IS_POISONED(q - 1));
    assert_true(IS_POISONED(q + 64));
    assert_false(IS_POISONED(r + 4));
    kvt_arena_rewind(a, mark);
    assert_true(IS_POISONED(r));
    assert_false(IS_POISONED(q + 63));
    kvt_arena_free(a);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_memory_is_zero_and_aligned),
        cmocka_unit_test(overflow_is_out_of_memory),
        cmocka_unit_test(resize_keeps_what_fits),
        cmocka_unit_test(limit_counts_objects_of_64_bytes),
        cmocka_unit_test(objects_survive_until_their_rewind),
        cmocka_unit_test(rewound_memory_is_taken_again),
        cmocka_unit_test(text_is_copied),
        cmocka_unit_test(countdown_fails_once_or_stays),
#ifdef IS_POISONED
        cmocka_unit_test(borders_and_rewound_memory_are_poisoned),
#endif
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
