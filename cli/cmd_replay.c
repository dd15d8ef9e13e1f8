/* cmd_replay.c - kvt replay: policies x budgets x traces, offline. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/size.h"
#include "cli/cli.h"
#include "cli/cost_run.h"
#include "cli/replay_table.h"
#include "cli/table.h"
#include "kvt/analyze.h"
#include "kvt/replay.h"

typedef struct replay_options {
    cli_list policy, budget, plugin, weights, metric;
    const char *rule, *layers, *oracle, *shard, *out, *csv, *tables, *geometry, *machine;
    int act, fair;
    int64_t shrink_every, cache, oracle_limit;
    bool recompute, fail_fast, plan, no_output_error, no_controls;
} replay_options;

static const char *const acts[] = {"own", "prefill", "decode", NULL};
static const char *const fairs[] = {"tokens", "bytes", NULL};

/* clang-format off */
static const cli_option options[] = {
    {"policy", 'p', CLI_LIST, CLI_OPT(replay_options, policy), .arg = "NAME[:k=v,...]", .complete = "policy",
     .help = "policies, a comma list or repeated; all: every one that a trace can answer (default)"},
    {"budget", 'b', CLI_LIST, CLI_OPT(replay_options, budget), .arg = "LIST",
     .help = "slots a lane may hold: 256, 10% of the prompt (kept), 64MiB of the model, 5%..40%x2; default 5%..50%x2"},
    {"budget-rule", 0, CLI_TEXT, CLI_OPT(replay_options, rule), .arg = "RULE", .def = "floor_exact",
     .help = "how a fraction becomes slots: floor_exact, floor_ieee, floor_min1, round_half_even, ceil, abs"},
    {"fair", 0, CLI_CHOICE, CLI_OPT(replay_options, fair), .arg = "HOW", .def = "tokens", .choices = fairs,
     .help = "tokens: a budget is slots of a lane; bytes: what those slots take of a kv head, so that sets per query head and state beside slots get fewer"},
    {"weights", 0, CLI_LIST, CLI_OPT(replay_options, weights), .arg = "FILE", .complete = "file",
     .help = "learned weights (kvt train) for every policy of their kind, which -p all then holds"},
    {"act", 0, CLI_CHOICE, CLI_OPT(replay_options, act), .arg = "WHEN", .def = "own", .choices = acts,
     .help = "when policies decide that can do both: own (their habit), prefill, decode"},
    {"oracle", 0, CLI_TEXT, CLI_OPT(replay_options, oracle), .arg = "NAME", .def = "oracle",
     .help = "the bound in the table: oracle, oracle-max, oracle-step, or none; oracle-assign is beside it where a policy acts in decode, unless none"},
    {"oracle-limit", 0, CLI_SIZE, CLI_OPT(replay_options, oracle_limit), .arg = "SIZE", .def = "256MiB",
     .help = "memory of a thread for the best schedule of a lane (oracle-assign, regret in decode); above it greedy stands in"},
    {"layers", 0, CLI_TEXT, CLI_OPT(replay_options, layers), .arg = "LIST", .help = "layers of the model, such as 0-3,29"},
    {"shrink-every", 0, CLI_INT, CLI_OPT(replay_options, shrink_every), .arg = "K", .def = "0", .min = 0, .max = 1e9,
     .help = "in decode, decide every K steps (0: each policy's own)"},
    {"no-controls", 0, CLI_FLAG, CLI_OPT(replay_options, no_controls), .help = "leave full, random, position and the oracle out"},
    {"no-output-error", 0, CLI_FLAG, CLI_OPT(replay_options, no_output_error),
     .help = "leave the error of the attention output out, which costs most"},
    {"metrics", 0, CLI_LIST, CLI_OPT(replay_options, metric), .arg = "NAME,...", .complete = "metric",
     .help = "measure these, too, which cost time: names (kvt help --doc metrics), or all"},
    {"plugin", 0, CLI_LIST, CLI_OPT(replay_options, plugin), .arg = "FILE.so", .complete = "file",
     .help = "load policies from a shared object (kvt policy new writes a template)"},
    {"out", 'o', CLI_TEXT, CLI_OPT(replay_options, out), .arg = "DIR", .complete = "file",
     .help = "folder of result files (default kvt-results beside the first trace)"},
    {"csv", 0, CLI_TEXT, CLI_OPT(replay_options, csv), .arg = "DIR", .complete = "file", .help = "write tables as CSV into DIR, too"},
    {"table", 0, CLI_TEXT, CLI_OPT(replay_options, tables), .arg = "LIST",
     .help = "which tables --csv writes: cells, lanes, steps, evictions, audit, curve (default cells,curve,audit)"},
    {"geometry", 0, CLI_TEXT, CLI_OPT(replay_options, geometry), .arg = "NAME", .complete = "geometry",
     .help = "predict what each cell costs on this model (kvt cost), below the table and as cost.csv; default with --machine: the model of each trace"},
    {"machine", 0, CLI_TEXT, CLI_OPT(replay_options, machine), .arg = "LIST", .complete = "machine",
     .help = "and on these machines; default with --geometry: here where it was measured, else h100-sxm"},
    {"recompute", 0, CLI_FLAG, CLI_OPT(replay_options, recompute), .help = "compute cells again that have a result"},
    {"fail-fast", 0, CLI_FLAG, CLI_OPT(replay_options, fail_fast), .help = "stop at the first trace or pass that fails"},
    {"shard", 0, CLI_TEXT, CLI_OPT(replay_options, shard), .arg = "K/N", .help = "only the K-th of N parts of the passes"},
    {"cache", 0, CLI_SIZE, CLI_OPT(replay_options, cache), .arg = "SIZE", .def = "128MiB", .help = "memory for what is read of a trace; a layer is read once, so that more is seldom of use"},
    {"plan", 'n', CLI_FLAG, CLI_OPT(replay_options, plan), .help = "count passes, cells and bytes, then stop"},
    {0},
};
/* clang-format on */

