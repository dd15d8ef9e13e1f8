/* probe.cu - the smallest kernel. */
#include "compute/cuda/kernel.h"

/* grid: (1)   block: (1)   shared: none */
KERNEL(probe_kernel, cuda_probe_args)
{
    a.out[0] = a.x;
}

LAUNCHERS_BEGIN

kvt_code cuda_probe(kvt_device *d, const cuda_probe_args *a, kvt_err *err)
{
    return LAUNCH(d, probe_kernel, *a, grid3(1, 1, 1), 1, 0, err);
}

LAUNCHERS_END
