/* card.h - everything about the token under the cursor, in a box over the lane. */
#ifndef TUI_CARD_H
#define TUI_CARD_H

#include "tui/model.h"

void card_draw(const tui_model *m, grid *g);

#endif
