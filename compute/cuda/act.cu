/* act.cu - the gate of a feed-forward layer.
 *
 * grid: (n / 1024)   block: 256, four values a thread   shared: none
 * Reads gate and up and writes out once: 12 n bytes, 10 n where out is of halves. */
#include "compute/cuda/typed.h"

enum { THREADS = 256, EACH = 4 };

DEVICE_FN float gated(bool gelu, float z, float up)
{
    const float root = 0.7978845608028654f; /* sqrt(2 / pi) */
    if (gelu)
        return 0.5f * z * (1.0f + tanhf(root * (z + 0.044715f * z * z * z))) * up;
    return z / (1.0f + expf(-z)) * up;
}

KERNEL(act_kernel, dev_act_args)
{
    int64_t i = (BLOCK_X * BLOCK_DIM_X + THREAD_X) * EACH;
    if (i + EACH <= a.n && quad_fits(DEV_F32, a.gate) && quad_fits(DEV_F32, a.up) &&
        quad_fits(a.type, a.out)) {
        quad z = quad_of(a.gate + i), up = quad_of(a.up + i);
        z.x = gated(a.gelu, z.x, up.x);
        z.y = gated(a.gelu, z.y, up.y);
        z.z = gated(a.gelu, z.z, up.z);
        z.w = gated(a.gelu, z.w, up.w);
        quad_store(a.type, a.out, i, z);
        return;
    }
    for (int k = 0; k < EACH; k++)
        if (i + k < a.n)
            typed_store(a.type, a.out, i + k, gated(a.gelu, a.gate[i + k], a.up[i + k]));
}

LAUNCHERS_BEGIN
kvt_code cuda_act(kvt_device *d, const dev_act_args *a, kvt_err *err)
{
    if (a->n <= 0)
        return KVT_OK;
    return LAUNCH(d, act_kernel, *a, grid3(blocks_of(a->n, THREADS * EACH), 1, 1), THREADS, 0,
                  err);
}
LAUNCHERS_END
