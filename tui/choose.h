/* choose.h - policy and budget: what has a result is shown, what has none is asked for. */
#ifndef TUI_CHOOSE_H
#define TUI_CHOOSE_H

#include "tui/model.h"

void choose_say(tui_model *m); /* what is chosen, or why there is nothing to see */
void choose_policy_by(tui_model *m, int by);
void choose_budget_by(tui_model *m, int by);
void choose_policy(tui_model *m, const char *name);
void choose_budget(tui_model *m, const char *text);
void choose_run(tui_model *m); /* leaves TUI_WANT_RUN where a result is missing */

#endif
