/* test_spm.c - merging by score: by hand, against the plain definition, bytes, unknowns, spaces
 * in front, and what is refused. */
#include "capture/spm.h"
#include "capture/template.h"
#include "kvt/arena.h"
#include "tests/check.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 512, TEXT = 16 };

/* A vocabulary of SentencePiece's kind: <unk>, <s>, </s>, the 256 bytes, then pieces. */
typedef struct pieces {
    char text[MOST][TEXT];
    token_text token[MOST];
    int32_t type[MOST];
    float score[MOST];
    tokenizer_source source;
} pieces;

static int32_t add(pieces *v, const char *text, int32_t type, float score)
{
    int32_t id = (int32_t)v->source.n_token++;
    snprintf(v->text[id], TEXT, "%s", text);
    v->token[id] = (token_text){v->text[id], strlen(v->text[id])};
    v->type[id] = type;
    v->score[id] = score;
    return id;
}

static void begin(pieces *v, bool bytes)
{
    memset(v, 0, sizeof *v);
    v->source = tokenizer_source_empty();
    v->source.model = "llama";
    v->source.token = v->token;
    v->source.type = v->type;
    v->source.score = v->score;
    v->source.unk = add(v, "<unk>", TOKEN_UNKNOWN, 0);
    v->source.bos = add(v, "<s>", TOKEN_CONTROL, 0);
    v->source.eos = add(v, "</s>", TOKEN_CONTROL, 0);
    for (int k = 0; k < 256 && bytes; k++) {
        char name[TEXT];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)k);
        add(v, name, TOKEN_BYTE, 0);
    }
}

static tokenizer *build(const pieces *v)
{
    kvt_err err;
    tokenizer *t;
    CHECK_OK(tokenizer_new(&t, &v->source, &err), &err);
    return t;
}

/* The text cut at its tokens, "he|llo". */
static const char *cut(tokenizer *t, const char *text, bool first, bool parse_special)
{
    static char out[512];
    kvt_err err;
    token_list list;
    tokenizer_range all = {0, strlen(text)};
    size_t at = 0;
    token_list_init(&list);
    CHECK_OK(tokenizer_encode(t, &list, text, strlen(text), &all, parse_special, first, &err),
             &err);
    for (int64_t i = 0; i < list.n; i++) {
        size_t n = (size_t)(list.offset[i + 1] - list.offset[i]);
        if (i)
            out[at++] = '|';
        memcpy(out + at, buf_get(&list.text) + list.offset[i], n);
        at += n;
    }
    out[at] = 0;
    token_list_fini(&list);
    return out;
}

static void the_highest_score_joins_first(void **state)
{
    (void)state;
    pieces v;
    begin(&v, true);
    const char *letters[] = {"a", "b", "c", "\u2581"};
    for (int i = 0; i < 4; i++)
        add(&v, letters[i], TOKEN_NORMAL, -100);
    add(&v, "ab", TOKEN_NORMAL, -2);
    add(&v, "bc", TOKEN_NORMAL, -1);
    add(&v, "aa", TOKEN_NORMAL, -3);
    add(&v, "aaa", TOKEN_NORMAL, -3); /* equal scores: the leftmost pair first */
    add(&v, "\u2581a", TOKEN_NORMAL, -4);
    add(&v, "abc", TOKEN_NORMAL, -50);
    v.source.add_bos = 0;
    tokenizer *t = build(&v);
    assert_string_equal(cut(t, "abc", false, false), "abc"); /* a bc, and that is a token */
    assert_string_equal(cut(t, "abab", false, false), "ab|ab");
    assert_string_equal(cut(t, "aaaa", false, false), "aaa|a");
    assert_string_equal(cut(t, "aaaaa", false, false), "aaa|aa");
    assert_string_equal(cut(t, "a a", true, false), " a| a"); /* one space in front */
    assert_string_equal(cut(t, "a a", false, false), "a| a");
    assert_string_equal(cut(t, "\u2581a", false, false), " a"); /* the sign is a space */
    tokenizer_free(t);
}

