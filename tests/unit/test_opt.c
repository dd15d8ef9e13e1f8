/* test_opt.c - the option parser (cli/opt.c): exact names, order, values, messages. */
#include "tests/check.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/opt.h"

static const char *const levels[] = {"summary", "replay", "full", NULL};

typedef struct options {
    bool force;
    const char *out;
    int64_t n, size;
    double share;
    int level;
    cli_list probe;
} options;

/* clang-format off */
static const cli_option table[] = {
    {"force",   0,  CLI_FLAG,   CLI_OPT(options, force), .help = "f"},
    {"out",    'o', CLI_TEXT,   CLI_OPT(options, out),   .arg = "OUT", .help = "o"},
    {"max-new", 0,  CLI_INT,    CLI_OPT(options, n),     .arg = "N", .def = "256", .min = 1, .max = 4096, .help = "n"},
    {"limit",   0,  CLI_SIZE,   CLI_OPT(options, size),  .arg = "SIZE", .def = "1KiB", .help = "s"},
    {"share",   0,  CLI_REAL,   CLI_OPT(options, share), .arg = "X", .def = "0.5", .min = 0, .max = 1, .help = "x"},
    {"level",   0,  CLI_CHOICE, CLI_OPT(options, level), .arg = "LEVEL", .def = "replay", .choices = levels, .help = "l"},
    {"probe",  'p', CLI_LIST,   CLI_OPT(options, probe), .arg = "NAME", .help = "p"},
    {0},
};
/* clang-format on */

static kvt_code never(cli *c, const void *o, int n, char **arg, kvt_err *err)
{
    (void)c, (void)o, (void)n, (void)arg;
    return kvt_fail(err, KVT_USAGE, "not run here");
}

static const cli_command command = {.name = "try",
                                    .group = "g",
                                    .line = "l",
                                    .usage = "[OPTIONS] A...",
                                    .options = table,
                                    .options_size = sizeof(options),
                                    .min_args = 1,
                                    .max_args = 3,
                                    .run = never};

enum { WORDS_MAX = 12 };

typedef struct parsed {
    cli c;
    options o;
    char *operand[WORDS_MAX];
    int n;
} parsed;

/* Blanks divide words; nothing is quoted. */
static kvt_code parse(parsed *p, char *line, kvt_err *err)
{
    char *argv[WORDS_MAX + 1] = {NULL};
    int argc = 0;

    *p = (parsed){0};
    for (char *at = line; *at && argc < WORDS_MAX;) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at)
            *at++ = 0;
    }
    cli_opt_defaults(cli_common_options(), &p->c);
    return cli_opt_parse(&p->c, &command, &p->o, argc, argv, p->operand, &p->n, err);
}

/* ---- what is refused, and with which words --------------------------------------------------
 */

static const struct refusal {
    const char *line, *text;
} refusals[] = {
    {"try a --forc", "no option '--forc' (did you mean '--force'?)"},
    {"try a --f", "no option '--f' (did you mean '--force'?)"},
    {"try a --lvel full", "no option '--lvel' (did you mean '--level'?)"},
    {"try a --max=3", "no option '--max' (did you mean '--max-new'?)"},
    {"try a --zzzzzzzz", "no option '--zzzzzzzz'; see: kvt try --help"},
    {"try a -Z", "no option '-Z'"},
    {"try a --force=yes", "--force takes no value"},
    {"try a --out", "--out: a value is missing: --out OUT"},
    {"try a -o", "--out: a value is missing: --out OUT"},
    {"try a --out -q", "--out: a value is missing: got the option '-q' (write --out=-q"},
    {"try a -o --json", "--out: a value is missing: got the option '--json'"},
    {"try a --max-new 0", "--max-new: '0' is not a whole number from 1 to 4096"},
    {"try a --max-new 4097", "--max-new: '4097' is not a whole number from 1 to 4096"},
    {"try a --max-new 3.5", "--max-new: '3.5' is not a whole number"},
    {"try a --max-new 99999999999999999999", "is not a whole number from 1 to 4096"},
    {"try a --limit 12Q", "--limit: '12Q' is not a size such as 512MiB"},
    {"try a --share 1.5", "--share: '1.5' is not a number from 0 to 1"},
    {"try a --share nan", "--share: 'nan' is not a number"},
    {"try a --level ful",
     "--level: 'ful' is not one of summary, replay, full (did you mean 'full'?)"},
    {"try a --color sometimes", "--color: 'sometimes' is not one of auto, always, never"},
    {"try a --threads 0", "--threads: '0' is not a whole number from 1 to 1024"},
    {"try", "try takes 1 to 3 operands, got 0"},
    {"try a b c d", "try takes 1 to 3 operands, got 4"},
};

static void refused(void **state)
{
    const struct refusal *r = *state;
    char line[128];
    parsed p;
    kvt_err err = {0};

    snprintf(line, sizeof line, "%s", r->line);
    CHECK_FAILS(parse(&p, line, &err), KVT_USAGE, r->text, &err);
}

/* ---- what is read ---------------------------------------------------------------------------
 */

static void good(parsed *p, const char *text)
{
    /* Values point into the line, which must live as long as they are looked at. */
    static char line[128];
    kvt_err err = {0};
    snprintf(line, sizeof line, "%s", text);
    CHECK_OK(parse(p, line, &err), &err);
}

