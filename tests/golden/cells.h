/* cells.h - golden CSV files read as cells: lines that follow each other and share their first
 * fields. The first line names the columns. */
#ifndef GOLDEN_CELLS_H
#define GOLDEN_CELLS_H

#include "kvt/policy.h"

enum { GOLDEN_CELLS_MAX = 1536, GOLDEN_LINES_MAX = 8192 };

typedef struct golden_cell {
    char name[160]; /* the caller's */
    const kvt_policy *policy;
    char **line; /* [n_line n_field] */
    int n_line;
} golden_cell;

typedef struct golden_cells {
    kvt_arena *memory;
    int n_field, n_key; /* of a line; of them, what a cell shares */
    golden_cell cell[GOLDEN_CELLS_MAX];
    int n;
} golden_cells;

/* Appends the cells of `name`.csv, NULL: of the policy's name. Ends the program where there is
 * no such file, or too much in it. */
void golden_read(golden_cells *out, const kvt_policy *p, const char *name);
/* "3-5 9": sets those of a mask; prints a mask behind a word, every one. */
void golden_runs(const char *text, uint8_t *mask);
void golden_print(const char *what, const uint8_t *mask, int64_t n);

#endif
