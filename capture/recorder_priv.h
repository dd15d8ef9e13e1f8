/* recorder_priv.h - the recorder's memory, shared by recorder.c and recorder_write.c. */
#ifndef CAPTURE_RECORDER_PRIV_H
#define CAPTURE_RECORDER_PRIV_H

#include "capture/recorder.h"
#include "compute/backend.h"

struct recorder {
    recorder_spec spec;
    const kvt_geometry *g;
    tap tap;
    int n_thread;
    int index[KVT_LAYERS_MAX]; /* of a layer of the model among those recorded, or -1 */
    bool queries, moments, hidden, norms;
    int64_t query_begin, n_query; /* first stored position; stored positions at most */
    int64_t n_response;           /* at most */
    sampler *sampler;             /* of recorder_expect() */
    const int32_t *expected;
    int64_t n_expected;
    kvt_err failed; /* code OK: nothing */
    future *future;
    float *lse;           /* f32 [L H T] */
    uint16_t *q;          /* f16 [L H Q D] */
    float *mean, *cov;    /* f32 [L H D], [L H D D] */
    float *freq;          /* f32 [L H F] */
    float *norm;          /* f32 [L T] */
    uint16_t *x;          /* f16 [L T E] */
    int32_t *logit_id;    /* i32 [M X] */
    float *logp;          /* f32 [M X] */
    float *nll, *entropy; /* f32 [M] */
    int32_t *pos;         /* i32 [Q] */
    unsigned char *temp;  /* two datasets of a layer, one being made, one being written */
    float *l1, *l2;       /* f32 [H T]; on a device [L H T] */
    uint16_t *k, *v;      /* f16 [L G T D] on a device */
    float *scratch;       /* f32 [n_thread stride] */
    int64_t temp_bytes, stride;
    device_record *device; /* NULL: the processor runs the model */
};

#endif
