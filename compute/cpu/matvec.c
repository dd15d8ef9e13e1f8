/* matvec.c - a matrix in its file's type times a vector (compute/matrix.h): the definition, and
 * which code runs. */
#include "compute/backend.h"
#include "compute/cpu/matvec_priv.h"

enum { PIECE = 256 }; /* weights that are decoded at a time: a multiple of every block */

static float row_times(const kvt_matrix *w, int64_t row, const float *x)
{
    const quant_info *q = quant_find(w->type);
    const char *from = (const char *)w->data + row * w->row_bytes;
    float piece[PIECE];
    double sum = 0;
    for (int64_t k = 0; k < w->n_col; k += PIECE) {
        int64_t n = w->n_col - k < PIECE ? w->n_col - k : PIECE;
        quant_decode(piece, w->type, from + k / q->n_weight * q->n_byte, n);
        for (int64_t i = 0; i < n; i++)
            sum += (double)piece[i] * (double)x[k + i];
    }
    return (float)sum;
}

void matvec_plain(float *y, const kvt_matrix *w, int64_t row, int64_t n, const float *x)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = row_times(w, row + i, x);
}

void cpu_matvec(float *y, const kvt_matrix *w, int64_t row, int64_t n, const float *x)
{
    const matvec_in in = {(const uint8_t *)w->data + row * w->row_bytes, n, w->n_col,
                          w->row_bytes, x};
    if (w->type == QUANT_F32)
        cpu_gemv(y, matrix_floats(w) + row * w->n_col, x, n, w->n_col);
    else if (!matvec_avx512(y, w->type, &in) && !matvec_avx2(y, w->type, &in))
        matvec_plain(y, w, row, n, x);
}
