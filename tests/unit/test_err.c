/* test_err.c - texts of failures: context, length, safety. */
#include "tests/check.h"

#include <stdio.h>

static void text_and_place_are_recorded(void **state)
{
    (void)state;
    kvt_err err;
    int line = __LINE__ + 1;
    kvt_code code = kvt_fail(&err, KVT_FORMAT, "expected axes %s, got %s", "QT", "TQ");
    assert_int_equal(code, KVT_FORMAT);
    assert_int_equal(err.code, KVT_FORMAT);
    assert_string_equal(err.text, "expected axes QT, got TQ");
    assert_int_equal(err.line, line);
    assert_non_null(strstr(err.file, "test_err.c"));
}

static void context_stands_before(void **state)
{
    (void)state;
    kvt_err err;
    kvt_fail(&err, KVT_IO, "short read");
    assert_int_equal(kvt_within(&err, "layer %d", 3), KVT_IO);
    assert_int_equal(kvt_within(&err, "replay '%s'", "a.h5"), KVT_IO);
    assert_string_equal(err.text, "replay 'a.h5': layer 3: short read");
}

static void own_text_may_be_an_argument(void **state)
{
    (void)state;
    kvt_err err;
    kvt_fail(&err, KVT_IO, "inner");
    kvt_fail(&err, KVT_USAGE, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (inner)");
    kvt_within(&err, "again %s", err.text);
    assert_string_equal(err.text, "again outer (inner): outer (inner)");
}

/* Whatever the lengths: the inner text stays whole, the context is cut with a mark. */
static void inner_text_is_never_lost(void **state)
{
    (void)state;
    char inner[600], context[600];
    for (int n = 0; n < 480; n++) {
        kvt_err err;
        memset(inner, 'i', sizeof inner);
        inner[n] = 0;
        memset(context, 'c', sizeof context);
        context[599] = 0;
        kvt_fail(&err, KVT_IO, "%s", inner);
        kvt_within(&err, "%s", context);
        size_t len = strlen(err.text);
        assert_true(len < sizeof err.text);
        assert_true(len >= (size_t)n);
        assert_string_equal(err.text + len - (size_t)n, inner);
        if (len > (size_t)n)
            assert_memory_equal(err.text + len - (size_t)n - 5, "\u2026: ", 5);
        else
            assert_true(n >= 480 - 10);
    }
}

static void long_text_is_cut_with_a_mark(void **state)
{
    (void)state;
    kvt_err err;
    char text[900];
    memset(text, 'x', sizeof text);
    text[899] = 0;
    kvt_fail(&err, KVT_IO, "%s", text);
    size_t n = strlen(err.text);
    assert_in_range(n, 470, sizeof err.text - 1);
    assert_string_equal(err.text + n - 3, "\u2026");
}

/* C062: what a file is called cannot steer the terminal that shows the message. */
static void controls_are_named(void **state)
{
    (void)state;
    kvt_err err;
    kvt_fail(&err, KVT_IO, "cannot open '%s'", "\033[2Ja\nb%n%s");
    assert_string_equal(err.text, "cannot open '\u27e8ESC\u27e9[2Ja\u00b6b%n%s'");
    kvt_within(&err, "%s", "\a");
    assert_memory_equal(err.text, "\u27e8BEL\u27e9: cannot", 17);
}

/* Scripts branch on these statuses: they never change. */
static void codes_have_names_and_statuses(void **state)
{
    (void)state;
    assert_string_equal(kvt_code_name(KVT_FORMAT), "FORMAT");
    assert_string_equal(kvt_code_text(KVT_FORMAT), "a file does not follow its format");
    assert_int_equal(kvt_exit_status(KVT_OK), 0);
    assert_int_equal(kvt_exit_status(KVT_NOMEM), 1);
    assert_int_equal(kvt_exit_status(KVT_USAGE), 2);
    assert_int_equal(kvt_exit_status(KVT_NO), 3);
    assert_int_equal(kvt_exit_status(KVT_PARTLY), 4);
    assert_int_equal(kvt_exit_status(KVT_STOPPED), 130);
    assert_string_equal(kvt_code_name((kvt_code)99), "UNKNOWN");
    assert_int_equal(kvt_exit_status((kvt_code)99), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_place_are_recorded),
        cmocka_unit_test(context_stands_before),
        cmocka_unit_test(own_text_may_be_an_argument),
        cmocka_unit_test(inner_text_is_never_lost),
        cmocka_unit_test(long_text_is_cut_with_a_mark),
        cmocka_unit_test(controls_are_named),
        cmocka_unit_test(codes_have_names_and_statuses),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
