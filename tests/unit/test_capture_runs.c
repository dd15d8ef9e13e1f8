/* test_capture_runs.c - sets of prompts that resume, prompts that fail, stops, memory that is
 * short: nothing half-written stays. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "kvt/arena.h"
#include "tiny_capture.h"

static void write_text(const char *path, const char *what)
{
    kvt_err err;
    CHECK_OK(file_write(path, what, strlen(what), &err), &err);
}
static int64_t changed(const char *path) /* when, in ns */
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
}

static void sets_resume(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("set");
    char list[1024], one[1200];
    (void)state;
    snprintf(list, sizeof list, "%s", folder_path("set.jsonl"));
    snprintf(one, sizeof one, "%s/one.h5", s.out);
    write_text(list, "{\"id\":\"one\",\"prompt\":\"Why so?\",\"spans\":{\"question\":\"so\"}}\n"
                     "{\"id\":\"two\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
                     "{\"role\":\"assistant\",\"content\":\"Yes?\"},"
                     "{\"role\":\"user\",\"content\":\"Go on.\"}],\"max_new\":2}\n"
                     "{\"id\":\"three\",\"prompt\":\"Count.\",\"response\":\"One two.\","
                     "\"spans\":{\"answer\":\"two\"}}\n");
    s.prompt = NULL;
    s.prompts = list;
    s.max_new = 4;
    s.force = false;
    CHECK_OK(kvt_capture(model, &s, &c, &ctx, &err), &err);
    assert_int_equal(c.captured, 3);
    int64_t was = changed(one);
    CHECK_OK(kvt_capture(model, &s, &c, &ctx, &err), &err);
    assert_int_equal(c.captured, 0);
    assert_int_equal(c.skipped, 3);
    assert_int_equal(changed(one), was);
    /* Another option: an error for each, and with --force new files. */
    s.delay = 41;
    CHECK_FAILS(kvt_capture(model, &s, &c, &ctx, &err), KVT_USAGE, "none of 3 prompts", &err);
    assert_int_equal(c.failed, 3);
    s.force = true;
    CHECK_OK(kvt_capture(model, &s, &c, &ctx, &err), &err);
    assert_int_equal(c.captured, 3);
    kvt_trace *t;
    CHECK_OK(kvt_trace_open(&t, one, 0, &err), &err);
    const kvt_trace_facts *f = &kvt_trace_info_of(t)->facts;
    assert_int_equal(f->n_span, 1);
    assert_string_equal(f->span[0].name, "question");
    assert_true(f->span[0].begin < f->span[0].end && f->span[0].end < f->token.n_prompt);
    kvt_trace_close(t);
    /* A span of a response that was given lies behind the prompt. */
    snprintf(one, sizeof one, "%s/three.h5", s.out);
    CHECK_OK(kvt_trace_open(&t, one, 0, &err), &err);
    f = &kvt_trace_info_of(t)->facts;
    assert_string_equal(f->span[0].name, "answer");
    assert_true(f->span[0].begin > f->token.n_prompt);
    assert_true(f->span[0].begin < f->span[0].end);
    assert_true(f->span[0].end < f->token.n_prompt + f->token.n_response);
    assert_int_equal(f->span[0].byte_end - f->span[0].byte_begin, 3);
    kvt_trace_close(t);
}

static void a_bad_prompt_does_not_stop_the_others(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("partly");
    char list[1024];
    buf line;
    (void)state;
    snprintf(list, sizeof list, "%s", folder_path("partly.jsonl"));
    buf_init(&line, 1 << 16);
    buf_text(&line, "{\"id\":\"long\",\"prompt\":\"");
    for (int i = 0; i < 700; i++)
        buf_text(&line, "a b c d ");
    buf_text(&line, "\"}\n{\"id\":\"good\",\"prompt\":\"Yes.\"}\n");
    write_text(list, buf_get(&line));
    buf_fini(&line);
    s.prompt = NULL;
    s.prompts = list;
    s.max_new = 2;
    ctx.log = hear;
    CHECK_FAILS(kvt_capture(model, &s, &c, &ctx, &err), KVT_PARTLY, "1 of 2 prompts failed",
                &err);
    ctx.log = NULL;
    assert_int_equal(c.captured, 1);
    assert_non_null(strstr(told.error, "prompt 'long': the prompt has "));
    assert_non_null(strstr(told.error, "the model's context 600"));
    assert_int_equal(folder_count(s.out), 1);
}

