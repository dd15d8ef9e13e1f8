/* matrix.h - a weight matrix in its file's type.
 *
 *   y [n_row] = sum over k of W[row, k] x[k]          W row-major, [out in]
 *
 * Rows are whole blocks of compute/quants.def and lie one behind the other. */
#ifndef COMPUTE_MATRIX_H
#define COMPUTE_MATRIX_H

#include <assert.h>

#include "compute/quant.h"
#include "kvt/api.h"

typedef struct kvt_matrix {
    int type;             /* QUANT_F32, QUANT_BF16, QUANT_Q4_K, ... */
    int64_t n_row, n_col; /* out, in */
    int64_t row_bytes;
    const void *data; /* [n_row row_bytes], 64-byte aligned; NULL: there is none */
} kvt_matrix;

static inline kvt_matrix matrix_of_floats(const float *data, int64_t n_row, int64_t n_col)
{
    return (kvt_matrix){QUANT_F32, n_row, n_col, n_col * (int64_t)sizeof(float), data};
}

/* The values of a matrix whose type is f32. */
static inline const float *matrix_floats(const kvt_matrix *m)
{
    assert(m->type == QUANT_F32);
    return m->data;
}

/* Rows [row, row + n) as f32 [n n_col]: where they lie, or decoded into `room`, which may be
 * NULL for a matrix of f32. */
static inline const float *matrix_rows(const kvt_matrix *m, int64_t row, int64_t n, float *room)
{
    const char *from = (const char *)m->data + row * m->row_bytes;
    if (m->type == QUANT_F32)
        return (const float *)(const void *)from;
    quant_decode(room, m->type, from, n * m->n_col);
    return room;
}

/* y [n] = rows [row, row + n) of w times x f32 [n_col]: the product of a decode step. Each y
 * depends on its row and x only, so that any cut of the rows gives the same bits. Weights are
 * decoded in registers, x stays f32. For f32 the bits of gemv. Tolerance: 1e-6 relative to the
 * sum of absolute products. */
typedef void matvec_fn(float *y, const kvt_matrix *w, int64_t row, int64_t n, const float *x);

#endif
