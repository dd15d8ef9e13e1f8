/* runs.h - whole replays in a test: a folder, traces of random numbers in it, results by name.
 */
#ifndef TESTS_RUNS_H
#define TESTS_RUNS_H

#include "kvt/replay.h"
#include "tests/synth.h"

int runs_open(void **state); /* makes the folder: group set-up */
int runs_close(void **state);
extern char runs_dir[256];

/* Writes a trace NAME.h5 into the folder. The path is good for eight more calls. */
const char *runs_trace(const char *name, const synth_spec *s);

/* One trace without controls, arrays kept, nothing written. */
kvt_replay_spec runs_spec(const char *const *trace, const char *policies, const char *budgets);
/* One thread, seed 0; must succeed. */
kvt_results *runs_replay(const kvt_replay_spec *spec, kvt_replay_counts *counts);
/* runs_spec() with a plug-in; cells may all be skipped: their reasons are looked at. */
kvt_results *runs_plugin(const char *plugin, const char *trace, const char *policies,
                         const char *budgets, kvt_act act);

/* The first cell of a policy (its name) at a budget as typed; fails where there is none. */
const kvt_cell *runs_cell(const kvt_results *s, const char *policy, const char *budget);
const kvt_result *runs_result(const kvt_results *s, const char *policy);
double runs_value(const kvt_cell *c, const char *column);

/* Every cell and lane as text, sorted, so that two runs can be compared whatever their order.
 * free() it. */
char *runs_text(const kvt_results *s);
/* Fails with the place where the texts of two runs differ. */
void runs_same_text(const char *a, const char *b, const char *what);
void runs_same(const kvt_results *a, const kvt_results *b, const char *what);
/* Adds the results of `from`, which is freed, to `to`. */
void runs_join(kvt_results *to, kvt_results *from);

#endif
