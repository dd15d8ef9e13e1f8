/* test_buf.c - the growing buffer. */
#include "tests/check.h"

#include "base/buf.h"
#include "kvt/arena.h"

static void grows_and_ends_with_nul(void **state)
{
    (void)state;
    kvt_err err;
    buf b;
    buf_init(&b, 100000);
    assert_string_equal(buf_get(&b), "");
    for (int i = 0; i < 1000; i++) {
        buf_printf(&b, "%d,", i);
        assert_int_equal(strlen(buf_get(&b)), b.n);
    }
    assert_memory_equal(buf_get(&b), "0,1,2,3,", 8);
    assert_int_equal(b.n, 10 * 2 + 90 * 3 + 900 * 4);
    CHECK_OK(buf_check(&b, &err), &err);
    buf_clear(&b);
    assert_string_equal(buf_get(&b), "");
    buf_add(&b, "a\0b", 3);
    buf_char(&b, 'c');
    buf_text(&b, "");
    assert_int_equal(b.n, 4);
    assert_memory_equal(b.data, "a\0bc", 5);
    buf_fini(&b);
    buf_fini(&b);
}

static void limit_is_kept_to_the_byte(void **state)
{
    (void)state;
    kvt_err err;
    buf b;
    buf_init(&b, 4);
    buf_text(&b, "abcd");
    assert_false(b.failed);
    buf_char(&b, 'e');
    assert_true(b.failed);
    assert_string_equal(buf_get(&b), "abcd");
    CHECK_FAILS(buf_check(&b, &err), KVT_NOMEM, "limit of 4 bytes", &err);
    buf_clear(&b);
    buf_printf(&b, "%d", 12345);
    assert_true(b.failed);
    assert_string_equal(buf_get(&b), "");
    buf_fini(&b);
}

static void no_memory_fails_and_stays_failed(void **state)
{
    (void)state;
    kvt_err err;
    buf b;
    buf_init(&b, 1000000);
    buf_text(&b, "kept");
    kvt_alloc_fail_at(1, false);
    for (int i = 0; i < 1000; i++)
        buf_char(&b, 'x');
    kvt_alloc_fail_at(0, false);
    assert_true(b.failed);
    assert_memory_equal(buf_get(&b), "kept", 4);
    size_t n = b.n;
    buf_char(&b, 'y');
    assert_int_equal(b.n, n);
    CHECK_FAILS(buf_check(&b, &err), KVT_NOMEM, "out of memory", &err);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_ends_with_nul),
        cmocka_unit_test(limit_is_kept_to_the_byte),
        cmocka_unit_test(no_memory_fails_and_stays_failed),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
