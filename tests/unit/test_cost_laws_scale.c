/* test_cost_laws_scale - what a change of one thing changes, and what it leaves: units, rates,
 * devices, steps, and what fits. */
#include "tests/check.h"

#include <math.h>
#include <stddef.h>

#include "tests/unit/cost_laws.h"

/* ---- units ---------------------------------------------------------------------------------
 */

/* A second that is k times as long: rates times k, times by k. */
static void longer_second(kvt_published *p, double k)
{
    kvt_machine *m = &p->machine;
    const kvt_machine_field_info *f = kvt_machine_fields();
    for (int i = 0; i < KVT_MACHINE_N; i++) {
        double *x = (double *)(void *)((char *)m + f[i].offset);
        if (strcmp(f[i].unit, "s") == 0)
            *x /= k;
        else if (strstr(f[i].unit, "/s"))
            *x *= k;
    }
    p->draft_step /= k;
}

static void test_a_longer_second(void **state)
{
    static const double k = 3.7;
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int m = 0; m < LAW_MACHINES; m++)
                for (int profile = 0; profile < 2; profile++) {
                    law_case a = law_made(p, g, m, (kvt_cost_profile)profile), b = a;
                    longer_second(&b.constants, k);
                    law_predict(&b);
                    const kvt_cost *x = &a.cost, *y = &b.cost;
                    law_near(&t, y->prefill.total * k, x->prefill.total, 1e-9, &a, "prefill");
                    law_near(&t, y->evict.total * k, x->evict.total, 1e-9, &a, "eviction");
                    law_near(&t, y->evict.score * k, x->evict.score, 1e-9, &a, "score");
                    law_near(&t, y->step_mean.total * k, x->step_mean.total, 1e-9, &a, "step");
                    law_near(&t, y->request * k, x->request, 1e-9, &a, "request");
                    law_near(&t, y->peak.total, x->peak.total, 0, &a, "memory has no seconds");
                }
    law_end(&t, 10000);
}

/* ---- bandwidth -----------------------------------------------------------------------------
 */

static void test_twice_the_bandwidth(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int m = 0; m < LAW_MACHINES; m++) {
                law_case a = law_made(p, g, m, KVT_PROFILE_FUSED), b = a;
                b.constants.machine.mem_bw *= 2;
                law_predict(&b);
                const kvt_cost *x = &a.cost, *y = &b.cost;
                if (x->step_first.host == 0 && y->step_first.host == 0) {
                    law_near(&t, y->step_first.kv, x->step_first.kv / 2, 1e-9, &a, "kv");
                    law_near(&t, y->step_first.copy, x->step_first.copy / 2, 1e-9, &a, "moves");
                }
                law_near(&t, y->step_first.fixed, x->step_first.fixed, 0, &a, "fixed");
                law_near(&t, y->evict.copy, x->evict.copy / 2, 1e-9, &a, "copy");
                law_near(&t, y->evict.select, x->evict.select / 2, 1e-9, &a, "select");
                law_least(&t, y->step_first.weights, x->step_first.weights / 2, &a, "weights");
                /* A time is no more than before and no less than half. */
                double was[] = {x->prefill.total, x->evict.total, x->step_first.total};
                double now[] = {y->prefill.total, y->evict.total, y->step_first.total};
                for (int i = 0; i < 3; i++) {
                    law_least(&t, was[i], now[i], &a, "faster memory");
                    law_least(&t, now[i], was[i] / 2, &a, "no more than twice as fast");
                }
                if (a.machine == &law.machine[0]) /* 8,192 tokens are bound by math there */
                    law_near(&t, y->prefill.linear, x->prefill.linear, 0, &a, "math");
            }
    law_end(&t, 10000);
}

/* ---- devices -------------------------------------------------------------------------------
 */

