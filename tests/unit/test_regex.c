/* test_regex.c - matching in UTF-8; long texts on small stacks (C046). */
#include "tests/check.h"

#include "base/regex.h"
#include "kvt/arena.h"

#include <pthread.h>
#include <time.h>

/* How GPT-2 cuts text into words (openai/gpt-2, src/encoder.py), as tokenizers use it. */
static const char words[] =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static void matches_are_found_in_order(void **state)
{
    (void)state;
    static const char text[] = "I've 42 caf\u00e9s  \u6f22\u5b57!";
    static const char *const want[] = {"I", "'ve",           " 42", " caf\u00e9s",
                                       " ", " \u6f22\u5b57", "!"};
    kvt_err err;
    regex *r;
    CHECK_OK(regex_new(&r, words, false, &err), &err);
    size_t at = 0, begin, end;
    for (int i = 0; i < CHECK_COUNT(want); i++) {
        CHECK_OK(regex_find(r, text, strlen(text), at, &begin, &end, &err), &err);
        assert_int_equal(begin, at);
        assert_int_equal(end - begin, strlen(want[i]));
        assert_memory_equal(text + begin, want[i], end - begin);
        at = end;
    }
    assert_int_equal(at, strlen(text));
    CHECK_FAILS(regex_find(r, text, at, at, &begin, &end, &err), KVT_NO, "no match", &err);
    regex_free(r);
}

static void case_and_context(void **state)
{
    (void)state;
    kvt_err err;
    regex *r;
    size_t begin, end;
    CHECK_OK(regex_new(&r, "\u00e9T\u00c9", true, &err), &err);
    CHECK_OK(regex_find(r, "l'\u00c9t\u00e9", 8, 0, &begin, &end, &err), &err);
    assert_int_equal(begin, 2);
    assert_int_equal(end, 7);
    regex_free(r);
    CHECK_OK(regex_new(&r, "(?<=a)b", false, &err), &err);
    CHECK_OK(regex_find(r, "ab", 2, 1, &begin, &end, &err),
             &err); /* what is before `from` counts */
    assert_int_equal(begin, 1);
    regex_free(r);
    CHECK_OK(regex_new(&r, "a\\x00b", false, &err), &err); /* NUL is a character */
    CHECK_OK(regex_find(r, "xa\0b", 4, 0, &begin, &end, &err), &err);
    assert_int_equal(begin, 1);
    regex_free(r);
    CHECK_OK(regex_new(&r, "", false, &err), &err);
    CHECK_OK(regex_find(r, NULL, 0, 0, &begin, &end, &err), &err);
    assert_int_equal(begin + end, 0);
    regex_free(r);
    regex_free(NULL);
}

static void wrong_patterns_are_told(void **state)
{
    (void)state;
    kvt_err err;
    regex *r;
    CHECK_FAILS(regex_new(&r, "ab(c", false, &err), KVT_FORMAT,
                "'ab(c' at byte 4: pattern: missing closing parenthesis", &err);
    assert_null(r);
    CHECK_FAILS(regex_new(&r, "[z-a]", false, &err), KVT_FORMAT, "'[z-a]' at byte", &err);
    CHECK_FAILS(regex_new(&r, "\\C", false, &err), KVT_FORMAT, "", &err);
    CHECK_FAILS(regex_new(&r, "\xff", false, &err), KVT_FORMAT, "UTF-8 error", &err);
    kvt_alloc_fail_at(1, false);
    CHECK_FAILS(regex_new(&r, "a", false, &err), KVT_NOMEM, NULL, &err);
    kvt_alloc_fail_at(0, false);
}

typedef struct job {
    const char *unit; /* repeated */
    int64_t count, n_match;
    const char *pattern;
    kvt_code code;
    char why[480];
} job;

