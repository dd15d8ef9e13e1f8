/* embed.cu - rows of a table by their ids.
 *
 * grid: (n_row x n_hidden / 1024)   block: 256, four values a thread   shared: none
 * A kernel a type of the table. Reads n_row rows of blocks and writes 4 n_hidden bytes a row.
 */
#include "compute/cuda/quant.h"
#include "compute/cuda/typed.h"

enum { THREADS = 256, EACH = 4 };

/* clang-format off */
#define QUANT(type_, NAME, n_byte, n_weight, function)                                      \
    KERNEL(embed_##function, dev_embed_args)                                                \
    {                                                                                       \
        int64_t quads = (a.n_hidden + EACH - 1) / EACH; /* the last may be shorter */       \
        int64_t at = BLOCK_X * BLOCK_DIM_X + THREAD_X, row = at / quads;                    \
        uint64_t e = (uint64_t)(at % quads * EACH);                                         \
        if (row >= a.n_row)                                                                 \
            return;                                                                         \
        const uint8_t *b = (const uint8_t *)a.table + a.id[row] * a.row_bytes;              \
        float *x = a.x + row * a.n_hidden;                                                  \
        for (uint64_t k = e; k < e + EACH && k < (uint64_t)a.n_hidden; k++)                 \
            x[k] = a.scale * quant_##function(b + k / (n_weight) * (n_byte),                \
                                              (unsigned)(k % (n_weight)));                  \
    }
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT

LAUNCHERS_BEGIN
kvt_code cuda_embed(kvt_device *d, const dev_embed_args *a, kvt_err *err)
{
    int64_t n = a->n_row * ((a->n_hidden + EACH - 1) / EACH);
    if (n <= 0)
        return KVT_OK;
    switch (a->quant) {
#define QUANT(type, NAME, n_byte, n_weight, function)                                       \
    case QUANT_##NAME:                                                                      \
        return LAUNCH(d, embed_##function, *a, grid3(blocks_of(n, THREADS), 1, 1), THREADS, 0, err);
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
    default: return kvt_fail(err, KVT_FORMAT, "embed: no kernel for blocks of type %d", a->quant);
    }
}
LAUNCHERS_END
/* clang-format on */
