/* mini_cut.h - a lane's part of what a toy holds beside attention, by plain loops. */
#ifndef TESTS_MINI_CUT_H
#define TESTS_MINI_CUT_H

#include "mini.h"

typedef struct mini_cut {
    const toy *toy;
    kvt_arena *a;
    unsigned needs;
    bool new_slots_only;     /* what a policy says that it does not read is NaN */
    int group, head, n_head; /* kv head; first query head and how many */
    int64_t first, n_query;  /* positions of the queries */
} mini_cut;

/* Sets every view that is declared and that the toy holds; those of prompt queries only at the
 * end of the prompt. */
void mini_give(kvt_lane *v, const mini_cut *c, bool prompt);
/* The probe (of that budget, or the first), weights and decay of a lane. False: the toy lacks
 * something that is declared. */
bool mini_open(kvt_lane *v, const mini_cut *c, const kvt_policy *p, const kvt_traits *traits,
               int64_t budget);

#endif
