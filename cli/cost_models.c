/* cost_models.c - see cost_models.h. */
#include "cli/cost_models.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/about.h"
#include "kvt/arena.h"
#include "kvt/capture.h"
#include "kvt/trace.h"

/* ---- models --------------------------------------------------------------------------------
 */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static bool is_built_in(const char *text)
{
    const char *const *name = kvt_cost_geometry_names();
    while (*name && strcmp(*name, text) != 0)
        name++;
    return *name != NULL;
}

static kvt_code of_model(cli *c, kvt_cost_geometry *out, const char *path, kvt_err *err)
{
    const kvt_model_options header = {.device = "cpu", .header_only = true};
    kvt_model *m;
    if (kvt_model_open(&m, path, &header, &c->ctx, err))
        return err->code;
    kvt_code code = kvt_cost_geometry_of(out, kvt_model_geometry(m), err);
    if (!code) {
        kvt_model_bytes(m, &out->lin_bytes, &out->head_bytes, &out->all_bytes);
        snprintf(out->title, sizeof out->title, "of a model file");
        if (!out->g.name[0])
            snprintf(out->g.name, sizeof out->g.name, "%.63s", file_base(path));
    }
    kvt_model_close(m);
    return code ? kvt_within(err, "'%s'", path) : KVT_OK;
}

kvt_code cli_cost_trace_open(cli_cost_trace *out, const char *path, kvt_err *err)
{
    kvt_trace *t;
    if (kvt_trace_open(&t, path, 0, err))
        return err->code;
    const kvt_trace_info *info = kvt_trace_info_of(t);
    kvt_code code = kvt_cost_geometry_of(&out->geometry, &info->facts.model, err);
    if (code)
        code = kvt_within(err, "'%s'", path);
    else
        snprintf(out->geometry.title, sizeof out->geometry.title, "of a trace");
    out->n_prompt = info->facts.token.n_prompt;
    out->n_response = info->facts.token.n_response;
    snprintf(out->name, sizeof out->name, "%s", info->name);
    kvt_trace_close(t);
    return code;
}

kvt_code cli_cost_trace_geometry(void *user, const char *path, kvt_cost_geometry *out,
                                 kvt_err *err)
{
    cli_cost_trace *t = kvt_alloc(1, sizeof *t);
    (void)user;
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    kvt_code code = cli_cost_trace_open(t, path, err);
    *out = t->geometry;
    kvt_free(t);
    return code ? kvt_within(err, "the model of a replayed trace (or name one, --geometry)")
                : KVT_OK;
}

kvt_code cli_cost_geometry(cli *c, kvt_cost_geometry *out, const char *text, kvt_err *err)
{
    if (is_built_in(text) || ends_with(text, ".json"))
        return kvt_cost_geometry_find(out, text, err);
    if (ends_with(text, ".gguf") || file_is_dir(text))
        return of_model(c, out, text, err);
    if (ends_with(text, ".h5")) {
        cli_cost_trace t;
        kvt_code code = cli_cost_trace_open(&t, text, err);
        *out = t.geometry;
        return code;
    }
    return kvt_cost_geometry_find(out, text, err);
}

/* ---- machines ------------------------------------------------------------------------------
 */

const char *cli_machine_here(char *out, size_t cap)
{
    char models[1024], root[1024];
    out[0] = 0;
    if (cli_model_cache(models, sizeof models)[0])
        snprintf(out, cap, "%s/machine-here.json", file_dir(root, sizeof root, models));
    return out;
}

static kvt_code find_here(kvt_machine *out, kvt_err *err)
{
    char path[1100];
    if (!cli_machine_here(path, sizeof path)[0] || !file_exists(path))
        return kvt_fail(err, KVT_NOTFOUND,
                        "machine 'here': this one was not measured yet (kvt doctor --bench "
                        "does, into %s)",
                        path[0] ? path : "a folder of HOME or XDG_CACHE_HOME: neither is set");
    return kvt_machine_find(out, path, err);
}

/* The fitted profiles are machines of their own, too. */
static kvt_code find_machine(kvt_machine *out, const char *name, kvt_err *err)
{
    const char *const *profile = kvt_cost_profile_names();
    if (strcmp(name, "here") == 0)
        return find_here(out, err);
    for (; *profile; profile++)
        if (strcmp(*profile, name) == 0)
            return kvt_cost_profile_find(out, name, err);
    return kvt_machine_find(out, name, err);
}

static kvt_code default_machine(kvt_machine *out, kvt_err *err)
{
    char path[1100];
    bool measured = cli_machine_here(path, sizeof path)[0] && file_exists(path);
    return find_machine(out, measured ? "here" : "h100-sxm", err);
}

kvt_code cli_cost_machines(kvt_machine out[CLI_MACHINES_MAX], int *n, const char *list,
                           kvt_err *err)
{
    *n = 1;
    if (!list)
        return default_machine(out, err);
    for (*n = 0; *list;) {
        char name[1024];
        size_t len = strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", (int)len, list);
        if (len >= sizeof name || *n == CLI_MACHINES_MAX)
            return kvt_fail(err, KVT_USAGE, "--machine: expected at most %d names or files",
                            CLI_MACHINES_MAX);
        if (find_machine(&out[*n], name, err))
            return err->code;
        for (int i = 0; i < *n; i++)
            if (strcmp(out[i].name, out[*n].name) == 0)
                return kvt_fail(err, KVT_USAGE, "--machine: two of them are named '%s'",
                                out[i].name);
        ++*n;
        list += len + (list[len] == ',');
    }
    return *n > 0 ? KVT_OK
                  : kvt_fail(err, KVT_USAGE, "--machine: expected at least one, got none");
}
