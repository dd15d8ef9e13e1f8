/* assign_small.h - small lanes of random halves, and the best schedule by trying all of them.
 */
#ifndef TESTS_UNIT_ASSIGN_SMALL_H
#define TESTS_UNIT_ASSIGN_SMALL_H

#include "replay/assign.h"

enum { SMALL_TOKENS = 12, SMALL_HEADS = 2 };

/* How masses are drawn: rows that add up to 1, a few steps of 1/4 (ties), mostly zeros, all
 * keys alike. */
typedef enum small_kind {
    SMALL_ROWS,
    SMALL_TIES,
    SMALL_ZEROS,
    SMALL_ALIKE,
    SMALL_KINDS
} small_kind;

typedef struct small {
    uint16_t half[SMALL_HEADS * SMALL_TOKENS * SMALL_TOKENS];
    assign_lane lane; /* rows point into half: a small is not copied */
} small;

void small_draw(small *s, uint64_t *state, small_kind kind, int64_t n_prompt,
                int64_t n_response, int n_head);
double small_at(const small *s, int64_t m, int64_t j); /* summed over the heads */
double small_number(uint64_t *state);                  /* uniform in [0, 1) */

/* The most that any schedule of that budget collects, by trying all. */
double small_best(const small *s, int64_t budget);
/* The best B + K of each row: what no evicting policy exceeds. */
double small_step_bound(const small *s, int64_t budget);

#endif