/* C045, and the token that stands for what is unknown. */
static void what_is_no_piece_becomes_bytes(void **state)
{
    (void)state;
    pieces v;
    kvt_err err;
    token_list list;
    const char *text = "a\U0001f999\n";
    static const int32_t want[] = {259, 3 + 0xf0, 3 + 0x9f, 3 + 0xa6, 3 + 0x99, 3 + '\n'};
    begin(&v, true);
    add(&v, "a", TOKEN_NORMAL, -1);
    v.source.add_bos = 0;
    tokenizer *t = build(&v);
    token_list_init(&list);
    CHECK_OK(tokenizer_encode(t, &list, text, strlen(text), NULL, 0, false, &err), &err);
    assert_int_equal(list.n, 6);
    assert_memory_equal(list.id, want, sizeof want);
    assert_int_equal(list.offset[2], 2);
    assert_int_equal(list.n_lost, 0);
    token_list_fini(&list);
    tokenizer_free(t);

    begin(&v, false); /* without bytes: <unk> for the character, or nothing */
    int32_t a = add(&v, "a", TOKEN_NORMAL, -1);
    v.source.add_bos = 0;
    for (int k = 0; k < 2; k++) {
        v.source.unk = k ? -1 : 0;
        t = build(&v);
        token_list_init(&list);
        CHECK_OK(tokenizer_encode(t, &list, "\u00e9a\u00e9", 5, NULL, 0, false, &err), &err);
        assert_int_equal(list.n, k ? 1 : 3);
        assert_int_equal(list.id[k ? 0 : 1], a);
        assert_int_equal(list.n_lost, 4);
        assert_int_equal(list.offset[list.n], 5);
        token_list_fini(&list);
        tokenizer_free(t);
    }
}

/* C047, C043: user's tokens match anywhere, control tokens where allowed; behind both a space
 * is put in. Text that spells a control or byte token does not become one by merging. */
static void cut_out_tokens_and_the_space_behind_them(void **state)
{
    (void)state;
    pieces v;
    begin(&v, true);
    const char *letters[] = {"a", "<", "s", ">", "\u2581", "0", "x", "A"};
    for (int i = 0; i < 8; i++)
        add(&v, letters[i], TOKEN_NORMAL, -100);
    add(&v, "<s", TOKEN_NORMAL, -1);
    add(&v, "  ", TOKEN_USER, 0);
    add(&v, "   ", TOKEN_USER, 0);
    add(&v, "\u2581a", TOKEN_NORMAL, -2);
    v.source.add_bos = 0;
    tokenizer *t = build(&v);
    assert_string_equal(cut(t, "<s>a", true, true), "<s>| a");
    assert_string_equal(cut(t, "<s>a", true, false), " |<s|>|a");
    assert_string_equal(cut(t, "a    a", true, false), " a|   | | a"); /* 3, and put in */
    assert_string_equal(cut(t, "a  a", true, false), " a|  | a");
    assert_string_equal(cut(t, "<0xA", false, false), "<|0|x|A");
    tokenizer_free(t);
    snprintf(v.text[v.source.n_token - 3], TEXT, "\u2581\u2581"); /* so, merges make it */
    v.token[v.source.n_token - 3].n = 6;
    t = build(&v);
    assert_string_equal(cut(t, "a  a", true, false), " a|  |a");
    assert_string_equal(cut(t, "a    a", true, false), " a|   |  |a");
    tokenizer_free(t);
    v.source.space = TOKENIZER_SPACE_NONE;
    t = build(&v);
    assert_string_equal(cut(t, "<s>a", true, true), "<s>|a");
    tokenizer_free(t);
    v.source.space = TOKENIZER_SPACE_FIRST;
    v.source.space_once = true;
    t = build(&v);
    assert_string_equal(cut(t, "a<s>a", true, true), " a|<s>|a");
    assert_string_equal(cut(t, " a", true, true), " a");
    tokenizer_free(t);
}

