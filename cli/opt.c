/* opt.c - the option parser: getopt_long, fed from the tables. */
#include "cli/opt.h"

#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "kvt/arena.h"

/* The largest whole number that a double in an option table states exactly. */
#define WHOLE_MAX 9007199254740992.0

/* clang-format off */
static const char *const color_names[] = {"auto", "always", "never", NULL};
static const char *const progress_names[] = {"auto", "bar", "plain", "none", NULL};

static const cli_option common[] = {
    {"help",     'h', CLI_FLAG,   CLI_OPT(cli, help),     .help = "print the help of the verb and stop"},
    {"version",  'V', CLI_FLAG,   CLI_OPT(cli, version),  .help = "print what this program is and stop"},
    {"quiet",    'q', CLI_FLAG,   CLI_OPT(cli, quiet),    .help = "leave out notes and progress"},
    {"verbose",  'v', CLI_COUNT,  CLI_OPT(cli, verbose),  .help = "say more; twice: once a layer"},
    {"color",     0,  CLI_CHOICE, CLI_OPT(cli, color),    .arg = "WHEN", .def = "auto", .choices = color_names,
     .help = "colours on a terminal; auto obeys NO_COLOR and CLICOLOR_FORCE"},
    {"ascii",     0,  CLI_FLAG,   CLI_OPT(cli, ascii),    .help = "only 7-bit characters for people"},
    {"progress",  0,  CLI_CHOICE, CLI_OPT(cli, progress), .arg = "HOW", .def = "auto", .choices = progress_names,
     .help = "progress on standard error; auto: a bar on a terminal, else a line every 10 s"},
    {"json",      0,  CLI_FLAG,   CLI_OPT(cli, json),     .help = "print one JSON object with a schema instead of text"},
    {"no-pager",  0,  CLI_FLAG,   CLI_OPT(cli, no_pager), .help = "never page long text through $PAGER"},
    {"threads",  'j', CLI_INT,    CLI_OPT(cli, threads),  .arg = "N", .min = 1, .max = 1024,
     .help = "threads; wins over OMP_NUM_THREADS and changes no result"},
    {"seed",      0,  CLI_INT,    CLI_OPT(cli, seed),     .arg = "N", .def = "0", .min = 0, .max = WHOLE_MAX,
     .help = "seed of every random choice"},
    {0},
};
/* clang-format on */

const cli_option *cli_common_options(void)
{
    return common;
}

/* ---- values --------------------------------------------------------------------------------
 */

const char *cli_opt_number(double x, char *out, size_t cap)
{
    if (x == floor(x) && fabs(x) <= WHOLE_MAX)
        snprintf(out, cap, "%.0f", x);
    else
        snprintf(out, cap, "%.6g", x);
    return out;
}

static const char *join_choices(const cli_option *o, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; o->choices[i] && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? ", " : "one of ", o->choices[i]);
    return out;
}

const char *cli_opt_range(const cli_option *o, char *out, size_t cap)
{
    char lo[32], hi[32];
    const char *kind = o->type == CLI_INT ? "whole number" : "number";

    out[0] = 0;
    if (o->type == CLI_CHOICE)
        return join_choices(o, out, cap);
    if (o->type == CLI_SIZE)
        snprintf(out, cap, "size such as 512MiB");
    if (o->type != CLI_INT && o->type != CLI_REAL)
        return out;
    if (o->min == 0 && o->max == 0)
        snprintf(out, cap, "%s", kind);
    else if (o->max >= WHOLE_MAX)
        snprintf(out, cap, "%s of at least %s", kind, cli_opt_number(o->min, lo, sizeof lo));
    else
        snprintf(out, cap, "%s from %s to %s", kind, cli_opt_number(o->min, lo, sizeof lo),
                 cli_opt_number(o->max, hi, sizeof hi));
    return out;
}

static bool in_range(const cli_option *o, double x)
{
    return (o->min == 0 && o->max == 0) || (x >= o->min && x <= o->max);
}

static kvt_code bad_value(const cli_option *o, const char *text, kvt_err *err)
{
    char range[CLI_RANGE_MAX];
    return kvt_fail(err, KVT_USAGE, "--%s: '%.80s' is not a %s", o->name, text,
                    cli_opt_range(o, range, sizeof range));
}

static kvt_code set_choice(const cli_option *o, int *out, const char *text, kvt_err *err)
{
    for (int i = 0; o->choices[i]; i++)
        if (!strcmp(o->choices[i], text)) {
            *out = i;
            return KVT_OK;
        }
    char range[CLI_RANGE_MAX];
    const char *near = text_nearest(text, o->choices);
    return kvt_fail(err, KVT_USAGE, "--%s: '%.80s' is not %s%s%s%s", o->name, text,
                    join_choices(o, range, sizeof range), near ? " (did you mean '" : "",
                    near ? near : "", near ? "'?)" : "");
}

