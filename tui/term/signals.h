/* signals.h - whatever ends the program, the terminal is left as it was found. State of the
 * process, used by tui/term only. */
#ifndef TUI_TERM_SIGNALS_H
#define TUI_TERM_SIGNALS_H

#include "kvt/err.h"

/* Remembers the settings of the terminal `fd` and catches signals. From then on: the first
 * SIGINT, SIGTERM or SIGHUP is kept for signals_ended(), a second one ends the program at once;
 * a crash restores the terminal and goes on crashing. */
KVT_CHECKED kvt_code signals_arm(int fd, kvt_err *err);
/* What to write to leave full-screen mode; at most 256 bytes are kept. */
void signals_leave_with(const char *bytes, size_t n);
/* Old handlers back. */
void signals_disarm(void);

int signals_fd(void);          /* readable when something came */
int signals_ended(void);       /* the signal that asks to end, or 0 */
bool signals_take_size(void);  /* the size changed since the last call */
bool signals_take_awake(void); /* the program was stopped and goes on */

#endif
