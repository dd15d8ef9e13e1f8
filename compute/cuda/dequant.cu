/* dequant.cu - whole blocks to typed values: a matrix for the products of a prefill.
 *
 * grid: (n / 1024)   block: 256, four weights a thread   shared: none
 * A kernel a type. Reads each block once from memory (its scales many times from the cache) and
 * writes 2 or 4 bytes a weight, side by side. */
#include "compute/cuda/quant.h"
#include "compute/cuda/typed.h"

enum { THREADS = 256, EACH = 4 };

/* clang-format off */
#define QUANT(type_, NAME, n_byte, n_weight, function)                                      \
    DEVICE_FN float weight_##function(const dev_dequant_args *a, uint64_t i)                \
    {                                                                                       \
        return quant_##function((const uint8_t *)a->in + i / (n_weight) * (n_byte),         \
                                (unsigned)(i % (n_weight)));                                \
    }                                                                                       \
    KERNEL(dequant_##function, dev_dequant_args)                                            \
    {                                                                                       \
        int64_t i = (BLOCK_X * BLOCK_DIM_X + THREAD_X) * EACH;                              \
        if (i + EACH <= a.n && quad_fits(a.type, a.out)) {                                  \
            quad v;                                                                         \
            v.x = weight_##function(&a, (uint64_t)i);                                       \
            v.y = weight_##function(&a, (uint64_t)i + 1);                                   \
            v.z = weight_##function(&a, (uint64_t)i + 2);                                   \
            v.w = weight_##function(&a, (uint64_t)i + 3);                                   \
            quad_store(a.type, a.out, i, v);                                                \
            return;                                                                         \
        }                                                                                   \
        for (int k = 0; k < EACH; k++)                                                      \
            if (i + k < a.n)                                                                \
                typed_store(a.type, a.out, i + k, weight_##function(&a, (uint64_t)(i + k))); \
    }
#define QUANT_REFUSED(type, name)
#include "compute/quants.def"
#undef QUANT

LAUNCHERS_BEGIN
kvt_code cuda_dequant(kvt_device *d, const dev_dequant_args *a, kvt_err *err)
{
    if (a->n <= 0)
        return KVT_OK;
    switch (a->quant) {
#define QUANT(type, NAME, n_byte, n_weight, function)                                      \
    case QUANT_##NAME:                                                                     \
        return LAUNCH(d, dequant_##function, *a, grid3(blocks_of(a->n, THREADS * EACH), 1, 1), \
                      THREADS, 0, err);
#include "compute/quants.def"
#undef QUANT
#undef QUANT_REFUSED
    default: return kvt_fail(err, KVT_FORMAT, "dequant: no kernel for blocks of type %d", a->quant);
    }
}
LAUNCHERS_END
/* clang-format on */
