/* term.h - a terminal: grids go out, keys come in. Behind it is curses. */
#ifndef TUI_TERM_TERM_H
#define TUI_TERM_TERM_H

#include "base/grid.h"

typedef struct term term;

typedef enum term_event_kind {
    TERM_KEY,    /* key: a tui_key */
    TERM_CLICK,  /* row, column */
    TERM_SIZE,   /* the size changed: ask term_size() */
    TERM_REDRAW, /* what is on the screen is not known any more */
    TERM_END     /* a signal asks to end: `key` is its number */
} term_event_kind;

typedef struct term_event {
    term_event_kind kind;
    int key, row, column;
} term_event;

typedef struct term_options {
    bool colour, mouse;
} term_options;

/* USAGE: standard input and output are no terminal, or one without a cursor. Touches nothing.
 */
KVT_CHECKED kvt_code term_check(kvt_err *err);
/* Standard input and output as a terminal, in full-screen mode. USAGE: they are none, or it
 * cannot place a cursor. One at a time. */
KVT_CHECKED kvt_code term_open(term **out, const term_options *options, kvt_err *err);
/* Leaves full-screen mode and raises a signal that asked to end again. NULL is fine. */
void term_close(term *t);
void term_size(const term *t, int *width, int *height);
int term_colours(const term *t); /* 0: none are used */
void term_show(term *t, const grid *g);
void term_repaint(term *t); /* the next term_show() draws everything */
/* The next event; false: none came within wait_ms (-1: waits for one). */
bool term_next(term *t, term_event *out, int wait_ms);

/* For tests: into a file and from one, with a fixed TERM; no signals, no tty. */
KVT_CHECKED kvt_code term_open_on(term **out, const char *name, void *in, void *out_file,
                                  int width, int height, kvt_err *err);
/* What curses holds in a row, as UTF-8. */
void term_row(const term *t, int y, char *out, size_t cap);

/* "ncurses 6.4.20221231": for `kvt doctor`. */
const char *term_version(void);

#endif
