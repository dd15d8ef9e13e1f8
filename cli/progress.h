/* progress.h - what a person sees on standard error: messages and one progress line. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/cli.h"

/* Fills c->ctx with log and progress. */
void cli_progress_init(cli *c);
void cli_progress_fini(cli *c);

/* The failure that ends the program: "kvt: TEXT", with its place in the source under -v. */
void cli_error(cli *c, const kvt_err *err);

#endif
