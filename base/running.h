/* running.h - the k best of a growing list, at every moment: what a policy of fixed size keeps
 * when tokens come one by one and a token that went never returns (KVpop, arXiv 2607.05061,
 * appendix C).
 *
 * Two forms of the same sets. Online: a heap of k slots, O(log k) a token. Whole sequence: the
 * scores are sorted once, a Fenwick tree over the places counts who has come, and the k-th best
 * is found by binary descent, O(n log n) in all. Ties: the lower token is kept; NaN goes first.
 */
#ifndef BASE_RUNNING_H
#define BASE_RUNNING_H

#include "kvt/arena.h"

/* ---- online --------------------------------------------------------------------------------
 */

/* The worst kept token is at 0. The caller owns the arrays [size] and sets n = 0 to begin. */
typedef struct running_heap {
    double *score;
    int32_t *token;
    int64_t n, size;
} running_heap;

/* A token comes; returns the one that goes: -1 while there is room, `token` itself where it is
 * worse than all that are kept. */
int32_t running_heap_push(running_heap *h, int32_t token, double score);

/* ---- whole sequence ------------------------------------------------------------------------
 */

/* place [n]: where a token stands in the whole order, 0 the best. */
typedef struct running_tree {
    int32_t *place, *order, *count;
    int64_t n, n_in;
    int64_t top; /* the largest power of two that is at most n */
} running_tree;

/* Sorts; nobody has come yet. The arrays are of `work`. False: no memory. */
bool running_tree_new(running_tree *out, const double *score, int64_t n, kvt_arena *work);
void running_tree_add(running_tree *r, int64_t token); /* once each */
/* The k-th best (from 1) of those that came; -1: there are fewer. O(log n). */
int64_t running_tree_kth(const running_tree *r, int64_t k);

/* Budgets of a lane: `sinks` first tokens, the `window` last ones (the query's own included)
 * and k others. */
typedef struct running_spec {
    int64_t n_token, sinks, window, slots;
} running_spec;

/* cut [n_token]: the place of the worst token that query q still sees beside sinks and window;
 * n_token where none of them was dropped, -1 where none is kept. place [n_token] as above. It
 * rises never. False: no memory. */
bool running_cutoffs(int32_t *cut, int32_t *place, const double *score, const running_spec *s,
                     kvt_arena *work);

/* Whether query q sees token j: a sink, in the window, or at or above the cutoff. */
static inline bool running_sees(const running_spec *s, const int32_t *cut, const int32_t *place,
                                int64_t q, int64_t j)
{
    return j <= q && (j < s->sinks || q - j < s->window || place[j] <= cut[q]);
}

#endif
