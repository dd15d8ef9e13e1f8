/* help.h - what is printed from the tables of verbs and options: help, manual pages,
 * completion. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/cli.h"
#include "cli/wrap.h"
#include "kvt/param.h"

/* The list of verbs by group. */
void cli_help_verbs(FILE *out);

/* `kvt help`, `kvt VERB --help`, `kvt --version`: on standard output, as text or JSON. */
KVT_CHECKED kvt_code cli_help_all(cli *c, kvt_err *err);
KVT_CHECKED kvt_code cli_help_verb(cli *c, const cli_command *command, kvt_err *err);
KVT_CHECKED kvt_code cli_help_version(cli *c, kvt_err *err);

/* `kvt help --man NAME`: a page as scdoc source. NAME is kvt, a verb, kvt-policies, kvt-trace,
 * kvt-csv or kvt-tui. USAGE for another one. */
KVT_CHECKED kvt_code cli_manual(FILE *out, const char *name, kvt_err *err);
const char *const *cli_manual_names(void); /* the pages that are no verb's; NULL-ended */

/* `kvt help --doc NAME`: a generated part of docs/NAME.md. USAGE for another one. */
KVT_CHECKED kvt_code cli_document(FILE *out, const char *name, kvt_err *err);

/* The hidden verb `kvt __complete KIND`: one candidate a line. */
KVT_CHECKED kvt_code cli_complete(cli *c, int n_arg, char **arg, kvt_err *err);

/* Parameters of a policy, an allocator or a trainer, with defaults, ranges and choices, under a
 * title; nothing where there are none. */
void cli_show_params(FILE *out, const char *title, const kvt_param *table);

#endif
