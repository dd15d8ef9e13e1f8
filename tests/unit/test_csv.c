/* test_csv.c - CSV both ways (C070, C071, C072): quoting, line ends, numbers in any locale, the
 * formula guard, strict reading in pieces of every size. */
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/german.h"

#include "base/file.h"
#include "traces/csv.h"

#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>

#include "kvt/arena.h"
#include "kvt/table.h"

static kvt_err err;

typedef struct item {
    char name[24];
    const char *text;
    int64_t count;
    double share;
} item;

static const kvt_column columns[] = {
    KVT_COLUMN(item, name, "", "a text of fixed width"),
    {.name = "text",
     .unit = "",
     .help = "a text from a \"prompt\"",
     .type = KVT_COL_STRING,
     .offset = offsetof(item, text),
     .width = sizeof(char *),
     .untrusted = true},
    KVT_COLUMN(item, count, "tokens", "a whole number"),
    KVT_COLUMN(item, share, "frac", "a real"),
    {0},
};

static char big[100001];

static item items[] = {
    {"plain", "word", 1, 0.5},
    {"comma", ",", 2, 12.125},
    {"quote", "say \"so\"", 3, 1e-300},
    {"LF", "a\nb", 4, 0.1},
    {"CR", "a\rb", 5, 1.0 / 3},
    {"CRLF", "a\r\nb", 6, -0.0},
    {"empty", "", 7, 1e22},
    {"NULL", NULL, KVT_EMPTY_INT, NAN},
    {"infinite", " spaces ", INT64_MAX, INFINITY},
    {"formula", "=1+1", -8, -INFINITY},
    {"plus", "+1", 9, 2},
    {"minus", "-x", 10, 2},
    {"at", "@A1", 11, 2},
    {"tab", "\tx", 12, 2},
    {"carriage", "\rx", 13, 2},
    {"100 KB", big, 14, 2},
    {"no UTF-8", "\xff\xfe", 15, 2},
};
enum { N_ITEM = sizeof items / sizeof items[0] };

static kvt_table table_of(void)
{
    return (kvt_table){.name = "items",
                       .title = "one row an item",
                       .columns = columns,
                       .rows = items,
                       .n_row = N_ITEM,
                       .row_size = sizeof *items};
}

static void slurp(buf *out, const char *path)
{
    buf_init(out, 1 << 24);
    CHECK_OK(file_read(out, path, 1 << 24, &err), &err);
}

/* ---- writing -------------------------------------------------------------------------------
 */

static void bytes_are_as_meant(void **state)
{
    (void)state;
    kvt_table t = table_of();
    buf b;
    t.n_row = 9;
    CHECK_OK(kvt_table_csv(&t, folder_path("a.csv"), &(kvt_csv_options){0}, &err), &err);
    slurp(&b, folder_path("a.csv"));
    /* By hand, RFC 4180 with bare numbers. */
    assert_string_equal(b.data, "name,text,count,share\n"
                                "\"plain\",\"word\",1,0.5\n"
                                "\"comma\",\",\",2,12.125\n"
                                "\"quote\",\"say \"\"so\"\"\",3,1e-300\n"
                                "\"LF\",\"a\nb\",4,0.1\n"
                                "\"CR\",\"a\rb\",5,0.3333333333333333\n"
                                "\"CRLF\",\"a\r\nb\",6,-0\n"
                                "\"empty\",,7,1e+22\n"
                                "\"NULL\",,,\n"
                                "\"infinite\",\" spaces \",9223372036854775807,inf\n");
    buf_fini(&b);
}

static void german_locale_changes_nothing(void **state)
{
    (void)state;
    kvt_table t = table_of();
    buf a, b;
    CHECK_OK(
        kvt_table_csv(&t, folder_path("c.csv"), &(kvt_csv_options){.metadata = true}, &err),
        &err);
    if (!enter_german())
        skip();
    CHECK_OK(
        kvt_table_csv(&t, folder_path("d.csv"), &(kvt_csv_options){.metadata = true}, &err),
        &err);
    setlocale(LC_ALL, "C");
    slurp(&a, folder_path("c.csv"));
    slurp(&b, folder_path("d.csv"));
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n);
    buf_fini(&a);
    buf_fini(&b);
}

/* ---- and reading back ----------------------------------------------------------------------
 */

typedef struct seen {
    int n_row;
    bool raw;
} seen;

static kvt_code compare(void *user, const csv_row *row, kvt_err *e)
{
    seen *s = user;
    (void)e;
    if (s->n_row++ == 0) {
        assert_string_equal(row->field[1], "text");
        return KVT_OK;
    }
    const item *i = &items[s->n_row - 2];
    const char *want = i->text ? i->text : "", *got = row->field[1];
    assert_int_equal(row->n_field, 4);
    assert_string_equal(row->field[0], i->name);
    if (!s->raw && *want && strchr("=+-@\t\r", *want)) {
        assert_int_equal(*got, '\'');
        got++;
    }
    assert_string_equal(got, want);
    if (i->count == KVT_EMPTY_INT)
        assert_string_equal(row->field[2], "");
    else
        assert_int_equal(strtoll(row->field[2], NULL, 10), i->count);
    if (isnan(i->share)) {
        assert_string_equal(row->field[3], "");
    } else {
        double back = strtod(row->field[3], NULL);
        assert_memory_equal(&back, &i->share, sizeof back); /* -0 too */
    }
    return KVT_OK;
}

static const struct form {
    const char *name;
    kvt_csv_options o;
} forms[] = {
    {"LF", {0}},
    {"CR LF", {.crlf = true}},
    {"with a byte order mark", {.bom = true}},
    {"raw text", {.raw_text = true}},
};

static void comes_back(void **state)
{
    const struct form *f = *state;
    kvt_table t = table_of();
    seen s = {.raw = f->o.raw_text};
    CHECK_OK(kvt_table_csv(&t, folder_path("b.csv"), &f->o, &err), &err);
    CHECK_OK(csv_read_file(folder_path("b.csv"), compare, &s, &err), &err);
    assert_int_equal(s.n_row, N_ITEM + 1);
    buf b;
    slurp(&b, folder_path("b.csv"));
    const char *end = b.data + b.n - (f->o.crlf ? 2 : 1);
    assert_string_equal(end, f->o.crlf ? "\r\n" : "\n");
    for (size_t piece = 1; piece < 40; piece++) { /* every size of piece: libcsv's own test */
        s.n_row = 0;
        CHECK_OK(csv_read_bytes(b.data, b.n, piece, compare, &s, &err), &err);
        assert_int_equal(s.n_row, N_ITEM + 1);
    }
    buf_fini(&b);
}

static void pieces_make_the_same_file(void **state)
{
    (void)state;
    kvt_table t = table_of(), part = t;
    kvt_csv *c;
    buf a, b;
    const kvt_csv_options o = {.metadata = true, .command = "kvt \"x\""};
    CHECK_OK(kvt_table_csv(&t, folder_path("e.csv"), &o, &err), &err);
    CHECK_OK(kvt_csv_open(&c, &t, folder_path("f.csv"), &o, &err), &err);
    for (int i = 0; i < N_ITEM; i++) {
        part.rows = &items[i];
        part.n_row = 1;
        CHECK_OK(kvt_csv_rows(c, &part, &err), &err);
    }
    assert_int_equal(access(folder_path("f.csv"), F_OK), -1); /* not before it is whole */
    CHECK_OK(kvt_csv_close(c, &err), &err);
    slurp(&a, folder_path("e.csv"));
    slurp(&b, folder_path("f.csv"));
    assert_string_equal(a.data, b.data);
    buf_fini(&a);
    buf_fini(&b);
    CHECK_OK(kvt_csv_open(&c, &t, folder_path("g.csv"), &o, &err), &err);
    int before = folder_count(folder_name);
    kvt_csv_abort(c);
    assert_int_equal(folder_count(folder_name), before - 1);
}

static void metadata_describe_the_columns(void **state)
{
    (void)state;
    kvt_table t = table_of();
    const kvt_csv_options o = {.metadata = true, .command = "kvt report \"a b\"\n"};
    CHECK_OK(kvt_table_csv(&t, folder_path("m.csv"), &o, &err), &err);
    json_t *j =
        json_load_file(folder_path("m.csv-metadata.json"), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "url")), "m.csv");
    assert_string_equal(json_string_value(json_object_get(j, "dc:source")),
                        "kvt report \"a b\"\n");
    assert_int_equal(json_integer_value(json_object_get(j, "schema:numberOfItems")), N_ITEM);
    json_t *c = json_object_get(json_object_get(j, "tableSchema"), "columns");
    assert_int_equal(json_array_size(c), 4);
    json_t *k = json_array_get(c, 2);
    assert_string_equal(json_string_value(json_object_get(k, "name")), "count");
    assert_string_equal(json_string_value(json_object_get(k, "datatype")), "integer");
    assert_string_equal(json_string_value(json_object_get(k, "schema:unitText")), "tokens");
    json_decref(j);
}

static void one_column_keeps_its_empty_rows(void **state)
{
    (void)state;
    static const kvt_column one[] = {KVT_COLUMN(item, name, "", "a name"), {0}};
    static const item rows[3] = {{.name = "a"}, {.name = ""}, {.name = "b"}};
    const kvt_table t = {"one", "", one, rows, 3, sizeof *rows};
    buf b;
    CHECK_OK(kvt_table_csv(&t, folder_path("one.csv"), &(kvt_csv_options){0}, &err), &err);
    slurp(&b, folder_path("one.csv"));
    assert_string_equal(b.data, "name\n\"a\"\n\"\"\n\"b\"\n");
    buf_fini(&b);
}

static void a_cell_says_what_it_needs(void **state)
{
    (void)state;
    kvt_table t = table_of();
    char small[8];
    assert_int_equal(kvt_cell_print(&t, 2, &columns[1], small, sizeof small), 8);
    assert_string_equal(small, "say \"so");
    assert_int_equal(kvt_cell_print(&t, 2, &columns[1], NULL, 0), 8);
    assert_ptr_equal(kvt_column_find(columns, "share"), &columns[3]);
    assert_null(kvt_column_find(columns, "shares"));
    assert_int_equal(kvt_table_columns(columns), 4);
}

static void a_folder_that_is_not_there(void **state)
{
    (void)state;
    kvt_table t = table_of();
    kvt_code code = kvt_table_csv(&t, folder_path("no/x.csv"), &(kvt_csv_options){0}, &err);
    assert_true(code == KVT_IO || code == KVT_NOTFOUND);
}

/* ---- C072 ----------------------------------------------------------------------------------
 */

static const struct input {
    const char *name, *bytes;
    size_t n;          /* 0: strlen */
    const char *rows;  /* fields by '|', rows by '/', with the line of each: "1:a|b/" */
    const char *error; /* or part of the message */
} inputs[] = {
    {"plain", "a,b\n1,2\n", 0, "1:a|b/2:1|2/", NULL},
    {"no line end at the end", "a,b\n1,2", 0, "1:a|b/2:1|2/", NULL},
    {"an empty last field", "a,b\n1,", 0, "1:a|b/2:1|/", NULL},
    {"CR LF", "a,b\r\n1,2\r\n", 0, "1:a|b/2:1|2/", NULL},
    {"CR only", "a,b\r1,2\r", 0, "1:a|b/2:1|2/", NULL},
    {"byte order mark", "\xef\xbb\xbf\"a\",b\n1,2\n", 0, "1:a|b/2:1|2/", NULL},
    {"a blank line in the middle", "a,b\n\n1,2\n", 0, "1:a|b/3:1|2/", NULL},
    {"spaces stay", "a,b\n 1 ,  2\n", 0, "1:a|b/2: 1 |  2/", NULL},
    {"a field over two lines", "a,b\n\"x\ny\",2\n3,4\n", 0, "1:a|b/2:x\ny|2/4:3|4/", NULL},
    {"a blank line inside a field", "a,b\n\"x\n\ny\",2\n3,4\n", 0, "1:a|b/2:x\n\ny|2/5:3|4/",
     NULL},
    {"NUL in a field", "a,b\n\0,2\n", 8, "1:a|b/2:\\0|2/", NULL},
    {"nothing", "", 0, "", NULL},
    {"a quote is not closed", "a,\"b", 0, "", "line 1: a quote is not closed"},
    {"one that opened later", "a,b\n1,2\n3,\"4\n5,6\n", 0, NULL,
     "line 3: a quote is not closed"},
    {"a quote inside a field", "a,b\"c,d", 0, "", "line 1: a quote inside a field"},
    {"text behind a quote", "a,b\n\"1\"x,2\n", 0, NULL, "line 2:"},
    {"a field too many", "a,b\n1,2,3\n", 0, NULL, "line 2: expected 2 fields, got 3"},
    {"a field too few", "a,b\n1,2\n3\n", 0, NULL, "line 3: expected 2 fields, got 1"},
};

static kvt_code collect(void *user, const csv_row *row, kvt_err *e)
{
    buf *b = user;
    (void)e;
    buf_printf(b, "%d:", (int)row->line);
    for (int i = 0; i < row->n_field; i++) {
        buf_text(b, i ? "|" : "");
        for (size_t k = 0; k < row->size[i]; k++)
            buf_text(b, row->field[i][k] ? (char[]){row->field[i][k], 0} : "\\0");
    }
    buf_char(b, '/');
    return KVT_OK;
}

static void is_read_strictly(void **state)
{
    const struct input *in = *state;
    size_t n = in->n ? in->n : strlen(in->bytes);
    for (size_t piece = 0; piece <= n; piece++) {
        buf b;
        buf_init(&b, 1 << 16);
        kvt_code code = csv_read_bytes(in->bytes, n, piece, collect, &b, &err);
        if (in->error) {
            assert_int_equal(code, KVT_FORMAT);
            if (!strstr(err.text, in->error))
                fail_msg("expected '%s' in '%s'", in->error, err.text);
        } else {
            if (code)
                fail_msg("%s", err.text);
            assert_string_equal(buf_get(&b), in->rows);
        }
        buf_fini(&b);
    }
}

static kvt_code stop_at_2(void *user, const csv_row *row, kvt_err *e)
{
    ++*(int *)user;
    return row->line < 2 ? KVT_OK
                         : kvt_fail(e, KVT_USAGE, "line %lld: no", (long long)row->line);
}

static void a_caller_may_stop(void **state)
{
    (void)state;
    int n = 0;
    CHECK_FAILS(csv_read_bytes("a\nb\nc\nd\n", 8, 0, stop_at_2, &n, &err), KVT_USAGE,
                "line 2: no", &err);
    assert_int_equal(n, 2);
    CHECK_FAILS(csv_read_file(folder_path("none.csv"), stop_at_2, &n, &err), KVT_NOTFOUND, NULL,
                &err);
}

int main(void)
{
    struct CMUnitTest t[64];
    int n = 0;
    memset(big, 'x', sizeof big - 1);
    for (size_t i = 0; i < sizeof big - 1; i += 97)
        big[i] = '"';
    CHECK_ROWS(t, &n, forms, comes_back);
    CHECK_ROWS(t, &n, inputs, is_read_strictly);
    const struct CMUnitTest more[] = {
        cmocka_unit_test(bytes_are_as_meant),
        cmocka_unit_test(german_locale_changes_nothing),
        cmocka_unit_test(pieces_make_the_same_file),
        cmocka_unit_test(metadata_describe_the_columns),
        cmocka_unit_test(one_column_keeps_its_empty_rows),
        cmocka_unit_test(a_cell_says_what_it_needs),
        cmocka_unit_test(a_folder_that_is_not_there),
        cmocka_unit_test(a_caller_may_stop),
    };
    for (int i = 0; i < CHECK_COUNT(more); i++)
        t[n++] = more[i];
    folder_new();
    int failed = CHECK_RUN("csv", t, n);
    folder_end();
    return failed;
}
