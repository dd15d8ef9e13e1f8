/* device_pair.h - one tiny model twice, on the processor and on a device, and their traces
 * beside each other.
 *
 *   pair p;
 *   pair_open(&p, &options, NULL);         on the host device; or on one of the caller's
 *   pair_compare(&p, &spec, &limits);      both capture, every dataset is compared
 *   pair_close(&p);
 *
 * Link tests/device_pair.c, tests/gguf_make.c, tests/model_make.c and the module capture. */
#ifndef TESTS_DEVICE_PAIR_H
#define TESTS_DEVICE_PAIR_H

#include "capture/capture_priv.h"
#include "kvt/capture.h"
#include "tests/model_make.h"

typedef struct pair {
    kvt_model *cpu, *device;
    kvt_ctx ctx;
} pair;

/* Relative to the largest value of what is compared. */
typedef struct pair_limits {
    double same; /* f32 that both compute */
    double half; /* what is stored as halves */
} pair_limits;

extern const pair_limits pair_f32; /* of a device that computes in f32 */

/* The device is closed with the model. NULL: the host's. */
void pair_open(pair *p, const model_make_options *o, kvt_device *device);
void pair_close(pair *p);
/* A capture to a file of that name in the test's folder. */
kvt_capture_spec pair_spec(const char *prompt, int64_t max_new);
/* Captures on both and compares. */
void pair_compare(const pair *p, const kvt_capture_spec *spec, const pair_limits *limits);
/* Two traces; prints the largest differences where KVT_SHOW is set. */
void pair_compare_files(const char *a, const char *b, const pair_limits *limits);
/* Puts the weights of an open model on a device, which it then owns. */
void pair_attach(kvt_model *m, kvt_device *device);

#endif
