/* files.h - the HDF5 files that a path stands for: itself, or all below a folder. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "cli/cli.h"
#include "kvt/result.h"

/* Calls `each` for `path`, or for every file below it whose name ends with ".h5", in byte order
 * of the names; hidden ones are passed over. NOTFOUND where there is no such path. */
KVT_CHECKED kvt_code cli_files(const char *path,
                               kvt_code (*each)(void *user, const char *path, kvt_err *err),
                               void *user, kvt_err *err);

/* The traces that paths stand for; results and scorers in a folder are passed over. FORMAT: a
 * scorer that is named itself. */
typedef struct cli_traces {
    char **item;
    int n, cap;
} cli_traces;

KVT_CHECKED kvt_code cli_traces_add(cli_traces *t, const char *path, kvt_err *err);
void cli_traces_free(cli_traces *t);

/* Every result file that the paths stand for, as one set; NOTFOUND where there is none. */
KVT_CHECKED kvt_code cli_results(kvt_results **out, int n_arg, char **arg, bool arrays,
                                 kvt_err *err);

/* Reads how many slots each row saw where that changes while decoding: kvt_result_read_steps()
 * of each. */
KVT_CHECKED kvt_code cli_results_steps(kvt_results *results, kvt_err *err);

#endif
