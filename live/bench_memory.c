/* bench_memory.c - what memory gives to all threads, reading and copying, and what it costs to
 * hand work to them. */
#include "live/bench_priv.h"

#include <omp.h>
#include <string.h>

#include "capture/crew.h"
#include "kvt/arena.h"

enum {
    ROW = 1024,       /* floats of a row of the matrix that is read */
    BLOCK = 64,       /* rows at a time */
    STRIPE = 1 << 16, /* floats that a thread copies at a time */
    ROUNDS = 256,
    ITEMS = 16
};
static const int64_t FLOATS = 24 << 20; /* 96 MiB: beyond the caches of a processor */

struct bench_memory {
    bench_case c;
    float *from, *to;
};

static kvt_code run_read(void *arg, kvt_err *err)
{
    const bench_memory *m = arg;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(m->c.n_thread)
    for (int64_t i = 0; i < FLOATS / (ROW * BLOCK); i++) {
        float y[BLOCK];
        m->c.backend->gemv(y, m->from + i * ROW * BLOCK, m->to, BLOCK, ROW);
    }
    return KVT_OK;
}

static kvt_code run_copy(void *arg, kvt_err *err)
{
    const bench_memory *m = arg;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(m->c.n_thread)
    for (int64_t i = 0; i < FLOATS / STRIPE; i++)
        memcpy(m->to + i * STRIPE, m->from + i * STRIPE, STRIPE * sizeof(float));
    return KVT_OK;
}

/* A call of all threads: what stands where a device has a launch. */
static kvt_code run_launch(void *arg, kvt_err *err)
{
    const bench_memory *m = arg;
    (void)err;
#pragma omp parallel num_threads(m->c.n_thread)
    m->to[omp_get_thread_num() * 16] = 0;
    return KVT_OK;
}

static void nothing(const void *arg, int64_t item)
{
    (void)arg;
    (void)item;
}

static kvt_code run_round(void *arg, kvt_err *err)
{
    const bench_memory *m = arg;
    crew c;
    (void)err;
    crew_init(&c);
#pragma omp parallel num_threads(m->c.n_thread)
    {
        if (omp_get_thread_num() != 0) {
            crew_help(&c);
        } else {
            for (int i = 0; i < ROUNDS; i++)
                crew_round(&c, ITEMS, nothing, NULL);
            crew_dismiss(&c);
        }
    }
    return KVT_OK;
}

kvt_code bench_memory_new(bench_memory **out, const bench_case *c, bench_task *task, int *n,
                          bench_times *times, kvt_err *err)
{
    bench_memory *m = kvt_alloc(1, sizeof *m);
    *out = m;
    if (!m)
        return kvt_fail_memory(err, sizeof *m);
    m->c = *c;
    m->from = kvt_alloc(FLOATS, sizeof(float));
    m->to = kvt_alloc(FLOATS, sizeof(float));
    if (!m->from || !m->to)
        return kvt_fail_memory(err, 2 * (size_t)FLOATS * sizeof(float));
    for (int64_t i = 0; i < FLOATS; i++) /* pages that were never written are all one page */
        m->from[i] = 1;
    const double bytes = (double)FLOATS * sizeof(float);
    bench_add(task, n, &times->read, "memory, read", "B/s", bytes, run_read, m);
    bench_add(task, n, &times->copy, "memory, copied (read and written)", "B/s", 2 * bytes,
              run_copy, m);
    bench_add(task, n, &times->launch, "a call of all threads", "s", 1, run_launch, m);
    bench_add(task, n, &times->round, "a round of decode's threads", "s", ROUNDS, run_round, m);
    return KVT_OK;
}

void bench_memory_free(bench_memory *m)
{
    if (!m)
        return;
    kvt_free(m->from);
    kvt_free(m->to);
    kvt_free(m);
}
