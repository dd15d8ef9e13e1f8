/* about.h - what this program is made of and runs on: lines for --version and `kvt doctor`. */
#ifndef CLI_ABOUT_H
#define CLI_ABOUT_H

#include "base/json.h"
#include "cli/cli.h"

enum { CLI_FACTS_MAX = 32 };

typedef struct cli_fact {
    const char *name; /* "hdf5" */
    char value[200];
} cli_fact;

/* Libraries as they are at run time, and what was compiled in. Returns how many. */
int cli_about_versions(cli_fact fact[CLI_FACTS_MAX]);
/* Processor, memory, locale, terminal, folders. */
int cli_about_machine(const cli *c, cli_fact fact[CLI_FACTS_MAX]);
/* Every KVT_ variable of the environment and the foreign ones that kvt obeys, set or not. */
int cli_about_environment(cli_fact fact[CLI_FACTS_MAX]);

/* ${XDG_CACHE_HOME:-$HOME/.cache}/kvt/models; "" where neither is set. */
const char *cli_model_cache(char *out, size_t cap);

/* Prints a JSON value and its line end on standard output, and drops it. */
KVT_CHECKED kvt_code cli_json_print(json_t *value, kvt_err *err);

#endif
