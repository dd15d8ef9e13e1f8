/* device_convert.c - values that change their type or place (compute/device_args.h): the
 * definitions. */
#include "compute/cpu/device_typed.h"
#include "compute/quant.h"

kvt_code host_dequant(kvt_device *d, const dev_dequant_args *a, kvt_err *err)
{
    (void)d, (void)err;
    const quant_info *info = quant_find(a->quant);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < a->n / info->n_weight; block++) {
        float w[256];
        quant_decode(w, a->quant, (const char *)a->in + block * info->n_byte, info->n_weight);
        for (int i = 0; i < info->n_weight; i++)
            typed_put(a->type, a->out, block * info->n_weight + i, w[i]);
    }
    return KVT_OK;
}

kvt_code host_cast(kvt_device *d, const dev_cast_args *a, kvt_err *err)
{
    (void)d, (void)err;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->n; i++)
        typed_put(a->to, a->out, i, typed_get(a->from, a->in, i));
    return KVT_OK;
}

kvt_code host_embed(kvt_device *d, const dev_embed_args *a, kvt_err *err)
{
    (void)d, (void)err;
    const quant_info *info = quant_find(a->quant);
    for (int64_t r = 0; r < a->n_row; r++) {
        const char *block = (const char *)a->table + a->id[r] * a->row_bytes;
        float *x = a->x + r * a->n_hidden;
        for (int64_t e = 0; e < a->n_hidden; e += info->n_weight, block += info->n_byte) {
            quant_decode(x + e, a->quant, block, info->n_weight);
            for (int i = 0; i < info->n_weight; i++)
                x[e + i] = a->scale * x[e + i];
        }
    }
    return KVT_OK;
}

kvt_code host_merge(kvt_device *d, const dev_merge_args *a, kvt_err *err)
{
    (void)d, (void)err;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->n_row; r++)
        for (int64_t h = 0; h < a->n_head; h++)
            for (int64_t i = 0; i < a->head_dim; i++)
                typed_put(a->type, a->out, r * a->ld + h * a->head_dim + i,
                          a->x[(h * a->n_row + r) * a->head_dim + i]);
    return KVT_OK;
}
