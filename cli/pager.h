/* pager.h - long text through $PAGER: only where it is set, only on a terminal. */
#ifndef CLI_PAGER_H
#define CLI_PAGER_H

#include "cli/cli.h"

/* A stream for text: the pager's, or standard output. cli_pager_close() ends it. */
FILE *cli_pager_open(const cli *c);
void cli_pager_close(FILE *out);

#endif
