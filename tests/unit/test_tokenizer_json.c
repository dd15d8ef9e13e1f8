/* test_tokenizer_json.c - folders of Hugging Face's files: shapes that are known, what is
 * refused by name, ids, ends of text, BOS and chat template. */
#include "capture/tokenizer_json.h"
#include "kvt/arena.h"
#include "tests/check.h"
#include "tests/folder.h"

#include <stdio.h>
#include <stdlib.h>

/* {"a":0,"b":1,...} and so on; parts that a case changes. */
#define VOCAB "\"a\":0,\"b\":1,\"ab\":2,\"\u0120\":3,\"<s>\":4,\"\u0120a\":5"
#define LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define SPLIT(regex)                                                                        \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":" \
    "\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false},"                           \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}"
#define REPLACE            "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}"
#define MODEL(vocab, more) "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "}," more "}"
#define MERGES             "\"merges\":[\"a b\",\"\u0120 a\"]"
#define ADDED                                                                                 \
    "\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false," \
    "\"rstrip\":false,\"normalized\":false,\"special\":true}]"

static kvt_code open_text(tokenizer **out, const char *text, const char *config,
                          const char *model, const char *generation, const char *pre,
                          kvt_err *err)
{
    json_t *root = NULL, *file[3] = {NULL};
    const char *more[] = {config, model, generation};
    kvt_code code = json_read(&root, text, strlen(text), err);
    for (int i = 0; i < 3 && !code; i++)
        if (more[i])
            code = json_read(&file[i], more[i], strlen(more[i]), err);
    tokenizer_config with = {.config = file[0], .model = file[1], .generation = file[2]};
    if (!code)
        code = tokenizer_from_json(out, root, &with, pre, err);
    json_decref(root);
    for (int i = 0; i < 3; i++)
        json_decref(file[i]);
    return code;
}

static void expect_ids(tokenizer *t, const char *text, const char *want)
{
    char got[256] = "";
    kvt_err err;
    token_list list;
    token_list_init(&list);
    CHECK_OK(tokenizer_encode(t, &list, text, strlen(text), NULL, 0, true, &err), &err);
    for (int64_t i = 0; i < list.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "",
                 (int)list.id[i]);
    assert_string_equal(got, want);
    token_list_fini(&list);
}

/* C042: merges as texts and as pairs, also of a token with a space in it, are the same. */
static void merges_as_texts_and_as_pairs(void **state)
{
    (void)state;
    static const char *const merges[] = {MERGES,
                                         "\"merges\":[[\"a\",\"b\"],[\"\u0120\",\"a\"]]"};
    for (int i = 0; i < 2; i++) {
        char text[2000];
        kvt_err err;
        tokenizer *t;
        snprintf(text, sizeof text,
                 "{" ADDED ",\"pre_tokenizer\":" LEVEL "," MODEL(VOCAB, "%s") "}", merges[i]);
        CHECK_OK(open_text(&t, text, NULL, NULL, NULL, NULL, &err), &err);
        assert_string_equal(tokenizer_kind(t), "gpt2/gpt-2");
        expect_ids(t, "ab a", "2 5");
        tokenizer_free(t);
    }
}

