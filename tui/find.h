/* find.h - search over the joined text: matches as tokens. */
#ifndef TUI_FIND_H
#define TUI_FIND_H

#include "tui/model.h"

void tui_find(tui_model *m,
              const char *pattern); /* says what it found, goes to the next match */
void tui_find_next(tui_model *m, int dir);
void tui_find_end(tui_model *m);

#endif
