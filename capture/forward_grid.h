/* forward_grid.h - how passes on the processor are cut: rows of products, keys and rows of a
 * decode step. The cut follows from the shapes only, never from the threads. */
#ifndef CAPTURE_FORWARD_GRID_H
#define CAPTURE_FORWARD_GRID_H

#include <stdint.h>

enum { DECODE_KEYS = 256, DECODE_ROWS = 64 }; /* the grid of decode: keys, rows of a matrix */
enum { FORWARD_VOCAB = 256 };                 /* rows of the output matrix at a time */

/* Row tiles of the products in a pass of n rows: long ones first, because a library packs the
 * whole weight matrix for each tile, and short ones at the end, for the threads to share. */
enum { FORWARD_LONG = 256, FORWARD_SHORT = 128, FORWARD_SHORT_ROWS = 1024 };

static inline int64_t forward_long_tiles(int64_t n)
{
    return n <= FORWARD_SHORT_ROWS ? 0
                                   : (n - FORWARD_SHORT_ROWS + FORWARD_LONG - 1) / FORWARD_LONG;
}

/* First row of tile i, at most n. */
static inline int64_t forward_tile_begin(int64_t n, int64_t i)
{
    int64_t n_long = forward_long_tiles(n);
    int64_t row =
        i <= n_long ? i * FORWARD_LONG : n_long * FORWARD_LONG + (i - n_long) * FORWARD_SHORT;
    return row < n ? row : n;
}

/* The tile that a row is in. */
static inline int64_t forward_tile_of(int64_t n, int64_t row)
{
    int64_t n_long = forward_long_tiles(n), rest = row - n_long * FORWARD_LONG;
    return rest < 0 ? row / FORWARD_LONG : n_long + rest / FORWARD_SHORT;
}

#endif
