/* hard_traces.h - traces of made-up numbers that are hard on policies, and scorers for them. */
#ifndef TESTS_PROPERTY_HARD_TRACES_H
#define TESTS_PROPERTY_HARD_TRACES_H

#include "tests/synth_more.h"

enum { HARD_TRACES_MAX = 64, HARD_SCORERS_MAX = 16 };

typedef struct hard_trace {
    const char *name;
    synth_spec spec;
} hard_trace;

/* Fills out [HARD_TRACES_MAX], returns how many. */
int hard_traces(hard_trace *out);

/* A trace with one probe of every kind, and a scorer of every kind, in the folder of the runs.
 */
typedef struct hard_files {
    char trace[400], twin[400];
    char path[HARD_SCORERS_MAX][400];
    const char *scorer[HARD_SCORERS_MAX];
    int n_scorer;
} hard_files;

void hard_files_make(hard_files *f, const hard_trace *t);

#endif
