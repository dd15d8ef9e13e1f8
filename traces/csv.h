/* csv.h - reading CSV strictly (RFC 4180) through libcsv.
 *
 * libcsv is lenient unless told: here an unclosed or stray quote is an error with its line, a
 * byte order mark is skipped, spaces belong to their field, a last row without a line end
 * counts. */
#ifndef TRACES_CSV_H
#define TRACES_CSV_H

#include "kvt/err.h"

typedef struct csv_row {
    int64_t line; /* where the row begins, from 1 */
    int n_field;
    const char *const *field; /* ended by NUL; may hold NULs: see size */
    const size_t *size;       /* bytes of each field */
} csv_row;

/* Calls `each` for every row, the header too; its code other than OK stops and is returned.
 * Rows of another number of fields than the first are refused, empty lines are passed over.
 * NOTFOUND, FORMAT ("line 7: ..."). */
KVT_CHECKED kvt_code csv_read_bytes(const char *bytes, size_t n, size_t piece,
                                    kvt_code (*each)(void *user, const csv_row *row,
                                                     kvt_err *err),
                                    void *user, kvt_err *err);
KVT_CHECKED kvt_code csv_read_file(const char *path,
                                   kvt_code (*each)(void *user, const csv_row *row,
                                                    kvt_err *err),
                                   void *user, kvt_err *err);

#endif
