/* info_scorer.h - what kvt info says of a scorer file. */
#ifndef CLI_INFO_SCORER_H
#define CLI_INFO_SCORER_H

#include "cli/cli.h"

/* Opens it and prints what it is, how it was made and its tensors; with --json as an object. */
KVT_CHECKED kvt_code cli_info_scorer(cli *c, const char *path, kvt_err *err);

#endif