/* What holds for the run is told once, what holds for a prompt with its id. */
static void notices_are_told_once(void **state)
{
    kvt_err err;
    kvt_model *m;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("notices");
    model_make_options o = model_make_defaults();
    char list[1024];
    (void)state;
    o.no_template = true;
    o.no_byte = '~';
    snprintf(list, sizeof list, "%s", folder_path("notices.jsonl"));
    write_text(list,
               "{\"id\":\"a\",\"prompt\":\"Yes.\"}\n{\"id\":\"b\",\"prompt\":\"~ Yes.\"}\n");
    assert_true(model_make_gguf(folder_path("plain.gguf"), &o));
    CHECK_OK(kvt_model_open(&m, folder_path("plain.gguf"), NULL, &ctx, &err), &err);
    s.out = folder_path("notices");
    s.prompt = NULL;
    s.prompts = list;
    s.max_new = 2;
    told.n_warning = 0;
    ctx.log = hear;
    CHECK_OK(kvt_capture(m, &s, &c, &ctx, &err), &err);
    ctx.log = NULL;
    kvt_model_close(m);
    assert_int_equal(c.captured, 2);
    assert_int_equal(told.n_warning, 2);
    assert_non_null(
        strstr(told.warning, "prompt 'b': the model's vocabulary has no token for 1 "));
}

/* A span that the template trims away: its name stands in the error once. */
static void a_lost_span_is_told_once(void **state)
{
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to("trimmed");
    char list[1024];
    (void)state;
    snprintf(list, sizeof list, "%s", folder_path("trimmed.jsonl"));
    write_text(list, "{\"id\":\"a\",\"prompt\":\"  Yes.\",\"spans\":{\"gone\":[0,2]}}\n");
    s.prompt = NULL;
    s.prompts = list;
    s.chat = "gemma";
    ctx.log = hear;
    CHECK_FAILS(kvt_capture(model, &s, &c, &ctx, &err), KVT_USAGE, "none of 1 prompts", &err);
    ctx.log = NULL;
    const char *once = strstr(told.error, "prompt 'a': span 'gone': bytes 0 to 2 are not in");
    assert_non_null(once);
    assert_null(strstr(once + 20, "gone"));
}

/* ---- what goes wrong -----------------------------------------------------------------------
 */

static const struct wrong {
    const char *name, *prompt, *part;
    kvt_code code;
    const char *layers, *out, *chat;
} wrongs[] = {
    {"empty prompt", "", "the prompt is empty", KVT_USAGE, NULL, "w.h5", NULL},
    {"not UTF-8", "abc\xff", "not UTF-8: byte 3", KVT_FORMAT, NULL, "w.h5", NULL},
    {"no such layer", "Hi", "layers", KVT_USAGE, "0-9", "w.h5", NULL},
    {"no such template", "Hi", "chatty", KVT_USAGE, NULL, "w.h5", "chatty"},
    {"no such folder", "Hi", "nowhere", KVT_IO, NULL, "nowhere/w.h5", NULL},
};

static void mistakes_are_told(void **state)
{
    const struct wrong *w = *state;
    kvt_err err;
    kvt_capture_counts c;
    kvt_capture_spec s = spec_to(w->out);
    s.prompt = w->prompt;
    s.layers = w->layers;
    s.chat = w->chat;
    kvt_code code = kvt_capture(model, &s, &c, &ctx, &err);
    if (w->code == KVT_IO && code == KVT_NOTFOUND)
        code = KVT_IO;
    CHECK_FAILS(code, w->code, w->part, &err);
    assert_false(file_exists(s.out));
}

static bool stop_in_decode(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user, (void)total;
    return !(strcmp(what, "decode") == 0 && done == 3);
}

static bool stop_in_write(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user, (void)total;
    return !(strcmp(what, "write") == 0 && done == 1);
}