/* One word of characters: spaces merge with what is behind them and in front. */
static void a_vocabulary_of_characters(void **state)
{
    (void)state;
    kvt_err err;
    tokenizer *t;
    static const char text[] =
        "{\"normalizer\":" REPLACE
        ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":"
        "\" \"},\"behavior\":\"MergedWithPrevious\",\"invert\":false}," ADDED "," MODEL(
            "\"a\":0,\"\u2581\":1,\"a\u2581\":2,\"\u2581\u2581\":3,\"<s>\":4,\"<0x0A>\":5,\"<"
            "unk>\":6,"
            "\"a\u2581a\":7",
            "\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"<unk>\","
            "\"merges\":[[\"\u2581\",\"\u2581\"],[\"a\",\"\u2581\"],[\"a\u2581\",\"a\"]]") "}";
    CHECK_OK(open_text(&t, text, NULL, NULL, NULL, NULL, &err), &err);
    assert_string_equal(tokenizer_kind(t), "bpe");
    assert_null(tokenizer_pre(t));
    expect_ids(t, "a a", "7");
    expect_ids(t, "a  a", "0 3 0");
    expect_ids(t, "\n", "5");
    expect_ids(t, "a\u00e9\u00eaa", "0 6 0"); /* two unknown characters are one */
    assert_int_equal(tokenizer_bytes(t, 3).n, 2);
    tokenizer_free(t);
    CHECK_FAILS(open_text(&t, text, NULL, NULL, NULL, "qwen2", &err), KVT_USAGE,
                "no pre-tokenizer", &err);
}

static void patterns_are_known_by_their_text(void **state)
{
    (void)state;
    static const struct {
        const char *split, *want;
    } rows[] = {
        {LEVEL, "gpt2/gpt-2"},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":"
         "true}," LEVEL "]}",
         "gpt2/smollm"},
        {SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{"
               "1,3}| "
               "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
               "\\\\s+"),
         "gpt2/llama-bpe"},
        {SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
               "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
               "\\\\s+"),
         "gpt2/qwen2"},
    };
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        char text[3000];
        kvt_err err;
        tokenizer *t;
        snprintf(text, sizeof text, "{" ADDED ",\"pre_tokenizer\":%s," MODEL(VOCAB, MERGES) "}",
                 rows[i].split);
        CHECK_OK(open_text(&t, text, NULL, NULL, NULL, NULL, &err), &err);
        assert_string_equal(tokenizer_kind(t), rows[i].want);
        assert_false(tokenizer_adds_bos(t)); /* the file says nothing of one */
        tokenizer_free(t);
        CHECK_OK(open_text(&t, text, NULL, NULL, NULL, "starcoder", &err), &err);
        assert_string_equal(tokenizer_kind(t), "gpt2/starcoder");
        tokenizer_free(t);
    }
    kvt_err err;
    tokenizer *t;
    const char *odd = "{\"pre_tokenizer\":" SPLIT("[a-z]+") "," MODEL(VOCAB, MERGES) "}";
    CHECK_FAILS(
        open_text(&t, odd, NULL, NULL, NULL, NULL, &err), KVT_FORMAT,
        "the pattern '[a-z]+' is none of those known here; --pre NAME takes another for "
        "it, one of gpt-2, smollm",
        &err);
    CHECK_OK(open_text(&t, odd, NULL, NULL, NULL, "gpt-2", &err), &err);
    tokenizer_free(t);
}

typedef struct refused {
    const char *name, *text, *want;
} refused;

#define WITH(head) "{" head ",\"pre_tokenizer\":" LEVEL "," MODEL(VOCAB, MERGES) "}"
#define BAD(model) "{\"pre_tokenizer\":" LEVEL "," model "}"