static kvt_code parse_shard(kvt_replay_spec *spec, const char *text, kvt_err *err)
{
    int k = 0, n = 0, end = 0;
    if (text == NULL)
        return KVT_OK;
    if (sscanf(text, "%d/%d%n", &k, &n, &end) != 2 || text[end] != '\0' || k < 1 || n < 1 ||
        k > n)
        return kvt_fail(err, KVT_USAGE, "--shard: expected K/N with 1 <= K <= N, got '%s'",
                        text);
    spec->shard = k;
    spec->n_shard = n;
    return KVT_OK;
}

/* A member of text, which may come from a plug-in. */
static void print_member(const char *name, const char *text)
{
    buf quoted;
    buf_init(&quoted, 1 << 16);
    json_quote(&quoted, text, strlen(text));
    printf(", \"%s\": %s", name, buf_get(&quoted));
    buf_fini(&quoted);
}

static void print_json(const cli *c, const kvt_table *cells, const cost_request *costs,
                       const kvt_replay_counts *n, const char *code)
{
    printf("{\"schema\": \"kvt-replay-1\",\n \"rows\": ");
    cli_json_rows(stdout, cells);
    if (costs) {
        const kvt_table table = kvt_cost_table_of(&costs->table);
        printf(",\n \"costs\": ");
        cli_json_rows(stdout, &table);
    }
    printf(",\n \"run\": {\"code\": \"%s\"", code);
    print_member("command", c->command_line);
    printf(", \"threads\": %d, \"traces\": %lld, \"passes\": %lld, \"cells\": %lld, "
           "\"computed\": %lld, \"reused\": %lld, \"skipped\": %lld, \"failed\": %lld, "
           "\"decisions\": %lld, \"read_s\": %.6f, \"rank_s\": %.6f, \"judge_s\": %.6f, "
           "\"write_s\": %.6f",
           kvt_threads(&c->ctx), (long long)n->n_trace, (long long)n->n_pass,
           (long long)n->n_cell, (long long)n->computed, (long long)n->reused,
           (long long)n->skipped, (long long)n->failed, (long long)n->decisions, n->read_s,
           n->rank_s, n->judge_s, n->write_s);
    print_member("left_out", n->left_out);
    print_member("no_file", n->no_file);
    print_member("no_trace", n->no_trace);
    printf("}}\n");
}

static void print_left_out(const kvt_replay_counts *counts)
{
    if (counts->left_out[0])
        printf("left out  without a probe of their kind in these traces (kvt capture "
               "--probe): %s\n",
               counts->left_out);
    if (counts->no_file[0])
        printf("left out  without the file that they read (--weights FILE, see kvt train "
               "list; scores:file=FILE): %s\n",
               counts->no_file);
    if (counts->no_trace[0])
        printf("left out  not replayable from any trace: %s\n", counts->no_trace);
}