static void defaults_stand_where_nothing_was_typed(void **state)
{
    (void)state;
    parsed p;
    good(&p, "try a");
    assert_int_equal(p.o.n, 256);
    assert_int_equal(p.o.size, 1024);
    assert_true(p.o.share == 0.5);
    assert_int_equal(p.o.level, 1);
    assert_null(p.o.out);
    assert_false(p.o.force);
    assert_int_equal(p.o.probe.n, 0);
    assert_int_equal(p.n, 1);
}

static void options_may_stand_anywhere(void **state)
{
    (void)state;
    parsed p;
    good(&p, "try a --force b -o out.h5 c --limit=2MiB");
    assert_true(p.o.force);
    assert_string_equal(p.o.out, "out.h5");
    assert_int_equal(p.o.size, 2 << 20);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.operand[0], "a");
    assert_string_equal(p.operand[1], "b");
    assert_string_equal(p.operand[2], "c");
}

static void order_does_not_hang_on_posixly_correct(void **state)
{
    (void)state;
    parsed p;
    setenv("POSIXLY_CORRECT", "1", 1);
    good(&p, "try a --force");
    unsetenv("POSIXLY_CORRECT");
    assert_true(p.o.force);
    assert_int_equal(p.n, 1);
}

static void two_dashes_end_options(void **state)
{
    (void)state;
    parsed p;
    good(&p, "try a -- --force -o");
    assert_false(p.o.force);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.operand[1], "--force");
    assert_string_equal(p.operand[2], "-o");
}

static void one_dash_is_an_operand(void **state)
{
    (void)state;
    parsed p;
    good(&p, "try - -o -");
    assert_string_equal(p.operand[0], "-");
    assert_string_equal(p.o.out, "-");
}

static void a_value_may_look_like_an_option(void **state)
{
    (void)state;
    parsed p;
    good(&p, "try a -o--force --out=--json");
    assert_string_equal(p.o.out, "--json");
    assert_false(p.o.force);
    assert_false(p.c.json);
}

static void lists_grow_and_counts_count(void **state)
{
    (void)state;
    parsed p;
    good(&p, "try a -p x --probe y -pz -vv --verbose");
    assert_int_equal(p.o.probe.n, 3);
    assert_string_equal(p.o.probe.item[0], "x");
    assert_string_equal(p.o.probe.item[1], "y");
    assert_string_equal(p.o.probe.item[2], "z");
    assert_int_equal(p.c.verbose, 3);
}

static void common_options_are_the_program_s(void **state)
{
    (void)state;
    parsed p;
    good(&p, "try a --json -q -j 3 --seed 7 --color never --progress none");
    assert_true(p.c.json);
    assert_true(p.c.quiet);
    assert_int_equal(p.c.threads, 3);
    assert_int_equal(p.c.seed, 7);
    assert_int_equal(p.c.color, 2);
    assert_int_equal(p.c.progress, 3);
}

static void help_asks_for_no_operands(void **state)
{
    (void)state;
    parsed p;
    good(&p, "try --help");
    assert_true(p.c.help);
}

static void the_front_stops_at_the_verb(void **state)
{
    (void)state;
    char *argv[] = {"kvt", "--color", "never", "-q", "replay", "--json", NULL};
    cli c = {0};
    kvt_err err;
    int at = 0;
    CHECK_OK(cli_opt_front(&c, 6, argv, &at, &err), &err);
    assert_int_equal(at, 4);
    assert_true(c.quiet);
    assert_false(c.json);
    assert_int_equal(c.color, 2);
}

static void ranges_read_as_words(void **state)
{
    (void)state;
    char text[CLI_RANGE_MAX];
    assert_string_equal(cli_opt_range(&table[2], text, sizeof text),
                        "whole number from 1 to 4096");
    assert_string_equal(cli_opt_range(&table[4], text, sizeof text), "number from 0 to 1");
    assert_string_equal(cli_opt_range(&table[5], text, sizeof text),
                        "one of summary, replay, full");
    assert_string_equal(cli_opt_range(&table[1], text, sizeof text), "");
}

int main(void)
{
    enum { N = sizeof refusals / sizeof refusals[0] };
    struct CMUnitTest tests[N];
    int n = 0;
    const struct CMUnitTest others[] = {
        cmocka_unit_test(defaults_stand_where_nothing_was_typed),
        cmocka_unit_test(options_may_stand_anywhere),
        cmocka_unit_test(order_does_not_hang_on_posixly_correct),
        cmocka_unit_test(two_dashes_end_options),
        cmocka_unit_test(one_dash_is_an_operand),
        cmocka_unit_test(a_value_may_look_like_an_option),
        cmocka_unit_test(lists_grow_and_counts_count),
        cmocka_unit_test(common_options_are_the_program_s),
        cmocka_unit_test(help_asks_for_no_operands),
        cmocka_unit_test(the_front_stops_at_the_verb),
        cmocka_unit_test(ranges_read_as_words),
    };

    CHECK_ROWS(tests, &n, refusals, refused);
    return CHECK_RUN("opt: refusals", tests, n) +
           CHECK_RUN("opt", others, sizeof others / sizeof others[0]);
}