kvt_code cli_opt_set(const cli_option *o, void *out, const char *text, kvt_err *err)
{
    void *field = (char *)out + o->offset;
    kvt_err why;

    switch (o->type) {
    case CLI_FLAG: *(bool *)field = true; return KVT_OK;
    case CLI_COUNT: ++*(int *)field; return KVT_OK;
    case CLI_TEXT: *(const char **)field = text; return KVT_OK;
    case CLI_CHOICE: return set_choice(o, field, text, err);
    case CLI_INT: {
        int64_t x;
        if (int_parse(&x, text, &why) || !in_range(o, (double)x))
            return bad_value(o, text, err);
        *(int64_t *)field = x;
        return KVT_OK;
    }
    case CLI_REAL: {
        double x;
        if (real_parse(&x, text, &why) || !in_range(o, x))
            return bad_value(o, text, err);
        *(double *)field = x;
        return KVT_OK;
    }
    case CLI_SIZE: {
        int64_t x;
        if (size_parse(&x, text, &why))
            return bad_value(o, text, err);
        *(int64_t *)field = x;
        return KVT_OK;
    }
    case CLI_LIST: {
        cli_list *l = field;
        if (l->n == CLI_LIST_MAX)
            return kvt_fail(err, KVT_USAGE, "--%s: given more than %d times", o->name,
                            CLI_LIST_MAX);
        l->item[l->n++] = text;
        return KVT_OK;
    }
    }
    return kvt_fail(err, KVT_USAGE, "--%s: an option of unknown type", o->name);
}

void cli_opt_defaults(const cli_option *table, void *out)
{
    kvt_err err;
    for (const cli_option *o = table; o && o->name; o++)
        if (o->def && cli_opt_set(o, out, o->def, &err)) {
            /* A default that its own table refuses is a mistake in the table; tests/cli walks
             * all of them, so that it never reaches a user. */
        }
}

/* ---- the command line ----------------------------------------------------------------------
 */

enum { FIRST_LONG = 256, OPTIONS_MAX = 96 };

/* The two tables as one list, and what getopt_long() wants. */
typedef struct parser {
    const cli_option *option[OPTIONS_MAX];
    bool is_common[OPTIONS_MAX];
    struct option longs[OPTIONS_MAX + 1];
    char shorts[2 * OPTIONS_MAX + 3];
    const char *names[OPTIONS_MAX + 1];
    int n;
} parser;

static bool wants_value(const cli_option *o)
{
    return o->type != CLI_FLAG && o->type != CLI_COUNT;
}

static void add_table(parser *p, const cli_option *table, bool is_common)
{
    for (const cli_option *o = table; o && o->name && p->n < OPTIONS_MAX; o++) {
        int i = p->n++;
        p->option[i] = o;
        p->is_common[i] = is_common;
        p->names[i] = o->name;
        p->longs[i] = (struct option){o->name, wants_value(o) ? required_argument : no_argument,
                                      NULL, FIRST_LONG + i};
        if (o->letter) {
            size_t at = strlen(p->shorts);
            p->shorts[at] = o->letter;
            p->shorts[at + 1] = wants_value(o) ? ':' : 0;
        }
    }
}

/* "-" at the front: operands come in order, whatever POSIXLY_CORRECT says; "+": stop at the
 * first. ":" tells a missing value from an unknown option. */
static void parser_init(parser *p, const cli_command *command)
{
    *p = (parser){.shorts = {command ? '-' : '+', ':'}};
    if (command)
        add_table(p, command->options, false);
    add_table(p, common, true);
}

static int find_letter(const parser *p, int letter)
{
    for (int i = 0; i < p->n; i++)
        if (p->option[i]->letter && p->option[i]->letter == letter)
            return i;
    return -1;
}

/* A long option's name as typed, without dashes and value. */
static const char *typed_name(const char *token, char *out, size_t cap)
{
    size_t n = 0;
    while (*token == '-')
        token++;
    for (; token[n] && token[n] != '=' && n + 1 < cap; n++)
        out[n] = token[n];
    out[n] = 0;
    return out;
}

static kvt_code unknown(const parser *p, const cli_command *command, const char *name,
                        kvt_err *err)
{
    const char *near = text_nearest(name, p->names);
    /* An abbreviation is far from its option by letters, but there is no doubt what was meant.
     */
    for (int i = 0; i < p->n && name[0]; i++)
        if (!strncmp(p->names[i], name, strlen(name)))
            near = p->names[i];
    if (near)
        return kvt_fail(err, KVT_USAGE, "no option '--%.60s' (did you mean '--%s'?)", name,
                        near);
    return kvt_fail(err, KVT_USAGE, "no option '--%.60s'; see: kvt %s%s--help", name,
                    command ? command->name : "", command ? " " : "");
}

/* getopt_long() said '?': optopt is the letter, the index of a flag that got a value, or 0 for
 * a long name that is unknown or begins several. */
