/* load.h - a trace and its results from files, and what is missing computed by a replay. */
#ifndef TUI_LOAD_H
#define TUI_LOAD_H

#include "kvt/replay.h"
#include "tui/data.h"

typedef struct tui_loaded tui_loaded;

/* Opens a trace and reads the results for it: below `results`, by default kvt-results beside
 * the trace. No results are no failure. */
KVT_CHECKED kvt_code tui_load(tui_loaded **out, const char *path, const char *results,
                              kvt_err *err);
void tui_loaded_free(tui_loaded *l); /* NULL is fine */
const tui_data *tui_loaded_data(const tui_loaded *l);
const char *tui_loaded_problem(const tui_loaded *l); /* a result that cannot be read, or "" */

/* What a start with this policy and budget (NULL: any) lacks. */
typedef struct tui_lack {
    bool any;
    char policies[512], budgets[128]; /* for a replay */
    char said[512];                   /* these policies as they are typed, for a note */
    char policy[512];                 /* the policy that was named, in canonical text; "" */
} tui_lack;
/* USAGE: no such policy. */
KVT_CHECKED kvt_code tui_lacks(tui_lack *out, const tui_loaded *l, const char *policy,
                               const char *budget, kvt_err *err);
/* Replays it here and keeps the results where they were read from. A cell that was skipped is a
 * result: it says why. */
KVT_CHECKED kvt_code tui_compute(tui_loaded *l, const char *policies, const char *budgets,
                                 const kvt_ctx *ctx, kvt_err *err);

#endif
