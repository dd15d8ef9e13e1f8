/* cmocka.h - in place of the library, where scripts/gpu-check builds without it: the few of its
 * calls that tests/gpu/test_kernels_*.c make. A test that fails ends with its line. */
#ifndef BENCH_GPU_PLAIN_CMOCKA_H
#define BENCH_GPU_PLAIN_CMOCKA_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void plain_test_fn(void **state);
typedef int plain_fixture_fn(void **state);

struct CMUnitTest {
    const char *name;
    plain_test_fn *test_func;
    plain_fixture_fn *setup_func, *teardown_func;
    void *initial_state;
};

enum { PLAIN_FAILED = 1, PLAIN_SKIPPED = 2 };

static jmp_buf plain_back;

static inline void plain_leave(int how, const char *file, int line, const char *what)
{
    printf("%s:%d: %s%s\n", file, line, how == PLAIN_FAILED ? "failed: " : "", what);
    longjmp(plain_back, how);
}

#define PLAIN_CHECK(ok, what) \
    ((ok) ? (void)0 : plain_leave(PLAIN_FAILED, __FILE__, __LINE__, (what)))

#define assert_true(x)               PLAIN_CHECK((x), #x)
#define assert_false(x)              PLAIN_CHECK(!(x), "not " #x)
#define assert_null(x)               PLAIN_CHECK((x) == NULL, #x " == NULL")
#define assert_non_null(x)           PLAIN_CHECK((x) != NULL, #x " != NULL")
#define assert_int_equal(a, b)       PLAIN_CHECK((long long)(a) == (long long)(b), #a " == " #b)
#define assert_string_equal(a, b)    PLAIN_CHECK(strcmp((a), (b)) == 0, #a " is " #b)
#define assert_memory_equal(a, b, n) PLAIN_CHECK(memcmp((a), (b), (n)) == 0, #a " is " #b)
#define skip()                       plain_leave(PLAIN_SKIPPED, __FILE__, __LINE__, "skipped")
#define fail_msg(...)                                         \
    do {                                                      \
        char text_[1024];                                     \
        snprintf(text_, sizeof text_, __VA_ARGS__);           \
        plain_leave(PLAIN_FAILED, __FILE__, __LINE__, text_); \
    } while (0)

#define cmocka_unit_test(f)          \
    {                                \
        .name = #f, .test_func = (f) \
    }
#define cmocka_unit_test_setup_teardown(f, up, down)                              \
    {                                                                             \
        .name = #f, .test_func = (f), .setup_func = (up), .teardown_func = (down) \
    }

static inline int plain_one(const struct CMUnitTest *t, void **state)
{
    int how = setjmp(plain_back);
    if (how == 0) {
        if (t->setup_func && t->setup_func(state))
            plain_leave(PLAIN_FAILED, t->name, 0, "its setup");
        t->test_func(state);
        if (t->teardown_func && t->teardown_func(state))
            plain_leave(PLAIN_FAILED, t->name, 0, "its teardown");
    }
    return how;
}

static inline int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *t,
                                          size_t n, plain_fixture_fn *setup,
                                          plain_fixture_fn *teardown)
{
    int n_failed = 0, n_skipped = 0;
    void *group = NULL;
    if (setup && setup(&group))
        return printf("%s: the setup failed\n", name), 1;
    for (size_t i = 0; i < n; i++) {
        void *state = t[i].initial_state ? t[i].initial_state : group;
        int how = plain_one(&t[i], &state);
        printf("%s: %s\n",
               how == 0              ? "passed"
               : how == PLAIN_FAILED ? "FAILED"
                                     : "skipped",
               t[i].name);
        n_failed += how == PLAIN_FAILED;
        n_skipped += how == PLAIN_SKIPPED;
    }
    if (teardown && teardown(&group))
        n_failed++;
    printf("%s: %d passed, %d failed, %d skipped\n", name, (int)n - n_failed - n_skipped,
           n_failed, n_skipped);
    return n_failed;
}

#define cmocka_run_group_tests_name(name, tests, setup, teardown)                      \
    _cmocka_run_group_tests((name), (tests), sizeof(tests) / sizeof *(tests), (setup), \
                            (teardown))
#define cmocka_run_group_tests(tests, setup, teardown) \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif
