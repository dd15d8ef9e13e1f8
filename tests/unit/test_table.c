/* test_table.c - tables for people and rows for programs (cli/table.c), prose (cli/wrap.c),
 * colour and drawing rules (cli/progress.c). */
#include "tests/check.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/progress.h"
#include "cli/table.h"
#include "cli/wrap.h"

int cli_signal(void)
{
    return 0;
} /* main.c's, which is not linked here */

typedef struct row {
    char name[24];
    const char *note;
    int64_t n;
    double share;
} row;

static const kvt_column columns[] = {
    KVT_COLUMN(row, name, "", "n"),
    KVT_COLUMN(row, note, "", "t"),
    KVT_COLUMN(row, n, "tokens", "c"),
    KVT_COLUMN(row, share, "frac", "s"),
    {0},
};

/* What a function prints, as text that lives until the next call. */
typedef struct printed {
    char *text;
    size_t n;
    FILE *f;
} printed;

static void begin(printed *p)
{
    *p = (printed){0};
    p->f = open_memstream(&p->text, &p->n);
    assert_non_null(p->f);
}

static void rows_are_json(void **state)
{
    (void)state;
    const row rows[] = {
        {"plain", NULL, 3, 0.1},
        {"quo\"te\\\n", "a\tb", KVT_EMPTY_INT, NAN},
        {"high", "x", -7, INFINITY},
        {"low", "x", 0, -INFINITY},
    };
    const kvt_table t = {
        .name = "t", .columns = columns, .rows = rows, .n_row = 4, .row_size = sizeof(row)};
    printed p;
    begin(&p);
    cli_json_rows(p.f, &t);
    fclose(p.f);
    json_t *j = json_loads(p.text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    assert_int_equal(json_array_size(j), 4);
    const json_t *a = json_array_get(j, 0), *b = json_array_get(j, 1);
    assert_true(json_is_null(json_object_get(a, "note")));
    assert_int_equal(json_integer_value(json_object_get(a, "n")), 3);
    assert_true(json_real_value(json_object_get(a, "share")) == 0.1);
    assert_string_equal(json_string_value(json_object_get(b, "name")), "quo\"te\\\n");
    assert_string_equal(json_string_value(json_object_get(b, "note")), "a\tb");
    assert_true(json_is_null(json_object_get(b, "n")));
    assert_true(json_is_null(json_object_get(b, "share")));
    assert_true(json_is_null(json_object_get(json_array_get(j, 2), "share")));
    assert_true(json_is_null(json_object_get(json_array_get(j, 3), "share")));
    assert_int_equal(json_integer_value(json_object_get(json_array_get(j, 2), "n")), -7);
    json_decref(j);
    free(p.text);
}

static void no_rows_are_an_empty_array(void **state)
{
    (void)state;
    const kvt_table t = {.name = "t", .columns = columns, .row_size = sizeof(row)};
    printed p;
    begin(&p);
    cli_json_rows(p.f, &t);
    fclose(p.f);
    assert_string_equal(p.text, "[]");
    free(p.text);
}

static void cells_stand_in_columns_and_are_safe(void **state)
{
    (void)state;
    static const char *const names[] = {"POLICY", "KEPT", NULL};
    static const cli_align align[] = {CLI_LEFT, CLI_RIGHT};
    cli c = {.color = 2, .ascii = true};
    kvt_err err;
    printed p;
    cli_table *t = cli_table_new(&c, names, align);
    assert_non_null(t);
    CHECK_OK(cli_table_row(t, (const char *const[]){"snapkv", "512", NULL}, &err), &err);
    CHECK_OK(cli_table_row(t, (const char *const[]){"a\033[2Jb", "9", NULL}, &err), &err);
    begin(&p);
    CHECK_OK(cli_table_print(t, p.f, &err), &err);
    fclose(p.f);
    cli_table_free(t);
    assert_null(strchr(p.text, '\033'));
    /* Both numbers end in the same column. */
    const char *first = strstr(p.text, "512"), *line = strstr(p.text, "snapkv"),
               *second = strstr(p.text, "9\n"), *other = strstr(p.text, "a<");
    assert_non_null(first);
    assert_non_null(second);
    assert_non_null(other);
    assert_int_equal(first + 2 - line, second - other);
    free(p.text);
}

/* The head of a row stays a table; what follows is folded, but only where the terminal is too
 * narrow, and never in a pipe. */
static void a_table_of_words_folds(void **state)
{
    (void)state;
    static const char *const names[] = {"POLICY", "CLASS", "PAPER", "SETS", NULL};
    static const char *const rows[][5] = {
        {"snapkv", "exact", "what it does in many words, more", "w=1,p=2", NULL},
        {"h2o", "open-loop", "short", "-", NULL}};
    static const struct {
        const char *columns, *want;
    } cases[] = {
        {"40", "POLICY CLASS\nsnapkv exact\n    what it does in many words, more\n    w=1,p=2\n"
               "h2o    open-loop\n    short\n"},
        {"24", "POLICY CLASS\nsnapkv exact\n    what it does in many\n    words, more\n"
               "    w=1,p=2\nh2o    open-loop\n    short\n"},
        {"80", NULL},
        {NULL, NULL},
        {"7", NULL}, /* no terminal is so narrow: not believed */
    };
    cli c = {.color = 2};
    kvt_err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        printed p;
        cli_table *t = cli_table_new(&c, names, NULL);
        assert_non_null(t);
        cli_table_narrow(t, 2);
        for (int k = 0; k < 2; k++)
            CHECK_OK(cli_table_row(t, rows[k], &err), &err);
        if (cases[i].columns)
            setenv("COLUMNS", cases[i].columns, 1);
        else
            unsetenv("COLUMNS");
        begin(&p);
        CHECK_OK(cli_table_print(t, p.f, &err), &err);
        fclose(p.f);
        if (cases[i].want)
            assert_string_equal(p.text, cases[i].want);
        else
            assert_non_null(strstr(p.text, "what it does in many words, more w=1,p=2\n"));
        free(p.text);
        cli_table_free(t);
    }
    unsetenv("COLUMNS");
}

static void prose_breaks_at_blanks_and_lists_at_commas(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int at, indent, width;
        const char *want;
    } cases[] = {
        {"one two three", 0, 0, 80, "one two three\n"},
        {"one two three", 0, 2, 7, "one two\n  three\n"},
        {"one two three", 4, 2, 7, "one\n  two\n  three\n"},
        {"a\n\nb", 0, 3, 80, "a\n\n   b\n"},
        {"(a=1,bb=2,c=3)", 0, 1, 8, "(a=1,\n bb=2,\n c=3)\n"},
        {"see (a=1,bb=2,c=3) x", 0, 1, 9, "see\n (a=1,\n bb=2,\n c=3) x\n"},
        {"unbreakable", 0, 1, 5, "unbreakable\n"},
        {"unbreakable,too long", 0, 1, 5, "unbreakable,\n too\n long\n"},
        {"", 0, 0, 5, "\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        printed p;
        begin(&p);
        cli_wrap(p.f, cases[i].text, cases[i].at, cases[i].indent, cases[i].width);
        fclose(p.f);
        assert_string_equal(p.text, cases[i].want);
        free(p.text);
    }
}

/* Option, then NO_COLOR, then CLICOLOR_FORCE or FORCE_COLOR, then the terminal; empty is unset.
 */
static const struct color_row {
    const char *name;
    int option;
    const char *no_color, *force;
    bool want;
} color_rows[] = {
    {"a file has none", 0, NULL, NULL, false},
    {"forced", 0, NULL, "1", true},
    {"NO_COLOR wins over force", 0, "1", "1", false},
    {"an empty NO_COLOR is none", 0, "", "1", true},
    {"always wins over NO_COLOR", 1, "1", NULL, true},
    {"never wins over force", 2, NULL, "1", false},
};

static void put(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void color_follows_the_order(void **state)
{
    const struct color_row *r = *state;
    cli c = {.color = r->option};
    FILE *f = tmpfile();
    put("NO_COLOR", r->no_color);
    put("CLICOLOR_FORCE", r->force);
    unsetenv("FORCE_COLOR");
    bool got = cli_color(&c, f);
    put("NO_COLOR", NULL);
    put("CLICOLOR_FORCE", NULL);
    fclose(f);
    assert_int_equal(got, r->want);
}

int main(void)
{
    enum { N = sizeof color_rows / sizeof color_rows[0] };
    struct CMUnitTest tests[N];
    int n = 0;
    const struct CMUnitTest others[] = {
        cmocka_unit_test(rows_are_json),
        cmocka_unit_test(no_rows_are_an_empty_array),
        cmocka_unit_test(cells_stand_in_columns_and_are_safe),
        cmocka_unit_test(a_table_of_words_folds),
        cmocka_unit_test(prose_breaks_at_blanks_and_lists_at_commas),
    };
    CHECK_ROWS(tests, &n, color_rows, color_follows_the_order);
    return CHECK_RUN("colour", tests, n) +
           CHECK_RUN("table", others, sizeof others / sizeof others[0]);
}
