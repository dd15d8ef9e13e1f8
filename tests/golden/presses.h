/* presses.h - a small layer with real queries, keys and values, from a rule that Python can
 * follow (presses.py), so that golden files need no input data.
 *
 *   v(kind, l, h, i, d) = (mix(((((seed * 32 + kind) * 64 + l) * 64 + h) * 4096 + i) * 4096 +
 * d) mod 2001 - 1000) / 1000
 *
 * Before RoPE keys are v(0, l, g, i, d) + v(3, l, g, 0, d) and queries 2 v(2, l, h, i, d) + 2
 * v(4, l, h, 0, d), D = 8; RoPE has the base 10,000 in halves. Values are v(1, l, g, i, d);
 * where the seed is even those of the first token and of the last but one are 1/1024 of that.
 * W_O of a query head is v(5, l, h, d, e), E = 6. Attention is their causal softmax. Files:
 * Q-Filters v(6, l, g, 0, d), gates 0.5 + v(7, l, g, 0, 0) / 2, LU-KV's table floor(256 (o /
 * 100)^x) / 256 with o = 1..99 and x = exp(1.5 v(8, l, g, 0, 0)). */
#ifndef TESTS_GOLDEN_PRESSES_H
#define TESTS_GOLDEN_PRESSES_H

#include "../toy.h"

enum { PRESSES_D = 8, PRESSES_E = 6, PRESSES_POINTS = 99 };

/* "SEED/L/H/G/N": the whole model, no response but one token that nobody reads. */
toy *presses_new(kvt_arena *a, const char *name);

#endif
