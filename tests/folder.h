/* folder.h - a folder for the files of one test program, gone at its end. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One for all files of the program, a test and what it is linked with. */
__attribute__((weak)) char folder_name[512];

/* For main(): a new folder in $TMPDIR, else in the build folder. */
static inline const char *folder_new(void)
{
    const char *at = getenv("TMPDIR");
    snprintf(folder_name, sizeof folder_name, "%s/kvt-test-XXXXXX",
             at && *at ? at : KVT_BINARY_DIR);
    if (!mkdtemp(folder_name)) {
        perror(folder_name);
        exit(1);
    }
    return folder_name;
}

/* The path of a name in it; one of four buffers, in turn. */
static inline const char *folder_path(const char *name)
{
    static char path[4][1024];
    static int at;
    char *p = path[at++ % 4];
    snprintf(p, 1024, "%s/%s", folder_name, name);
    return p;
}

static inline int folder_count(const char *dir) /* entries, hidden ones too; -1: no folder */
{
    DIR *d = opendir(dir);
    int n = 0;
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static inline void folder_drop(const char *path)
{
    DIR *d = opendir(path);
    if (d) {
        char below[2048];
        for (struct dirent *e; (e = readdir(d));)
            if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
                int length = snprintf(below, sizeof below, "%s/%s", path, e->d_name);
                if (length > 0 && length < (int)sizeof below)
                    folder_drop(below);
            }
        closedir(d);
    }
    remove(path);
}

static inline void folder_end(void)
{
    folder_drop(folder_name);
}

#endif
