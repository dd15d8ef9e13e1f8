/* cmd_verify.c - kvt verify: schema, checksums and invariants of traces, results and scorers.
 */
#include <string.h>

#include "base/text.h"
#include "cli/about.h"
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/info_adapter.h"
#include "kvt/result.h"
#include "kvt/scorer.h"

typedef struct work {
    cli *c;
    json_t *files, *findings; /* of --json; findings: of the file at hand */
    const char *path;
    int64_t n_file, n_bad;
} work;

static void show(work *w, bool ok, const char *check, const char *text)
{
    char safe[1024];
    text_safe_cut(safe, sizeof safe, (const uint8_t *)text, strlen(text), 400, !cli_utf8(w->c));
    if (w->findings) {
        json_t *f = json_object();
        json_object_set_new(f, "ok", json_boolean(ok));
        json_object_set_new(f, "check", json_string(check));
        json_object_set_new(f, "text", json_string(safe));
        json_array_append_new(w->findings, f);
        return;
    }
    if (!ok || !w->c->quiet)
        printf("  %-6s  %-8s  %s\n", ok ? "ok" : "FAILED", check, safe);
}

static void finding(void *user, const kvt_finding *f)
{
    show(user, f->ok, f->check, f->text);
}

static kvt_code check_trace(work *w, kvt_err *err)
{
    kvt_trace *t;
    kvt_code code = kvt_trace_open(&t, w->path, 0, err);
    if (code) {
        if (code == KVT_FORMAT)
            show(w, false, "schema", err->text);
        return code;
    }
    const kvt_trace_info *i = kvt_trace_info_of(t);
    char text[200];
    snprintf(text, sizeof text,
             "format kvt-trace %d.%d, level %s, %d layers, %lld + %lld tokens", i->version[0],
             i->version[1], kvt_level_name(i->facts.level), i->n_layer,
             (long long)i->facts.token.n_prompt, (long long)i->facts.token.n_response);
    show(w, true, "schema", text);
    code = kvt_trace_check(t, finding, w, err);
    kvt_trace_close(t);
    return code;
}

static kvt_code check_result(work *w, kvt_err *err)
{
    kvt_schema cells = {0}, lanes = {0};
    kvt_result *r;
    kvt_cell_schema(&cells);
    kvt_lane_schema(&lanes);
    kvt_code code = kvt_result_open(&r, &cells, &lanes, w->path, true, err);
    if (code) {
        if (code == KVT_FORMAT)
            show(w, false, "schema", err->text);
        return code;
    }
    char text[600];
    snprintf(text, sizeof text, "format kvt-results, %d cells of %.400s", r->n_cell,
             r->policy_text);
    show(w, true, "schema", text);
    show(w, true, "checksum", "every array has the checksum that was stored");
    kvt_result_free(r);
    return KVT_OK;
}

static kvt_code check_scorer(work *w, kvt_err *err)
{
    kvt_scorer *s;
    kvt_code code = kvt_scorer_open(&s, w->path, err);
    if (code) {
        if (code == KVT_FORMAT)
            show(w, false, "schema", err->text);
        return code;
    }
    const kvt_scorer_info *i = kvt_scorer_info_of(s);
    char text[200];
    snprintf(text, sizeof text, "format kvt-scorer, kind %s, %d layers, %d tensors", i->kind,
             i->n_layer, kvt_scorer_count(s));
    show(w, true, "schema", text);
    show(w, true, "checksum",
         "every tensor has the checksum that was stored, and finite values");
    show(w, true, "digest", i->digest);
    kvt_scorer_close(s);
    return KVT_OK;
}

static kvt_code check_adapter(work *w, kvt_err *err)
{
    char text[200];
    kvt_code code = cli_check_adapter(w->path, text, sizeof text, err);
    if (code) {
        if (code == KVT_FORMAT)
            show(w, false, "finite", err->text);
        return code;
    }
    show(w, true, "schema", text);
    show(w, true, "finite", "every tensor holds finite values");
    return KVT_OK;
}

static kvt_code check(work *w, kvt_err *err)
{
    if (kvt_is_result_path(w->path))
        return check_result(w, err);
    if (cli_is_adapter(w->path))
        return check_adapter(w, err);
    return kvt_is_scorer(w->path) ? check_scorer(w, err) : check_trace(w, err);
}

static kvt_code visit(void *user, const char *path, kvt_err *err)
{
    work *w = user;
    char safe[1024];
    if (cli_signal())
        return kvt_fail(err, KVT_STOPPED, "stopped");
    w->path = path;
    w->n_file++;
    text_safe_cut(safe, sizeof safe, (const uint8_t *)path, strlen(path), 400, !cli_utf8(w->c));
    if (w->files)
        w->findings = json_array();
    else if (!w->c->quiet)
        printf("%s\n", safe);
    kvt_code code = check(w, err);
    bool bad = code == KVT_NO || code == KVT_FORMAT;
    w->n_bad += bad;
    if (w->files) {
        json_t *f = json_object();
        json_object_set_new(f, "path", json_string(safe));
        json_object_set_new(f, "ok", json_boolean(!code));
        json_object_set_new(f, "findings", w->findings);
        json_array_append_new(w->files, f);
        w->findings = NULL;
    }
    /* A file with faults is an answer, and the others are still looked at. */
    return bad ? KVT_OK : code;
}

static kvt_code run(cli *c, const void *parsed, int n_arg, char **arg, kvt_err *err)
{
    (void)parsed;
    work w = {.c = c, .files = c->json ? json_array() : NULL};
    kvt_code code = KVT_OK;
    for (int i = 0; i < n_arg && !code; i++)
        code = cli_files(arg[i], visit, &w, err);
    if (!code && w.n_file == 0)
        code = kvt_fail(err, KVT_NOTFOUND, "'%s': no trace and no result below it", arg[0]);
    if (code) {
        json_decref(w.files);
        return code;
    }
    if (w.files) {
        json_t *top = json_object();
        json_object_set_new(top, "schema", json_string("kvt-verify-1"));
        json_object_set_new(top, "ok", json_boolean(w.n_bad == 0));
        json_object_set_new(top, "files", w.files);
        if (cli_json_print(top, err))
            return err->code;
    }
    if (w.n_bad)
        return kvt_fail(err, KVT_NO, "%lld of %lld files have faults", (long long)w.n_bad,
                        (long long)w.n_file);
    return KVT_OK;
}

const cli_command cli_command_verify = {
    .name = "verify",
    .group = "traces",
    .line = "check traces, results and learned files: schema, sums, invariants",
    .usage = "[OPTIONS] FILE|DIR...",
    .about =
        "Reads every byte of a trace: types, axes and indices, the checksum of each layer, the "
        "digest of the content, and what the numbers must satisfy (rows sum to 1, column sums "
        "to "
        "the number of queries, stored rows give the recorded future attention, and so on), "
        "each "
        "with its tolerance. Probes are checked like the rest: digest, log-sum-exp of their "
        "rows, "
        "sets that were kept. Exit status 3: a file has faults.",
    .options_size = 0,
    .examples = {"kvt verify a.h5", "kvt verify traces/ && echo whole",
                 "kvt verify a.h5 --json | jq .ok"},
    .min_args = 1,
    .max_args = -1,
    .complete = "trace",
    .run = run,
};
