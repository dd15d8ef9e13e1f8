/* cmd_help.c - kvt help: verbs, one verb, and the sources of manual pages and documents. */
#include <string.h>

#include "base/text.h"
#include "cli/help.h"

typedef struct options {
    const char *man, *doc;
} options;

/* clang-format off */
static const cli_option table[] = {
    {"man", 0, CLI_TEXT, CLI_OPT(options, man), .arg = "PAGE", .complete = "man",
     .help = "print a manual page as scdoc source: kvt, a verb, kvt-policies, kvt-trace, kvt-csv or kvt-tui"},
    {"doc", 0, CLI_TEXT, CLI_OPT(options, doc), .arg = "NAME",
     .help = "print the generated part of a document as Markdown: datasets, policies, metrics, models, ..."},
    {0},
};
/* clang-format on */

static kvt_code no_verb(const char *word, kvt_err *err)
{
    const char *names[64] = {0};
    for (int i = 0; i < 63 && cli_commands()[i]; i++)
        names[i] = cli_commands()[i]->name;
    const char *near = text_nearest(word, names);
    return kvt_fail(err, KVT_USAGE, "no verb '%.60s'%s%s%s", word,
                    near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static kvt_code run(cli *c, const void *given, int n_arg, char **arg, kvt_err *err)
{
    const options *o = given;

    if (o->man)
        return cli_manual(stdout, o->man, err);
    if (o->doc)
        return cli_document(stdout, o->doc, err);
    if (!n_arg)
        return cli_help_all(c, err);
    const cli_command *command = cli_command_find(arg[0]);
    return command ? cli_help_verb(c, command, err) : no_verb(arg[0], err);
}

const cli_command cli_command_help = {
    .name = "help",
    .group = "shell",
    .line = "explain a verb",
    .usage = "[OPTIONS] [VERB]",
    .about =
        "Prints the list of verbs, or what --help of a verb prints. With --man and --doc it "
        "prints the sources of what is generated: manual pages and tables of documents.",
    .options = table,
    .options_size = sizeof(options),
    .examples = {"kvt help replay", "kvt help --man kvt-policies | scdoc > kvt-policies.7",
                 "kvt help --json | jq -r '.verbs[].name'"},
    .max_args = 1,
    .complete = "verb",
    .run = run,
};
