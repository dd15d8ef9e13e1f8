/* crew.h - many short rounds of work on several threads, without waiting for a thread that the
 * machine has put aside.
 *
 *   crew c;
 *   crew_init(&c);
 *   #pragma omp parallel num_threads(n)
 *   if (omp_get_thread_num() != 0)
 *       crew_help(&c);
 *   else {
 *       crew_round(&c, n_item, fn, arg);      all items are done when it returns
 *       ...
 *       crew_dismiss(&c);
 *   }
 *
 * A barrier waits for every thread; on a machine that others use too, one of them often does
 * not run just then, and a token of decode has hundreds of barriers. Here the first thread
 * waits for items that are being worked on, never for threads: alone, it does all the work
 * itself. */
#ifndef CAPTURE_CREW_H
#define CAPTURE_CREW_H

#include <stdatomic.h>
#include <stdint.h>

typedef void crew_fn(const void *arg, int64_t item);

typedef struct crew {
    crew_fn *fn;
    const void *arg;
    _Atomic uint64_t ticket; /* round << 32 | items that are taken */
    _Atomic uint64_t n_item; /* round << 32 | items of the round */
    _Atomic int64_t n_done;
    atomic_bool dismissed;
} crew;

void crew_init(crew *c);
void crew_help(crew *c);
/* n_item < 2^31. */
void crew_round(crew *c, int64_t n_item, crew_fn *fn, const void *arg);
void crew_dismiss(crew *c);

#endif