/* A rendered dialogue: spaces that are put in move the ranges behind them. */
static void ranges_follow_the_spaces(void **state)
{
    (void)state;
    pieces v;
    kvt_err err;
    template_text text;
    token_list list;
    begin(&v, true);
    tokenizer *t = build(&v);
    const template_message m[] = {{TEMPLATE_SYSTEM, "Be brief.", 9},
                                  {TEMPLATE_USER, "one", 3},
                                  {TEMPLATE_ASSISTANT, "1", 1},
                                  {TEMPLATE_USER, "two", 3}};
    template_text_init(&text);
    token_list_init(&list);
    CHECK_OK(template_render(&text, TEMPLATE_LLAMA2, m, 4, "<s>", &err), &err);
    CHECK_OK(template_encode(&list, t, &text, false, &err), &err);
    assert_string_equal(
        buf_get(&text.text),
        "<s> [INST] <<SYS>>\nBe brief.\n<</SYS>>\n\none [/INST] 1 </s><s> [INST] two "
        "[/INST]");
    assert_int_equal(list.text.n, text.text.n);
    assert_memory_equal(buf_get(&text.text) + text.system.begin, "Be brief.", 9);
    assert_int_equal(text.system.end - text.system.begin, 9);
    assert_memory_equal(buf_get(&text.text) + text.question.begin, "two", 3);
    assert_int_equal(text.question.end - text.question.begin, 3);
    assert_int_equal(list.id[0], 1);
    assert_int_equal(list.offset[1], 3); /* BOS of the template, once */
    for (int i = 0; i < 4; i++) {
        tokenizer_range r;
        assert_true(template_message_range(&r, &text, i));
        assert_int_equal(r.end - r.begin, m[i].n);
        assert_memory_equal(buf_get(&text.text) + r.begin, m[i].text, m[i].n);
    }
    token_list_fini(&list);
    template_text_fini(&text);

    template_text_init(&text); /* raw: the question is what was written, not the space */
    token_list_init(&list);
    CHECK_OK(template_render(&text, TEMPLATE_RAW, m + 1, 1, NULL, &err), &err);
    CHECK_OK(template_encode(&list, t, &text, false, &err), &err);
    assert_string_equal(buf_get(&text.text), " one");
    assert_int_equal(text.question.begin, 1);
    assert_int_equal(text.question.end, 4);
    assert_int_equal(list.id[0], 1);
    assert_int_equal(list.offset[1], 0); /* BOS of the tokenizer: of no text */
    token_list_fini(&list);
    template_text_fini(&text);
    tokenizer_free(t);
}

/* The definition: of all neighbours whose text is a piece the highest score, the leftmost. */
static int plain(char out[][TEXT], const char *text, const pieces *v, int32_t from)
{
    int n = 0;
    for (; text[n]; n++)
        snprintf(out[n], TEXT, "%c", text[n]);
    for (;;) {
        int at = -1;
        float best = 0;
        for (int i = 0; i + 1 < n; i++)
            for (int32_t k = from; k < (int32_t)v->source.n_token; k++) {
                size_t left = strlen(out[i]);
                bool both = strlen(v->text[k]) == left + strlen(out[i + 1]) &&
                            strncmp(v->text[k], out[i], left) == 0 &&
                            strcmp(v->text[k] + left, out[i + 1]) == 0;
                if (both && (at < 0 || v->score[k] > best)) {
                    at = i;
                    best = v->score[k];
                }
            }
        if (at < 0)
            return n;
        memcpy(out[at] + strlen(out[at]), out[at + 1], strlen(out[at + 1]) + 1);
        memmove(out[at + 1], out[at + 2], (size_t)(n - at - 2) * TEXT);
        n--;
    }
}

static void equals_the_plain_definition(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < 40; round++) {
        pieces v;
        begin(&v, true);
        int32_t from = (int32_t)v.source.n_token;
        for (int k = 0; k < 3; k++)
            add(&v, (char[]){(char)('a' + k), 0}, TOKEN_NORMAL, -100);
        for (int k = 0; k < 60; k++) {
            char text[TEXT];
            int n = 2 + rand() % 4;
            bool fresh = true;
            for (int i = 0; i < n; i++)
                text[i] = (char)('a' + rand() % 3);
            text[n] = 0;
            for (int32_t i = from; i < (int32_t)v.source.n_token; i++)
                fresh = fresh && strcmp(v.text[i], text) != 0;
            if (fresh)
                add(&v, text, TOKEN_NORMAL, (float)-(rand() % 20));
        }
        v.source.add_bos = 0;
        tokenizer *t = build(&v);
        for (int k = 0; k < 60; k++) {
            char text[64], parts[64][TEXT], want[256] = "";
            int n = 1 + rand() % 60;
            for (int i = 0; i < n; i++)
                text[i] = (char)('a' + rand() % 3);
            text[n] = 0;
            int n_part = plain(parts, text, &v, from);
            for (int i = 0; i < n_part; i++)
                snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s", i ? "|" : "",
                         parts[i]);
            assert_string_equal(cut(t, text, false, false), want);
        }
        tokenizer_free(t);
    }
}

