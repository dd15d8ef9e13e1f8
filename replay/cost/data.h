/* data.h - the data files of replay/cost/data, compiled into the program
 * (cmake/KvtEmbed.cmake), and those of users.
 *
 * Each list is sorted by name and ends with {0}, its names end with NULL. */
#ifndef REPLAY_COST_DATA_H
#define REPLAY_COST_DATA_H

#include <stddef.h>

#include "base/json.h"

typedef struct cost_file {
    const char *name; /* of the file, without folder and extension */
    const char *bytes;
    size_t size;
    const char *const *aliases; /* of the member "aliases", ends with NULL */
} cost_file;

extern const cost_file cost_geometries[], cost_machines[], cost_profiles[];
extern const cost_file cost_tables[]; /* published.csv, figures */
extern const char *const cost_geometries_names[], *const cost_machines_names[];
extern const char *const cost_profiles_names[], *const cost_tables_names[];

/* By name or alias, capitals as small letters; or NULL. */
const cost_file *cost_file_find(const cost_file *list, const char *name);

/* Reads the object of a built-in file, or of the file that `name` is the path of (it holds '/'
 * or ends with ".json"); the caller's (json_decref). `kind` ("geometry") is for messages. USAGE
 * with the nearest name, or all of them; NOTFOUND, IO, FORMAT. */
KVT_CHECKED kvt_code cost_file_read(json_t **out, const cost_file *list, const char *kind,
                                    const char *name, kvt_err *err);
/* "geometry 'x'": where a failure of reading it happened. The code becomes FORMAT, but out of
 * memory stays. */
kvt_code cost_file_within(const char *kind, const char *name, kvt_err *err);

/* Members of a data file; one that is missing is an error where it is `needed`, and leaves
 * `out` as it is otherwise. Texts are one line without control characters. */
KVT_CHECKED kvt_code cost_text(const json_t *object, const char *key, bool needed, char *out,
                               size_t cap, kvt_err *err);
KVT_CHECKED kvt_code cost_int(const json_t *object, const char *key, bool needed, int64_t *out,
                              kvt_err *err);
KVT_CHECKED kvt_code cost_flag(const json_t *object, const char *key, bool needed, bool *out,
                               kvt_err *err); /* true, false, 1 or 0 */

#endif
