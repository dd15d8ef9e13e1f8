/* test_tokenizer.c - cutting text into words, control tokens, BOS, ranges, and what is refused.
 */
#include "tiny_vocab.h"

#include "kvt/arena.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static tokenizer *build(const tiny_vocab *v)
{
    kvt_err err;
    tokenizer *t = NULL;
    if (tokenizer_new(&t, &v->source, &err))
        fail_msg("%s", err.text);
    return t;
}

/* The text cut at its tokens, "he|llo"; ids do not matter here. */
static const char *cut_text(tokenizer *t, const char *text, bool parse_special)
{
    static char out[1024];
    kvt_err err;
    token_list list;
    size_t n = strlen(text), at = 0;
    tokenizer_range all = {0, n};
    token_list_init(&list);
    if (tokenizer_encode(t, &list, text, n, &all, parse_special, true, &err))
        fail_msg("'%s': %s", text, err.text);
    for (int64_t i = 0; i < list.n; i++) {
        if (i)
            out[at++] = '|';
        size_t size = (size_t)(list.offset[i + 1] - list.offset[i]);
        memcpy(out + at, buf_get(&list.text) + list.offset[i], size);
        at += size;
    }
    out[at] = 0;
    token_list_fini(&list);
    return out;
}

/* Merges that would join what the pre-tokenizer must keep apart. */
static void greedy_vocab(tiny_vocab *v, const char *pre)
{
    tiny_init(v, pre);
    tiny_merge(v, "3", "3");
    tiny_merge(v, "33", "33");
    tiny_merge(v, " ", " ");
    tiny_merge(v, " ", "1");
    tiny_merge(v, " ", "x");
    tiny_merge(v, "a", " ");
    tiny_merge(v, "a", "1");
    tiny_merge(v, "'", "t");
    tiny_merge(v, "n", "'");
    tiny_merge(v, " ", "\xe1"); /* the first byte of U+180E */
    tiny_merge(v, "\n", "\n");
    tiny_merge(v, "!", "\n");
    tiny_merge(v, "'", "T");
    tiny_merge(v, "(", "x");
    v->source.add_bos = 0;
}

/* The rules of each pre-tokenizer, worked out by hand from its pattern. C040. */
static void words_are_cut_as_the_pattern_says(void **state)
{
    (void)state;
    static const struct {
        const char *pre, *text, *want;
    } rows[] = {
        {"gpt-2", "3333", "3333"},
        {"smollm", "3333", "3|3|3|3"},
        {"qwen2", "3333", "3|3|3|3"},
        {"llama-bpe", "3333", "33|3|3"}, /* 333 3: three digits at most */
        {"gpt-2", "a 1", "a| 1"},
        {"smollm", "a 1", "a| |1"},
        {"smollm", "a1", "a|1"},
        {"gpt-2", "  1", " | 1"},  /* the look-ahead leaves one space to the next word */
        {"smollm", "  1", "  |1"}, /* the piece ends before the digit: nothing to leave it to */
        {"smollm", "   x", "  | x"},
        {"gpt-2", "a a", "a| |a"}, /* "a " never is a word */
        {"gpt-2", "n't", "n|'t"},
        {"gpt-2", "n'T", "n|'|T"},
        {"llama-bpe", "n'T", "n|'T"}, /* whatever the case */
        {"gpt-2", "(x", "(|x"},
        {"qwen2", "(x", "(x"}, /* one sign may lead letters */
        {"gpt-2", "!\n", "!|\n"},
        {"qwen2", "!\n", "!\n"},
        {"gpt-2", "\n\nx", "\n|\n|x"},
        {"qwen2", "\n\nx", "\n\n|x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tiny_vocab v;
        greedy_vocab(&v, rows[i].pre);
        tokenizer *t = build(&v);
        const char *got = cut_text(t, rows[i].text, false);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s: '%s': expected '%s', got '%s'", rows[i].pre, rows[i].text,
                     rows[i].want, got);
        tokenizer_free(t);
    }
}

/* U+180E is no white space: two of them are one word of signs. As white space (PCRE2's \s) the
 * second would be left to the x. The merge joins the last byte of one and the first of the
 * next. */
static void the_mongolian_separator_is_no_space(void **state)
{
    (void)state;
    tiny_vocab v;
    greedy_vocab(&v, "gpt-2");
    tiny_merge(&v, "\x8e", "\xe1");
    tokenizer *t = build(&v);
    assert_string_equal(cut_text(t, "\u180e\u180ex", false), "\xe1|\xa0|\x8e\xe1|\xa0|\x8e|x");
    assert_string_equal(cut_text(t, "a \u180e", false), "a| \xe1|\xa0|\x8e");
    tokenizer_free(t);
}

