/* test_bpe.c - merging by rank: by hand, against the plain definition, and with odd
 * vocabularies. */
#include "tiny_vocab.h"

#include "capture/bpe.h"
#include "kvt/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

enum { WORD_MAX = 64 };

/* A vocabulary and its merges. */
typedef struct words {
    vocab *vocab;
    bpe *bpe;
} words;

static kvt_code try_build(words *w, const tiny_vocab *v, bool whole, kvt_err *err)
{
    uint8_t sort[TINY_MAX];
    for (int64_t i = 0; i < v->source.n_token; i++)
        sort[i] = v->type[i] == TOKEN_NORMAL ? VOCAB_WRITTEN : VOCAB_HIDDEN;
    *w = (words){0};
    bpe_rules rules = {
        .merge = v->merge, .n_merge = v->source.n_merge, .whole = whole, .unk = -1};
    kvt_code code =
        vocab_new(&w->vocab, VOCAB_ALPHABET, v->token, sort, v->source.n_token, err);
    return code ? code : bpe_new(&w->bpe, w->vocab, &rules, err);
}

static words build(const tiny_vocab *v, bool whole)
{
    kvt_err err;
    words w;
    if (try_build(&w, v, whole, &err))
        fail_msg("%s", err.text);
    return w;
}

static void drop(words *w)
{
    bpe_free(w->bpe);
    vocab_free(w->vocab);
}

/* ids as text "256 257", so that a failure shows both sides */
static const char *word(const words *w, const char *text, size_t n)
{
    static char out[1024];
    int32_t id[WORD_MAX];
    int64_t size[WORD_MAX], sum = 0;
    token_room room = {.id = id, .size = size};
    kvt_err err;
    if (bpe_word(w->bpe, &room, text, n, &err))
        fail_msg("%s", err.text);
    out[0] = 0;
    for (int64_t i = 0; i < room.n; i++) {
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%d", i ? " " : "", (int)id[i]);
        sum += size[i];
    }
    if (room.n)
        assert_int_equal(sum, (int64_t)n);
    return out;
}

static void merges_by_rank_then_from_the_left(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, NULL);
    tiny_merge(&v, "b", "c");   /* 256 */
    tiny_merge(&v, "a", "b");   /* 257: later, so "abc" is a bc */
    tiny_merge(&v, "a", "a");   /* 258 */
    tiny_merge(&v, "aa", "aa"); /* 259 */
    tiny_merge(&v, "aa", "a");  /* 260 */
    words w = build(&v, false);
    assert_string_equal(word(&w, "abc", 3), "97 256");
    assert_string_equal(word(&w, "ab", 2), "257");
    assert_string_equal(word(&w, "aaa", 3), "260"); /* (aa) a */
    assert_string_equal(word(&w, "aaaa", 4), "259");
    assert_string_equal(word(&w, "aaaaa", 5), "259 97");
    assert_string_equal(word(&w, "aaaaaa", 6), "259 258");
    assert_string_equal(word(&w, "", 0), "");
    assert_string_equal(word(&w, "z", 1), "122");
    drop(&w);
}

static void every_byte_has_its_character(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, NULL);
    words w = build(&v, false);
    for (int k = 0; k < 256; k++) {
        char byte = (char)k;
        assert_int_equal(vocab_find(w.vocab, &byte, 1), k);
        assert_int_equal((uint8_t)vocab_bytes(w.vocab, k).data[0], k);
    }
    drop(&w);
}

static void a_merge_listed_twice_has_its_first_rank(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, NULL);
    tiny_merge(&v, "a", "b"); /* 256 */
    tiny_merge(&v, "b", "c");
    tiny_merge(&v, "a", "b");
    words w = build(&v, false);
    assert_string_equal(word(&w, "abc", 3), "256 99");
    drop(&w);
}

/* C041: a token that no row of merges reaches is found only where the whole word is looked up.
 */
