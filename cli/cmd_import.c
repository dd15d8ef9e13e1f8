/* cmd_import.c - kvt import: a trace, scores or a scorer from arrays saved by another program.
 */
#include "cli/about.h"
#include "cli/cli.h"
#include "kvt/scorer.h"

typedef struct import_options {
    const char *out;
    bool scores, scorer, force;
} import_options;

/* clang-format off */
static const cli_option options[] = {
    {"output", 'o', CLI_TEXT, CLI_OPT(import_options, out), .arg = "FILE", .complete = "file",
     .help = "file to write"},
    {"scores", 0, CLI_FLAG, CLI_OPT(import_options, scores),
     .help = "the manifest names scores for one trace, to be replayed with -p scores:file=FILE"},
    {"scorer", 0, CLI_FLAG, CLI_OPT(import_options, scorer),
     .help = "the manifest names learned weights, for policies with weights=FILE"},
    {"force", 0, CLI_FLAG, CLI_OPT(import_options, force), .help = "replace a file of that name"},
    {0},
};
/* clang-format on */

/* The digest of what was written. */
static kvt_code written(const import_options *o, char digest[KVT_DIGEST_TEXT], kvt_err *err)
{
    kvt_trace *t;
    kvt_scores *s;
    kvt_scorer *w;
    if (o->scorer) {
        if (kvt_scorer_open(&w, o->out, err))
            return err->code;
        snprintf(digest, KVT_DIGEST_TEXT, "%s", kvt_scorer_info_of(w)->digest);
        kvt_scorer_close(w);
        return KVT_OK;
    }
    if (o->scores) {
        if (kvt_scores_open(&s, o->out, err))
            return err->code;
        snprintf(digest, KVT_DIGEST_TEXT, "%s", s->digest);
        kvt_scores_close(s);
        return KVT_OK;
    }
    if (kvt_trace_open(&t, o->out, 0, err))
        return err->code;
    snprintf(digest, KVT_DIGEST_TEXT, "%s", kvt_trace_info_of(t)->digest);
    kvt_trace_close(t);
    return KVT_OK;
}

static kvt_code run(cli *c, const void *parsed, int n_arg, char **arg, kvt_err *err)
{
    const import_options *o = parsed;
    char digest[KVT_DIGEST_TEXT];
    (void)n_arg;

    if (!o->out)
        return kvt_fail(err, KVT_USAGE, "import needs -o FILE");
    if (o->scores && o->scorer)
        return kvt_fail(err, KVT_USAGE, "--scores and --scorer are two kinds of file");
    const char *kind = o->scores ? "scores" : o->scorer ? "scorer" : "trace";
    kvt_code code = o->scores   ? kvt_scores_import(arg[0], o->out, o->force, err)
                    : o->scorer ? kvt_scorer_import(arg[0], o->out, o->force, err)
                                : kvt_trace_import(arg[0], o->out, o->force, err);
    if (code || written(o, digest, err))
        return err->code;
    if (!c->json) {
        cli_note(c, "wrote %s (%s%s, digest %.8s)", o->out, o->scores ? "" : "a ", kind,
                 digest);
        return KVT_OK;
    }
    json_t *top = json_object();
    json_object_set_new(top, "schema", json_string("kvt-import-1"));
    json_object_set_new(top, "kind", json_string(kind));
    json_object_set_new(top, "path", json_string(o->out));
    json_object_set_new(top, "digest", json_string(digest));
    return cli_json_print(top, err);
}

const cli_command cli_command_import = {
    .name = "import",
    .group = "traces",
    .line = "build a trace, scores or a scorer from another program's arrays",
    .usage = "[OPTIONS] MANIFEST.json -o FILE",
    .about = "The manifest names a file for each dataset: NAME.npy, or FILE.h5:/PATH, beside "
             "it. What "
             "follows from the rest (sizes, positions, block borders) is filled in; what would "
             "have to be "
             "measured is not. docs/trace-format.md lists datasets and attributes and shows a "
             "program "
             "that writes them; docs/scorer-format.md does the same for learned weights "
             "(--scorer).",
    .options = options,
    .options_size = sizeof(import_options),
    .examples = {"kvt import run7/manifest.json -o run7.h5",
                 "kvt import --scores mine.json -o mine.h5 && kvt replay run7.h5 -p "
                 "scores:file=mine.h5"},
    .min_args = 1,
    .max_args = 1,
    .complete = "file",
    .run = run,
};
