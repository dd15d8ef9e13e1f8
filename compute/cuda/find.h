/* find.h - the GPUs of this machine, and one line on why one cannot be used. */
#ifndef COMPUTE_CUDA_FIND_H
#define COMPUTE_CUDA_FIND_H

#include "kvt/ctx.h"

typedef struct cuda_card {
    char name[64];
    char bus[20]; /* "0000:1B:00.0" */
    int index, major, minor;
    int64_t bytes;
    int driver; /* 13000: the newest CUDA that the driver knows */
} cuda_card;

/* GPU `index` in CUDA's order. DEVICE: no driver, too old a one, no GPU, no such GPU (with the
 * list of those that are there). Logs which one it is: CUDA's order need not be that of
 * nvidia-smi. */
KVT_CHECKED kvt_code cuda_find(cuda_card *out, int index, const kvt_ctx *ctx, kvt_err *err);

/* "NVIDIA H200 (cuda:0, bus 0000:1B:00.0, 139.8 GiB, sm_90, driver 13.0)"; returns out. */
const char *cuda_card_print(const cuda_card *c, char *out, size_t cap);

/* The first kernel failed with err: says what this build has for which GPU. Returns err's code.
 */
kvt_code cuda_no_kernels(const cuda_card *c, kvt_err *err);

#endif
