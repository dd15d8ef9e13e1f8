/* table.c - see table.h. The only door to libsmartcols. */
#include "cli/table.h"

#include <libsmartcols.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/wrap.h"
#include "kvt/arena.h"

enum { NARROWEST = 20, WIDEST = 1000, INDENT = 4 };

struct cli_table {
    struct libscols_table *scols;
    int n_column;
    int head; /* columns that stay on a line of their own where the table is too wide; 0: all */
    bool ascii;
};

static int add_columns(cli_table *t, const cli *c, const char *const *columns,
                       const cli_align *align)
{
    for (int i = 0; columns[i]; i++, t->n_column++) {
        struct libscols_column *column = scols_table_new_column(
            t->scols, columns[i], 0, align && align[i] == CLI_RIGHT ? SCOLS_FL_RIGHT : 0);
        if (!column)
            return -1;
        if (cli_color(c, stdout) &&
            scols_cell_set_color(scols_column_get_header(column), "\033[1m"))
            return -1;
    }
    return 0;
}

cli_table *cli_table_new(const cli *c, const char *const *columns, const cli_align *align)
{
    cli_table *t = kvt_alloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->ascii = !cli_utf8(c);
    t->scols = scols_new_table();
    if (!t->scols || add_columns(t, c, columns, align)) {
        cli_table_free(t);
        return NULL;
    }
    scols_table_enable_colors(t->scols, cli_color(c, stdout));
    /* Cells are safe already, and its own escapes would also take blanks. */
    scols_table_enable_noencoding(t->scols, 1);
    /* A number that is cut is wrong: a table that is too wide wraps. */
    scols_table_set_termforce(t->scols, SCOLS_TERMFORCE_NEVER);
    return t;
}

kvt_code cli_table_row(cli_table *t, const char *const *cell, kvt_err *err)
{
    struct libscols_line *line = scols_table_new_line(t->scols, NULL);
    kvt_code code = line ? KVT_OK : kvt_fail_memory(err, 64);
    buf safe;

    buf_init(&safe, 1 << 16);
    for (int i = 0; !code && i < t->n_column && cell[i]; i++) {
        buf_clear(&safe);
        text_safe(&safe, (const uint8_t *)cell[i], strlen(cell[i]), t->ascii);
        code = buf_check(&safe, err);
        if (!code && scols_line_set_data(line, (size_t)i, buf_get(&safe)))
            code = kvt_fail_memory(err, strlen(cell[i]));
    }
    buf_fini(&safe);
    return code;
}

void cli_table_narrow(cli_table *t, int head)
{
    t->head = head;
}

/* Columns of the terminal; COLUMNS wins. 0: a file or a pipe, whose lines have any length. */
static int terminal_width(const cli_table *t)
{
    const char *text = getenv("COLUMNS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n >= NARROWEST && n <= WIDEST)
        return (int)n;
    return isatty(STDOUT_FILENO) ? (int)scols_table_get_termwidth(t->scols) : 0;
}

static const char *cell_of(const cli_table *t, size_t row, int column)
{
    struct libscols_line *line = scols_table_get_line(t->scols, row);
    const char *text = scols_cell_get_data(scols_line_get_cell(line, (size_t)column));
    return text ? text : "";
}

static const char *name_of(const cli_table *t, int column)
{
    const char *text = scols_column_get_name(scols_table_get_column(t->scols, (size_t)column));
    return text ? text : "";
}

static int column_width(const cli_table *t, int column)
{
    int width = text_columns(name_of(t, column));
    for (size_t row = 0; row < scols_table_get_nlines(t->scols); row++) {
        int n = text_columns(cell_of(t, row, column));
        width = n > width ? n : width;
    }
    return width;
}

static bool is_too_wide(const cli_table *t, int width)
{
    int sum = t->n_column - 1;
    for (int i = 0; i < t->n_column; i++)
        sum += column_width(t, i);
    return sum > width;
}

/* The head of each row on a line, as a table; what follows, indented below it. */
static void print_narrow(const cli_table *t, FILE *out, int width)
{
    size_t n = scols_table_get_nlines(t->scols);
    for (size_t row = 0; row <= n; row++) {
        for (int i = 0; i < t->head; i++) {
            const char *text = row ? cell_of(t, row - 1, i) : name_of(t, i);
            bool last = i == t->head - 1;
            fprintf(out, "%s%*s", text, last ? 0 : column_width(t, i) - text_columns(text) + 1,
                    "");
        }
        fputc('\n', out);
        for (int i = t->head; row && i < t->n_column; i++) {
            const char *text = cell_of(t, row - 1, i);
            if (*text && strcmp(text, "-") != 0) {
                fprintf(out, "%*s", INDENT, "");
                cli_wrap(out, text, INDENT, INDENT, width);
            }
        }
    }
}

kvt_code cli_table_print(cli_table *t, FILE *out, kvt_err *err)
{
    if (!scols_table_get_nlines(t->scols))
        return KVT_OK;
    int width = t->head > 0 ? terminal_width(t) : 0;
    if (width > 0 && is_too_wide(t, width)) {
        print_narrow(t, out, width);
        return KVT_OK;
    }
    if (scols_table_set_stream(t->scols, out) || scols_print_table(t->scols))
        return kvt_fail(err, KVT_IO, "a table could not be printed");
    return KVT_OK;
}

void cli_table_free(cli_table *t)
{
    if (!t)
        return;
    scols_unref_table(t->scols); /* NULL is fine */
    kvt_free(t);
}

/* ---- JSON ----------------------------------------------------------------------------------
 */

static const char *text_of(const kvt_table *t, int64_t row, const kvt_column *c)
{
    const char *at = (const char *)t->rows + row * (int64_t)t->row_size + c->offset;
    return c->type == KVT_COL_STRING ? *(const char *const *)at : at;
}

/* Undefined and infinite numbers are null: JSON has neither. */
static void put_cell(buf *out, const kvt_table *t, int64_t row, const kvt_column *c)
{
    char number[64];

    if (c->type == KVT_COL_TEXT || c->type == KVT_COL_STRING) {
        const char *text = text_of(t, row, c);
        if (text)
            json_quote(out, text, strlen(text));
        else
            buf_text(out, "null");
        return;
    }
    kvt_cell_print(t, row, c, number, sizeof number);
    bool finite = number[0] && (number[0] == '-' ? number[1] : number[0]) <= '9';
    buf_text(out, finite ? number : "null");
}

void cli_json_rows(FILE *out, const kvt_table *t)
{
    buf line;

    buf_init(&line, 1 << 24);
    fputc('[', out);
    for (int64_t row = 0; row < t->n_row; row++) {
        buf_clear(&line);
        buf_text(&line, row ? ",\n  {" : "\n  {");
        for (const kvt_column *c = t->columns; c->name; c++) {
            if (c != t->columns)
                buf_text(&line, ", ");
            json_quote(&line, c->name, strlen(c->name));
            buf_text(&line, ": ");
            put_cell(&line, t, row, c);
        }
        buf_char(&line, '}');
        fputs(buf_get(&line), out);
    }
    fputs(t->n_row ? "\n]" : "]", out);
    buf_fini(&line);
}
