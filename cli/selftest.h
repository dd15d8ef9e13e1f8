/* selftest.h - small real computations whose answers are known, for `kvt doctor`. */
#ifndef CLI_SELFTEST_H
#define CLI_SELFTEST_H

#include "cli/cli.h"

typedef struct cli_selftest {
    const char *name, *line; /* "halves", what is compared with what */
    /* Fails with NO and what was expected and got. */
    kvt_code (*run)(kvt_err *err);
} cli_selftest;

const cli_selftest *cli_selftests(void); /* ends with {0} */

#endif
