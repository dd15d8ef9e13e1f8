/* table.h - rows of structs whose columns describe themselves.
 *
 * A table is an array of kvt_column beside the code that fills its rows. From it come the HDF5
 * table, the CSV with its metadata file, the JSON, --metric and kvt-csv(5). */
#ifndef KVT_TABLE_H
#define KVT_TABLE_H

#include "kvt/err.h"

typedef enum kvt_column_type {
    KVT_COL_TEXT,  /* char [width] in the row, ended by NUL */
    KVT_COL_INT,   /* int64_t; INT64_MIN: empty */
    KVT_COL_REAL,  /* double; NAN: empty */
    KVT_COL_STRING /* const char * in the row; NULL: empty */
} kvt_column_type;

#define KVT_EMPTY_INT INT64_MIN

typedef struct kvt_column {
    const char *name; /* "lost_mass_mean_frac": quantity_over_unit */
    const char *unit; /* "frac", "tokens", "nats", "" */
    const char *help; /* one sentence, no full stop */
    kvt_column_type type;
    size_t offset, width; /* width: bytes of a text column */
    bool untrusted;       /* text from a prompt: guarded against spreadsheet formulas */
} kvt_column;

/* A table of columns ends with {0}. */
typedef struct kvt_table {
    const char *name, *title; /* "cells", what a row is */
    const kvt_column *columns;
    const void *rows;
    int64_t n_row;
    size_t row_size;
} kvt_table;

/* clang-format off */
#define KVT_COLUMN(S, field, unit_, help_)                                              \
    { .name = #field, .unit = (unit_), .help = (help_), .offset = offsetof(S, field),   \
      .width = sizeof(((S *)0)->field),                                                 \
      .type = _Generic(((S *)0)->field, int64_t: KVT_COL_INT, double: KVT_COL_REAL,     \
                       const char *: KVT_COL_STRING, default: KVT_COL_TEXT) }
/* clang-format on */

KVT_API int kvt_table_columns(const kvt_column *columns); /* how many */
KVT_API const kvt_column *kvt_column_find(const kvt_column *columns, const char *name);

/* The cell as text, as CSV and JSON print it: empty when undefined, reals with digits that read
 * back equal, never a locale's comma. Returns the length that the text needs. */
KVT_API size_t kvt_cell_print(const kvt_table *t, int64_t row, const kvt_column *c, char *out,
                              size_t cap);

typedef struct kvt_csv_options {
    bool crlf, raw_text, bom, metadata; /* metadata: NAME.csv-metadata.json beside it */
    const char *command;                /* for the metadata, or NULL */
} kvt_csv_options;

/* Writes PATH (by a temporary name and a rename; "-": to the stream `out` as data). */
KVT_API KVT_CHECKED kvt_code kvt_table_csv(const kvt_table *t, const char *path,
                                           const kvt_csv_options *options, kvt_err *err);

/* The same in pieces, for tables that are too long for memory: every call of kvt_csv_rows()
 * brings more rows of the same columns. close renames the file and frees the writer, always;
 * abort removes it. */
typedef struct kvt_csv kvt_csv;
KVT_API KVT_CHECKED kvt_code kvt_csv_open(kvt_csv **out, const kvt_table *t, const char *path,
                                          const kvt_csv_options *options, kvt_err *err);
KVT_API KVT_CHECKED kvt_code kvt_csv_rows(kvt_csv *c, const kvt_table *t, kvt_err *err);
KVT_API KVT_CHECKED kvt_code kvt_csv_close(kvt_csv *c, kvt_err *err);
KVT_API void kvt_csv_abort(kvt_csv *c); /* NULL is fine */

#endif