static void control_tokens_only_where_allowed(void **state)
{
    (void)state;
    tiny_vocab v;
    kvt_err err;
    tiny_init(&v, NULL);
    int32_t end = tiny_fixed(&v, "<|end|>", TOKEN_CONTROL);
    int32_t user = tiny_fixed(&v, "[u]", TOKEN_USER);
    int32_t longer = tiny_fixed(&v, "<|end|><|end|>", TOKEN_CONTROL);
    tokenizer *t = build(&v);
    const char *text = "a<|end|>[u]<|end|><|end|>";
    assert_string_equal(cut_text(t, text, true), "a|<|end|>|[u]|<|end|><|end|>");
    assert_string_equal(cut_text(t, "x<|end|>", false), "x|<|||e|n|d|||>");
    assert_string_equal(cut_text(t, "<|end", true), "<|||e|n|d");

    /* Allowed in bytes 1 to 8 only: the later ones are text; the user's token matches anywhere.
     */
    token_list list;
    token_list_init(&list);
    tokenizer_range range = {1, 8};
    assert_int_equal(tokenizer_encode(t, &list, text, strlen(text), &range, 1, true, &err),
                     KVT_OK);
    assert_int_equal(list.id[0], 'a');
    assert_int_equal(list.id[1], end);
    assert_int_equal(list.flag[1], KVT_TOKEN_SPECIAL);
    assert_int_equal(list.id[2], user);
    assert_int_equal(list.flag[2], 0);
    assert_int_equal(list.n, 3 + 14);
    token_list_fini(&list);

    /* A range that ends one byte early. */
    token_list_init(&list);
    range.end = 7;
    assert_int_equal(tokenizer_encode(t, &list, text, 8, &range, 1, true, &err), KVT_OK);
    assert_int_equal(list.n, 8);
    token_list_fini(&list);
    assert_true(tokenizer_is_special(t, longer));
    assert_false(tokenizer_is_special(t, user));
    tokenizer_free(t);
}

/* C048 */
static void bos_comes_once(void **state)
{
    (void)state;
    tiny_vocab v;
    kvt_err err;
    static const struct {
        int add_bos;
        const char *pre, *text;
        int n_bos;
    } rows[] = {
        {-1, "llama-bpe", "hi", 1},    {-1, "llama-bpe", "<s>hi", 1}, {-1, "llama-bpe", "", 1},
        {0, "llama-bpe", "hi", 0},     {0, "llama-bpe", "<s>hi", 1}, /* the text's own */
        {-1, "smollm", "hi", 0},       {-1, "qwen2", "hi", 0},        {1, "smollm", "hi", 1},
        {-1, "llama-bpe", "h<s>i", 2}, /* one in front, one in the text */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tiny_init(&v, rows[i].pre);
        int32_t bos = tiny_fixed(&v, "<s>", TOKEN_CONTROL);
        v.source.bos = bos;
        v.source.add_bos = rows[i].add_bos;
        tokenizer *t = build(&v);
        token_list list;
        token_list_init(&list);
        size_t n = strlen(rows[i].text);
        tokenizer_range all = {0, n};
        assert_int_equal(tokenizer_encode(t, &list, rows[i].text, n, &all, 1, true, &err),
                         KVT_OK);
        int count = 0;
        for (int64_t k = 0; k < list.n; k++)
            count += list.id[k] == bos;
        if (count != rows[i].n_bos)
            fail_msg("%s, add_bos %d, '%s': expected %d BOS, got %d", rows[i].pre,
                     rows[i].add_bos, rows[i].text, rows[i].n_bos, count);
        if (list.n)
            assert_int_equal(list.offset[list.n], (int64_t)n); /* it stands for no text */
        token_list_fini(&list);
        tokenizer_free(t);
    }
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    tiny_vocab v;
    tokenizer *t = NULL;
    kvt_err err;
    for (int k = 0; k < 7; k++) {
        static const char *const want[] = {"pre: missing", "'klingon'",    "'llama'",
                                           "token_type",   "bos_token_id", "eos_token_id",
                                           "a hole"};
        tiny_init(&v, NULL);
        switch (k) {
        case 0: v.source.pre = NULL; break;
        case 1: v.source.pre = "klingon"; break;
        case 2: v.source.model = "llama"; break;
        case 3: v.type[17] = 9; break;
        case 4: v.source.add_bos = 1; break;
        case 5: v.source.eos = 256; break;
        default: v.token[40].data = NULL;
        }
        kvt_code code = tokenizer_new(&t, &v.source, &err);
        if (code != KVT_FORMAT || !strstr(err.text, want[k]))
            fail_msg("expected FORMAT with '%s', got %s", want[k], code ? err.text : "OK");
    }
    tiny_init(&v, NULL);
    t = build(&v);
    token_list list;
    token_list_init(&list);
    assert_int_equal(tokenizer_encode(t, &list, "ab\xff", 3, NULL, 0, true, &err), KVT_FORMAT);
    assert_non_null(strstr(err.text, "not UTF-8 at byte 2 (0xff)"));
    assert_int_equal(token_list_push(&list, t, 256, 0, &err), KVT_FORMAT);
    assert_int_equal(token_list_push(&list, t, -1, 0, &err), KVT_FORMAT);
    token_list_fini(&list);
    tokenizer_free(t);
}