/* d devices: a d-th of the weights, and of the kv heads as far as there are so many. */
static void test_devices(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int d = 2; d <= 64; d *= 2) {
                law_case a = law_made(p, g, 0, KVT_PROFILE_FUSED), b = a;
                b.setting.tensor = d;
                law_load(&b), law_predict(&b);
                double kv_heads = (double)a.geometry->g.n_kv_head;
                double heads = a.work.by_query_head ? (double)a.geometry->g.n_head : kv_heads;
                double split = fmin(d, kv_heads);
                law_near(&t, b.cost.peak.weights, a.cost.peak.weights / d, 1e-9, &b, "weights");
                law_is(&t,
                       b.cost.steady.kv >= a.cost.steady.kv / fmin(d, heads) * (1 - 1e-9) &&
                           b.cost.steady.kv <= a.cost.steady.kv / split * (1 + 1e-9),
                       &b, "cache of a device", b.cost.steady.kv, a.cost.steady.kv);
                if (!a.work.by_query_head)
                    law_near(&t, b.cost.steady.kv, a.cost.steady.kv / split, 1e-9, &b, "cache");
                law_least(&t, a.cost.peak.total, b.cost.peak.total, &b, "peak of a device");
                law_is(&t, a.cost.step_first.exchange == 0 && b.cost.step_first.exchange > 0,
                       &b, "devices exchange", b.cost.step_first.exchange, 0);
                law_is(&t, b.cost.prefill.exchange > 0, &b, "in the prefill",
                       b.cost.prefill.exchange, 0);
            }
    law_end(&t, 10000);
}

/* ---- steps, lanes, windows -----------------------------------------------------------------
 */

static void test_wide_windows_are_none(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++) {
        kvt_cost_geometry wide = law.geometry[0], none = law.geometry[0];
        for (int l = 0; l < (int)wide.g.n_layer; l += 2)
            wide.g.window[l] = 8192 + 256;
        law_case a = law_usual(law.policy[p]), b = a;
        a.geometry = &wide, b.geometry = &none;
        law_all(&a), law_all(&b);
        law_near(&t, a.cost.peak.total, b.cost.peak.total, 1e-9, &a, "peak");
        law_near(&t, a.cost.steady.total, b.cost.steady.total, 1e-9, &a, "steady");
        law_near(&t, a.cost.prefill.total, b.cost.prefill.total, 1e-9, &a, "prefill");
        law_near(&t, a.cost.evict.total, b.cost.evict.total, 1e-9, &a, "eviction");
        law_near(&t, a.cost.decode, b.cost.decode, 1e-9, &a, "decode");
    }
    law_end(&t, 300);
}

/* Lanes of one length are no longer for being called ragged. */
static void test_equal_lanes_are_dense(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++) {
            law_case a = law_made(p, g, 0, KVT_PROFILE_FUSED), b;
            a.work.ragged = false, a.work.state_lane = 0, law_load(&a);
            for (int i = 0; i < a.load.n_run; i++)
                a.load.run[i].busiest = a.load.run[i].slots;
            a.load.first.busiest = a.load.first.slots, a.load.last.busiest = a.load.last.slots;
            law_predict(&a);
            b = a;
            b.work.ragged = true, law_predict(&b);
            law_near(&t, b.cost.decode, a.cost.decode, 1e-9, &a, "decode");
            law_near(&t, b.cost.steady.kv, a.cost.steady.kv, 1e-9, &a, "cache");
            law_near(&t, b.cost.evict.copy, a.cost.evict.copy, 1e-9, &a, "copy");
            /* A kernel waits for the longest lane: twice as long, twice the time, no more
             * bytes. */
            for (int i = 0; i < b.load.n_run; i++)
                b.load.run[i].busiest *= 2;
            b.load.first.busiest *= 2;
            law_predict(&b);
            law_near(&t, b.cost.step_first.kv, 2 * a.cost.step_first.kv, 1e-9, &b, "imbalance");
            law_near(&t, b.cost.steady.kv, a.cost.steady.kv, 1e-9, &b, "bytes of it");
        }
    law_end(&t, 1000);
}

