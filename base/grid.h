/* grid.h - a buffer of terminal cells: what screens draw into, tests compare and term/ copies.
 */
#ifndef BASE_GRID_H
#define BASE_GRID_H

#include "base/buf.h"

/* Roles, not colours: tui/term and the HTML page choose. Every distinction is a character too.
 */
typedef enum grid_style {
    GRID_PLAIN,
    GRID_BOLD,
    GRID_DIM,
    GRID_REVERSE,
    GRID_TITLE,
    GRID_PINNED,
    GRID_VAIN,
    GRID_HARMLESS,
    GRID_SHOULD,
    GRID_NOW,
    GRID_SECOND,
    GRID_WARN,
    GRID_SPECIAL,
    GRID_HEAT_0, /* GRID_HEAT_0 + i, i of 0..9: a ramp of shares */
    GRID_HEAT_9 = GRID_HEAT_0 + 9,
    GRID_STYLE_COUNT
} grid_style;

typedef struct grid_cell {
    uint32_t
        cp[3]; /* a base character and up to two marks; cp[0] 0: right half of a wide one */
    uint8_t style;
    bool selected; /* drawn reverse on top of its style */
} grid_cell;

typedef struct grid {
    int width, height;
    bool ascii;      /* only 7-bit characters may be drawn */
    grid_cell *cell; /* [height width] */
} grid;

KVT_CHECKED kvt_code grid_init(grid *g, int width, int height, bool ascii, kvt_err *err);
void grid_fini(grid *g);
void grid_clear(grid *g);
/* Draws safe text (text_safe'd or our own) from column x, cut at the grid's and at `max`
 * columns
 * (-1: no limit). Returns the column behind it. */
int grid_text(grid *g, int y, int x, grid_style style, const char *text, int max);
int grid_printf(grid *g, int y, int x, grid_style style, const char *fmt, ...) KVT_PRINTF(5, 6);
void grid_right(grid *g, int y, grid_style style,
                const char *text); /* ends at the last column */
void grid_fill(grid *g, int y, int x, int n, grid_style style, uint32_t cp);
void grid_put(grid *g, int y, int x, grid_style style, uint32_t cp);
void grid_select(grid *g, int y, int x, int n); /* marks cells selected */
void grid_restyle(grid *g, int y, int x, int n, grid_style style);
void grid_box(grid *g, int y, int x, int height, int width,
              const char *title); /* cleared inside */

/* Lines of text, trailing blanks cut, each ended by \n. With attributes: one more block of
 * lines with a letter a cell. */
void grid_dump(const grid *g, buf *out, bool attributes);

#endif
