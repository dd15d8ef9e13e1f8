/* bench.h - what the parts of bench_gpu share: a device, a clock around enqueued work, lines of
 * a report. */
#ifndef BENCH_GPU_BENCH_H
#define BENCH_GPU_BENCH_H

#include <stdio.h>

#include "compute/device.h"

typedef struct bench {
    kvt_device *d;
    FILE *out;      /* the report, Markdown */
    bool is_smoke;  /* tiny shapes, to try the program itself */
    int n_run;      /* of which the median is taken */
    double stream;  /* bytes/s: what a copy on the device reaches, reading and writing */
    double product; /* FLOP/s: what the best product of 16-bit matrices reaches */
} bench;

/* Ends the program with the error's text. */
void bench_check(kvt_code code, const kvt_err *err, const char *what);
void *bench_take(bench *b, int64_t bytes, const char *what); /* device memory, random bytes */
double bench_now(void);
double bench_median(double *x, int n); /* sorts */

/* Median seconds of one call of fn, from groups of calls that follow one another. */
typedef kvt_code bench_fn(kvt_device *d, const void *args, kvt_err *err);
double bench_seconds(bench *b, bench_fn *fn, const void *args);

void bench_limits(bench *b);
void bench_kernels(bench *b);
void bench_model(bench *b);

#endif