/* One request is the sum over its steps, and parts do not know what steps they stand in. */
static void test_a_request_is_its_steps(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int profile = 0; profile < 2; profile++) {
                law_case c = law_made(p, g, 0, (kvt_cost_profile)profile);
                kvt_cost_case cc = law_cost_case(&c);
                kvt_decode_cost one;
                double sum = 0, steps = 0, held = 0;
                for (int i = 0; i < c.load.n_run; i++) {
                    kvt_cost_step(&one, &cc, &c.load.run[i]);
                    sum += c.load.run[i].steps * one.total;
                    held += c.load.run[i].steps * c.load.run[i].held;
                    steps += c.load.run[i].steps;
                }
                law_near(&t, steps, (double)c.n_response, 1e-12, &c, "steps");
                law_near(&t, c.cost.decode, sum, 1e-9, &c, "decode");
                law_near(&t, c.load.mean_held, held / steps, 1e-9, &c, "mean slots");
                kvt_cost_step(&one, &cc, &c.load.first);
                law_near(&t, c.cost.step_first.total, one.total, 1e-9, &c, "first step");
                kvt_cost_step(&one, &cc, &c.load.last);
                law_near(&t, c.cost.step_last.total, one.total, 1e-9, &c, "last step");
            }
    law_end(&t, 2000);
}

/* The step that a budget spares goes to nothing as the budget goes to the prompt. */
static void test_the_gain_vanishes(void **state)
{
    static const int64_t budgets[] = {512, 2048, 4096, 8000, 8190, 8192};
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++) {
            law_case full = law_usual("full");
            law_on(&full, g, 0), law_all(&full);
            double gap = INFINITY;
            for (int i = 0; i < CHECK_COUNT(budgets); i++) {
                law_case c = law_usual(law.policy[p]);
                law_on(&c, g, 0);
                c.budget = budgets[i];
                law_all(&c);
                if (c.work.in_decode || c.work.by_query_head || c.work.page_tokens > 0)
                    break;
                double now = full.cost.step_first.total - c.cost.step_first.total;
                law_is(&t, now >= -1e-12 && now <= gap, &c, "gain of a step", now, gap);
                gap = now;
                if (i == CHECK_COUNT(budgets) - 1)
                    law_near(&t, c.cost.decode, full.cost.decode, 1e-9, &c, "no gain");
            }
        }
    law_end(&t, 500);
}

/* ---- what fits -----------------------------------------------------------------------------
 */

static void test_what_fits_just_fits(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int m = 0; m < LAW_MACHINES; m++) {
                law_case c = law_made(p, g, m, (kvt_cost_profile)(p & 1));
                if (c.cost.max_batch < 0)
                    continue;
                law_case more = c;
                if (c.cost.max_batch > 0) {
                    more.setting.batch = c.cost.max_batch;
                    law_load(&more), law_predict(&more);
                    law_is(&t, more.cost.short_bytes == 0, &more, "the largest batch fits",
                           more.cost.short_bytes, 0);
                }
                more.setting.batch = c.cost.max_batch + 1;
                law_load(&more), law_predict(&more);
                law_is(&t, more.cost.short_bytes > 0, &more, "one more does not",
                       more.cost.short_bytes, 0);
                law_is(&t, (c.cost.max_batch > 0) == (c.cost.short_bytes == 0), &c,
                       "one request fits", (double)c.cost.max_batch, c.cost.short_bytes);
                law_is(&t, (c.cost.max_context >= c.n_prompt) == (c.cost.short_bytes == 0), &c,
                       "this prompt fits", (double)c.cost.max_context, c.cost.short_bytes);
            }
    law_end(&t, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_longer_second),
        cmocka_unit_test(test_twice_the_bandwidth),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_wide_windows_are_none),
        cmocka_unit_test(test_equal_lanes_are_dense),
        cmocka_unit_test(test_a_request_is_its_steps),
        cmocka_unit_test(test_the_gain_vanishes),
        cmocka_unit_test(test_what_fits_just_fits),
    };
    return cmocka_run_group_tests(tests, law_open, law_close);
}
