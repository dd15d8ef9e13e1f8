/* palette.h - colours of roles, by what a terminal can show. Backgrounds belong to the
 * terminal; where one is set, the foreground is, too. */
#ifndef TUI_TERM_PALETTE_H
#define TUI_TERM_PALETTE_H

#include "base/grid.h"

enum { PALETTE_DEFAULT = -1 };
enum { PALETTE_BOLD = 1, PALETTE_DIM = 2, PALETTE_UNDERLINE = 4, PALETTE_REVERSE = 8 };

typedef struct palette_entry {
    int16_t fg, bg; /* index of the terminal's palette */
    uint8_t attributes;
} palette_entry;

/* [GRID_STYLE_COUNT] for a terminal of so many colours: 256, 16, 8, else none. */
const palette_entry *palette_of(int colours);
/* Attributes of a selected cell: reverse, and another mark where it is reverse already. */
uint8_t palette_selected(uint8_t attributes);

#endif
