/* cmd_ls.c - kvt ls: traces, results and scorers below a folder. */
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "cli/about.h"
#include "cli/files.h"
#include "cli/table.h"
#include "kvt/arena.h"
#include "kvt/result.h"
#include "kvt/scorer.h"

typedef struct ls_options {
    bool failed;
} ls_options;

/* clang-format off */
static const cli_option options[] = {
    {"failed", 0, CLI_FLAG, CLI_OPT(ls_options, failed),
     .help = "only what failed: cells without a result, and files that cannot be read"},
    {0},
};
/* clang-format on */

typedef struct trace_row {
    char path[1024], trace_id[128], model[96], level[16], digest[KVT_DIGEST_TEXT];
    int64_t layers, prompt_tokens, decode_steps, bytes;
} trace_row;

typedef struct result_row {
    char path[1024], trace_id[128], policy[512];
    int64_t cells, ok, skipped, failed;
    char error[256]; /* of the first failed cell */
} result_row;

typedef struct scorer_row {
    char path[1024], kind[32], model[64], digest[KVT_DIGEST_TEXT];
    int64_t layers, tensors, bytes;
} scorer_row;

typedef struct bad_row {
    char path[1024], error[480];
} bad_row;

static const kvt_column trace_columns[] = {
    KVT_COLUMN(trace_row, path, "", "path of the file"),
    KVT_COLUMN(trace_row, trace_id, "", "name of the trace"),
    KVT_COLUMN(trace_row, model, "", "name of the model"),
    KVT_COLUMN(trace_row, level, "", "capture level"),
    KVT_COLUMN(trace_row, layers, "1", "layers of the trace"),
    KVT_COLUMN(trace_row, prompt_tokens, "tokens", "prompt tokens"),
    KVT_COLUMN(trace_row, decode_steps, "steps", "response tokens"),
    KVT_COLUMN(trace_row, bytes, "bytes", "size of the file"),
    KVT_COLUMN(trace_row, digest, "", "digest of the content"),
    {0},
};

static const kvt_column result_columns[] = {
    KVT_COLUMN(result_row, path, "", "path of the file"),
    KVT_COLUMN(result_row, trace_id, "", "name of the trace"),
    KVT_COLUMN(result_row, policy, "", "policy in canonical form"),
    KVT_COLUMN(result_row, cells, "1", "cells of the pass, one a budget"),
    KVT_COLUMN(result_row, ok, "1", "cells with a result"),
    KVT_COLUMN(result_row, skipped, "1", "cells whose rule is impossible at that budget"),
    KVT_COLUMN(result_row, failed, "1", "cells that failed"),
    KVT_COLUMN(result_row, error, "", "why the first of them failed"),
    {0},
};

static const kvt_column scorer_columns[] = {
    KVT_COLUMN(scorer_row, path, "", "path of the file"),
    KVT_COLUMN(scorer_row, kind, "", "kind of scorer"),
    KVT_COLUMN(scorer_row, model, "", "name of the model it belongs to"),
    KVT_COLUMN(scorer_row, layers, "1", "layers of the model that it scores"),
    KVT_COLUMN(scorer_row, tensors, "1", "tensors"),
    KVT_COLUMN(scorer_row, bytes, "bytes", "size of the file"),
    KVT_COLUMN(scorer_row, digest, "", "digest of the content"),
    {0},
};

static const kvt_column bad_columns[] = {
    KVT_COLUMN(bad_row, path, "", "path of the file"),
    KVT_COLUMN(bad_row, error, "", "why it cannot be read"),
    {0},
};

/* Rows that grow by doubling. */
typedef struct rows {
    void *row;
    int64_t n, cap;
    size_t size;
} rows;

static void *next(rows *r, kvt_err *err)
{
    if (r->n == r->cap) {
        int64_t cap = r->cap ? 2 * r->cap : 16;
        void *more = kvt_resize(r->row, r->cap, cap, r->size);
        if (!more) {
            kvt_fail_memory(err, (size_t)cap * r->size);
            return NULL;
        }
        r->row = more;
        r->cap = cap;
    }
    char *at = (char *)r->row + (size_t)r->n++ * r->size;
    memset(at, 0, r->size);
    return at;
}

