/* test_vocabularies.c - real vocabularies from GGUF files on the golden strings: digests of ids
 * from outside (tests/golden/ids/NAME.txt: pieces.py for SentencePiece, tokenizer_files.py for
 * byte-level BPE).
 *
 * Vocabularies are under their models' licences and not part of this repository. Gemma's is in
 * the second real model (scripts/fetch-model gemma3-270m, or KVT_GEMMA); KVT_VOCABS names a
 * folder with ggml-vocab-NAME.gguf for the others, as in test_vectors.c. What is not there is
 * skipped. */
#include "base/file.h"
#include "capture/gguf.h"
#include "capture/tokenizer.h"
#include "kvt/arena.h"
#include "strings.h"
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct vocabulary {
    const char *name;
    const char *kind;
    bool bos;
} vocabulary;

static vocabulary vocabularies[] = {
    {"gemma3-270m", "llama", true}, {"llama-spm", "llama", true},
    {"gpt-2", "gpt2/gpt-2", false}, {"llama-bpe", "gpt2/llama-bpe", true},
    {"qwen2", "gpt2/qwen2", false},
};

/* false: there is no such file, which has been said. */
static bool path_of(char *out, size_t cap, const char *name)
{
    const char *folder = getenv("KVT_VOCABS"), *given = getenv("KVT_GEMMA");
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool gemma = strcmp(name, "gemma3-270m") == 0;
    if (gemma && given && *given)
        snprintf(out, cap, "%s", given);
    else if (gemma)
        snprintf(out, cap, "%s%s/kvt/models/%s.gguf",
                 cache && *cache ? cache
                 : home          ? home
                                 : "",
                 cache && *cache ? "" : "/.cache", name);
    else
        snprintf(out, cap, "%s/ggml-vocab-%s.gguf", folder ? folder : "", name);
    if (file_exists(out))
        return true;
    fprintf(stderr, "SKIPPED: no vocabulary '%s': %s\n", name,
            gemma ? "scripts/fetch-model gemma3-270m, or set KVT_GEMMA"
                  : "KVT_VOCABS names no folder with it");
    return false;
}

static tokenizer *open_or_skip(const char *name)
{
    char path[4096];
    kvt_err err;
    gguf *g;
    tokenizer *t;
    if (!path_of(path, sizeof path, name))
        skip();
    CHECK_OK(gguf_open(&g, path, &err), &err);
    CHECK_OK(tokenizer_open(&t, g, NULL, &err), &err);
    gguf_close(g);
    return t;
}

static void encode(token_list *list, tokenizer *t, const char *text, size_t n)
{
    kvt_err err;
    token_list_init(list);
    CHECK_OK(tokenizer_encode(t, list, text, n, NULL, 0, true, &err), &err);
}

/* Ranges tile the text, and every token spells its bytes. */
static uint64_t add_string(tokenizer *t, int i, uint64_t fnv)
{
    static char text[GOLDEN_STRING_MAX];
    token_list list;
    size_t n = golden_string(text, i);
    encode(&list, t, text, n);
    for (int64_t k = tokenizer_adds_bos(t); k < list.n; k++) {
        token_text bytes = tokenizer_bytes(t, list.id[k]);
        fnv = golden_add(fnv, list.id[k]);
        if (list.offset[k + 1] - list.offset[k] != (int64_t)bytes.n ||
            memcmp(buf_get(&list.text) + list.offset[k], bytes.data, bytes.n) != 0)
            fail_msg("string %d: token %lld (id %d) is not its bytes of the text", i,
                     (long long)k, (int)list.id[k]);
    }
    assert_int_equal(list.offset[list.n], (int64_t)list.text.n);
    token_list_fini(&list);
    return golden_add(fnv, -1);
}

static void ids_are_those_of_the_reference(void **state)
{
    const vocabulary *v = *state;
    char path[600], line[200];
    int n_block = 0, first, count;
    unsigned long long want;
    tokenizer *t = open_or_skip(v->name);
    assert_string_equal(tokenizer_kind(t), v->kind);
    assert_int_equal(tokenizer_adds_bos(t), v->bos);
    snprintf(path, sizeof path, KVT_SOURCE_DIR "/tests/golden/ids/%s.txt", v->name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "ids %d %d %llx", &first, &count, &want) != 3)
            continue;
        uint64_t fnv = GOLDEN_FNV;
        for (int i = first; i < first + count; i++)
            fnv = add_string(t, i, fnv);
        if (fnv != want)
            fail_msg("strings %d to %d: digest of the ids: expected %016llx, got %016llx",
                     first, first + count - 1, want, (unsigned long long)fnv);
        n_block++;
    }
    fclose(f);
    tokenizer_free(t);
    assert_int_equal(n_block, GOLDEN_STRINGS / 100);
}

