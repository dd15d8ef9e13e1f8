/* json.h - the only door to jansson: strict reading of files and lines, and writing.
 *
 * Always with JSON_REJECT_DUPLICATES; a depth limit; text after the value is refused. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/buf.h"

/* The value is the caller's (json_decref). FORMAT with line and column. */
KVT_CHECKED kvt_code json_read(json_t **out, const char *bytes, size_t n, kvt_err *err);
KVT_CHECKED kvt_code json_read_file(json_t **out, const char *path, kvt_err *err);
/* Every number is a real: for files whose whole numbers may be beyond 64 bits. */
KVT_CHECKED kvt_code json_read_file_reals(json_t **out, const char *path, kvt_err *err);

/* Members with their types checked: FORMAT names the key, what was expected and got. A missing
 * one is NOTFOUND. */
KVT_CHECKED kvt_code json_text(const json_t *object, const char *key, const char **out,
                               kvt_err *err);
KVT_CHECKED kvt_code json_int(const json_t *object, const char *key, int64_t *out,
                              kvt_err *err);
KVT_CHECKED kvt_code json_number(const json_t *object, const char *key, double *out,
                                 kvt_err *err);
/* USAGE naming the first member that is not in the NULL-ended list, and the nearest known one.
 */
KVT_CHECKED kvt_code json_only(const json_t *object, const char *const *known, kvt_err *err);

/* Appends text as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD. */
void json_quote(buf *out, const char *s, size_t n);

#endif