typedef struct work {
    rows trace, result, scorer, bad;
    kvt_schema cells, lanes;
} work;

static kvt_code add_bad(work *w, const char *path, const kvt_err *why, kvt_err *err)
{
    bad_row *b = next(&w->bad, err);
    if (!b)
        return err->code;
    snprintf(b->path, sizeof b->path, "%s", path);
    /* The row names the file; the text need not do it again. */
    size_t n = strlen(path);
    bool named =
        why->text[0] == '\'' && !strncmp(why->text + 1, path, n) && why->text[n + 1] == '\'';
    snprintf(b->error, sizeof b->error, "%s", why->text + (named ? n + 4 : 0));
    return KVT_OK;
}

static kvt_code add_trace(work *w, const char *path, kvt_err *err)
{
    kvt_trace *t;
    kvt_err why;
    if (kvt_trace_open(&t, path, 0, &why))
        return add_bad(w, path, &why, err);
    const kvt_trace_info *i = kvt_trace_info_of(t);
    trace_row *r = next(&w->trace, err);
    if (r) {
        snprintf(r->path, sizeof r->path, "%s", path);
        snprintf(r->trace_id, sizeof r->trace_id, "%s", i->name);
        snprintf(r->model, sizeof r->model, "%s", i->facts.model.name);
        snprintf(r->level, sizeof r->level, "%s", kvt_level_name(i->facts.level));
        snprintf(r->digest, sizeof r->digest, "%s", i->digest);
        r->layers = i->n_layer;
        r->prompt_tokens = i->facts.token.n_prompt;
        r->decode_steps = i->facts.token.n_response;
        r->bytes = i->file_bytes;
    }
    kvt_trace_close(t);
    return r ? KVT_OK : err->code;
}

static kvt_code add_result(work *w, const char *path, kvt_err *err)
{
    kvt_result *s;
    kvt_err why;
    if (kvt_result_open(&s, &w->cells, &w->lanes, path, false, &why))
        return add_bad(w, path, &why, err);
    result_row *r = next(&w->result, err);
    if (r) {
        snprintf(r->path, sizeof r->path, "%s", path);
        snprintf(r->trace_id, sizeof r->trace_id, "%s", s->trace_id);
        snprintf(r->policy, sizeof r->policy, "%s", s->policy_text);
        r->cells = s->n_cell;
        for (int i = 0; i < s->n_cell; i++) {
            r->ok += !strcmp(s->cell[i].status, "ok");
            r->skipped += !strcmp(s->cell[i].status, "skipped");
            if (strcmp(s->cell[i].status, "failed"))
                continue;
            if (!r->failed++)
                snprintf(r->error, sizeof r->error, "%s", s->cell[i].error);
        }
    }
    kvt_result_free(s);
    return r ? KVT_OK : err->code;
}

static kvt_code add_scorer(work *w, const char *path, kvt_err *err)
{
    kvt_scorer *s;
    kvt_err why;
    if (kvt_scorer_open(&s, path, &why))
        return add_bad(w, path, &why, err);
    const kvt_scorer_info *i = kvt_scorer_info_of(s);
    scorer_row *r = next(&w->scorer, err);
    if (r) {
        snprintf(r->path, sizeof r->path, "%s", path);
        snprintf(r->kind, sizeof r->kind, "%s", i->kind);
        snprintf(r->model, sizeof r->model, "%s", i->model);
        snprintf(r->digest, sizeof r->digest, "%s", i->digest);
        r->layers = i->n_layer;
        r->tensors = kvt_scorer_count(s);
        r->bytes = file_size(path);
    }
    kvt_scorer_close(s);
    return r ? KVT_OK : err->code;
}

