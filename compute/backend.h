/* backend.h - the table of kernels that the forward pass and the recorder call. */
#ifndef COMPUTE_BACKEND_H
#define COMPUTE_BACKEND_H

#include "compute/attend.h"
#include "compute/device.h"
#include "compute/gemm.h"
#include "compute/layer.h"
#include "compute/matrix.h"
#include "compute/reduce.h"
#include "kvt/backend.h"

struct kvt_backend {
    char name[128];     /* "cpu", or the device's */
    kvt_device *device; /* NULL: the CPU */
#define KVT_KERNEL(type, name) type *name;
#include "compute/kernels.def"
#undef KVT_KERNEL
};

/* The CPU's kernels. */
#define KVT_KERNEL(type, name) type cpu_##name;
#include "compute/kernels.def"
#undef KVT_KERNEL

#endif
