/* check.h - what every test includes: cmocka with the headers that it wants, and the few things
 * that a table of cases needs. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kvt/err.h"

enum { CHECK_SKIP = 77 }; /* exit status that ctest shows as skipped */

/* clang-format off */
#define CHECK_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* One cmocka test a row: puts them at tests[*at], moves *at on. The row's first member is its name. */
#define CHECK_ROWS(tests, at, rows, function)                                        \
    do {                                                                             \
        for (int row_ = 0; row_ < CHECK_COUNT(rows); row_++)                         \
            (tests)[(*(at))++] = (struct CMUnitTest){                                \
                .name = *(const char *const *)(const void *)&(rows)[row_],           \
                .test_func = (function),                                             \
                .initial_state = (void *)(uintptr_t)&(rows)[row_]};                  \
    } while (0)
/* clang-format on */

/* Runs tests [n] as a group; cmocka's macro wants an array of known size. */
#define CHECK_RUN(name, tests, n) \
    _cmocka_run_group_tests((name), (tests), (size_t)(n), NULL, NULL)

/* The call must succeed; a failure prints its text. */
#define CHECK_OK(call, err)                                                         \
    do {                                                                            \
        if ((call) != KVT_OK)                                                       \
            fail_msg("%s: %s: %s", #call, kvt_code_name((err)->code), (err)->text); \
    } while (0)

/* The call must fail with this code and, unless NULL, a text that contains `part`. */
#define CHECK_FAILS(call, want, part, err) check_fails((call), (want), (part), (err), #call)

/* Doubles within eps of each other; a failure prints both. */
#define CHECK_NEAR(got, want, eps) check_near((got), (want), (eps), #got)

static inline void check_near(double got, double want, double eps, const char *what)
{
    double gap = got > want ? got - want : want - got;
    if (!(gap <= eps))
        fail_msg("%s: expected %.17g, got %.17g", what, want, got);
}

static inline void check_fails(kvt_code got, kvt_code want, const char *part,
                               const kvt_err *err, const char *call)
{
    if (got != want)
        fail_msg("%s: expected %s, got %s (%s)", call, kvt_code_name(want), kvt_code_name(got),
                 got ? err->text : "");
    if (part && !strstr(err->text, part))
        fail_msg("%s: expected '%s' in '%s'", call, part, err->text);
}

#endif
