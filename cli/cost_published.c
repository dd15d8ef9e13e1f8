/* cost_published.c - kvt cost --published: figures that were published elsewhere beside what
 * the formulae give. */
#include <stdio.h>
#include <string.h>

#include "cli/cost_table.h"
#include "cli/table.h"
#include "kvt/arena.h"

enum { CELL = 96 };

typedef struct figure_row {
    const char *id, *group, *what, *unit, *profile, *source;
    double published, predicted, error_frac, least, most;
    int64_t held_out, within;
} figure_row;

static const kvt_column figure_columns[] = {
#define C(field, unit, help) KVT_COLUMN(figure_row, field, unit, help)
    C(id, "", "name of the figure"),
    C(group, "", "what it belongs to"),
    C(what, "", "what was measured or published"),
    C(unit, "", "unit of the numbers"),
    C(profile, "", "constants of the prediction"),
    C(published, "", "the published number"),
    C(predicted, "", "what the formulae give"),
    C(error_frac, "frac", "predicted / published - 1"),
    C(least, "", "the prediction must be at least this"),
    C(most, "", "and at most this"),
    C(held_out, "", "1: no constant was fitted to it"),
    C(within, "", "1: it lies within these bounds"),
    C(source, "", "where it was published"),
    {0},
#undef C
};

static figure_row figure_of(const kvt_figure *f)
{
    return (figure_row){.id = f->id,
                        .group = f->group,
                        .what = f->what,
                        .unit = f->unit,
                        .profile = f->profile,
                        .source = f->source,
                        .published = f->published,
                        .predicted = f->predicted,
                        .error_frac = f->predicted / f->published - 1,
                        .least = f->least,
                        .most = f->most,
                        .held_out = f->held_out,
                        .within = f->predicted >= f->least && f->predicted <= f->most};
}

static kvt_code figure_line(cli_table *t, const figure_row *r, kvt_err *err)
{
    char published[CELL], predicted[CELL], error[CELL], mark[CELL];
    snprintf(published, sizeof published, "%.5g %s", r->published, r->unit);
    snprintf(predicted, sizeof predicted, "%.5g", r->predicted);
    snprintf(error, sizeof error, "%+.2f%%", 100 * r->error_frac);
    snprintf(mark, sizeof mark, "%s%s", r->held_out ? "held out" : "",
             r->within ? "" : " OUTSIDE");
    const char *cell[] = {r->id, published, predicted, error, r->what, mark, NULL};
    return cli_table_row(t, cell, err);
}

/* The rows of one group, from `first`; returns the first of the next one. */
static kvt_code print_group(cli *c, const figure_row *row, int n, int *first, kvt_err *err)
{
    static const char *const names[] = {"ID",   "PUBLISHED", "FORMULA", "ERROR",
                                        "WHAT", "NOTE",      NULL};
    static const cli_align align[] = {CLI_LEFT,  CLI_RIGHT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_LEFT,  CLI_LEFT};
    int i = *first;
    cli_table *t = cli_table_new(c, names, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, sizeof names);
    printf("%s%s (%s)\n", i ? "\n" : "", row[i].group, row[i].source);
    for (; i < n && strcmp(row[i].group, row[*first].group) == 0 && !code; i++)
        code = figure_line(t, &row[i], err);
    *first = i;
    if (t)
        cli_table_narrow(t, 4);
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static void print_json(const kvt_table *t)
{
    printf("{\"schema\": \"kvt-figures-1\",\n \"rows\": ");
    cli_json_rows(stdout, t);
    printf("}\n");
}

kvt_code cli_cost_figures(cli *c, kvt_err *err)
{
    int n = kvt_cost_figures(NULL, 0);
    kvt_figure *figure = kvt_alloc(n, sizeof *figure);
    figure_row *row = kvt_alloc(n, sizeof *row);
    kvt_code code = figure && row ? KVT_OK : kvt_fail_memory(err, (size_t)n * sizeof *row);
    if (!code)
        n = kvt_cost_figures(figure, n);
    for (int i = 0; i < n && !code; i++)
        row[i] = figure_of(&figure[i]);
    const kvt_table t = {.name = "figures",
                         .title = "a published number beside what the formulae give",
                         .columns = figure_columns,
                         .rows = row,
                         .n_row = n,
                         .row_size = sizeof *row};
    if (!code && c->json)
        print_json(&t);
    for (int i = 0; i < n && !code && !c->json;)
        code = print_group(c, row, n, &i, err);
    if (!code && !c->json)
        printf("\nheld out: no constant was fitted to it.\n");
    kvt_free(figure);
    kvt_free(row);
    return code;
}