static void a_whole_word_is_looked_up_where_asked(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, NULL);
    tiny_merge(&v, "x", "y"); /* 256 */
    int32_t id = tiny_fixed(&v, "xyz", TOKEN_NORMAL);
    words w = build(&v, false), by_word = build(&v, true);
    assert_string_equal(word(&w, "xyz", 3), "256 122");
    assert_int_equal(id, 257);
    assert_string_equal(word(&by_word, "xyz", 3), "257");
    assert_string_equal(word(&by_word, "xyzz", 4), "256 122 122");
    drop(&w);
    drop(&by_word);
}

/* C050 */
static void odd_tokens_are_pointer_and_length(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, NULL);
    int32_t nul = tiny_add(&v, "\0", 1, TOKEN_NORMAL); /* outside the alphabet: literal */
    int32_t empty = tiny_add(&v, "", 0, TOKEN_NORMAL);
    int32_t again = tiny_fixed(&v, "a", TOKEN_NORMAL);               /* the text of token 97 */
    int32_t two = tiny_add(&v, "\xc4\x80\xc4\x80", 4, TOKEN_NORMAL); /* two zero bytes */
    words w = build(&v, false);
    assert_int_equal(vocab_bytes(w.vocab, nul).n, 1);
    assert_int_equal(vocab_bytes(w.vocab, nul).data[0], 0);
    assert_int_equal(vocab_bytes(w.vocab, empty).n, 0);
    assert_int_equal(vocab_bytes(w.vocab, again).n, 1);
    assert_int_equal(vocab_bytes(w.vocab, two).n, 2);
    assert_memory_equal(vocab_bytes(w.vocab, two).data, "\0\0", 2);
    assert_int_equal(vocab_find(w.vocab, "a", 1), 97); /* the lowest id */
    assert_int_equal(vocab_find(w.vocab, "\0\0", 2), two);
    assert_string_equal(word(&w, "\0a", 2), "0 97");
    drop(&w);

    kvt_err err;
    v.token[again].data = NULL;
    assert_int_equal(try_build(&w, &v, false, &err), KVT_FORMAT);
    assert_non_null(strstr(err.text, "258 (a hole)"));
}

static void bad_merges_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *merge, *want;
    } rows[] = {
        {"ab", "no space"},
        {"", "no space"},
        {" a", "no space"},
        {"a ", "no tokens"},
        {"a qq", "no tokens"},
        {"a b", "no tokens"},
        {"a \xe2\x82\xac", "outside"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tiny_vocab v;
        kvt_err err;
        words w;
        tiny_init(&v, NULL);
        v.merge[v.source.n_merge++] = (token_text){rows[i].merge, strlen(rows[i].merge)};
        kvt_code code = try_build(&w, &v, false, &err);
        drop(&w);
        if (code != KVT_FORMAT || !strstr(err.text, rows[i].want) ||
            !strstr(err.text, "merges: entry 0"))
            fail_msg("'%s': expected FORMAT with '%s', got %s '%s'", rows[i].merge,
                     rows[i].want, kvt_code_name(code), code ? err.text : "");
    }
}

/* As the reference library: the byte is as if it had not been there, and merges reach across.
 */
static void a_byte_without_token_is_left_out(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, NULL);
    int32_t ab = tiny_merge(&v, "a", "b");
    v.type[4] = TOKEN_UNUSED;
    words w = build(&v, false);
    int32_t id[4];
    int64_t size[4];
    token_room room = {.id = id, .size = size};
    kvt_err err;
    assert_int_equal(bpe_word(w.bpe, &room, "\4a\4b", 4, &err), KVT_OK);
    assert_int_equal(room.n, 1);
    assert_int_equal(id[0], ab);
    assert_int_equal(size[0], 4);
    assert_int_equal(room.n_lost, 2);
    assert_int_equal(bpe_word(w.bpe, &room, "\4\4", 2, &err), KVT_OK);
    assert_int_equal(room.n, 0);
    assert_int_equal(room.n_lost, 4);
    drop(&w);
}

