/* cost_models.h - the models and machines that a command line names, for predictions. */
#ifndef CLI_COST_MODELS_H
#define CLI_COST_MODELS_H

#include "cli/cli.h"
#include "kvt/cost.h"

enum { CLI_MACHINES_MAX = 32 };

/* A built-in name, a JSON file, a model file or folder (its header alone is read, its own bytes
 * are taken for the weights), or a trace. */
KVT_CHECKED kvt_code cli_cost_geometry(cli *c, kvt_cost_geometry *out, const char *text,
                                       kvt_err *err);
/* That of a trace; for kvt_cost_spec.trace_geometry (user is not used). */
KVT_CHECKED kvt_code cli_cost_trace_geometry(void *user, const char *path,
                                             kvt_cost_geometry *out, kvt_err *err);
/* The same, and how long its prompt and its response are, and its name. */
typedef struct cli_cost_trace {
    kvt_cost_geometry geometry;
    int64_t n_prompt, n_response;
    char name[128];
} cli_cost_trace;
KVT_CHECKED kvt_code cli_cost_trace_open(cli_cost_trace *out, const char *path, kvt_err *err);

/* "h100,rtx-4090,my.json,here". NULL: `here` where kvt doctor --bench has measured it, else
 * h100-sxm. USAGE with the nearest name. */
KVT_CHECKED kvt_code cli_cost_machines(kvt_machine out[CLI_MACHINES_MAX], int *n,
                                       const char *list, kvt_err *err);
/* ${XDG_CACHE_HOME:-$HOME/.cache}/kvt/machine-here.json, which kvt doctor --bench writes; ""
 * where neither is set. */
const char *cli_machine_here(char *out, size_t cap);

#endif
