/* decoded.c - matrices as f32 (capture/decoded.h). */
#include "capture/decoded.h"

enum { ROUND = 16, STEP = 1 << 15 }; /* floats: 64 bytes; work of one step of a thread */

static int64_t floats(const kvt_matrix *m)
{
    return m->type == QUANT_F32 ? 0 : (m->n_row * m->n_col + ROUND - 1) / ROUND * ROUND;
}

int64_t decoded_floats(const kvt_matrix *const *m, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += floats(m[i]);
    return sum;
}

/* One region for all matrices, without a barrier behind each. */
void decoded_fill(const float **out, float *room, const kvt_matrix *const *m, int n,
                  int n_thread)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        out[i] = m[i]->type == QUANT_F32 ? matrix_floats(m[i]) : room;
        room += floats(m[i]);
        any = any || m[i]->type != QUANT_F32;
    }
    if (!any)
        return;
#pragma omp parallel num_threads(n_thread)
    for (int i = 0; i < n; i++) {
        int64_t rows = STEP / m[i]->n_col > 0 ? STEP / m[i]->n_col : 1;
        int64_t n_step = m[i]->type == QUANT_F32 ? 0 : (m[i]->n_row + rows - 1) / rows;
#pragma omp for schedule(dynamic) nowait
        for (int64_t s = 0; s < n_step; s++) {
            int64_t row = s * rows, left = m[i]->n_row - row;
            float *to = (float *)(uintptr_t)out[i] + row * m[i]->n_col;
            matrix_rows(m[i], row, left < rows ? left : rows, to);
        }
    }
}