/* The table and, where they were asked for, the costs below it. */
static kvt_code print_tables(cli *c, const kvt_results *results, const cost_request *costs,
                             const kvt_replay_counts *counts, kvt_err *err)
{
    static const cli_cost_view view = {.profile = KVT_PROFILE_FUSED, .brief = true};
    if (cli_replay_table(c, results, err))
        return err->code;
    print_left_out(counts);
    if (!costs)
        return KVT_OK;
    printf("\n");
    return cli_cost_table(c, &costs->table, &view, err);
}

static kvt_code print_results(cli *c, const replay_options *o, kvt_results *results,
                              cost_request *costs, const kvt_replay_counts *counts,
                              kvt_code outcome, kvt_err *err)
{
    kvt_code code = costs ? cost_of_replay(c, costs, results, err) : KVT_OK;
    if (code == KVT_OK && c->json) {
        kvt_report *cells;
        code = kvt_report_make(&cells, "cells", results, NULL, &c->ctx, err);
        if (code != KVT_OK)
            return code;
        print_json(c, kvt_report_table(cells), costs, counts, kvt_code_name(outcome));
        kvt_report_free(cells);
    } else if (code == KVT_OK) {
        code = print_tables(c, results, costs, counts, err);
    }
    if (code == KVT_OK && o->csv != NULL)
        code = cli_write_csv(c, results, &(cli_csv_request){.dir = o->csv, .tables = o->tables},
                             err);
    if (code == KVT_OK && o->csv != NULL && costs != NULL && strcmp(o->csv, "-") != 0) {
        const kvt_table table = kvt_cost_table_of(&costs->table);
        code = cli_cost_csv(c, &table, o->csv, err);
    }
    if (fflush(stdout) != 0 && code == KVT_OK)
        code = kvt_fail(err, KVT_IO, "standard output could not be written");
    if (code == KVT_OK)
        cli_note(c, "done: %lld cells computed, %lld reused, %lld skipped, %lld failed",
                 (long long)counts->computed, (long long)counts->reused,
                 (long long)counts->skipped, (long long)counts->failed);
    return code;
}

/* What predictions need is read before the replay takes its time. NULL: none were asked for. */
static kvt_code open_costs(cli *c, cost_request **out, const replay_options *o, kvt_err *err)
{
    *out = NULL;
    if (!o->geometry && !o->machine)
        return KVT_OK;
    return cost_open(out, err) ? err->code
                               : cost_read_models(c, *out, o->geometry, NULL, o->machine, err);
}

static kvt_code print_plan(cli *c, const kvt_replay_spec *spec, kvt_err *err)
{
    kvt_replay_counts n = {0};
    char size[32];
    kvt_code code = kvt_replay_plan(&n, spec, &c->ctx, err);
    if (code != KVT_OK)
        return code;
    if (c->json)
        printf("{\"schema\": \"kvt-replay-plan-1\", \"traces\": %lld, \"passes\": %lld, "
               "\"cells\": %lld, "
               "\"reused\": %lld, \"bytes\": %lld}\n",
               (long long)n.n_trace, (long long)n.n_pass, (long long)n.n_cell,
               (long long)n.reused, (long long)n.bytes_planned);
    else
        printf("plan  %lld traces, %lld passes, %lld cells, %lld already done, about %s of "
               "results\n",
               (long long)n.n_trace, (long long)n.n_pass, (long long)n.n_cell,
               (long long)n.reused, size_print(n.bytes_planned, size, sizeof size));
    return KVT_OK;
}

