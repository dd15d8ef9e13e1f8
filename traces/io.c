/* io.c - the one thread that calls HDF5, and its queue of jobs.
 *
 * HDF5 is one library with one state in a process, so its thread and queue are static too: the
 * only ones in traces/. The thread exists while someone holds it and is joined by the last. */
#include "traces/io.h"

#include <hdf5.h>
#include <pthread.h>

static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t more, ended;
    pthread_mutex_t life; /* one start or stop at a time */
    pthread_t thread;
    io_later *first, *last;
    int n_holder;
    bool quit, busy;
} io = {.once = PTHREAD_ONCE_INIT,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .more = PTHREAD_COND_INITIALIZER,
        .ended = PTHREAD_COND_INITIALIZER,
        .life = PTHREAD_MUTEX_INITIALIZER};

/* A fork waits for the job that runs, so that a child never inherits HDF5 in the middle of a
 * call or a descriptor that is not close-on-exec yet. The child has no thread: it opens anew.
 */
static void before_fork(void)
{
    pthread_mutex_lock(&io.life);
    pthread_mutex_lock(&io.lock);
    while (io.busy)
        pthread_cond_wait(&io.ended, &io.lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&io.lock);
    pthread_mutex_unlock(&io.life);
}

static void after_fork_child(void)
{
    io.first = io.last = NULL;
    io.n_holder = 0;
    io.quit = false;
    pthread_cond_init(&io.more, NULL);
    pthread_cond_init(&io.ended, NULL);
    pthread_mutex_unlock(&io.lock);
    pthread_mutex_unlock(&io.life);
}

/* HDF5 1.10 leaks inside when it refuses a damaged file, and says so on stderr at exit: there
 * is nothing to close then, as every file was closed by its own call. */
static void set_up(void)
{
    H5dont_atexit();
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&io.lock);
    for (;;) {
        while (!io.first && !io.quit)
            pthread_cond_wait(&io.more, &io.lock);
        if (!io.first)
            break;
        io_later *j = io.first;
        io.first = j->next;
        if (!io.first)
            io.last = NULL;
        io.busy = true;
        pthread_mutex_unlock(&io.lock);
        kvt_code code = j->run(j->arg, &j->err);
        pthread_mutex_lock(&io.lock);
        io.busy = false;
        j->code = code;
        j->done = true;
        pthread_cond_broadcast(&io.ended);
    }
    pthread_mutex_unlock(&io.lock);
    return NULL;
}

kvt_code io_hold(kvt_err *err)
{
    kvt_code code = KVT_OK;
    pthread_once(&io.once, set_up);
    pthread_mutex_lock(&io.life);
    if (io.n_holder == 0) {
        io.quit = false;
        if (pthread_create(&io.thread, NULL, serve, NULL) != 0)
            code = kvt_fail(err, KVT_IO, "the thread for HDF5 could not be started");
    }
    if (!code) {
        pthread_mutex_lock(&io.lock);
        io.n_holder++;
        pthread_mutex_unlock(&io.lock);
    }
    pthread_mutex_unlock(&io.life);
    return code;
}

void io_release(void)
{
    pthread_mutex_lock(&io.life);
    pthread_mutex_lock(&io.lock);
    /* 0 in a child that closes what its parent had opened: there is no thread to end. */
    bool last = io.n_holder > 0 && --io.n_holder == 0;
    io.quit = last;
    pthread_cond_broadcast(&io.more);
    pthread_mutex_unlock(&io.lock);
    if (last)
        pthread_join(io.thread, NULL);
    pthread_mutex_unlock(&io.life);
}

void io_start(io_later *l, io_job run, void *arg)
{
    *l = (io_later){.run = run, .arg = arg};
    pthread_mutex_lock(&io.lock);
    if (io.n_holder == 0) {
        l->code =
            kvt_fail(&l->err, KVT_IO, "a file that was opened before a fork is used behind it");
        l->done = true;
    } else if (!pthread_equal(pthread_self(), io.thread)) {
        if (io.last)
            io.last->next = l;
        else
            io.first = l;
        io.last = l;
        pthread_cond_signal(&io.more);
    }
    pthread_mutex_unlock(&io.lock);
}

kvt_code io_wait(io_later *l, kvt_err *err)
{
    pthread_mutex_lock(&io.lock);
    if (!l->done && pthread_equal(pthread_self(), io.thread)) { /* of a job: it runs here */
        pthread_mutex_unlock(&io.lock);
        return l->run(l->arg, err);
    }
    while (!l->done && io.n_holder > 0)
        pthread_cond_wait(&io.ended, &io.lock);
    bool done = l->done;
    pthread_mutex_unlock(&io.lock);
    if (!done) /* in a child: its thread went with the parent */
        return kvt_fail(err, KVT_IO, "a file that was opened before a fork is used behind it");
    if (l->code)
        *err = l->err;
    return l->code;
}

kvt_code io_do(io_job run, void *arg, kvt_err *err)
{
    io_later l;
    io_start(&l, run, arg);
    return io_wait(&l, err);
}

kvt_code io_once(io_job run, void *arg, kvt_err *err)
{
    if (io_hold(err))
        return err->code;
    kvt_code code = io_do(run, arg, err);
    io_release();
    return code;
}
