/* io.h - the one thread that calls HDF5.
 *
 * The usual HDF5 is not safe for threads, and the safe build takes a lock in every call: so all
 * of kvt's calls run as jobs of one thread, and a caller waits for its job.
 *
 *   io_hold(err);                 the thread runs while anybody holds it
 *   code = io_do(job, arg, err);  job(arg, err) runs there
 *   io_release();                 the last one ends it
 *
 *   io_start(&later, job, arg);   the same without waiting: `later` and arg stay where they are
 *   ... compute ...
 *   code = io_wait(&later, err);  done, with what it returned
 *
 * A job may call io_do() itself: it then runs at once. */
#ifndef TRACES_IO_H
#define TRACES_IO_H

#include "kvt/err.h"

typedef kvt_code (*io_job)(void *arg, kvt_err *err);

KVT_CHECKED kvt_code io_hold(kvt_err *err);
void io_release(void);
KVT_CHECKED kvt_code io_do(io_job job, void *arg, kvt_err *err);

/* A job on its way; the members are io.c's. Jobs run in the order in which they were given. */
typedef struct io_later {
    io_job run;
    void *arg;
    kvt_err err;
    kvt_code code;
    bool done;
    struct io_later *next;
} io_later;

void io_start(io_later *l, io_job job, void *arg);
/* Once for each io_start(). */
KVT_CHECKED kvt_code io_wait(io_later *l, kvt_err *err);

/* io_hold(), io_do(), io_release(): for calls that keep no file open. */
KVT_CHECKED kvt_code io_once(io_job job, void *arg, kvt_err *err);

#endif