static void ends_of_text_are_known(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, "llama-bpe");
    int32_t end = tiny_fixed(&v, "<|end_of_text|>", TOKEN_CONTROL);
    int32_t eot = tiny_fixed(&v, "<|eot_id|>", TOKEN_CONTROL);
    int32_t plain = tiny_fixed(&v, "</s>", TOKEN_NORMAL);
    int32_t mine = tiny_fixed(&v, "<mine>", TOKEN_CONTROL);
    const int32_t list[] = {mine};
    v.source.add_bos = 0;
    v.source.eos = end;
    v.source.stop = list;
    v.source.n_stop = 1;
    tokenizer *t = build(&v);
    assert_true(tokenizer_is_stop(t, end));
    assert_true(tokenizer_is_stop(t, eot)); /* the file names only the other one: C049 */
    assert_true(tokenizer_is_stop(t, mine));
    assert_false(tokenizer_is_stop(t, plain));
    assert_false(tokenizer_is_stop(t, -1));
    assert_false(tokenizer_is_stop(t, 100000));
    tokenizer_free(t);
}

/* C044: qwen2 brings text to NFC, smollm does not. */
static void normal_form_where_the_model_has_it(void **state)
{
    (void)state;
    tiny_vocab v;
    kvt_err err;
    tiny_init(&v, "qwen2");
    tokenizer *t = build(&v);
    assert_string_equal(cut_text(t, "Cafe\u0301", false), "C|a|f|\xc3|\xa9");
    buf out;
    buf_init(&out, 100);
    assert_int_equal(tokenizer_normal_form(t, &out, "e\u0301", 3, &err), KVT_OK);
    assert_string_equal(buf_get(&out), "\u00e9");
    buf_fini(&out);
    tokenizer_free(t);
    tiny_init(&v, "smollm");
    t = build(&v);
    assert_string_equal(cut_text(t, "Cafe\u0301", false), "C|a|f|e|\xcc|\x81");
    tokenizer_free(t);
}

/* C045: a stream that prints whole characters only prints the same bytes. */
static void whole_characters_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t want;
    } rows[] = {
        {"", 0},
        {"a", 1},
        {"\xf0\x9f\xa6\x99", 4},
        {"a\xf0\x9f\xa6", 1},
        {"a\xf0\x9f", 1},
        {"a\xf0", 1},
        {"\xc3", 0},
        {"\xc3\xa9", 2},
        {"\xe2\x82", 0},
        {"\xe2\x82\xac", 3},
        {"\x80\x80\x80\x80", 4},
        {"\xff", 1},
        {"a\x80", 2},
        {"\xc3\xa9\xc3", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(tokenizer_whole(rows[i].bytes, strlen(rows[i].bytes)), rows[i].want);

    tiny_vocab v;
    kvt_err err;
    tiny_init(&v, NULL);
    tokenizer *t = build(&v);
    const char *text = " this is \U0001f999.cpp";
    token_list list;
    token_list_init(&list);
    assert_int_equal(tokenizer_encode(t, &list, text, strlen(text), NULL, 0, true, &err),
                     KVT_OK);
    char shown[64];
    size_t n_shown = 0;
    for (int64_t i = 0; i < list.n; i++) {
        size_t have = (size_t)list.offset[i + 1];
        n_shown += tokenizer_whole(text + n_shown, have - n_shown);
        memcpy(shown, text, n_shown);
        assert_true(n_shown <= 9 || n_shown >= 13); /* never within the four bytes */
    }
    assert_int_equal(n_shown, strlen(text));
    assert_memory_equal(shown, text, n_shown);
    token_list_fini(&list);
    tokenizer_free(t);
}

/* A byte that the vocabulary lacks, in front of, between and instead of tokens. */
static void lost_bytes_still_tile(void **state)
{
    (void)state;
    static const char *const texts[] = {"\4", "\4a", "a\4", "a \4 b", "\4\4 1\4", "a1\4"};
    tiny_vocab v;
    kvt_err err;
    tiny_init(&v, NULL);
    v.type[4] = TOKEN_UNUSED;
    tokenizer *t = build(&v);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        token_list list;
        token_list_init(&list);
        size_t n = strlen(texts[i]);
        assert_int_equal(tokenizer_encode(t, &list, texts[i], n, NULL, 0, true, &err), KVT_OK);
        assert_int_equal(list.text.n, n);
        assert_true(list.n_lost > 0);
        if (list.n)
            assert_int_equal(list.offset[list.n], (int64_t)n);
        for (int64_t k = 0; k < list.n; k++)
            assert_true(list.offset[k + 1] > list.offset[k]);
        token_list_fini(&list);
    }
    tokenizer_free(t);
}

