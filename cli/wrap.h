/* wrap.h - prose in a terminal of so many columns. */
#ifndef CLI_WRAP_H
#define CLI_WRAP_H

#include <stdio.h>

/* Words of `text`, broken at `width` columns, each line behind `indent` blanks; the first line
 * starts in column `at`. '\n' ends a line, two a paragraph. A word that no line holds stays
 * whole, unless it is a list: that is broken behind its commas. */
void cli_wrap(FILE *out, const char *text, int at, int indent, int width);

#endif
