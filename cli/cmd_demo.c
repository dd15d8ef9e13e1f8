/* cmd_demo.c - kvt demo: the sample traces, every policy, six budgets. No model, no files. */
#include <string.h>

#include "base/file.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/replay_table.h"
#include "cli/table.h"
#include "kvt/analyze.h"
#include "kvt/arena.h"
#include "kvt/replay.h"

enum { SAMPLES_MAX = 64, PATH_BYTES = 1024 };
static const char budgets[] = "5%,10%,20%,30%,40%,60%";

typedef struct samples {
    char folder[PATH_BYTES], path[SAMPLES_MAX][PATH_BYTES];
    const char *name[SAMPLES_MAX]; /* the paths, as kvt_replay() wants them */
    int n;
    char weights[PATH_BYTES]; /* a scorer of the same model */
} samples;

static bool is_trace_name(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && !strcmp(name + n - 3, ".h5") && !kvt_is_result_path(name);
}

static kvt_code add_sample(void *user, const char *name, kvt_err *err)
{
    samples *s = user;
    if (!is_trace_name(name) || s->n == SAMPLES_MAX)
        return KVT_OK;
    if (file_join(s->path[s->n], PATH_BYTES, s->folder, name, err))
        return err->code;
    s->name[s->n] = s->path[s->n];
    s->n++;
    return KVT_OK;
}

/* The installed samples, else those of the source tree that this program was built from. */
static kvt_code find_samples(samples *s, kvt_err *err)
{
    const char *roots[] = {version_install_prefix(), version_source_dir()};
    static const char *const below[] = {"share/kvt/samples", "traces/samples"};

    for (int i = 0; i < 2; i++) {
        if (file_join(s->folder, PATH_BYTES, roots[i], below[i], err))
            return err->code;
        if (!file_is_dir(s->folder))
            continue;
        if (file_list(s->folder, add_sample, s, err))
            return err->code;
        if (s->n)
            return KVT_OK;
    }
    return kvt_fail(err, KVT_NOTFOUND, "no sample traces in %s/%s nor %s/%s", roots[0],
                    below[0], roots[1], below[1]);
}

static kvt_code print_json(cli *c, const kvt_results *results, kvt_err *err)
{
    kvt_report *curve = NULL;
    if (kvt_report_make(&curve, "curve", results, NULL, &c->ctx, err))
        return err->code;
    printf("{\"schema\": \"kvt-demo-1\", \"rows\": ");
    cli_json_rows(stdout, kvt_report_table(curve));
    printf("}\n");
    kvt_report_free(curve);
    return KVT_OK;
}

static kvt_code print_table(cli *c, const samples *s, const kvt_results *results, kvt_err *err)
{
    printf("%d traces of %s\n\n", s->n, s->folder);
    if (cli_replay_table(c, results, err))
        return err->code;
    printf("\nnext: kvt tui %s\n", s->path[0]);
    printf("      kvt replay %s -p snapkv:window=16,tova -b 5%%..50%%x2 --out results\n",
           s->path[0]);
    printf("      kvt policy list\n");
    return KVT_OK;
}

static kvt_code run(cli *c, const void *options, int n_arg, char **arg, kvt_err *err)
{
    samples *s = kvt_alloc(1, sizeof *s);
    kvt_results *results = NULL;
    kvt_replay_counts counts = {0};

    (void)options;
    (void)n_arg;
    (void)arg;
    if (!s)
        return kvt_fail_memory(err, sizeof *s);
    kvt_code code = find_samples(s, err);
    if (!code)
        code = file_join(s->weights, PATH_BYTES, s->folder, "learned/kvpop-mlp.h5", err);
    if (!code) {
        const char *weights = s->weights;
        kvt_replay_spec spec = {.trace = s->name,
                                .n_trace = s->n,
                                .policies = "all",
                                .budgets = budgets,
                                .weights = &weights,
                                .n_weights = file_exists(weights),
                                .out_dir = ""};
        code = kvt_replay(&results, &counts, &spec, &c->ctx, err);
    }
    if (!code)
        code = c->json ? print_json(c, results, err) : print_table(c, s, results, err);
    kvt_results_free(results);
    kvt_free(s);
    return code;
}

const cli_command cli_command_demo = {
    .name = "demo",
    .group = "start",
    .line = "replay the sample traces, print the table, say what to try next",
    .usage = "[OPTIONS]",
    .about =
        "Replays every policy at six budgets on the traces that come with kvt: small real "
        "recordings of a language model. Needs no model, takes seconds and writes no files.",
    .options_size = 0,
    .examples = {"kvt demo",
                 "kvt demo --json | jq -r '.rows[] | [.policy, .lost_mass_mean_frac] | @tsv'"},
    .run = run,
};