/* C046: the whole text is one word; nothing recurses in it. */
static void *encode_runs(void *failed)
{
    static const char *const unit[] = {"a", "Z", "\u4f60", " ", "\n"};
    static const size_t count[] = {43000, 131072, 26000, 100000, 10000};
    static pieces v;
    kvt_err err;
    tokenizer *t;
    begin(&v, true);
    add(&v, "a", TOKEN_NORMAL, -1);
    add(&v, "aa", TOKEN_NORMAL, -2);
    add(&v, "\u2581\u2581", TOKEN_NORMAL, -2);
    *(bool *)failed = tokenizer_new(&t, &v.source, &err) != KVT_OK;
    for (int i = 0; i < 5 && !*(bool *)failed; i++) {
        size_t width = strlen(unit[i]), n = width * count[i];
        char *text = kvt_alloc((int64_t)n, 1);
        token_list list;
        for (size_t k = 0; k < count[i]; k++)
            memcpy(text + k * width, unit[i], width);
        token_list_init(&list);
        clock_t from = clock();
        *(bool *)failed = tokenizer_encode(t, &list, text, n, NULL, 0, true, &err) ||
                          list.offset[list.n] != (int64_t)n + 1 ||
                          clock() - from > CLOCKS_PER_SEC;
        token_list_fini(&list);
        kvt_free(text);
    }
    tokenizer_free(t);
    return NULL;
}

static void long_runs_need_no_stack(void **state)
{
    pthread_attr_t attr;
    pthread_t thread;
    bool failed = true;
    (void)state;
    assert_int_equal(pthread_attr_init(&attr), 0);
    size_t size = 64 << 10; /* and what the C library keeps there for thread-local data */
    while (pthread_attr_setstacksize(&attr, size) ||
           pthread_create(&thread, &attr, encode_runs, &failed))
        assert_true((size += 16 << 10) < 8 << 20);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    assert_false(failed);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    kvt_err err;
    tokenizer *t;
    pieces v;
    begin(&v, true);
    v.score[5] = NAN;
    CHECK_FAILS(tokenizer_new(&t, &v.source, &err), KVT_FORMAT, "scores: token 5", &err);
    begin(&v, true);
    v.source.score = NULL;
    CHECK_FAILS(tokenizer_new(&t, &v.source, &err), KVT_FORMAT, "scores: missing", &err);
    begin(&v, true);
    v.source.unk = 5000;
    CHECK_FAILS(tokenizer_new(&t, &v.source, &err), KVT_FORMAT, "unknown_token_id", &err);
    begin(&v, true);
    add(&v, "<0xG0>", TOKEN_BYTE, 0);
    CHECK_FAILS(tokenizer_new(&t, &v.source, &err), KVT_FORMAT, "token 259 is a byte", &err);
    begin(&v, true);
    v.source.bos = -1;
    CHECK_FAILS(tokenizer_new(&t, &v.source, &err), KVT_FORMAT, "bos_token_id", &err);
}

static void memory_may_fail_anywhere(void **state)
{
    (void)state;
    pieces v;
    begin(&v, true);
    add(&v, "a", TOKEN_NORMAL, -1);
    add(&v, "aa", TOKEN_NORMAL, -1);
    for (int64_t n = 1;; n++) {
        kvt_err err;
        tokenizer *t = NULL;
        token_list list;
        tokenizer_range all = {0, 7};
        token_list_init(&list);
        kvt_alloc_fail_at(n, true);
        kvt_code code = tokenizer_new(&t, &v.source, &err);
        if (!code)
            code = tokenizer_encode(t, &list, "aa<s>aa", 7, &all, 1, true, &err);
        kvt_alloc_fail_at(0, false);
        token_list_fini(&list);
        tokenizer_free(t);
        if (!code) {
            assert_true(n > 15);
            return;
        }
        assert_int_equal(code, KVT_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_score_joins_first),
        cmocka_unit_test(what_is_no_piece_becomes_bytes),
        cmocka_unit_test(cut_out_tokens_and_the_space_behind_them),
        cmocka_unit_test(ranges_follow_the_spaces),
        cmocka_unit_test(equals_the_plain_definition),
        cmocka_unit_test(long_runs_need_no_stack),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(memory_may_fail_anywhere),
    };
    return cmocka_run_group_tests_name("spm", tests, NULL, NULL);
}
