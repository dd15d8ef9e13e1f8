/* cmd_report.c - kvt report: tables from result files, on the terminal, as CSV or JSON. */
#include <stdio.h>
#include <string.h>

#include "cli/files.h"
#include "cli/replay_table.h"
#include "cli/table.h"
#include "kvt/analyze.h"

typedef struct report_options {
    const char *csv, *tables, *run;
    bool crlf, raw_text, bom, no_metadata;
} report_options;

/* clang-format off */
static const cli_option options[] = {
    {"csv", 0, CLI_TEXT, CLI_OPT(report_options, csv), .arg = "DIR", .complete = "file",
     .help = "write each table as DIR/NAME.csv with its metadata; -: the one table on standard output"},
    {"table", 0, CLI_TEXT, CLI_OPT(report_options, tables), .arg = "LIST",
     .help = "cells, lanes, steps, evictions, audit, curve (default: cells,curve,audit; one for --csv - and --json)"},
    {"run", 0, CLI_TEXT, CLI_OPT(report_options, run), .arg = "ID",
     .help = "only the cell whose run id starts so (6 digits or more)"},
    {"crlf", 0, CLI_FLAG, CLI_OPT(report_options, crlf), .help = "end lines with CR LF"},
    {"raw-text", 0, CLI_FLAG, CLI_OPT(report_options, raw_text),
     .help = "no apostrophe in front of token texts that a spreadsheet would run as a formula"},
    {"bom", 0, CLI_FLAG, CLI_OPT(report_options, bom), .help = "start the file with a byte order mark, for Excel"},
    {"no-metadata", 0, CLI_FLAG, CLI_OPT(report_options, no_metadata), .help = "leave NAME.csv-metadata.json out"},
    {0},
};
/* clang-format on */

static kvt_code print_json(cli *c, const report_options *o, const kvt_results *results,
                           kvt_err *err)
{
    kvt_report *report;
    const char *name = o->tables != NULL ? o->tables : "cells";
    kvt_code code = kvt_report_make(&report, name, results, o->run, &c->ctx, err);
    if (code != KVT_OK)
        return code;
    printf("{\"schema\": \"kvt-report-1\", \"table\": \"%s\",\n \"rows\": ", name);
    cli_json_rows(stdout, kvt_report_table(report));
    printf("}\n");
    kvt_report_free(report);
    return KVT_OK;
}

static bool needs_arrays(const char *tables)
{
    return tables != NULL &&
           (strstr(tables, "steps") != NULL || strstr(tables, "evictions") != NULL);
}

static kvt_code run(cli *c, const void *options_, int n_arg, char **arg, kvt_err *err)
{
    const report_options *o = options_;
    if (c->json && o->csv != NULL && strcmp(o->csv, "-") == 0)
        return kvt_fail(err, KVT_USAGE, "--json and --csv - both want standard output");
    if (o->tables != NULL && o->csv == NULL && !c->json)
        return kvt_fail(err, KVT_USAGE, "--table needs --csv DIR or --json");
    if (cli_check_tables(o->tables, err))
        return err->code;
    kvt_results *results = NULL;
    kvt_code code = cli_results(&results, n_arg, arg, needs_arrays(o->tables), err);
    if (code == KVT_OK && c->json)
        code = print_json(c, o, results, err);
    else if (code == KVT_OK && o->csv == NULL)
        code = cli_replay_table(c, results, err);
    if (code == KVT_OK && o->csv != NULL)
        code = cli_write_csv(c, results,
                             &(cli_csv_request){o->csv, o->tables, o->run, o->crlf, o->raw_text,
                                                o->bom, o->no_metadata},
                             err);
    kvt_results_free(results);
    return code;
}

const cli_command cli_command_report = {
    .name = "report",
    .group = "report",
    .line = "tables from results: terminal, CSV, JSON",
    .usage = "[OPTIONS] RESULTS...",
    .about = "Reads result files, or every one below a folder, and prints the summary table, "
             "or writes tables as "
             "CSV (one header row, units in the column names, numbers bare, a metadata file "
             "beside it) or JSON "
             "with the same names. steps and evictions are long: narrow them with --run.",
    .options = options,
    .options_size = sizeof(report_options),
    .examples = {"kvt report kvt-results", "kvt report kvt-results --csv tables",
                 "kvt report kvt-results --csv - --table cells | head -3",
                 "kvt report kvt-results --table steps --run c41f09e2 --json"},
    .min_args = 1,
    .max_args = -1,
    .complete = "file",
    .run = run,
};