static void *run(void *job_)
{
    job *j = job_;
    kvt_err err;
    size_t n_unit = strlen(j->unit), n = n_unit * (size_t)j->count, at = 0, begin = 0, end = 0;
    char *text = kvt_alloc((int64_t)n, 1);
    regex *r = NULL;
    for (size_t i = 0; i < n; i++)
        text[i] = j->unit[i % n_unit];
    j->code = regex_new(&r, j->pattern, false, &err);
    j->n_match = 0;
    while (!j->code && at < n) {
        j->code = regex_find(r, text, n, at, &begin, &end, &err);
        j->n_match++;
        at = end > at ? end : at + 1;
    }
    if (j->code)
        memcpy(j->why, err.text, sizeof j->why);
    regex_free(r);
    kvt_free(text);
    return NULL;
}

/* On a thread with a stack of 64 KiB (more under a sanitizer, whose frames are larger). */
static double on_small_stack(job *j)
{
    pthread_attr_t attr;
    pthread_t thread;
    struct timespec a, b;
#if defined(__SANITIZE_ADDRESS__)
    size_t stack = (size_t)512 << 10;
#else
    size_t stack = (size_t)64 << 10;
#endif
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, stack), 0);
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_int_equal(pthread_create(&thread, &attr, run, j), 0);
    pthread_join(thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    pthread_attr_destroy(&attr);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

static const struct long_row {
    const char *name, *unit;
    int64_t count, n_match;
} long_rows[] = {
    {"43,000 A", "A", 43000, 1},
    {"131,072 Z", "Z", 131072, 1},
    {"26,000 CJK letters", "\u6f22", 26000, 1},
    {"100,000 spaces", " ", 100000, 1},
    {"10,000 newlines", "\n", 10000, 1},
    {"1 MB of one letter", "a", 1000000, 1},
    {"300,000 words", "word ", 300000, 300001}, /* and the space behind the last one */
};

static void long_text_is_split(void **state)
{
    const struct long_row *r = *state;
    job j = {.unit = r->unit, .count = r->count, .pattern = words};
    double seconds = on_small_stack(&j);
    if (j.code)
        fail_msg("%s", j.why);
    assert_int_equal(j.n_match, r->n_match);
    if (seconds > 1)
        fail_msg("%.2f s", seconds);
}

/* A pattern that keeps a place to come back to for each letter does not fit the stack of
 * compiled code; the interpreter's heap takes it. */
static void stack_of_compiled_code_is_not_the_limit(void **state)
{
    (void)state;
    job j = {.unit = "a", .count = 1000000, .pattern = "(?:a|b|\\p{Lu})+"};
    on_small_stack(&j);
    if (j.code)
        fail_msg("%s", j.why);
    assert_int_equal(j.n_match, 1);
}

static void hopeless_patterns_end(void **state)
{
    (void)state;
    job j = {.unit = "a", .count = 60, .pattern = "(?:(?:a+)+)+$b"};
    on_small_stack(&j);
    assert_true(j.code == KVT_NO || j.code == KVT_FORMAT);
    j = (job){.unit = "a", .count = 60, .pattern = "(a+|aa+)+c|(a+|a)+[^a]"};
    on_small_stack(&j);
    assert_true(j.code == KVT_NO || j.code == KVT_FORMAT);
    j = (job){.unit = "ab", .count = 40, .pattern = "((?:a|ab|b|ba)+)+\\1{3}z?\\d"};
    double seconds = on_small_stack(&j);
    assert_int_equal(j.code, KVT_FORMAT);
    assert_non_null(strstr(j.why, "limit"));
    if (seconds > 10)
        fail_msg("%.2f s", seconds);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(long_rows) + 5];
    int n = 0;
    CHECK_ROWS(tests, &n, long_rows, long_text_is_split);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(matches_are_found_in_order);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(case_and_context);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(wrong_patterns_are_told);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(stack_of_compiled_code_is_not_the_limit);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(hopeless_patterns_end);
    return CHECK_RUN("regex", tests, n);
}
