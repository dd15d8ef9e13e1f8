/* test_version.c - what this program is. */
#include "tests/check.h"

#include "base/file.h"
#include "base/version.h"

#include <ctype.h>
#include <stdio.h>

static void version_is_three_numbers(void **state)
{
    (void)state;
    int a, b, c, n = 0;
    assert_int_equal(sscanf(version_text(), "%d.%d.%d%n", &a, &b, &c, &n), 3);
    assert_int_equal(n, (int)strlen(version_text()));
}

static void commit_is_short_or_unknown(void **state)
{
    (void)state;
    const char *commit = version_commit();
    if (!strcmp(commit, "unknown"))
        return;
    assert_true(strlen(commit) >= 7);
    for (const char *c = commit; *c; c++)
        assert_true(isxdigit((unsigned char)*c));
}

static void whole_names_both(void **state)
{
    (void)state;
    char want[200];
    snprintf(want, sizeof want, "kvt %s (commit %s)", version_text(), version_commit());
    assert_string_equal(version_full(), want);
}

static void folders_are_known(void **state)
{
    (void)state;
    char path[1000];
    snprintf(path, sizeof path, "%s/include/kvt/policy.h", version_source_dir());
    assert_true(file_exists(path));
    assert_int_equal(version_install_prefix()[0], '/');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_three_numbers),
        cmocka_unit_test(commit_is_short_or_unknown),
        cmocka_unit_test(whole_names_both),
        cmocka_unit_test(folders_are_known),
    };
    return cmocka_run_group_tests_name("version", tests, NULL, NULL);
}
