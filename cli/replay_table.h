/* replay_table.h - what a person reads after a replay: the table, what was skipped and why, and
 * one sentence on which differences can be told apart. Shared by kvt replay, kvt report and kvt
 * demo. */
#ifndef CLI_REPLAY_TABLE_H
#define CLI_REPLAY_TABLE_H

#include "cli/cli.h"
#include "kvt/result.h"

KVT_CHECKED kvt_code cli_replay_table(cli *c, const kvt_results *results, kvt_err *err);

/* Whether two reasons differ in numbers only, and before what differs from trace to trace
 * ("..., got 22"). */
bool cli_same_words(const char *a, const char *b);

/* Writes each named table ("cells,lanes"; NULL: cells, curve, audit) as dir/NAME.csv with its
 * metadata. `run_id` narrows the long tables; NULL: all. */
typedef struct cli_csv_request {
    const char *dir, *tables, *run_id; /* dir "-": the one table on stdout */
    bool crlf, raw_text, bom, no_metadata;
} cli_csv_request;
/* USAGE where a name of the list is no table's, before anything is computed; NULL is fine. */
KVT_CHECKED kvt_code cli_check_tables(const char *tables, kvt_err *err);
KVT_CHECKED kvt_code cli_write_csv(cli *c, const kvt_results *results, const cli_csv_request *r,
                                   kvt_err *err);

#endif
