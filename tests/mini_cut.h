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

/* The base of a policy at the end of the prompt: marks and state of its
 * own, its own last queries. policy NULL: there is none. */
typedef struct mini_base {
    const kvt_policy *policy;
    void *params;
    float **mark; /* [lanes] */
    void **state;
} mini_base;

/* What is typed behind a policy: its own parameters, its base ("": the policy's own) and the
 * parameters of that. */
typedef struct mini_text {
    char own[256], name[64], base[256];
} mini_text;
void mini_split(mini_text *out, const char *params);
/* Finds it; what it needs comes on top of the policy's traits. */
kvt_code mini_base_open(mini_base *b, const kvt_policy *p, const mini_text *text,
                        kvt_traits *traits, kvt_arena *a, kvt_err *err);
void mini_base_lanes(mini_base *b, const kvt_sequence *seq, int64_t budget, int64_t n_token,
                     int n_lane, kvt_arena *a);
bool mini_base_fits(const mini_base *b, int64_t budget, int64_t n_prompt, char *why,
                    size_t cap);
int64_t mini_base_window(const mini_base *b, int64_t n_prompt);
/* Its step() on a lane, or where score is not NULL its score(). */
void mini_base_run(const mini_base *b, int lane, kvt_lane *v, float *score, bool *pinned);
/* The table of an allocator. */
bool mini_open_table(kvt_lane *v, const mini_cut *c, const kvt_share *share);

#endif