/* C046: long runs, on a thread with a small stack. */
static void *encode_runs(void *failed)
{
    static const struct {
        const char *unit;
        size_t count;
    } rows[] = {{"A", 43000},    {"Z", 131072}, {"\u4f60", 26000}, {" ", 100000}, {"\n", 10000},
                {"\r\n", 20000}, {"!", 50000},  {"\u0301", 30000}, {"1", 50000}};
    static const char *const pres[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};
    static tiny_vocab v;
    for (size_t p = 0; p < sizeof pres / sizeof pres[0]; p++) {
        kvt_err err;
        tokenizer *t = NULL;
        greedy_vocab(&v, pres[p]);
        tiny_merge(&v, "A", "A");
        v.source.add_bos = 0;
        if (tokenizer_new(&t, &v.source, &err)) {
            *(bool *)failed = true;
            return NULL;
        }
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            size_t unit = strlen(rows[i].unit), n = unit * rows[i].count;
            char *text = kvt_alloc((int64_t)n, 1);
            for (size_t k = 0; k < rows[i].count; k++)
                memcpy(text + k * unit, rows[i].unit, unit);
            token_list list;
            token_list_init(&list);
            if (tokenizer_encode(t, &list, text, n, NULL, 0, true, &err) ||
                list.offset[list.n] != (int64_t)n) {
                fprintf(stderr, "%s: %zu x '%s': %s\n", pres[p], rows[i].count, rows[i].unit,
                        err.text);
                *(bool *)failed = true;
            }
            token_list_fini(&list);
            kvt_free(text);
        }
        tokenizer_free(t);
    }
    return NULL;
}

static void *nothing(void *unused)
{
    return unused;
}

/* The C library keeps thread-local data of all libraries at the end of a thread's stack: a
 * thread begins where that fits, and what is above is the stack that the code may use. */
static size_t smallest_stack(void)
{
    for (size_t size = 16 << 10;; size += 16 << 10) {
        pthread_attr_t attr;
        pthread_t thread;
        assert_true(size < 8 << 20);
        assert_int_equal(pthread_attr_init(&attr), 0);
        int bad = pthread_attr_setstacksize(&attr, size);
        if (!bad && !(bad = pthread_create(&thread, &attr, nothing, NULL)))
            assert_int_equal(pthread_join(thread, NULL), 0);
        pthread_attr_destroy(&attr);
        if (!bad)
            return size;
    }
}

static void long_runs_need_no_stack(void **state)
{
    (void)state;
    const size_t stacks[] = {smallest_stack() + (64 << 10), 8 << 20};
    for (int i = 0; i < 2; i++) {
        pthread_attr_t attr;
        pthread_t thread;
        bool failed = false;
        assert_int_equal(pthread_attr_init(&attr), 0);
        assert_int_equal(pthread_attr_setstacksize(&attr, stacks[i]), 0);
        assert_int_equal(pthread_create(&thread, &attr, encode_runs, &failed), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        pthread_attr_destroy(&attr);
        assert_false(failed);
    }
}

static void memory_may_fail_anywhere(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, "qwen2");
    tiny_fixed(&v, "<|end|>", TOKEN_CONTROL);
    v.source.chat = "{{ x }}";
    for (int64_t n = 1;; n++) {
        kvt_err err;
        tokenizer *t = NULL;
        token_list list;
        token_list_init(&list);
        kvt_alloc_fail_at(n, true);
        kvt_code code = tokenizer_new(&t, &v.source, &err);
        tokenizer_range all = {0, 12};
        if (!code)
            code = tokenizer_encode(t, &list, "hi <|end|>12", 12, &all, 1, true, &err);
        kvt_alloc_fail_at(0, false);
        token_list_fini(&list);
        tokenizer_free(t);
        if (!code) {
            assert_true(n > 10);
            return;
        }
        assert_int_equal(code, KVT_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_cut_as_the_pattern_says),
        cmocka_unit_test(the_mongolian_separator_is_no_space),
        cmocka_unit_test(control_tokens_only_where_allowed),
        cmocka_unit_test(bos_comes_once),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(ends_of_text_are_known),
        cmocka_unit_test(normal_form_where_the_model_has_it),
        cmocka_unit_test(whole_characters_are_known),
        cmocka_unit_test(lost_bytes_still_tile),
        cmocka_unit_test(long_runs_need_no_stack),
        cmocka_unit_test(memory_may_fail_anywhere),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
