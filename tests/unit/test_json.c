/* test_json.c - strict JSON. What must be refused: RFC 8259, and JSONTestSuite's n_ cases. */
#include "tests/check.h"

#include "base/json.h"
#include "kvt/arena.h"
#include "tests/german.h"

#include <stdio.h>

static const struct row {
    const char *name;
    kvt_code code;
    const char *part;
} rows[] = {
    {"{\"a\": 1}", KVT_OK, NULL},
    {"[1, 2.5, \"x\", null, true]", KVT_OK, NULL},
    {" {} \n", KVT_OK, NULL},
    {"[9223372036854775807]", KVT_OK, NULL},
    {"[\"\\ud83d\\ude00\\u0000\"]", KVT_OK, NULL},
    {"", KVT_FORMAT, "JSON: line 1"},
    {"{\"a\": 1, \"a\": 2}", KVT_FORMAT, "duplicate"},
    {"{\"a\": 1,}", KVT_FORMAT, "JSON: line 1"},
    {"[1 2]", KVT_FORMAT, "JSON: line 1"},
    {"[1] x", KVT_FORMAT, "end of file expected"},
    {"[1]\n[2]", KVT_FORMAT, "JSON: line 2"},
    {"[9223372036854775808]", KVT_FORMAT, "too big integer"},
    {"[1e999]", KVT_FORMAT, "real number overflow"},
    {"[NaN]", KVT_FORMAT, NULL},
    {"[Infinity]", KVT_FORMAT, NULL},
    {"[01]", KVT_FORMAT, NULL},
    {"[.5]", KVT_FORMAT, NULL},
    {"['a']", KVT_FORMAT, NULL},
    {"[\"\\ud800\"]", KVT_FORMAT, NULL},
    {"[\"\xff\"]", KVT_FORMAT, NULL},
    {"[\"a\nb\"]", KVT_FORMAT, NULL},
    {"{\"a\\u0000b\": 1}", KVT_FORMAT, "a key with \\u0000"},
    {"[\"\033[2J", KVT_FORMAT, NULL},
    {"/* */ {}", KVT_FORMAT, NULL},
    {"12", KVT_FORMAT, NULL},
};

static void text_is_read_or_refused(void **state)
{
    const struct row *r = *state;
    kvt_err err;
    json_t *value = NULL;
    kvt_code code = json_read(&value, r->name, strlen(r->name), &err);
    if (code != r->code)
        fail_msg("expected %s, got %s", kvt_code_name(r->code), kvt_code_name(code));
    if (code && r->part && !strstr(err.text, r->part))
        fail_msg("expected '%s' in '%s'", r->part, err.text);
    if (code)
        assert_null(strchr(err.text, '\033'));
    json_decref(value);
}

static void depth_is_limited(void **state)
{
    (void)state;
    kvt_err err;
    json_t *value;
    char text[600];
    for (int depth = 126; depth < 131; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        kvt_code code = json_read(&value, text, (size_t)depth * 2, &err);
        assert_int_equal(code, depth <= 128 ? KVT_OK : KVT_FORMAT);
        if (!code)
            json_decref(value);
    }
    CHECK_FAILS(json_read(&value, text, 260, &err), KVT_FORMAT, "nested more than 128 deep",
                &err);
    memset(text, '[', sizeof text); /* brackets in a string do not nest */
    text[1] = text[598] = '"', text[599] = ']';
    text[2] = '\\', text[3] = '"';
    CHECK_OK(json_read(&value, text, 600, &err), &err);
    json_decref(value);
}

