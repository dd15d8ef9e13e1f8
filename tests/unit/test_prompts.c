/* test_prompts.c - prompt sets: what is read, and what is refused with file, line and reason.
 */
#include "base/file.h"
#include "capture/prompts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static prompts *parse(const char *text, size_t n)
{
    kvt_err err;
    prompts *set = NULL;
    if (prompts_parse(&set, text, n, "s.jsonl", &err))
        fail_msg("%s", err.text);
    return set;
}

static void everything_is_read(void **state)
{
    (void)state;
    const char *text =
        "{\"id\": \"a\", \"prompt\": \"Why?\\u0000x\", \"system\": \"S\", \"max_new\": 64, "
        "\"spans\": {\"question\": \"hy\", \"part\": [0, 3]}}\n"
        "{\"id\": \"b.2\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, "
        "{\"role\": \"assistant\", \"content\": \"\"}, {\"role\": \"user\", \"content\": "
        "\"Q\"}], "
        "\"response\": \"Hel\\u0000lo.\"}";
    prompts *set = parse(text, strlen(text));
    assert_int_equal(set->n, 2);
    const prompt *a = &set->item[0], *b = &set->item[1];
    assert_string_equal(a->id, "a");
    assert_int_equal(a->n_message, 2);
    assert_int_equal(a->message[0].role, TEMPLATE_SYSTEM);
    assert_string_equal(a->message[0].text, "S");
    assert_int_equal(a->message[1].role, TEMPLATE_USER);
    assert_int_equal(a->message[1].n, 6); /* zero byte and all */
    assert_memory_equal(a->message[1].text, "Why?\0x", 6);
    assert_int_equal(a->max_new, 64);
    assert_null(a->response);
    assert_int_equal(a->n_span, 2);
    assert_int_equal(a->line, 1);
    assert_string_equal(b->id, "b.2");
    assert_int_equal(b->n_message, 3);
    assert_int_equal(b->message[1].role, TEMPLATE_ASSISTANT);
    assert_int_equal(b->n_response, 7);
    assert_int_equal(b->max_new, -1);
    assert_int_equal(b->line, 2);
    prompts_free(set);
}

static void bad_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", "s.jsonl: there are no prompts"},
        {"\n \r\n", "there are no prompts"},
        {"{\"id\":\"a\",\"prompt\":\"x\"}\n{", "s.jsonl:2:"},
        {"{\"id\":\"a\",\"prompt\":\"x\"} y", "s.jsonl:1:"},
        {"[1]", "expected a JSON object"},
        {"{\"prompt\":\"x\"}", "'id' is missing"},
        {"{\"id\":3,\"prompt\":\"x\"}", "'id': expected text"},
        {"{\"id\":\"\",\"prompt\":\"x\"}", "'id': it is empty"},
        {"{\"id\":\"a/b\",\"prompt\":\"x\"}", "'a/b' may hold no '/'"},
        {"{\"id\":\"..\",\"prompt\":\"x\"}", "may hold no"},
        {"{\"id\":\"a..b\",\"prompt\":\"x\"}", "may hold no"},
        {"{\"id\":\".hidden\",\"prompt\":\"x\"}", "not begin with '.'"},
        {"{\"id\":\"a\\u0000b\",\"prompt\":\"x\"}", "zero byte"},
        {"{\"id\":\"a\\nb\",\"prompt\":\"x\"}", "control character"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"id\":\"b\"}", "s.jsonl:1:"}, /* duplicate key */
        {"{\"id\":\"a\",\"prompt\":\"x\"}\n\n{\"id\":\"a\",\"prompt\":\"y\"}",
         "s.jsonl:3: 'id': 'a' is that of line 1"},
        {"{\"id\":\"a\"}", "one of 'prompt' and 'messages', got neither"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"messages\":[]}", "got both"},
        {"{\"id\":\"a\",\"prompt\":\"\"}", "the prompt is empty"},
        {"{\"id\":\"a\",\"prompt\":7}", "'prompt': expected text"},
        {"{\"id\":\"a\",\"promt\":\"x\"}", "promt"},
        {"{\"id\":\"a\",\"promt\":\"x\"}", "prompt"}, /* the nearest */
        {"{\"id\":\"a\",\"messages\":{}}", "'messages': expected a list"},
        {"{\"id\":\"a\",\"messages\":[]}", "none of the user"},
        {"{\"id\":\"a\",\"messages\":[1]}", "'messages' 1: expected an object"},
        {"{\"id\":\"a\",\"messages\":[{\"role\":\"user\"}]}", "'content' is missing"},
        {"{\"id\":\"a\",\"messages\":[{\"role\":\"tool\",\"content\":\"\"}]}", "got 'tool'"},
        {"{\"id\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}", "is empty"},
        {"{\"id\":\"a\",\"system\":\"s\",\"messages\":[{\"role\":\"system\",\"content\":\"t\"},"
         "{\"role\":\"user\",\"content\":\"u\"}]}",
         "begin with another"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"max_new\":-1}", "'max_new': expected 0 or more"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"max_new\":1.5}", "'max_new': expected an integer"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"spans\":[]}", "'spans': expected an object"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"spans\":{\"q\":\"y\"}}", "'q': its text is not in"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"spans\":{\"q\":[0]}}",
         "expected text or [begin, end]"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"spans\":{\"q\":[0,2]}}", "end <= 1, got [0, 2]"},
        {"{\"id\":\"a\",\"prompt\":\"x\",\"spans\":{\"\":[0,1]}}", "expected 1 to 31 bytes"},
        {"{\"id\":\"a\",\"prompt\":\"x\xff\"}", "not UTF-8 at byte 21 of the line (0xff)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kvt_err err;
        prompts *set = NULL;
        kvt_code code =
            prompts_parse(&set, rows[i].text, strlen(rows[i].text), "s.jsonl", &err);
        if ((code != KVT_FORMAT && code != KVT_USAGE) || !strstr(err.text, rows[i].want) ||
            strncmp(err.text, "s.jsonl", 7) != 0)
            fail_msg("%s: expected '%s', got '%s'", rows[i].text, rows[i].want,
                     code ? err.text : "OK");
    }
}