static kvt_code visit(void *user, const char *path, kvt_err *err)
{
    work *w = user;
    if (cli_signal())
        return kvt_fail(err, KVT_STOPPED, "stopped");
    if (kvt_is_result_path(path))
        return add_result(w, path, err);
    return kvt_is_scorer(path) ? add_scorer(w, path, err) : add_trace(w, path, err);
}

/* ---- printing ------------------------------------------------------------------------------
 */

static void keep_failed(work *w)
{
    result_row *r = w->result.row;
    int64_t n = 0;
    for (int64_t i = 0; i < w->result.n; i++)
        if (r[i].failed)
            r[n++] = r[i];
    w->result.n = n;
    w->trace.n = w->scorer.n = 0;
}

static void print_json(const char *name, const rows *r, const kvt_column *columns, bool last)
{
    const kvt_table t = {name, "", columns, r->row, r->n, r->size};
    printf("\"%s\": ", name);
    cli_json_rows(stdout, &t);
    fputs(last ? "}\n" : ",\n", stdout);
}

static kvt_code print_traces(cli *c, const work *w, kvt_err *err)
{
    static const char *const head[] = {"TRACE",    "MODEL", "LEVEL",  "LAYERS", "PROMPT",
                                       "RESPONSE", "SIZE",  "DIGEST", "FILE",   NULL};
    static const cli_align align[] = {CLI_LEFT,  CLI_LEFT,  CLI_LEFT, CLI_RIGHT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_RIGHT, CLI_LEFT, CLI_LEFT};
    cli_table *t = cli_table_new(c, head, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, 4096);
    for (int64_t i = 0; i < w->trace.n && !code; i++) {
        const trace_row *r = (const trace_row *)w->trace.row + i;
        char layers[24], prompt[24], response[24], size[32], digest[9];
        snprintf(layers, sizeof layers, "%lld", (long long)r->layers);
        snprintf(prompt, sizeof prompt, "%lld", (long long)r->prompt_tokens);
        snprintf(response, sizeof response, "%lld", (long long)r->decode_steps);
        snprintf(digest, sizeof digest, "%.8s", r->digest);
        code = cli_table_row(t,
                             (const char *const[]){r->trace_id, r->model, r->level, layers,
                                                   prompt, response,
                                                   size_print(r->bytes, size, sizeof size),
                                                   digest, r->path, NULL},
                             err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static kvt_code print_results(cli *c, const work *w, kvt_err *err)
{
    static const char *const head[] = {"TRACE",   "POLICY", "CELLS", "OK",
                                       "SKIPPED", "FAILED", "WHY",   NULL};
    static const cli_align align[] = {CLI_LEFT,  CLI_LEFT,  CLI_RIGHT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_RIGHT, CLI_LEFT};
    cli_table *t = cli_table_new(c, head, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, 4096);
    for (int64_t i = 0; i < w->result.n && !code; i++) {
        const result_row *r = (const result_row *)w->result.row + i;
        const int64_t n[] = {r->cells, r->ok, r->skipped, r->failed};
        char text[4][24];
        for (int k = 0; k < 4; k++)
            snprintf(text[k], sizeof text[k], "%lld", (long long)n[k]);
        code = cli_table_row(t,
                             (const char *const[]){r->trace_id, r->policy, text[0], text[1],
                                                   text[2], text[3], r->error, NULL},
                             err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static kvt_code print_scorers(cli *c, const work *w, kvt_err *err)
{
    static const char *const head[] = {"SCORER", "MODEL", "LAYERS", "SIZE",
                                       "DIGEST", "FILE",  NULL};
    static const cli_align align[] = {CLI_LEFT,  CLI_LEFT, CLI_RIGHT,
                                      CLI_RIGHT, CLI_LEFT, CLI_LEFT};
    cli_table *t = cli_table_new(c, head, align);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, 4096);
    for (int64_t i = 0; i < w->scorer.n && !code; i++) {
        const scorer_row *r = (const scorer_row *)w->scorer.row + i;
        char layers[24], size[32], digest[9];
        snprintf(layers, sizeof layers, "%lld", (long long)r->layers);
        snprintf(digest, sizeof digest, "%.8s", r->digest);
        code = cli_table_row(t,
                             (const char *const[]){r->kind, r->model, layers,
                                                   size_print(r->bytes, size, sizeof size),
                                                   digest, r->path, NULL},
                             err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static kvt_code print_bad(cli *c, const work *w, kvt_err *err)
{
    static const char *const head[] = {"CANNOT BE READ", "WHY", NULL};
    cli_table *t = cli_table_new(c, head, NULL);
    kvt_code code = t ? KVT_OK : kvt_fail_memory(err, 4096);
    for (int64_t i = 0; i < w->bad.n && !code; i++) {
        const bad_row *b = (const bad_row *)w->bad.row + i;
        code = cli_table_row(t, (const char *const[]){b->path, b->error, NULL}, err);
    }
    if (!code)
        code = cli_table_print(t, stdout, err);
    cli_table_free(t);
    return code;
}

static kvt_code print_all(cli *c, const work *w, bool failed, kvt_err *err)
{
    if (c->json) {
        fputs("{\"schema\": \"kvt-ls-1\",\n", stdout);
        print_json("traces", &w->trace, trace_columns, false);
        print_json("results", &w->result, result_columns, false);
        print_json("scorers", &w->scorer, scorer_columns, false);
        print_json("unreadable", &w->bad, bad_columns, true);
        return KVT_OK;
    }
    if (w->trace.n && print_traces(c, w, err))
        return err->code;
    if (w->result.n) {
        fputs(w->trace.n ? "\n" : "", stdout);
        if (print_results(c, w, err))
            return err->code;
    }
    if (w->scorer.n) {
        fputs(w->trace.n || w->result.n ? "\n" : "", stdout);
        if (print_scorers(c, w, err))
            return err->code;
    }
    if (failed && w->bad.n) {
        fputs(w->result.n ? "\n" : "", stdout);
        return print_bad(c, w, err);
    }
    if (w->bad.n)
        cli_warn(c, "%lld files cannot be read (kvt ls --failed says why)",
                 (long long)w->bad.n);
    return KVT_OK;
}

static kvt_code run(cli *c, const void *parsed, int n_arg, char **arg, kvt_err *err)
{
    const ls_options *o = parsed;
    work *w = kvt_alloc(1, sizeof *w);
    if (!w)
        return kvt_fail_memory(err, sizeof *w);
    w->trace.size = sizeof(trace_row);
    w->result.size = sizeof(result_row);
    w->scorer.size = sizeof(scorer_row);
    w->bad.size = sizeof(bad_row);
    kvt_cell_schema(&w->cells);
    kvt_lane_schema(&w->lanes);
    kvt_code code = n_arg ? KVT_OK : cli_files(".", visit, w, err);
    for (int i = 0; i < n_arg && !code; i++)
        code = cli_files(arg[i], visit, w, err);
    if (!code && o->failed)
        keep_failed(w);
    if (!code)
        code = print_all(c, w, o->failed, err);
    kvt_free(w->trace.row);
    kvt_free(w->result.row);
    kvt_free(w->scorer.row);
    kvt_free(w->bad.row);
    kvt_free(w);
    return code;
}

const cli_command cli_command_ls = {
    .name = "ls",
    .group = "traces",
    .line = "list traces, results and scorers below a folder",
    .usage = "[OPTIONS] [DIR|FILE...]",
    .about =
        "Lists every trace, result and scorer file (*.h5) below the folders, this one where "
        "none is "
        "named. --failed lists what a run left undone: cells that failed and files that "
        "cannot be "
        "read.",
    .options = options,
    .options_size = sizeof(ls_options),
    .examples = {"kvt ls", "kvt ls traces kvt-results", "kvt ls kvt-results --failed",
                 "kvt ls --json | jq -r '.traces[].path'"},
    .min_args = 0,
    .max_args = -1,
    .complete = "file",
    .run = run,
};