static int64_t count_of(tokenizer *t, const char *text)
{
    token_list list;
    encode(&list, t, text, strlen(text));
    int64_t n = list.n - tokenizer_adds_bos(t);
    token_list_fini(&list);
    return n;
}

/* C043: runs of spaces and lines, and tags, are one token each. */
static void gemma_has_runs_and_tags(void **state)
{
    (void)state;
    char spaces[41] = {0};
    tokenizer *t = open_or_skip("gemma3-270m");
    memset(spaces, ' ', 40);
    assert_int_equal(count_of(t, spaces), 2);      /* 31 and 9 */
    assert_int_equal(count_of(t, spaces + 13), 1); /* 27 */
    assert_int_equal(count_of(t, "\n\n\n"), 1);
    assert_int_equal(count_of(t, "<code>x</code>"), 3);
    assert_int_equal(count_of(t, "a  b and    c"), 6); /* a, 2, b, " and", 4, c */
    assert_true(tokenizer_is_stop(t, tokenizer_find_special(t, "<end_of_turn>")));
    assert_true(tokenizer_is_stop(t, 1));
    assert_int_equal(tokenizer_bos(t), 2);
    tokenizer_free(t);
}

/* What a person wrote is no control token, however it is spelled. C047 */
static void gemma_has_no_control_tokens_in_text(void **state)
{
    (void)state;
    const char *text = "<bos><start_of_turn>user\n<unused99><unk></s><0x0A>";
    tokenizer *t = open_or_skip("gemma3-270m");
    token_list list;
    encode(&list, t, text, strlen(text));
    for (int64_t k = 1; k < list.n; k++)
        assert_false(tokenizer_is_special(t, list.id[k]));
    assert_int_equal(list.n_lost, 0);
    token_list_fini(&list);
    tokenizer_free(t);
}

static double seconds(tokenizer *t, const char *text, size_t n)
{
    double best = 1e9;
    for (int k = 0; k < 3; k++) {
        token_list list;
        clock_t begin = clock();
        encode(&list, t, text, n);
        double took = (double)(clock() - begin) / CLOCKS_PER_SEC;
        best = took < best ? took : best;
        token_list_fini(&list);
    }
    return best;
}

/* C046: the whole text is one word, and still costs about n log n. */
static void one_letter_for_a_megabyte(void **state)
{
    (void)state;
    enum { MANY = 1000 * 1000 };
    tokenizer *t = open_or_skip("gemma3-270m");
    char *text = kvt_alloc(MANY, 1);
    const char letters[] = "Az \n!<\t";
    for (int i = 0; letters[i]; i++) {
        memset(text, letters[i], MANY);
        double small = 0, large = 0;
        for (int tries = 0; tries < 3; tries++) { /* other work may disturb one */
            small = seconds(t, text, MANY / 10);
            large = seconds(t, text, MANY);
            if (large <= 15 * small)
                break;
        }
        print_message("letter %d: 100 kB %.4f s, 1 MB %.4f s, ratio %.1f\n", letters[i], small,
                      large, large / small);
        assert_true(large <= 15 * small);
    }
    kvt_free(text);
    tokenizer_free(t);
}

int main(void)
{
    struct CMUnitTest tests[16];
    int n = 0;
    bool any = false;
    char path[4096];
    for (int i = 0; i < CHECK_COUNT(vocabularies); i++)
        any = path_of(path, sizeof path, vocabularies[i].name) || any;
    if (!any)
        return CHECK_SKIP;
    CHECK_ROWS(tests, &n, vocabularies, ids_are_those_of_the_reference);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(gemma_has_runs_and_tags);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(gemma_has_no_control_tokens_in_text);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(one_letter_for_a_megabyte);
    return CHECK_RUN("vocabularies", tests, n);
}
