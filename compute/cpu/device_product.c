/* device_product.c - products of matrices and with vectors (compute/device_args.h): the
 * definitions. Sums are in double, in the order of k. */
#include "compute/cpu/device_typed.h"
#include "compute/quant.h"

kvt_code host_gemm(kvt_device *d, const dev_gemm_args *g, kvt_err *err)
{
    (void)d, (void)err;
    int64_t a_row = g->op == DEV_TN ? 1 : g->lda, a_k = g->op == DEV_TN ? g->lda : 1;
    int64_t b_col = g->op == DEV_NT ? g->ldb : 1, b_k = g->op == DEV_NT ? 1 : g->ldb;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < g->n_batch * g->m; row++) {
        int64_t batch = row / g->m, i = row % g->m;
        int64_t a = batch * g->stride_a + i * a_row, b = batch * g->stride_b;
        float *c = g->c + batch * g->stride_c + i * g->ldc;
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += (double)typed_get(g->type, g->a, a + k * a_k) *
                       (double)typed_get(g->type, g->b, b + j * b_col + k * b_k);
            double kept = g->beta == 0 ? 0 : (double)g->beta * (double)c[j]; /* may be a NAN */
            c[j] = (float)((double)g->alpha * sum + kept);
        }
    }
    return KVT_OK;
}

kvt_code host_gemv(kvt_device *d, const dev_gemv_args *a, kvt_err *err)
{
    (void)d, (void)err;
    const quant_info *info = quant_find(a->quant);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < a->n_row; row++) {
        const char *block = (const char *)a->w + row * a->row_bytes;
        double sum = 0;
        for (int64_t k = 0; k < a->n_col; k += info->n_weight, block += info->n_byte) {
            float w[256];
            quant_decode(w, a->quant, block, info->n_weight);
            for (int i = 0; i < info->n_weight; i++)
                sum += (double)w[i] * (double)typed_get(a->type, a->x, k + i);
        }
        a->y[row] = (float)sum;
    }
    return KVT_OK;
}