static const refused rows[] = {
    {"a list", "[]", "expected an object"},
    {"no model", "{\"pre_tokenizer\":" LEVEL "}", "model: expected an object"},
    {"normalizer", WITH("\"normalizer\":{\"type\":\"Lowercase\"}"),
     "normalizer: type: 'Lowercase'"},
    {"in a sequence",
     WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
          "\"NFKC\"}]}"),
     "normalizer.normalizers[1]: type: 'NFKC'"},
    {"spaces in both ways", WITH("\"normalizer\":" REPLACE), "got both"},
    {"no pre-tokenizer", "{" MODEL(VOCAB, MERGES) "}", "got neither"},
    {"white space", "{\"pre_tokenizer\":{\"type\":\"Whitespace\"}," MODEL(VOCAB, MERGES) "}",
     "pre_tokenizer: type: 'Whitespace'"},
    {"prefix space",
     "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}," MODEL(VOCAB,
                                                                                    MERGES) "}",
     "add_prefix_space: expected false"},
    {"digits in runs",
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
     "\"individual_digits\":false}," LEVEL "]}," MODEL(VOCAB, MERGES) "}",
     "individual_digits: expected true"},
    {"behind",
     WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":"
          "{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"<s>\"}}]}"),
     "at most one token"},
    {"other processor", WITH("\"post_processor\":{\"type\":\"BertProcessing\"}"),
     "post_processor: type: 'BertProcessing'"},
    {"model type", BAD("\"model\":{\"type\":\"Unigram\"}"), "expected 'BPE', got 'Unigram'"},
    {"dropout", BAD(MODEL(VOCAB, "\"dropout\":0.1," MERGES)), "model.dropout: expected null"},
    {"subword prefix", BAD(MODEL(VOCAB, "\"continuing_subword_prefix\":\"##\"," MERGES)),
     "continuing_subword_prefix"},
    {"no vocabulary", BAD(MODEL("", MERGES)), "model.vocab"},
    {"a hole", BAD(MODEL("\"a\":0,\"b\":2", "\"merges\":[]")), "ids have a hole"},
    {"an id twice", BAD(MODEL("\"a\":0,\"b\":0", "\"merges\":[]")),
     "tokens 'a' and 'b' have one id"},
    {"a text for an id", BAD(MODEL("\"a\":\"0\"", "\"merges\":[]")), "expected a whole number"},
    {"no merges", BAD(MODEL(VOCAB, "\"x\":1")), "model.merges: expected a list"},
    {"mixed merges", BAD(MODEL(VOCAB, "\"merges\":[\"a b\",[\"a\",\"b\"]]")),
     "model.merges[1]"},
    {"three parts", BAD(MODEL(VOCAB, "\"merges\":[[\"a\",\"b\",\"c\"]]")), "model.merges[0]"},
    {"a merge of nothing", BAD(MODEL(VOCAB, "\"merges\":[\"a q\"]")),
     "joins what are no tokens"},
    {"unknown", BAD(MODEL(VOCAB, "\"unk_token\":\"<unk>\"," MERGES)), "unk_token: '<unk>'"},
    {"added: id", WITH("\"added_tokens\":[{\"id\":1,\"content\":\"<s>\"}]"), "have one id, 1"},
    {"added: strips", WITH("\"added_tokens\":[{\"id\":6,\"content\":\"<m>\",\"lstrip\":true}]"),
     "added_tokens[0]: '<m>': lstrip: expected false"},
    {"added: no list", WITH("\"added_tokens\":{}"), "added_tokens: expected a list"},
    {"a key with a zero byte", BAD(MODEL("\"\\u0000\":0", MERGES)), "a key with \\u0000"},
};

static void is_refused_by_name(void **state)
{
    const refused *r = *state;
    kvt_err err;
    tokenizer *t = NULL;
    CHECK_FAILS(open_text(&t, r->text, NULL, NULL, NULL, NULL, &err), KVT_FORMAT, r->want,
                &err);
}

