/* doctor_bench.h - kvt doctor --bench: what this machine does, as a machine of kvt cost. */
#ifndef CLI_DOCTOR_BENCH_H
#define CLI_DOCTOR_BENCH_H

#include "cli/cli.h"

typedef struct doctor_bench_options {
    const char *model;   /* NULL: shapes of SmolLM2-135M, and no passes */
    const char *save;    /* NULL: cli_machine_here() */
    const char *device;  /* "cpu", "cuda", "cuda:1" */
    const char *lengths; /* of prompts; with a model */
    double seconds;      /* of each measurement */
} doctor_bench_options;

/* Measures, prints and writes the machine file. USAGE, IO: before anything is measured. */
KVT_CHECKED kvt_code cli_doctor_bench(cli *c, const doctor_bench_options *o, kvt_err *err);

#endif