static void a_stop_leaves_nothing_half_written(void **state)
{
    bool (*stops[])(void *, const char *, int64_t, int64_t) = {stop_in_decode, stop_in_write};
    (void)state;
    for (int i = 0; i < 2; i++) {
        kvt_err err;
        kvt_capture_counts c;
        kvt_capture_spec s = spec_to("stopped.h5");
        int before = folder_count(folder_name);
        ctx.progress = stops[i];
        CHECK_FAILS(kvt_capture(model, &s, &c, &ctx, &err), KVT_STOPPED, NULL, &err);
        ctx.progress = NULL;
        assert_false(file_exists(s.out));
        assert_int_equal(folder_count(folder_name), before); /* no temporary file either */
    }
}

static void a_model_must_be_one(void **state)
{
    kvt_err err;
    kvt_model *m;
    (void)state;
    CHECK_FAILS(kvt_model_open(&m, folder_path("none.gguf"), NULL, &ctx, &err), KVT_NOTFOUND,
                "none.gguf", &err);
    write_text(folder_path("text.gguf"), "this is no model");
    CHECK_FAILS(kvt_model_open(&m, folder_path("text.gguf"), NULL, &ctx, &err), KVT_FORMAT,
                "text.gguf", &err);
    CHECK_FAILS(kvt_model_open(&m, folder_name, NULL, &ctx, &err), KVT_FORMAT, "GGUF files",
                &err);
    CHECK_FAILS(kvt_model_open(&m, folder_path("tiny.gguf"),
                               &(kvt_model_options){.device = "cuda:0"}, &ctx, &err),
                KVT_DEVICE, "cuda:0", &err);
}

/* Every allocation fails in turn: an error, nothing leaked (the sanitizers say), no file. */
static void short_memory_is_an_error(void **state)
{
    int64_t n = 1;
    (void)state;
    for (;; n += 1 + n / 4) {
        kvt_err err;
        kvt_capture_counts c;
        kvt_capture_spec s = spec_to("memory.h5");
        s.max_new = 2;
        s.prompt = "Hi";
        kvt_alloc_fail_at(n, true);
        kvt_code code = kvt_capture(model, &s, &c, &ctx, &err);
        kvt_alloc_fail_at(0, false);
        if (code == KVT_OK)
            break;
        if (code != KVT_NOMEM)
            fail_msg("allocation %lld: expected NOMEM, got %s: %s", (long long)n,
                     kvt_code_name(code), err.text);
        assert_false(file_exists(s.out));
    }
    assert_true(n > 20);
}

/* C076: memory that is short once costs speed, not the trace: the engine goes on with smaller
 * tiles, or says so. */
static void short_memory_once_is_got_over(void **state)
{
    int64_t n = 1, ok = 0;
    (void)state;
    for (int last = 0; !last; n += 1 + n / 6) {
        kvt_err err;
        kvt_capture_counts c;
        kvt_trace *t;
        kvt_capture_spec s = spec_to("once.h5");
        s.max_new = 2;
        (void)kvt_alloc_count();
        kvt_alloc_fail_at(n, false);
        kvt_code code = kvt_capture(model, &s, &c, &ctx, &err);
        last = kvt_alloc_count() < n;
        kvt_alloc_fail_at(0, false);
        if (code) {
            assert_int_equal(code, KVT_NOMEM);
            continue;
        }
        ok += !last;
        CHECK_OK(kvt_trace_open(&t, s.out, 0, &err), &err);
        CHECK_OK(kvt_trace_check(t, each_is_ok, NULL, &err), &err);
        kvt_trace_close(t);
    }
    assert_true(ok > 2);
}

int main(void)
{
    static struct CMUnitTest tests[64];
    int n = 0;
    const struct CMUnitTest rest[] = {
        cmocka_unit_test(sets_resume),
        cmocka_unit_test(a_bad_prompt_does_not_stop_the_others),
        cmocka_unit_test(a_lost_span_is_told_once),
        cmocka_unit_test(notices_are_told_once),
        cmocka_unit_test(a_stop_leaves_nothing_half_written),
        cmocka_unit_test(a_model_must_be_one),
        cmocka_unit_test(short_memory_is_an_error),
        cmocka_unit_test(short_memory_once_is_got_over),
    };
    CHECK_ROWS(tests, &n, wrongs, mistakes_are_told);
    for (int i = 0; i < CHECK_COUNT(rest); i++)
        tests[n++] = rest[i];
    folder_new();
    int failed =
        _cmocka_run_group_tests("capture runs", tests, (size_t)n, open_model, close_model);
    folder_drop(folder_name);
    return failed;
}
