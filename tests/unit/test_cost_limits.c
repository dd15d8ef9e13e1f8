/* Limits of a service as text, and the front against brute force. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "kvt/analyze.h"
#include "kvt/arena.h"

/* ---- limits --------------------------------------------------------------------------------
 */

#define NONE (double)NAN

static const struct limit_row {
    const char *text;
    double ttft, evict, tpot, request, peak, steady, lost;
    const char *part; /* of the message; NULL: it is read */
} limits[] = {
    {"ttft=2s,tpot=15ms,evict=50ms,request=30s,peak=24GiB,steady=20GiB,lost=5%", 2, 0.05, 0.015,
     30, 25769803776., 21474836480., 0.05, NULL},
    {"tpot=800us", NONE, NONE, 800e-6, NONE, NONE, NONE, NONE, NULL},
    {"lost=0.05,ttft=1.5s", 1.5, NONE, NONE, NONE, NONE, NONE, 0.05, NULL},
    {"lost=0", NONE, NONE, NONE, NONE, NONE, NONE, 0, NULL},
    {"peak=24G", NONE, NONE, NONE, NONE, 24e9, NONE, NONE, NULL},
    {"peak=1048576", NONE, NONE, NONE, NONE, 1048576, NONE, NONE, NULL},
    {"", .part = "at least one"},
    {"ttft", .part = "limit 'ttft': expected NAME=VALUE"},
    {"ttfd=2s", .part =
                    "limit 'ttfd': expected ttft, evict, tpot, request, peak, steady or lost "
                    "(nearest: ttft)"},
    {"ttft=2s,", .part = "limit '': expected NAME=VALUE"},
    {"ttft=2s,ttft=3s", .part = "limit ttft: given twice"},
    {"ttft=2", .part = "limit ttft: expected a time with its unit (s, ms, us), got '2'"},
    {"ttft=2GiB", .part = "limit ttft: expected a time"},
    {"ttft=0s", .part = "limit ttft: expected a time"},
    {"ttft=-1s", .part = "limit ttft: expected a time"},
    {"ttft=nans", .part = "limit ttft: expected a time"},
    {"ttft=infs", .part = "limit ttft: expected a time"},
    {"ttft=s", .part = "limit ttft: expected a time"},
    {"peak=15ms",
     .part = "limit peak: expected a size with its unit such as 24GiB, got '15ms'"},
    {"peak=24", .part = "limit peak: expected a size with its unit such as 24GiB, got '24'"},
    {"peak=0", .part = "limit peak: expected a size"},
    {"lost=5", .part = "limit lost: expected a share such as 5% or 0.05, got '5'"},
    {"lost=101%", .part = "limit lost: expected a share"},
    {"lost=-1%", .part = "limit lost: expected a share"},
    {"lost=nan", .part = "limit lost: expected a share"},
    {"lost=5ms", .part = "limit lost: expected a share"},
};

static void same(double got, double want, const char *what)
{
    if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 1e-12 * fabs(want)))
        fail_msg("%s: expected %.17g, got %.17g", what, want, got);
}

static void is_read(void **state)
{
    const struct limit_row *r = *state;
    kvt_slo s;
    kvt_err err;
    if (r->part) {
        CHECK_FAILS(kvt_slo_parse(&s, r->text, &err), KVT_USAGE, r->part, &err);
        return;
    }
    CHECK_OK(kvt_slo_parse(&s, r->text, &err), &err);
    same(s.ttft_s, r->ttft, "ttft");
    same(s.evict_s, r->evict, "evict");
    same(s.tpot_s, r->tpot, "tpot");
    same(s.request_s, r->request, "request");
    same(s.peak_bytes, r->peak, "peak");
    same(s.steady_bytes, r->steady, "steady");
    same(s.lost_frac, r->lost, "lost");
}

/* ---- the front -----------------------------------------------------------------------------
 */

/* The definition: none equals or beats it in both and beats it in one. */
static bool on_front(const double *cost, const double *loss, int n, int i)
{
    if (isnan(cost[i]) || isnan(loss[i]))
        return false;
    for (int k = 0; k < n; k++)
        if (cost[k] <= cost[i] && loss[k] <= loss[i] &&
            (cost[k] < cost[i] || loss[k] < loss[i]))
            return false;
    return true;
}

static double draw(uint64_t rng[RNG_WORDS], int kinds)
{
    uint64_t x = rng_bits(rng);
    if (x % 19 == 0)
        return (double)NAN;
    if (x % 23 == 0)
        return (double)INFINITY;
    return (double)((x >> 8) % (uint64_t)kinds) - 2; /* few kinds: many ties */
}

static void front_is_what_it_says(void **state)
{
    enum { MOST = 40 };
    uint64_t rng[RNG_WORDS];
    (void)state;
    rng_init(rng, "front", 5);
    for (int round = 0; round < 4000; round++) {
        double cost[MOST], loss[MOST];
        bool got[MOST];
        kvt_err err;
        int n = (int)(rng_bits(rng) % (MOST + 1)), kinds = 1 + (int)(rng_bits(rng) % 30);
        for (int i = 0; i < n; i++) {
            cost[i] = draw(rng, kinds);
            loss[i] = draw(rng, kinds);
            got[i] = true;
        }
        CHECK_OK(kvt_pareto(got, cost, loss, n, &err), &err);
        for (int i = 0; i < n; i++)
            if (got[i] != on_front(cost, loss, n, i))
                fail_msg("round %d of %d points: point %d (%g, %g) is %s", round, n, i, cost[i],
                         loss[i], got[i] ? "on the front" : "not on the front");
    }
}

static void equal_points_are_all_on_it(void **state)
{
    static const double cost[] = {2, 1, 1, 1, 3}, loss[] = {1, 2, 2, 3, 1};
    static const bool want[] = {true, true, true, false, false};
    bool got[5];
    kvt_err err;
    (void)state;
    CHECK_OK(kvt_pareto(got, cost, loss, 5, &err), &err);
    assert_memory_equal(got, want, sizeof want);
}

/* A million points take no time that grows with their square. */
static void many_points(void **state)
{
    enum { N = 1000000 };
    double *x = kvt_alloc(2 * N, sizeof *x);
    bool *on = kvt_alloc(N, sizeof *on);
    kvt_err err;
    (void)state;
    assert_true(x && on);
    for (int64_t i = 0; i < N; i++) {
        x[i] = (double)(i * 7919 % N); /* a permutation: all are on the front */
        x[N + i] = -x[i];
    }
    CHECK_OK(kvt_pareto(on, x, x + N, N, &err), &err);
    for (int64_t i = 0; i < N; i++)
        assert_true(on[i]);
    kvt_free(x);
    kvt_free(on);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(limits) + 3];
    int n = 0;
    CHECK_ROWS(tests, &n, limits, is_read);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(front_is_what_it_says);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(equal_points_are_all_on_it);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(many_points);
    return CHECK_RUN("cost_limits", tests, n);
}
