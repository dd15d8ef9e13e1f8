/* plan_speed.h - what this machine does now, from a short measurement. */
#ifndef CAPTURE_PLAN_SPEED_H
#define CAPTURE_PLAN_SPEED_H

#include "capture/capture_priv.h"

typedef struct plan_speed {
    double flops, stream;             /* of the processor: 1/s of matrix products with all
                                       * threads, bytes/s of a weight matrix read once */
    double model_flops, model_stream; /* of what runs the model: a device, or the same */
} plan_speed;

int64_t plan_measure_bytes(const kvt_model *m, int n_thread); /* memory while it lasts */
KVT_CHECKED kvt_code plan_measure(plan_speed *out, const kvt_model *m, int n_thread,
                                  kvt_err *err);

#endif