/* C081 */
static void long_lines_and_line_ends(void **state)
{
    (void)state;
    enum { LONG = 1000 * 1000 };
    buf text;
    buf_init(&text, 4 * LONG);
    buf_text(&text, "\xef\xbb\xbf\r\n\n  \t\r\n{\"id\":\"long\",\"prompt\":\"");
    for (int i = 0; i < LONG; i++)
        buf_char(&text, (char)('a' + i % 26));
    buf_text(&text, "\"}\r\n\r\n{\"id\":\"last\",\"prompt\":\"x\"}");
    char path[] = "prompts.XXXXXX";
    kvt_err err;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, buf_get(&text), text.n), (int64_t)text.n);
    close(fd);
    prompts *set = NULL;
    kvt_code code = prompts_read(&set, path, &err);
    unlink(path);
    if (code)
        fail_msg("%s", err.text);
    assert_int_equal(set->n, 2);
    assert_int_equal(set->item[0].message[0].n, LONG);
    assert_int_equal(set->item[0].line, 4);
    assert_int_equal(set->item[1].line, 6);
    prompts_free(set);
    buf_fini(&text);
    assert_int_equal(prompts_read(&set, "there is/no such file", &err), KVT_NOTFOUND);
}

static void spans_are_found_where_they_were_rendered(void **state)
{
    (void)state;
    const char *text =
        "{\"id\":\"a\",\"system\":\"ctx in front\",\"prompt\":\"  the ctx, why?  \","
        "\"spans\":{\"q\":\"why\",\"c\":\"ctx\",\"f\":\"front\",\"b\":[2,5],"
        "\"gone\":[0,1]}}";
    prompts *set = parse(text, strlen(text));
    const prompt *p = &set->item[0];
    template_text out;
    kvt_err err;
    template_text_init(&out);
    assert_int_equal(
        template_render(&out, TEMPLATE_LLAMA3, p->message, p->n_message, "<B>", &err), KVT_OK);
    static const char *const want[] = {"why", "ctx", "front", "the"};
    for (int i = 0; i < 4; i++) {
        tokenizer_range r;
        assert_int_equal(prompt_span_find(&r, &p->span[i], &out, &err), KVT_OK);
        assert_int_equal(r.end - r.begin, strlen(want[i]));
        assert_memory_equal(buf_get(&out.text) + r.begin, want[i], strlen(want[i]));
        if (i != 2) /* the question comes first: its "ctx", not the system's */
            assert_true(r.begin >= out.question.begin);
    }
    tokenizer_range r;
    assert_int_equal(prompt_span_find(&r, &p->span[4], &out, &err),
                     KVT_USAGE); /* trimmed away */
    assert_non_null(strstr(err.text, "'gone'"));
    template_text_fini(&out);
    prompts_free(set);
}

static void memory_may_fail_anywhere(void **state)
{
    (void)state;
    const char *text = "{\"id\":\"a\",\"prompt\":\"x\",\"spans\":{\"q\":\"x\"}}";
    for (int64_t n = 1;; n++) {
        kvt_err err;
        prompts *set = NULL;
        kvt_alloc_fail_at(n, true);
        kvt_code code = prompts_parse(&set, text, strlen(text), "s.jsonl", &err);
        kvt_alloc_fail_at(0, false);
        prompts_free(set);
        if (!code) {
            assert_true(n > 3);
            return;
        }
        assert_int_equal(code, KVT_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(long_lines_and_line_ends),
        cmocka_unit_test(spans_are_found_where_they_were_rendered),
        cmocka_unit_test(memory_may_fail_anywhere),
    };
    return cmocka_run_group_tests_name("prompts", tests, NULL, NULL);
}
