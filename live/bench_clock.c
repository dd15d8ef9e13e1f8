/* bench_clock.c - tasks that are timed in turn. */
#include "live/bench_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { LEAST_SAMPLES = 3 };
static const double SAMPLE =
    2e-3; /* s, at least: a clock reads, and threads wake up, in less */

void bench_add(bench_task *task, int *n, const bench_task **slot, const char *name,
               const char *unit, double amount, kvt_code (*run)(void *arg, kvt_err *err),
               void *arg)
{
    task[*n] =
        (bench_task){.name = name, .unit = unit, .amount = amount, .run = run, .arg = arg};
    *slot = &task[(*n)++];
}

static kvt_code sample(bench_task *t, double *seconds, kvt_err *err)
{
    double begin = clock_now();
    for (int64_t i = 0; i < t->repeats; i++) {
        kvt_code code = t->run(t->arg, err);
        if (code)
            return code;
    }
    *seconds = (clock_now() - begin) / (double)t->repeats;
    return KVT_OK;
}

/* Twice without a record: the first touches memory, the second says how often a sample runs. */
static kvt_code warm_up(bench_task *t, double least, kvt_err *err)
{
    double seconds;
    t->repeats = 1;
    t->n_sample = 0;
    t->spent = 0;
    if (sample(t, &seconds, err) || sample(t, &seconds, err))
        return err->code;
    if (seconds < least)
        t->repeats = (int64_t)(least / (seconds > 1e-8 ? seconds : 1e-8)) + 1;
    return KVT_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(bench_task *t)
{
    qsort(t->sample, (size_t)t->n_sample, sizeof *t->sample, ascending);
    t->best = t->sample[0] > 1e-9 ? t->sample[0] : 1e-9;
    t->median = t->sample[t->n_sample / 2];
}

static bool is_done(const bench_task *t, double seconds)
{
    return t->n_sample == BENCH_SAMPLES ||
           (t->n_sample >= LEAST_SAMPLES && t->spent >= seconds);
}

kvt_code bench_run(bench_task *task, int n, double seconds, const kvt_ctx *ctx, kvt_err *err)
{
    int done = 0;
    for (int i = 0; i < n; i++)
        if (kvt_progress(ctx, "warming up", i, n, err) ||
            warm_up(&task[i], SAMPLE * seconds, err))
            return err->code;
    for (int round = 0; done < n; round++) {
        done = 0;
        for (int i = 0; i < n; i++) {
            bench_task *t = &task[i];
            if (is_done(t, seconds)) {
                done++;
                continue;
            }
            /* Rounds are not known: samples of the first task stand for all. */
            if (kvt_progress(ctx, "measuring this machine", round, 0, err) ||
                sample(t, &t->sample[t->n_sample], err))
                return err->code;
            t->spent += t->sample[t->n_sample++] * (double)t->repeats;
        }
    }
    for (int i = 0; i < n; i++)
        summarise(&task[i]);
    return KVT_OK;
}

kvt_bench_row bench_row_of(const bench_task *t)
{
    kvt_bench_row row = {.spread_frac = (t->median - t->best) / t->best};
    snprintf(row.name, sizeof row.name, "%s", t->name);
    snprintf(row.unit, sizeof row.unit, "%s", t->unit);
    row.value = strcmp(t->unit, "s") == 0 ? t->best / t->amount : t->amount / t->best;
    return row;
}