static kvt_code refused(const parser *p, const cli_command *command, const char *token,
                        kvt_err *err)
{
    char name[64];
    if (optopt >= FIRST_LONG)
        return kvt_fail(err, KVT_USAGE, "--%s takes no value", p->names[optopt - FIRST_LONG]);
    if (!optopt)
        return unknown(p, command, typed_name(token, name, sizeof name), err);
    return kvt_fail(err, KVT_USAGE, "no option '-%c'; see: kvt %s%s--help", optopt,
                    command ? command->name : "", command ? " " : "");
}

static kvt_code missing(const parser *p, kvt_err *err)
{
    int i = optopt >= FIRST_LONG ? optopt - FIRST_LONG : find_letter(p, optopt);
    if (i < 0 || i >= p->n)
        return kvt_fail(err, KVT_USAGE, "an option lacks its value");
    return kvt_fail(err, KVT_USAGE, "--%s: a value is missing: --%s %s", p->names[i],
                    p->names[i], p->option[i]->arg ? p->option[i]->arg : "VALUE");
}

/* Whether a word that stands alone is an option of the table: "-q", "--json". */
static bool is_option(const parser *p, const char *word)
{
    if (word[0] != '-' || !word[1])
        return false;
    if (word[1] != '-')
        return !word[2] && find_letter(p, word[1]) >= 0;
    for (int i = 0; i < p->n; i++)
        if (!strcmp(word + 2, p->names[i]))
            return true;
    return false;
}

/* One answer of getopt_long() that is an option. */
static kvt_code take(const parser *p, const cli_command *command, cli *c, void *options,
                     int got, char **argv, kvt_err *err)
{
    if (got == '?')
        return refused(p, command, argv[optind - 1], err);
    if (got == ':')
        return missing(p, err);
    int i = got >= FIRST_LONG ? got - FIRST_LONG : find_letter(p, got);
    if (got >= FIRST_LONG) {
        char name[64];
        /* The token is the last one read, or the one before it where the value stands alone. */
        const char *token =
            argv[optarg && optarg == argv[optind - 1] ? optind - 2 : optind - 1];
        if (strcmp(typed_name(token, name, sizeof name), p->names[i]))
            return unknown(p, command, name, err);
    }
    if (optarg && optarg == argv[optind - 1] && is_option(p, optarg))
        return kvt_fail(err, KVT_USAGE,
                        "--%s: a value is missing: got the option '%s' (write --%s=%s if it is "
                        "meant)",
                        p->names[i], optarg, p->names[i], optarg);
    return cli_opt_set(p->option[i], p->is_common[i] ? (void *)c : options, optarg, err);
}

kvt_code cli_opt_front(cli *c, int argc, char **argv, int *at, kvt_err *err)
{
    parser p;
    int got;

    parser_init(&p, NULL);
    opterr = 0;
    optind = 0;
    while ((got = getopt_long(argc, argv, p.shorts, p.longs, NULL)) != -1) {
        kvt_code code = take(&p, NULL, c, NULL, got, argv, err);
        if (code)
            return code;
    }
    *at = optind;
    return KVT_OK;
}

static kvt_code check_count(const cli_command *command, int n, kvt_err *err)
{
    int lo = command->min_args, hi = command->max_args;
    char want[64];

    if (n >= lo && (hi < 0 || n <= hi))
        return KVT_OK;
    if (hi < 0)
        snprintf(want, sizeof want, "at least %d", lo);
    else if (lo == hi)
        snprintf(want, sizeof want, hi ? "%d" : "no", hi);
    else if (!lo)
        snprintf(want, sizeof want, "at most %d", hi);
    else
        snprintf(want, sizeof want, "%d to %d", lo, hi);
    return kvt_fail(err, KVT_USAGE, "%s takes %s operand%s, got %d; usage: kvt %s %s",
                    command->name, want, (hi < 0 ? lo : hi) == 1 ? "" : "s", n, command->name,
                    command->usage);
}

kvt_code cli_opt_parse(cli *c, const cli_command *command, void *options, int argc, char **argv,
                       char **operand, int *n_operand, kvt_err *err)
{
    parser p;
    int got, n = 0;

    parser_init(&p, command);
    cli_opt_defaults(command->options, options);
    opterr = 0;
    optind = 0;
    while ((got = getopt_long(argc, argv, p.shorts, p.longs, NULL)) != -1) {
        if (got == 1) {
            operand[n++] = optarg;
            continue;
        }
        kvt_code code = take(&p, command, c, options, got, argv, err);
        if (code)
            return code;
    }
    for (int i = optind; i < argc; i++)
        operand[n++] = argv[i];
    *n_operand = n;
    if (c->help || c->version)
        return KVT_OK;
    if (c->json && command->no_json)
        return kvt_fail(err, KVT_USAGE, "%s has no --json", command->name);
    return check_count(command, n, err);
}
