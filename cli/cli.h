/* cli.h - what a verb is: an entry at the end of cmd_NAME.c and a line in commands.def.
 *
 * An option table is the parameter table of a command: parser, --help, manual page and
 * completion are printed from it. A verb returns a code; main.c alone prints the error and
 * exits. stdout is data, stderr is talk. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "kvt/ctx.h"

typedef enum cli_type {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char *; NULL: not given */
    CLI_INT,    /* int64_t */
    CLI_REAL,   /* double */
    CLI_SIZE,   /* int64_t, "512MiB" */
    CLI_CHOICE, /* int, an index into choices */
    CLI_LIST,   /* cli_list: may be repeated */
    CLI_COUNT   /* int: how often it was given */
} cli_type;

enum { CLI_LIST_MAX = 256 };
typedef struct cli_list {
    const char *item[CLI_LIST_MAX];
    int n;
} cli_list;

typedef struct cli_option {
    const char *name; /* long form, without "--" */
    char letter;      /* 0: none */
    cli_type type;
    size_t offset;              /* in the command's option struct */
    const char *arg;            /* "FILE", "N"; NULL for a flag */
    const char *def;            /* as typed; NULL: unset (NULL, false, 0) */
    const char *const *choices; /* NULL-ended, of CLI_CHOICE */
    double min, max;            /* of CLI_INT and CLI_REAL, both 0: any */
    const char *help;           /* one sentence, no full stop */
    const char *complete;       /* what completes it: "file", "policy", "trace", NULL */
} cli_option;

#define CLI_OPT(S, field) .offset = offsetof(S, field)

/* What every verb gets. */
typedef struct cli {
    bool quiet, json, ascii, no_pager;
    int verbose;
    bool help, version; /* -h and -V, which main.c answers */
    int color;          /* 0 auto, 1 always, 2 never; use cli_color() */
    int progress;       /* 0 auto, 1 bar, 2 plain, 3 none */
    int64_t threads;    /* 0: OpenMP's own */
    int64_t seed;
    const char *verb;
    const char *command_line; /* as typed, for provenance */
    kvt_ctx ctx;              /* log to stderr, progress line, stops on a signal */
    void *shown;              /* the progress line's state */
} cli;

typedef struct cli_command {
    const char *name, *group,
        *line;         /* "capture", "traces", "run a model on prompts and write traces" */
    const char *usage; /* behind "kvt NAME": "[OPTIONS] TRACE..." */
    const char *about; /* a paragraph or two for help and manual */
    const cli_option *options; /* ends with {0} */
    size_t options_size;
    const char *examples[8]; /* "kvt replay a.h5 -p snapkv -b 10%", NULL-ended */
    int min_args, max_args;  /* operands; max -1: any number */
    const char *complete;    /* what completes an operand */
    const char *first;       /* what completes the first one, where that is another kind */
    bool no_json;            /* it has nothing to print as JSON: --json is refused */
    kvt_code (*run)(cli *c, const void *options, int n_arg, char **arg, kvt_err *err);
} cli_command;

/* Each cmd_NAME.c ends with `const cli_command cli_command_NAME = {...};`. */
#define CLI_COMMAND(id) extern const cli_command cli_command_##id;
#include "cli/commands.def"
#undef CLI_COMMAND

const cli_command *const *cli_commands(void); /* in the order of commands.def, NULL-ended */
const cli_command *cli_command_find(const char *name);
const cli_option *cli_common_options(void); /* of struct cli */

/* "kvt: TEXT" on stderr, cleanly below a progress line. */
void cli_warn(cli *c, const char *fmt, ...) KVT_PRINTF(2, 3);
void cli_note(cli *c, const char *fmt, ...) KVT_PRINTF(2, 3); /* not with --quiet */
bool cli_color(const cli *c, FILE *f);
bool cli_utf8(const cli *c); /* the locale's, and not --ascii */
/* Ends the progress line; what follows on stderr starts in column 0. */
void cli_progress_end(cli *c);
/* A signal asked to stop (2 or 15), else 0. */
int cli_signal(void);

#endif