static kvt_code run(cli *c, const void *options_, int n_arg, char **arg, kvt_err *err)
{
    const replay_options *o = options_;
    buf policies, budgets, metrics;
    kvt_code code = cli_join(&policies, &o->policy, err);
    buf_init(&budgets, 1);
    buf_init(&metrics, 1);
    if (code == KVT_OK)
        code = cli_join(&budgets, &o->budget, err);
    if (code == KVT_OK)
        code = cli_join(&metrics, &o->metric, err);
    kvt_replay_spec spec = {
        .trace = (const char *const *)arg,
        .n_trace = n_arg,
        .policies = o->policy.n > 0 ? buf_get(&policies) : NULL,
        .budgets = o->budget.n > 0 ? buf_get(&budgets) : NULL,
        .plugin = o->plugin.item,
        .n_plugin = o->plugin.n,
        .weights = o->weights.item,
        .n_weights = o->weights.n,
        .fair = (enum kvt_fair)o->fair,
        .act = (kvt_act)o->act,
        .layers = o->layers,
        .shrink_every = o->shrink_every,
        .oracle = o->oracle,
        .no_controls = o->no_controls,
        .out_dir = o->out,
        .recompute = o->recompute,
        .fail_fast = o->fail_fast,
        .keep_arrays = o->csv != NULL && o->tables != NULL,
        .no_output_error = o->no_output_error,
        .metrics = o->metric.n > 0 ? buf_get(&metrics) : NULL,
        .cache_bytes = (size_t)o->cache,
        .oracle_limit = (size_t)o->oracle_limit,
    };
    kvt_results *results = NULL;
    kvt_replay_counts counts = {0};
    cost_request *costs = NULL;
    if (code == KVT_OK && o->tables != NULL && o->csv == NULL)
        code = kvt_fail(err, KVT_USAGE, "--table needs --csv DIR");
    if (code == KVT_OK)
        code = cli_check_tables(o->tables, err);
    if (code == KVT_OK)
        code = kvt_rule_parse(&spec.rule, o->rule, err);
    if (code == KVT_OK)
        code = parse_shard(&spec, o->shard, err);
    if (code == KVT_OK)
        code = open_costs(c, &costs, o, err);
    if (code == KVT_OK && o->plan) {
        code = print_plan(c, &spec, err);
        goto out;
    }
    if (code == KVT_OK)
        code = kvt_replay(&results, &counts, &spec, &c->ctx, err);
    if (code == KVT_STOPPED)
        kvt_fail(err, code, "stopped: %lld cells are done and kept; the same command goes on",
                 (long long)(counts.computed + counts.reused));
    if (results != NULL && results->n > 0) {
        /* What was computed is shown; the outcome of the replay stays the outcome of the verb.
         */
        kvt_err print_err;
        kvt_code printed = print_results(c, o, results, costs, &counts, code, &print_err);
        if (code == KVT_OK && printed != KVT_OK) {
            *err = print_err;
            code = printed;
        }
    }

out:
    cost_close(costs);
    kvt_results_free(results);
    buf_fini(&policies);
    buf_fini(&budgets);
    buf_fini(&metrics);
    return code;
}

const cli_command cli_command_replay = {
    .name = "replay",
    .group = "replay",
    .line = "policies x budgets x traces",
    .usage = "[OPTIONS] TRACE...",
    .about =
        "Replays eviction policies on recorded traces and measures what each kept set "
        "lost. Controls (full, "
        "random with three seeds, position, the oracle) are always in the table, and the best "
        "schedule of eviction (oracle-assign) where a policy acts in decode. A cell "
        "that a trace cannot "
        "answer, or whose budget is below what a policy protects, is skipped with its "
        "reason. Results are "
        "kept in result files: the same command again computes only what is missing.\n\n"
        "Policies that look ahead read what was made before: a probe of the trace (kvt "
        "capture --probe) or learned weights (kvt train). Without probe=NAME a policy takes "
        "the trace's probe of its kind; a draft on an evicted cache serves the budget that "
        "it was run at, and another one only where probe= names it (surrogate). --weights FILE "
        "gives a file to every policy of its "
        "kind, weights=FILE behind a policy to that one. A cell for which nothing was made "
        "is skipped with the reason.\n\n"
        "A policy that keeps what reaches a threshold (kvzap, dms, wg-kv) has no "
        "budget of its own. Asked for one, it gets the threshold at which the other traces "
        "of the set keep that many slots on average at most, and the table says matched mean; "
        "what "
        "it keeps on this trace may be more or less. threshold=X sets it.\n\n"
        "With --fair tokens every policy may hold as many slots of a lane. With --fair bytes "
        "it may hold as many bytes as those slots take in the model's own cache: sets for "
        "each query head (laq), and state that a policy keeps beside its slots, are paid "
        "for with slots.\n\n"
        "With --geometry or --machine each cell is priced: the slots that it kept, on that "
        "model and machine (kvt cost).",
    .options = options,
    .options_size = sizeof(replay_options),
    .examples =
        {"kvt replay a.h5 -p snapkv,h2o,tova,streaming,pyramidkv -b 64,128,10%,25%,50%",
         "kvt replay traces/*.h5 -p all -b 5%..50%x2 --csv tables --json",
         "kvt replay a.h5 -p snapkv,snapkv:compat=kvpress -b 10%",
         "kvt replay held/*.h5 -p snapkv,lookaheadkv,lookahead-oracle,kvpop-mlp "
         "--weights kvpop.h5 -b 10%",
         "kvt replay traces/*.h5 -b 10% --geometry llama-3.1-8b --machine rtx-4090 --csv "
         "tables"},
    .min_args = 1,
    .max_args = -1,
    .complete = "trace",
    .run = run,
};
