/* test_tokens.c - the tokenizer over SmolLM2's own vocabulary against ids from outside
 * (tokens_smollm.txt, made by tokens.py). Skipped without the model. */
#include "capture/gguf.h"
#include "capture/template.h"
#include "kvt/arena.h"
#include "strings.h"
#include "../model_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { LINE_MAX_BYTES = 16384 };

static gguf *file;
static tokenizer *tok;

static void must(kvt_code code, const kvt_err *err)
{
    if (code)
        fail_msg("%s: %s", kvt_code_name(code), err->text);
}

static void encode(token_list *list, const char *text, size_t n, bool parse_special)
{
    kvt_err err;
    tokenizer_range all = {0, n};
    token_list_init(list);
    must(tokenizer_encode(tok, list, text, n, &all, parse_special, true, &err), &err);
}

/* Ranges tile the text, and where nothing was lost tokens spell it. */
static void check_tiles(const token_list *list, const char *text, size_t n, int which)
{
    assert_int_equal(list->text.n, n);
    assert_memory_equal(buf_get(&list->text), text, n);
    if (list->n == 0) {
        assert_int_equal(list->carry, (int64_t)n);
        return;
    }
    assert_int_equal(list->offset[0], 0);
    assert_int_equal(list->offset[list->n], (int64_t)n);
    for (int64_t i = 0; i < list->n; i++) {
        token_text bytes = tokenizer_bytes(tok, list->id[i]);
        int64_t size = list->offset[i + 1] - list->offset[i];
        if (list->n_lost == 0 && (size != (int64_t)bytes.n ||
                                  memcmp(text + list->offset[i], bytes.data, bytes.n) != 0))
            fail_msg("string %d: token %lld (id %d) is not the bytes [%lld, %lld)", which,
                     (long long)i, (int)list->id[i], (long long)list->offset[i],
                     (long long)list->offset[i + 1]);
        assert_true(size >= (int64_t)bytes.n);
    }
}

static FILE *golden(void)
{
    FILE *f = fopen(KVT_SOURCE_DIR "/tests/golden/tokens_smollm.txt", "r");
    if (!f)
        fail_msg("cannot read tests/golden/tokens_smollm.txt");
    return f;
}

static void the_strings_are_those_of_the_file(void **state)
{
    (void)state;
    static char text[GOLDEN_STRING_MAX], line[LINE_MAX_BYTES];
    uint64_t fnv = GOLDEN_FNV;
    for (int i = 0; i < GOLDEN_STRINGS; i++) {
        size_t n = golden_string(text, i);
        for (size_t k = 0; k < n; k++)
            fnv = (fnv ^ (uint8_t)text[k]) * 0x100000001b3u;
    }
    FILE *f = golden();
    int count = 0;
    unsigned long long want = 0;
    while (fgets(line, sizeof line, f) && sscanf(line, "strings %d %llx", &count, &want) != 2)
        ;
    fclose(f);
    assert_int_equal(count, GOLDEN_STRINGS);
    assert_true(fnv == want);
}

static void ids_of_the_golden_strings(void **state)
{
    (void)state;
    static char text[GOLDEN_STRING_MAX], line[LINE_MAX_BYTES];
    FILE *f = golden();
    int n_block = 0, first, count;
    unsigned long long want;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "ids %d %d %llx", &first, &count, &want) != 3)
            continue;
        uint64_t fnv = GOLDEN_FNV;
        for (int i = first; i < first + count; i++) {
            token_list list;
            size_t n = golden_string(text, i);
            encode(&list, text, n, false);
            check_tiles(&list, text, n, i);
            for (int64_t k = 0; k < list.n; k++)
                fnv = golden_add(fnv, list.id[k]);
            fnv = golden_add(fnv, -1);
            token_list_fini(&list);
        }
        if (fnv != want)
            fail_msg("strings %d to %d: digest of the ids: expected %016llx, got %016llx",
                     first, first + count - 1, want, (unsigned long long)fnv);
        n_block++;
    }
    fclose(f);
    assert_int_equal(n_block, GOLDEN_STRINGS / 100);
}

