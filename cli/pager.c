/* pager.c - see pager.h. */
#include "cli/pager.h"

#include <stdlib.h>
#include <unistd.h>

FILE *cli_pager_open(const cli *c)
{
    const char *pager = getenv("PAGER");
    if (c->no_pager || !pager || !pager[0] || !isatty(STDOUT_FILENO))
        return stdout;
    fflush(stdout);
    FILE *out = popen(pager, "w");
    return out ? out : stdout;
}

void cli_pager_close(FILE *out)
{
    if (out != stdout)
        pclose(out); /* its exit status says how the person left it: nothing for us */
}
