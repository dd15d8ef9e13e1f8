/* commands.c - the verbs of commands.def. */
#include <string.h>

#include "cli/cli.h"

static const cli_command *const commands[] = {
#define CLI_COMMAND(id) &cli_command_##id,
#include "cli/commands.def"
#undef CLI_COMMAND
    NULL,
};

const cli_command *const *cli_commands(void)
{
    return commands;
}

const cli_command *cli_command_find(const char *name)
{
    for (int i = 0; commands[i]; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}
