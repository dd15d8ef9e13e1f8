/* test_crew.c - rounds of work: every item once, in its own round, whoever helps. Helpers are
 * plain threads here, so that a thread sanitizer sees all of it. */
#include "capture/crew.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/check.h"

enum { HELPERS = 4, ROUNDS = 3000, ITEMS = 17 };

typedef struct round_data {
    int number;
    int done[ITEMS]; /* each written by whoever has the item */
} round_data;

static void mark(const void *arg, int64_t item)
{
    round_data *r = (round_data *)(uintptr_t)arg;
    r->done[item] += r->number;
}

static void *help(void *arg)
{
    crew_help(arg);
    return NULL;
}

static void rounds_are_whole(void **state)
{
    crew c;
    pthread_t thread[HELPERS];
    round_data r = {0};
    (void)state;
    crew_init(&c);
    for (int i = 0; i < HELPERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, help, &c), 0);
    for (int n = 1; n <= ROUNDS; n++) {
        int64_t items = n % (ITEMS + 1);
        r.number = n;
        memset(r.done, 0, sizeof r.done);
        crew_round(&c, items, mark, &r);
        for (int i = 0; i < ITEMS; i++)
            if (r.done[i] != (i < items ? n : 0))
                fail_msg("round %d, item %d of %d: expected %d, got %d", n, i, (int)items,
                         i < items ? n : 0, r.done[i]);
    }
    crew_dismiss(&c);
    for (int i = 0; i < HELPERS; i++)
        pthread_join(thread[i], NULL);
}

/* Without help it is a loop. */
static void one_thread_does_it_all(void **state)
{
    crew c;
    round_data r = {.number = 1};
    (void)state;
    crew_init(&c);
    crew_round(&c, ITEMS, mark, &r);
    crew_round(&c, 0, mark, &r);
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(r.done[i], 1);
    crew_dismiss(&c);
    crew_help(&c); /* who comes late leaves at once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_whole),
        cmocka_unit_test(one_thread_does_it_all),
    };
    return cmocka_run_group_tests_name("crew", tests, NULL, NULL);
}
