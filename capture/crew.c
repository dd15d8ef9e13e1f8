/* crew.c - rounds of work (capture/crew.h). */
#include "capture/crew.h"

#include <sched.h>
#include <stdbool.h>

enum { SPINS = 4000 }; /* a few tens of microseconds: longer than a round of decode */

/* Takes the next item of the round that is open: false where there is none. A ticket names its
 * round, so that one taken late is never an item of another; fn and arg may be read once it is
 * held, because the round cannot end before the item is done. */
static bool take(crew *c, int64_t *item)
{
    uint64_t ticket = atomic_load_explicit(&c->ticket, memory_order_acquire);
    for (;;) {
        uint64_t n = atomic_load_explicit(&c->n_item, memory_order_acquire);
        if (ticket >> 32 != n >> 32 || (uint32_t)ticket >= (uint32_t)n)
            return false;
        if (atomic_compare_exchange_weak_explicit(&c->ticket, &ticket, ticket + 1,
                                                  memory_order_acq_rel, memory_order_acquire))
            break;
    }
    *item = (int64_t)(uint32_t)ticket;
    return true;
}

static void work(crew *c, int64_t item)
{
    c->fn(c->arg, item);
    atomic_fetch_add_explicit(&c->n_done, 1, memory_order_release);
}

void crew_init(crew *c)
{
    c->fn = NULL;
    c->arg = NULL;
    atomic_init(&c->ticket, 0);
    atomic_init(&c->n_item, 0);
    atomic_init(&c->n_done, 0);
    atomic_init(&c->dismissed, false);
}

void crew_help(crew *c)
{
    int64_t item;
    int idle = 0;
    while (!atomic_load_explicit(&c->dismissed, memory_order_acquire)) {
        if (take(c, &item)) {
            work(c, item);
            idle = 0;
        } else if (++idle > SPINS) {
            sched_yield();
        }
    }
}

void crew_round(crew *c, int64_t n_item, crew_fn *fn, const void *arg)
{
    uint64_t round = (atomic_load_explicit(&c->ticket, memory_order_relaxed) >> 32) + 1;
    c->fn = fn;
    c->arg = arg;
    atomic_store_explicit(&c->n_done, 0, memory_order_relaxed);
    atomic_store_explicit(&c->n_item, round << 32 | (uint64_t)n_item, memory_order_relaxed);
    atomic_store_explicit(&c->ticket, round << 32, memory_order_release);
    int64_t item;
    while (take(c, &item))
        work(c, item);
    for (int idle = 0; atomic_load_explicit(&c->n_done, memory_order_acquire) < n_item;)
        if (++idle > SPINS)
            sched_yield();
}

void crew_dismiss(crew *c)
{
    atomic_store_explicit(&c->dismissed, true, memory_order_release);
}
