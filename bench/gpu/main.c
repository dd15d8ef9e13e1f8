/* main.c - bench_gpu: the kernels of a device against its limits, and a model of 8B geometry
 * with random weights, recording against not recording.
 *
 *   bench_gpu [--smoke] [--host] [--runs N] [--out REPORT.md]
 *
 * --host runs the definitions in this process, --smoke tiny shapes: both only try the program.
 * Without a usable GPU it says why and exits with 77. Times are of this machine; what compares
 * is the share of what the same run measured as the device's limit. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/gpu/bench.h"

enum { GROUP_SECONDS_INV = 20, CALLS_MAX = 200, RUNS_MAX = 15, SKIPPED = 77 };

void bench_check(kvt_code code, const kvt_err *err, const char *what)
{
    if (code) {
        fprintf(stderr, "bench_gpu: %s: %s\n", what, err->text);
        exit(1);
    }
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Halves and bf16 of small size whatever the type: random low bits, exponents near 1/16. */
void *bench_take(bench *b, int64_t bytes, const char *what)
{
    enum { PIECE = 1 << 22 };
    kvt_err err;
    void *p;
    uint16_t *random = malloc(PIECE);
    uint64_t s = 0x9e3779b97f4a7c15u + (uint64_t)bytes;
    bench_check(b->d->alloc(b->d, &p, bytes, what, &err), &err, what);
    for (int i = 0; random && i < PIECE / 2; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        random[i] = (uint16_t)(0x2c00 | (s >> 48 & 0x83ff));
    }
    for (int64_t at = 0; random && at < bytes; at += PIECE)
        bench_check(b->d->upload(b->d, (char *)p + at, random,
                                 bytes - at < PIECE ? bytes - at : PIECE, &err),
                    &err, what);
    free(random);
    return p;
}

static double group(bench *b, bench_fn *fn, const void *args, int n)
{
    kvt_err err;
    bench_check(b->d->sync(b->d, &err), &err, "sync");
    double begin = bench_now();
    for (int i = 0; i < n; i++)
        bench_check(fn(b->d, args, &err), &err, "kernel");
    bench_check(b->d->sync(b->d, &err), &err, "sync");
    return (bench_now() - begin) / n;
}

double bench_seconds(bench *b, bench_fn *fn, const void *args)
{
    double x[RUNS_MAX], once = group(b, fn, args, 1);
    once = group(b, fn, args, b->is_smoke ? 1 : 3);
    double calls = once > 0 ? 1 / (GROUP_SECONDS_INV * once) : CALLS_MAX;
    int n = b->is_smoke ? 1 : calls < 1 ? 1 : calls > CALLS_MAX ? CALLS_MAX : (int)calls;
    for (int i = 0; i < b->n_run; i++)
        x[i] = group(b, fn, args, n);
    return bench_median(x, b->n_run);
}

static int usage(const char *why)
{
    fprintf(stderr,
            "bench_gpu: %s; usage: bench_gpu [--smoke] [--host] [--runs N] [--out FILE]\n",
            why);
    return 2;
}

int main(int argc, char **argv)
{
    bench b = {.out = stdout, .n_run = 5};
    bool host = false;
    kvt_err err;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--smoke") == 0)
            b.is_smoke = true;
        else if (strcmp(argv[i], "--host") == 0)
            host = true;
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            b.n_run = atoi(argv[++i]);
        else if (strcmp(argv[i], "--out") == 0 && i + 1 < argc && b.out == stdout) {
            if (!(b.out = fopen(argv[++i], "w")))
                return usage("the report cannot be written");
        } else
            return usage("unknown argument");
    }
    if (b.n_run < 1 || b.n_run > RUNS_MAX)
        return usage("--runs: expected 1 to 15");
    if (b.is_smoke)
        b.n_run = 1;
    if (host ? device_open_host(&b.d, &err) : device_open_cuda(&b.d, 0, NULL, &err)) {
        fprintf(stderr, "bench_gpu: skipped: %s\n", err.text);
        return SKIPPED;
    }
    fprintf(b.out, "## Speed\n\nDevice: %s; %s. Medians of %d runs.\n", b.d->name,
            b.d->arithmetic, b.n_run);
    bench_limits(&b);
    bench_kernels(&b);
    bench_model(&b);
    b.d->close(b.d);
    return fflush(b.out) || ferror(b.out) ? 1 : 0;
}
