/* table.h - tables on a terminal (libsmartcols is used here only). */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli/cli.h"
#include "kvt/table.h"

typedef struct cli_table cli_table;
typedef enum cli_align { CLI_LEFT, CLI_RIGHT } cli_align;

/* columns: names, NULL-ended. NULL: out of memory. */
cli_table *cli_table_new(const cli *c, const char *const *columns, const cli_align *align);
/* One row; cells NULL-ended, copied and made safe. */
KVT_CHECKED kvt_code cli_table_row(cli_table *t, const char *const *cell, kvt_err *err);
/* Where the table is wider than the terminal, only the first `head` columns stand side by side;
 * the texts of the others follow below each row, wrapped. For tables of words: a number stays
 * in its column, and a table without this call is never folded. */
void cli_table_narrow(cli_table *t, int head);
KVT_CHECKED kvt_code cli_table_print(cli_table *t, FILE *out, kvt_err *err);
void cli_table_free(cli_table *t);

/* A kvt_table as JSON objects, one a row, inside an array: the names of the CSV. */
void cli_json_rows(FILE *out, const kvt_table *t);

#endif
