/* window_laws.h - plain definitions that the tests of observation windows share, on one toy. */
#ifndef TESTS_PROPERTY_WINDOW_LAWS_H
#define TESTS_PROPERTY_WINDOW_LAWS_H

#include "laws.h"

enum { LAYERS = 2, HEADS = 4, GROUPS = 2, EACH = HEADS / GROUPS, N = 50, M = 6, D = 8 };
enum { LANES = LAYERS * GROUPS };
extern toy *trace; /* of main() */

/* A[i, s] of prompt row i, which sees itself and what lies before it. */
double attention(const toy *t, int layer, int head, int64_t i, int64_t s);
/* Sum over the last W rows, of one head: [n]. */
void votes(double *out, int layer, int head, int64_t W, int64_t n);
void pin_last(bool *pinned, int64_t W);
/* Mean of |W_O v|_1 over the lane's query heads. */
double size_of(int layer, int group, int64_t s);
/* SnapKV's default shape: votes summed over the heads, the largest of `width` nearby. */
void snap(double *out, int layer, int group, int64_t W, int64_t width);
bool same_sets(const mini_result *a, const mini_result *b);

#endif
