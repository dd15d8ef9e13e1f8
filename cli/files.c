/* files.c - the HDF5 files that a path stands for. */
#include "cli/files.h"

#include <string.h>

#include "base/file.h"

enum { DEPTH_MAX = 16 }; /* guards against a link that leads back */

typedef struct walk {
    const char *dir;
    int depth;
    kvt_code (*each)(void *user, const char *path, kvt_err *err);
    void *user;
} walk;

static bool is_hdf5(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && !strcmp(name + n - 3, ".h5");
}

static kvt_code visit(void *user, const char *name, kvt_err *err)
{
    walk *w = user;
    char path[4096];

    if (*name == '.')
        return KVT_OK;
    if (file_join(path, sizeof path, w->dir, name, err))
        return err->code;
    if (!file_is_dir(path))
        return is_hdf5(name) ? w->each(w->user, path, err) : KVT_OK;
    if (w->depth == DEPTH_MAX)
        return KVT_OK;
    walk below = *w;
    below.dir = path;
    below.depth++;
    return file_list(path, visit, &below, err);
}

kvt_code cli_files(const char *path,
                   kvt_code (*each)(void *user, const char *path, kvt_err *err), void *user,
                   kvt_err *err)
{
    if (!file_is_dir(path))
        return file_exists(path)
                   ? each(user, path, err)
                   : kvt_fail(err, KVT_NOTFOUND, "'%s': no such file or folder", path);
    walk w = {.dir = path, .each = each, .user = user};
    return file_list(path, visit, &w, err);
}
