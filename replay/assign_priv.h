/* assign_priv.h - the state of the best schedule of a lane, between assign.c and
 * assign_search.c.
 *
 *   N prompt keys, indices 0 .. N - 1        K  keys that every middle column holds at B = 0
 *   C columns behind column 0; C: never      V_j(t)  mass of key j from its birth to column t
 *
 * Slots are the places of the middle columns: column c has slots (c - 1) K .. c K - 1, the
 * first n_held[c] of which are taken. */
#ifndef REPLAY_ASSIGN_PRIV_H
#define REPLAY_ASSIGN_PRIV_H

#include "replay/assign.h"

/* Prompt keys by falling mass, sorted on demand. */
typedef struct ranked_key {
    double mass;
    int32_t key;
} ranked_key;

enum { LIST_STACK = 64 };

/* key[head .. n) is sorted; keys in front of head have left column 0. */
typedef struct key_list {
    const double *mass; /* V_.(anchor) */
    ranked_key *key;    /* [N] */
    bool begun;
    int64_t n, head;
    int n_end;
    int64_t end[LIST_STACK]; /* of segments that are not sorted yet, nearest last */
} key_list;

/* Of one search: columns by label + potential, and -INFINITY once they are settled. */
typedef struct path_search {
    double *by_path, *by_key; /* [C + 1] over paths; over keys of column 0 */
    double *open;             /* [C + 1] the potential where it may be entered */
    double *label, *key;      /* [C + 1] of settled ones; INFINITY: entered from column 0 */
    double *base;             /* [slots] label - V of the slot's key here */
    int64_t *settled;         /* [C] in order */
    int64_t n_settled;
} path_search;

struct assign {
    assign_lane lane;
    int64_t n_column, n_slot; /* C, (C - 1) K */
    int64_t budget, first;    /* at; the first middle column that still drops something */
    double kept;
    double *prompt;  /* [C N] V of prompt keys: column t at (t - 1) N */
    double *late;    /* [slots C + 1] rows of V, -INFINITY before the key's birth */
    double **held;   /* [slots] the row of the key in each slot */
    int32_t *who;    /* [slots] that key */
    int64_t *n_held; /* [C + 1] */
    int32_t *stays;  /* [N + M] never dropped */
    int64_t n_stays;
    bool *left; /* [N] has left column 0 */
    key_list *list;
    int n_list;        /* anchors 1, 2, 4, ... C */
    double *potential; /* [C + 1] bounds what moving a key away from there can gain */
    double *best;      /* [C + 1] bounds V over column 0, */
    int32_t *best_key; /* whose it is; exact while that key is in column 0; -1: a bound */
    double most, gain; /* max best + potential; what the last unit of budget gained */
    path_search search;
};

/* The key of that rank among those of a list, or -1 behind its end. */
int64_t list_at(key_list *l, int64_t rank, int64_t n);
/* One slot more. Prompt keys are left in column 0, or a middle column still drops one. */
void assign_grow(assign *a);

#endif
