/* data.h - the data files of replay/cost/data, compiled into the program
 * (cmake/KvtEmbed.cmake).
 *
 * Each list is sorted by name and ends with {0}. */
#ifndef REPLAY_COST_DATA_H
#define REPLAY_COST_DATA_H

#include <stddef.h>

typedef struct cost_file {
    const char *name; /* of the file, without folder and extension */
    const char *bytes;
    size_t size;
} cost_file;

extern const cost_file cost_geometries[], cost_machines[], cost_profiles[];
extern const cost_file cost_tables[]; /* published.csv, figures */

const cost_file *cost_file_find(const cost_file *list, const char *name); /* or NULL */

#endif
