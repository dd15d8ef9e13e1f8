/* test_ctx.c - log, progress, threads. */
#include "tests/check.h"

#include "kvt/ctx.h"

#include <stdio.h>

typedef struct seen {
    char text[200];
    int level, calls;
    int64_t stop_at;
} seen;

static void keep(void *user, kvt_log_level level, const char *area, const char *text)
{
    seen *s = user;
    s->level = (int)level;
    s->calls++;
    snprintf(s->text, sizeof s->text, "%s|%s", area, text);
}

static bool go_on(void *user, const char *what, int64_t done, int64_t total)
{
    seen *s = user;
    snprintf(s->text, sizeof s->text, "%s %d/%d", what, (int)done, (int)total);
    return done < s->stop_at;
}

static void log_reaches_the_caller(void **state)
{
    (void)state;
    seen s = {0};
    kvt_ctx ctx = {.log = keep, .user = &s};
    kvt_log(&ctx, KVT_LOG_WARN, "trace", "%d of %s", 3, "%n");
    assert_string_equal(s.text, "trace|3 of %n");
    assert_int_equal(s.level, KVT_LOG_WARN);
    kvt_log(&ctx, KVT_LOG_INFO, "trace", "%s", "\033[2J\n");
    assert_string_equal(s.text, "trace|\u27e8ESC\u27e9[2J\u00b6");
    kvt_log(NULL, KVT_LOG_WARN, "trace", "nobody listens");
    kvt_log(&(kvt_ctx){0}, KVT_LOG_WARN, "trace", "nobody listens");
    assert_int_equal(s.calls, 2);
}

static void progress_stops(void **state)
{
    (void)state;
    kvt_err err;
    seen s = {.stop_at = 2};
    kvt_ctx ctx = {.progress = go_on, .user = &s};
    CHECK_OK(kvt_progress(&ctx, "layer", 1, 30, &err), &err);
    assert_string_equal(s.text, "layer 1/30");
    CHECK_FAILS(kvt_progress(&ctx, "layer", 2, 30, &err), KVT_STOPPED, "stopped", &err);
    CHECK_OK(kvt_progress(NULL, "layer", 2, 30, &err), &err);
    CHECK_OK(kvt_progress(&(kvt_ctx){0}, "layer", 2, 30, &err), &err);
}

static void there_is_a_thread(void **state)
{
    (void)state;
    assert_int_equal(kvt_threads(&(kvt_ctx){.n_thread = 5}), 5);
    assert_true(kvt_threads(&(kvt_ctx){0}) >= 1);
    assert_true(kvt_threads(&(kvt_ctx){.n_thread = -3}) >= 1);
    assert_true(kvt_threads(NULL) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_reaches_the_caller),
        cmocka_unit_test(progress_stops),
        cmocka_unit_test(there_is_a_thread),
    };
    return cmocka_run_group_tests_name("ctx", tests, NULL, NULL);
}
