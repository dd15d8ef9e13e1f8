/* scored.h - toys with all that a learned scorer reads, from a rule that Python can follow
 * (make_scorers.py), so that golden files need no input data.
 *
 *   v(kind, l, h, i, d) = (mix(((((seed * 32 + kind) * 64 + l) * 64 + h) * 4096 + i) * 4096 +
 * d) mod 2001 - 1000) / 1000
 *
 * is a key (kind 0), value (1) and query (4) of D = 4 channels; the input of the projections
 * (2) of E = 6; 3 v is a decision (3), 0.95 + v / 50 a lane's gamma (5). Element n of tensor t
 * of the form f is v(8 + f, t, 0, n / 4096, n mod 4096), times 2 over the root of the last
 * extent; of a gain it is 1 + v / 4, of log gamma -(2 + v) / 50. Norms of W_O v are 1.5 + v
 * (6, 7); importance of heads and gates (1 + v) / 2; a head's curve over x = o / 100 is
 * x + 0.9 v x (1 - x), one v a head. Numbers: sinks 2, window 5,
 * decay_step 1 (4 where the seed is even), read_delay 5 (0 where the seed is a multiple of 3).
 */
#ifndef TESTS_GOLDEN_SCORED_H
#define TESTS_GOLDEN_SCORED_H

#include "../toy.h"

enum { SCORED_D = 4, SCORED_E = 6 };

/* A toy of that name (SEED/L/MODEL/H/G/N/M), with arrays and scorers. */
toy *scored_new(kvt_arena *a, const char *name);

#endif
