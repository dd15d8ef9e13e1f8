/* version.c - which curses is loaded, which may differ from the headers'. */
#include <curses.h>

#include "tui/term/term.h"

const char *term_version(void)
{
    return curses_version();
}