/* C048, C049 */
static void other_files_say_how_a_text_begins_and_ends(void **state)
{
    (void)state;
    static const char text[] = WITH(
        ADDED
        ",\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},"
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
        "{\"Sequence\":{\"id\":\"A\"}}]}]}");
    static const struct {
        const char *config, *model, *generation;
        int bos, adds;
        const char *stops, *chat;
    } files[] = {
        {NULL, NULL, NULL, 4, 1, "", NULL},
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":false}", NULL, NULL, 4, 0, "", NULL},
        {"{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"b\"}", "{\"eos_token_id\":0}",
         "{\"eos_token_id\":[2,3]}", 4, 1, "0123", NULL},
        {"{\"chat_template\":\"T\",\"add_bos_token\":null}", NULL, NULL, 4, 1, "", "T"},
        {"{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"X\"},{\"name\":\"default\","
         "\"template\":\"D\"}]}",
         NULL, "{\"eos_token_id\":null}", 4, 1, "", "D"},
    };
    kvt_err err;
    tokenizer *t;
    for (int i = 0; i < CHECK_COUNT(files); i++) {
        CHECK_OK(open_text(&t, text, files[i].config, files[i].model, files[i].generation, NULL,
                           &err),
                 &err);
        assert_int_equal(tokenizer_bos(t), files[i].bos);
        assert_int_equal(tokenizer_adds_bos(t), files[i].adds);
        for (int32_t id = 0; id < 6; id++)
            assert_int_equal(tokenizer_is_stop(t, id),
                             strchr(files[i].stops, '0' + id) != NULL);
        if (files[i].chat)
            assert_string_equal(tokenizer_chat(t), files[i].chat);
        else
            assert_null(tokenizer_chat(t));
        expect_ids(t, "ab", files[i].adds ? "4 2" : "2");
        tokenizer_free(t);
    }
    CHECK_FAILS(open_text(&t, text, "{\"bos_token\":\"<B>\"}", NULL, NULL, NULL, &err),
                KVT_FORMAT, "tokenizer_config.json: bos_token: '<B>'", &err);
    CHECK_FAILS(open_text(&t, text, NULL, NULL, "{\"eos_token_id\":\"x\"}", NULL, &err),
                KVT_FORMAT, "generation_config.json: eos_token_id", &err);
    CHECK_FAILS(open_text(&t, text, NULL, "{\"eos_token_id\":[9]}", NULL, NULL, &err),
                KVT_FORMAT, "eos_token_ids: expected an id below 6, got 9", &err);
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) < 0, 0);
    assert_int_equal(fclose(f), 0);
}

static void a_folder_is_read(void **state)
{
    (void)state;
    char folder[] = "/tmp/kvt_tokenizer.XXXXXX", path[600];
    static const char *const names[] = {"tokenizer.json", "chat_template.jinja",
                                        "tokenizer_config.json"};
    kvt_err err;
    tokenizer *t;
    assert_non_null(mkdtemp(folder));
    CHECK_FAILS(tokenizer_open_folder(&t, folder, NULL, &err), KVT_NOTFOUND,
                "no tokenizer.json in it", &err);
    put_file(folder, "tokenizer.json", "{" MODEL(VOCAB, MERGES));
    CHECK_FAILS(tokenizer_open_folder(&t, folder, NULL, &err), KVT_FORMAT, "tokenizer.json",
                &err);
    put_file(folder, "tokenizer.json", WITH(ADDED));
    put_file(folder, "tokenizer_config.json", "{\"chat_template\":\"of the configuration\"}");
    put_file(folder, "chat_template.jinja", "of its own file");
    CHECK_OK(tokenizer_open_folder(&t, folder, NULL, &err), &err);
    assert_string_equal(tokenizer_chat(t), "of its own file");
    tokenizer_free(t);
    for (int64_t n = 1;; n++) { /* memory may fail anywhere */
        kvt_alloc_fail_at(n, true);
        kvt_code code = tokenizer_open_folder(&t, folder, NULL, &err);
        kvt_alloc_fail_at(0, false);
        if (!code) {
            assert_true(n > 20);
            tokenizer_free(t);
            break;
        }
        assert_int_equal(code, KVT_NOMEM);
    }
    for (int i = 0; i < CHECK_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    remove(folder);
}

int main(void)
{
    struct CMUnitTest tests[64] = {
        cmocka_unit_test(merges_as_texts_and_as_pairs),
        cmocka_unit_test(a_vocabulary_of_characters),
        cmocka_unit_test(patterns_are_known_by_their_text),
        cmocka_unit_test(other_files_say_how_a_text_begins_and_ends),
        cmocka_unit_test(a_folder_is_read),
    };
    int n = 5;
    CHECK_ROWS(tests, &n, rows, is_refused_by_name);
    return CHECK_RUN("tokenizer_json", tests, n);
}
