/* file.h - files: whole reads, mapping, writing under a temporary name, folders, free room. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"

/* The whole file; limit in bytes (FORMAT above it). NOTFOUND, IO. `path` "-" is standard input.
 */
KVT_CHECKED kvt_code file_read(buf *out, const char *path, size_t limit, kvt_err *err);

typedef struct file_map {
    const uint8_t *data;
    size_t n;
} file_map;
KVT_CHECKED kvt_code file_map_open(file_map *out, const char *path, kvt_err *err);
void file_map_close(file_map *m);

/* out: "DIR/.NAME.XXXXXX.part" beside `path`, for a file that is then renamed to it. USAGE
 * where something else than a regular file has that name: it is never replaced. Files of that
 * form that nobody has written to for an hour are removed: their writer was killed. */
KVT_CHECKED kvt_code file_temp_name(char *out, size_t cap, const char *path, kvt_err *err);
/* fsync of the file, rename, fsync of the folder. Removes `temp` where it fails. */
KVT_CHECKED kvt_code file_commit(const char *temp, const char *path, kvt_err *err);
/* Writes bytes through a temporary name, or straight into a device or pipe that is there. */
KVT_CHECKED kvt_code file_write(const char *path, const void *bytes, size_t n, kvt_err *err);

bool file_exists(const char *path);
bool file_is_dir(const char *path);
bool file_is_regular(const char *path);       /* no folder, device or pipe */
bool file_same(const char *a, const char *b); /* both are there, and one file */
KVT_CHECKED kvt_code file_mkdirs(const char *path, kvt_err *err); /* like mkdir -p */
int64_t file_size(const char *path);                              /* -1: no such file */
int64_t
file_free_room(const char *path); /* bytes left where path's folder lies; -1: not known */
const char *file_base(const char *path); /* behind the last '/' */
/* Folder of path into out ("." where there is none). */
const char *file_dir(char *out, size_t cap, const char *path);
/* dir/name; USAGE where it does not fit. */
KVT_CHECKED kvt_code file_join(char *out, size_t cap, const char *dir, const char *name,
                               kvt_err *err);

/* Calls `each` for every entry of a folder in byte order of the names. */
KVT_CHECKED kvt_code file_list(const char *dir,
                               kvt_code (*each)(void *user, const char *name, kvt_err *err),
                               void *user, kvt_err *err);

#endif
