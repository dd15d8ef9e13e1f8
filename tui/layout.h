/* layout.h - where things stand on a screen of a given size. Panels go in a fixed order when
 * the window shrinks. */
#ifndef TUI_LAYOUT_H
#define TUI_LAYOUT_H

#include "tui/model.h"

/* Rows from the top, columns from the left; -1: not shown. */
typedef struct lane_layout {
    int title_y, tabs_y;
    int map_y;     /* full: axis, kept, regret, view; else kept, regret */
    int steps_y;   /* full: axis, lost, caret; else lost */
    int numbers_y; /* one line in place of map and steps */
    int rule_y;
    int text_y, text_rows, text_x, text_width; /* text_width: without the column of newlines */
    int token_y;                               /* full: rule above it */
    int legend_y, message_y, keys_y;
    bool full;
} lane_layout;

lane_layout layout_lane(const tui_model *m);
int layout_lines(const tui_model *m); /* lines of text on the lane's screen */

/* The map of the overview: blocks of layers side by side, cells of cell_width columns of which
 * `ink` are drawn. */
typedef struct overview_layout {
    int title_y, tabs_y, head_y, map_y, map_rows;
    int n_block, per_block; /* layers of a block */
    int first_layer;        /* of the window, where not all fit */
    int first_lane, n_lane; /* heads of the window */
    int cell_width, ink, block_width;
    int mean_width; /* of the column of means, 0: none */
    bool mean_row;
    int side_x; /* panel of worst lanes; -1: below */
    int side_rows;
    int worst_y; /* one line of worst lanes below the map; -1: none */
    int rule_y, detail_y, detail_rows, scale_y, message_y, keys_y;
} overview_layout;

overview_layout layout_overview(const tui_model *m);

#endif