/* The definition: look for the lowest rank, the leftmost place, join, begin again. */
static int plain(int32_t *id, const char *text, int n, const int32_t (*pair)[2], int n_pair)
{
    for (int i = 0; i < n; i++)
        id[i] = (uint8_t)text[i];
    for (;;) {
        int best = n_pair, at = -1;
        for (int i = 0; i + 1 < n; i++)
            for (int m = 0; m < best; m++)
                if (pair[m][0] == id[i] && pair[m][1] == id[i + 1]) {
                    best = m;
                    at = i;
                }
        if (at < 0)
            return n;
        id[at] = 256 + best;
        memmove(id + at + 1, id + at + 2, (size_t)(n - at - 2) * sizeof *id);
        n--;
    }
}

static void equals_the_plain_definition(void **state)
{
    (void)state;
    enum { PAIRS = 40, LETTERS = 3 };
    srand(7);
    for (int round = 0; round < 60; round++) {
        tiny_vocab v;
        int32_t pair[PAIRS][2];
        char text[256 + PAIRS][TINY_TEXT];
        int n_pair = 0;
        tiny_init(&v, NULL);
        for (int k = 0; k < LETTERS; k++)
            snprintf(text['a' + k], TINY_TEXT, "%c", 'a' + k);
        for (int tries = 0; tries < 400 && n_pair < PAIRS; tries++) {
            int32_t side[2];
            for (int k = 0; k < 2; k++) {
                int r = rand() % (LETTERS + n_pair);
                side[k] = r < LETTERS ? 'a' + r : 256 + r - LETTERS;
            }
            char joined[TINY_TEXT * 2];
            snprintf(joined, sizeof joined, "%s%s", text[side[0]], text[side[1]]);
            bool fresh = strlen(joined) < 12;
            for (int k = 0; k < n_pair; k++)
                fresh = fresh && strcmp(text[256 + k], joined) != 0;
            if (!fresh)
                continue;
            assert_int_equal(tiny_merge(&v, text[side[0]], text[side[1]]), 256 + n_pair);
            memcpy(text[256 + n_pair], joined, 12); /* with its NUL: shorter than 12 */
            memcpy(pair[n_pair++], side, sizeof side);
        }
        words w = build(&v, false);
        for (int k = 0; k < 100; k++) {
            char in[WORD_MAX];
            int n = rand() % WORD_MAX;
            int32_t want[WORD_MAX], got[WORD_MAX];
            int64_t size[WORD_MAX];
            token_room room = {.id = got, .size = size};
            kvt_err err;
            for (int i = 0; i < n; i++)
                in[i] = (char)('a' + rand() % LETTERS);
            int n_want = plain(want, in, n, (const int32_t(*)[2])pair, n_pair);
            assert_int_equal(bpe_word(w.bpe, &room, in, (size_t)n, &err), KVT_OK);
            if (room.n != n_want || memcmp(got, want, (size_t)n_want * sizeof *want) != 0)
                fail_msg("round %d: '%.*s' differs from the definition", round, n, in);
        }
        drop(&w);
    }
}

static void memory_may_fail_anywhere(void **state)
{
    (void)state;
    tiny_vocab v;
    tiny_init(&v, NULL);
    tiny_merge(&v, "a", "b");
    for (int64_t n = 1;; n++) {
        kvt_err err;
        words w;
        int32_t id[4];
        int64_t size[4];
        token_room room = {.id = id, .size = size};
        kvt_alloc_fail_at(n, true);
        kvt_code code = try_build(&w, &v, false, &err);
        if (!code)
            code = bpe_word(w.bpe, &room, "abab", 4, &err);
        kvt_alloc_fail_at(0, false);
        drop(&w);
        if (!code) {
            assert_true(n > 5);
            return;
        }
        assert_int_equal(code, KVT_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_by_rank_then_from_the_left),
        cmocka_unit_test(every_byte_has_its_character),
        cmocka_unit_test(a_merge_listed_twice_has_its_first_rank),
        cmocka_unit_test(a_whole_word_is_looked_up_where_asked),
        cmocka_unit_test(odd_tokens_are_pointer_and_length),
        cmocka_unit_test(bad_merges_are_named),
        cmocka_unit_test(a_byte_without_token_is_left_out),
        cmocka_unit_test(equals_the_plain_definition),
        cmocka_unit_test(memory_may_fail_anywhere),
    };
    return cmocka_run_group_tests_name("bpe", tests, NULL, NULL);
}
