/* ui.h - what several screens draw: title, tabs, rules, message and keys. */
#ifndef TUI_UI_H
#define TUI_UI_H

#include "tui/model.h"

/* Row 0: the path on the left, policy (class), budget and `right` on the right. */
void ui_title(const tui_model *m, grid *g, const char *path, const char *right);
void ui_tabs(const tui_model *m, grid *g, int y, const char *right);
/* "-- TITLE -----" */
void ui_rule(grid *g, int y, const char *title);
/* The message of the last command, else `idle`; y -1: nothing. */
void ui_message(const tui_model *m, grid *g, int y, const char *idle);
/* Keys of the screen, as many as fit, and the way to help. */
void ui_keys(const tui_model *m, grid *g, int y);
/* In place of a result: why there is none, what computes it. Returns the row behind. */
int ui_missing(const tui_model *m, grid *g, int y);
/* Any text made safe and cut to `max` columns with a mark. Returns the column behind. */
int ui_text(grid *g, int y, int x, grid_style style, const char *text, int max);
/* The next line of safe text, broken at a blank where there is one: moves *text on. False: none
 * is left. */
bool ui_wrap(const char **text, char *line, size_t cap, int columns);
/* A share in three columns: ".07", "1.0", " - ". */
void ui_share(double x, char out[8]);
/* "0.902", or "-" where it is undefined; out is returned. */
const char *ui_loss(double x, char out[16]);
/* A quoted text of a token, cut to `columns` with its quotes. */
const char *ui_token(const tui_model *m, int64_t token, char *out, size_t cap, int columns);
uint32_t ui_ramp(const grid *g, int level); /* a ramp character of the grid's set */

#endif