/* "kind HEX IDS": 0 where the line is of another kind. */
static int check_line(char *line, const char *kind, bool parse_special)
{
    static char text[LINE_MAX_BYTES];
    char *save = NULL, *word = strtok_r(line, " \n", &save);
    size_t n = 0;
    if (!word || strcmp(word, kind) != 0)
        return 0;
    char *hex = strtok_r(NULL, " \n", &save);
    for (unsigned byte; hex[2 * n] && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
        text[n] = (char)byte;
    token_list list;
    encode(&list, text, n, parse_special);
    check_tiles(&list, text, n, -1);
    int64_t k = 0;
    for (char *id; (id = strtok_r(NULL, " \n", &save)); k++)
        if (k >= list.n || list.id[k] != atoi(id))
            fail_msg("%s %s: token %lld: expected %s, got %d of %lld", kind, hex, (long long)k,
                     id, k < list.n ? (int)list.id[k] : -1, (long long)list.n);
    if (k != list.n)
        fail_msg("%s %s: expected %lld tokens, got %lld", kind, hex, (long long)k,
                 (long long)list.n);
    token_list_fini(&list);
    return 1;
}

static int check_lines(const char *kind, bool parse_special)
{
    static char line[LINE_MAX_BYTES];
    FILE *f = golden();
    int n = 0;
    while (fgets(line, sizeof line, f))
        n += check_line(line, kind, parse_special);
    fclose(f);
    return n;
}

static void ids_one_by_one(void **state)
{
    (void)state;
    assert_true(check_lines("plain", false) >= 60);
}

static void ids_with_control_tokens(void **state)
{
    (void)state;
    assert_true(check_lines("special", true) >= 9);
}

/* C046: long runs are cut and merged without recursion, in about n log n. */
static double seconds(const char *text, size_t n)
{
    double best = 1e9;
    for (int k = 0; k < 3; k++) {
        token_list list;
        clock_t begin = clock();
        encode(&list, text, n, false);
        double took = (double)(clock() - begin) / CLOCKS_PER_SEC;
        best = took < best ? took : best;
        check_tiles(&list, text, n, -1);
        token_list_fini(&list);
    }
    return best;
}

static void one_letter_for_a_megabyte(void **state)
{
    (void)state;
    enum { MANY = 1000 * 1000 };
    char *text = kvt_alloc(MANY, 1);
    const char letters[] = "AZ \n!a";
    for (int i = 0; letters[i]; i++) {
        memset(text, letters[i], MANY);
        double small = 0, large = 0;
        for (int tries = 0; tries < 3;
             tries++) { /* other work on the machine may disturb one */
            small = seconds(text, MANY / 10);
            large = seconds(text, MANY);
            if (large <= 15 * small)
                break;
        }
        print_message("'%s' 100 kB %.4f s, 1 MB %.4f s, ratio %.1f\n",
                      letters[i] == '\n' ? "\\n" : (char[]){letters[i], 0}, small, large,
                      large / small);
        assert_true(large <= 15 * small);
    }
    kvt_free(text);
}

static void the_model_says_how_a_text_ends(void **state)
{
    (void)state;
    assert_int_equal(tokenizer_count(tok), 49152);
    assert_string_equal(tokenizer_pre(tok), "smollm");
    assert_false(tokenizer_adds_bos(tok));
    assert_true(tokenizer_is_stop(tok, 2));  /* <|im_end|>, the file's eos */
    assert_true(tokenizer_is_stop(tok, 0));  /* <|endoftext|>, known by its name */
    assert_false(tokenizer_is_stop(tok, 1)); /* <|im_start|> */
    assert_int_equal(tokenizer_find_special(tok, "<|im_end|>"), 2);
    assert_int_equal(tokenizer_find_special(tok, "the"), -1);
    assert_non_null(strstr(tokenizer_chat(tok), "named SmolLM"));
}

/* Where the text holds no marks of its own, a rendered dialogue has the ids of the whole text
 * with control tokens parsed: borders between template and message change nothing. */
static void a_rendered_dialogue_has_the_ids_of_its_text(void **state)
{
    (void)state;
    static const char *const texts[] = {"Why is the sky blue?",
                                        "  two \n\n lines\t",
                                        "\n\nx",
                                        "\n",
                                        "12 \u00e9\u4f60\u597d \U0001f999 ",
                                        "   ",
                                        "'s x"};
    kvt_err err;
    template_form form;
    must(template_find(&form, NULL, tokenizer_chat(tok), &err), &err);
    assert_int_equal(form, TEMPLATE_SMOLLM2);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const template_message m[] = {{TEMPLATE_SYSTEM, texts[i], strlen(texts[i])},
                                      {TEMPLATE_USER, texts[i], strlen(texts[i])}};
        for (int first = 0; first < 2; first++) {
            template_text text;
            token_list pieces, whole;
            template_text_init(&text);
            token_list_init(&pieces);
            must(template_render(&text, form, m + first, 2 - first, NULL, &err), &err);
            must(template_encode(&pieces, tok, &text, false, &err), &err);
            encode(&whole, buf_get(&text.text), text.text.n, true);
            assert_int_equal(pieces.n, whole.n);
            assert_memory_equal(pieces.id, whole.id, (size_t)whole.n * sizeof *whole.id);
            token_list_fini(&pieces);
            token_list_fini(&whole);
            template_text_fini(&text);
        }
    }
}

int main(void)
{
    char path[4096];
    kvt_err err;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_strings_are_those_of_the_file),
        cmocka_unit_test(ids_of_the_golden_strings),
        cmocka_unit_test(ids_one_by_one),
        cmocka_unit_test(ids_with_control_tokens),
        cmocka_unit_test(one_letter_for_a_megabyte),
        cmocka_unit_test(the_model_says_how_a_text_ends),
        cmocka_unit_test(a_rendered_dialogue_has_the_ids_of_its_text),
    };
    if (!model_path(path, sizeof path))
        return TEST_SKIPPED;
    if (gguf_open(&file, path, &err) || tokenizer_open(&tok, file, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int failed = cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
    tokenizer_free(tok);
    gguf_close(file);
    return failed;
}
