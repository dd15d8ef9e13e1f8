/* size.h - sizes and numbers as people type them, the same in every locale. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include "kvt/err.h"

/* "512MiB", "1.5KiB", "64M" (1000s), "4096". USAGE where it is none or negative. */
KVT_CHECKED kvt_code size_parse(int64_t *out, const char *text, kvt_err *err);
const char *size_print(int64_t bytes, char *out, size_t cap); /* "3.1 GiB" */

/* Whole text or USAGE. A decimal point whatever the locale. */
KVT_CHECKED kvt_code int_parse(int64_t *out, const char *text, kvt_err *err);
KVT_CHECKED kvt_code real_parse(double *out, const char *text, kvt_err *err);
/* Shortest digits that read back equal ("0.1"), '.' in every locale; NaN gives "". */
const char *real_print(double x, char *out, size_t cap);

/* "0-3,29" into flags [n]; USAGE where out of range. */
KVT_CHECKED kvt_code list_parse(bool *out, int n, const char *text, kvt_err *err);

#endif
