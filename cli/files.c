/* files.c - the HDF5 files that a path stands for, and the traces among them. */
#include "cli/files.h"

#include <string.h>

#include "base/file.h"
#include "kvt/arena.h"
#include "kvt/result.h"
#include "kvt/scorer.h"

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

static kvt_code push(void *user, const char *path, kvt_err *err)
{
    cli_traces *t = user;
    if (kvt_is_result_path(path) || kvt_is_scorer(path))
        return KVT_OK;
    if (t->n == t->cap) {
        int cap = t->cap ? 2 * t->cap : 64;
        char **more = kvt_resize(t->item, t->cap, cap, sizeof *more);
        if (!more)
            return kvt_fail_memory(err, (size_t)cap * sizeof *more);
        t->item = more;
        t->cap = cap;
    }
    t->item[t->n] = kvt_copy_text(path);
    if (!t->item[t->n])
        return kvt_fail_memory(err, strlen(path) + 1);
    t->n++;
    return KVT_OK;
}

kvt_code cli_traces_add(cli_traces *t, const char *path, kvt_err *err)
{
    if (!file_is_dir(path) && kvt_is_scorer(path))
        return kvt_fail(err, KVT_FORMAT, "'%s': expected a trace, got a scorer file", path);
    return cli_files(path, push, t, err);
}

void cli_traces_free(cli_traces *t)
{
    for (int i = 0; i < t->n; i++)
        kvt_free(t->item[i]);
    kvt_free(t->item);
}

/* ---- results -------------------------------------------------------------------------------
 */

static kvt_code merge(kvt_results *into, kvt_results *from, kvt_err *err)
{
    kvt_code code = KVT_OK;
    for (int64_t i = 0; i < from->n && code == KVT_OK; i++) {
        code = kvt_results_add(into, from->result[i], err);
        if (code == KVT_OK)
            from->result[i] = NULL;
    }
    return code;
}

kvt_code cli_results(kvt_results **out, int n_arg, char **arg, bool arrays, kvt_err *err)
{
    kvt_schema cells = {0}, lanes = {0};
    kvt_cell_schema(&cells);
    kvt_lane_schema(&lanes);
    kvt_code code = kvt_results_load(out, &cells, &lanes, arg[0], arrays, err);
    for (int i = 1; i < n_arg && code == KVT_OK; i++) {
        kvt_results *more = NULL;
        code = kvt_results_load(&more, &cells, &lanes, arg[i], arrays, err);
        if (code == KVT_OK)
            code = merge(*out, more, err);
        kvt_results_free(more);
    }
    if (code == KVT_OK && (*out)->n == 0) {
        kvt_results_free(*out);
        *out = NULL;
        code =
            kvt_fail(err, KVT_NOTFOUND, "%s: no result files (kvt replay writes them)", arg[0]);
    }
    return code;
}

kvt_code cli_results_steps(kvt_results *results, kvt_err *err)
{
    kvt_schema cells = {0}, lanes = {0};
    kvt_code code = KVT_OK;
    kvt_cell_schema(&cells);
    kvt_lane_schema(&lanes);
    for (int64_t i = 0; i < results->n && code == KVT_OK; i++)
        code = kvt_result_read_steps(results->result[i], &cells, &lanes, err);
    return code;
}