static void members_are_checked(void **state)
{
    (void)state;
    static const char text[] =
        "{\"t\": \"x\", \"i\": 7, \"r\": 1.2079, \"nul\": \"a\\u0000\", \"o\": {}}";
    kvt_err err;
    json_t *o;
    const char *s;
    int64_t i;
    double r;
    CHECK_OK(json_read(&o, text, sizeof text - 1, &err), &err);
    CHECK_OK(json_text(o, "t", &s, &err), &err);
    assert_string_equal(s, "x");
    CHECK_OK(json_int(o, "i", &i, &err), &err);
    assert_int_equal(i, 7);
    CHECK_OK(json_number(o, "r", &r, &err), &err);
    assert_true(r == 1.2079);
    CHECK_OK(json_number(o, "i", &r, &err), &err); /* a whole number is a number */
    assert_true(r == 7);
    CHECK_FAILS(json_int(o, "r", &i, &err), KVT_FORMAT,
                "'r': expected a whole number, got a number", &err);
    CHECK_FAILS(json_text(o, "o", &s, &err), KVT_FORMAT, "'o': expected a text, got an object",
                &err);
    CHECK_FAILS(json_number(o, "t", &r, &err), KVT_FORMAT, "'t': expected a number, got a text",
                &err);
    CHECK_FAILS(json_text(o, "nul", &s, &err), KVT_FORMAT, "'nul': a text with", &err);
    CHECK_FAILS(json_int(o, "zz", &i, &err), KVT_NOTFOUND, "'zz' is missing", &err);
    CHECK_FAILS(json_int(json_object_get(o, "t"), "zz", &i, &err), KVT_FORMAT,
                "expected an object", &err);
    CHECK_FAILS(json_int(NULL, "zz", &i, &err), KVT_FORMAT, "got nothing", &err);
    static const char *const all[] = {"t", "i", "r", "nul", "o", NULL}, *const some[] = {
                                                                            "t", "i", "r",
                                                                            "null", NULL};
    CHECK_OK(json_only(o, all, &err), &err);
    CHECK_FAILS(json_only(o, some, &err), KVT_USAGE,
                "unknown member 'nul' (did you mean 'null'?)", &err);
    json_decref(o);
}

static void quoted_text_reads_back(void **state)
{
    (void)state;
    static const char text[] = "a\"b\\c\n\t\r\x01\x7f\0\u00e9\u2028\U0001f600/";
    kvt_err err;
    json_t *value;
    buf b;
    buf_init(&b, 1000);
    buf_char(&b, '[');
    json_quote(&b, text, sizeof text - 1);
    buf_char(&b, ']');
    CHECK_OK(json_read(&value, buf_get(&b), b.n, &err), &err);
    const json_t *s = json_array_get(value, 0);
    assert_int_equal(json_string_length(s), sizeof text - 1);
    assert_memory_equal(json_string_value(s), text, sizeof text - 1);
    json_decref(value);
    buf_clear(&b);
    json_quote(&b, "a\xff\xe2\x8a", 4);
    assert_string_equal(buf_get(&b), "\"a\ufffd\ufffd\ufffd\"");
    buf_clear(&b);
    json_quote(&b, "\"\\\n\x1b", 4);
    assert_string_equal(buf_get(&b), "\"\\\"\\\\\\n\\u001b\"");
    buf_fini(&b);
}

/* C070: "attention_factor": 1.2079 and "rms_norm_eps": 0.000001 */
static void comma_locale_changes_nothing(void **state)
{
    (void)state;
    static const char text[] = "{\"attention_factor\": 1.2079, \"rms_norm_eps\": 0.000001}";
    kvt_err err;
    json_t *o;
    double x;
    if (!enter_german()) {
        print_message("no locale with a decimal comma, and localedef cannot make one\n");
        skip();
    }
    CHECK_OK(json_read(&o, text, sizeof text - 1, &err), &err);
    CHECK_OK(json_number(o, "attention_factor", &x, &err), &err);
    assert_true(x == 1.2079);
    CHECK_OK(json_number(o, "rms_norm_eps", &x, &err), &err);
    assert_true(x == 1e-6);
    json_decref(o);
    setlocale(LC_ALL, "C");
}

static void files_are_named(void **state)
{
    (void)state;
    kvt_err err;
    json_t *value;
    CHECK_FAILS(json_read_file(&value, "no/such/file.json", &err), KVT_NOTFOUND,
                "no/such/file.json", &err);
    CHECK_FAILS(json_read_file(&value, KVT_SOURCE_DIR "/CMakeLists.txt", &err), KVT_FORMAT,
                "CMakeLists.txt': JSON: line 1", &err);
    CHECK_OK(json_read_file(&value, KVT_SOURCE_DIR "/CMakePresets.json", &err), &err);
    json_decref(value);
    for (int n = 1;; n++) { /* each of our own allocations fails once */
        kvt_alloc_fail_at(n, false);
        kvt_code code = json_read_file(&value, KVT_SOURCE_DIR "/CMakePresets.json", &err);
        int64_t count = kvt_alloc_count();
        kvt_alloc_fail_at(0, false);
        if (count < n) {
            CHECK_OK(code, &err);
            json_decref(value);
            break;
        }
        assert_int_equal(code, KVT_NOMEM);
    }
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(rows) + 5];
    int n = 0;
    CHECK_ROWS(tests, &n, rows, text_is_read_or_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(depth_is_limited);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(members_are_checked);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(quoted_text_reads_back);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(comma_locale_changes_nothing);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(files_are_named);
    return CHECK_RUN("json", tests, n);
}
