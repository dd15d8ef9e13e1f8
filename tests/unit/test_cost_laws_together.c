/* test_cost_laws_together - prompts that are read a few at a time, while the other requests of
 * the batch decode. */
#include "tests/check.h"

#include <math.h>

#include "tests/unit/cost_laws.h"

enum { BATCH = 8 };

/* A policy on a geometry, on one machine after the other. */
static law_case batch_of(int p, int g, int64_t batch, int64_t together)
{
    law_case c = law_usual(law.policy[p]);
    law_on(&c, g, (p + g) % LAW_MACHINES);
    c.profile = (kvt_cost_profile)(p & 1);
    c.setting.batch = batch;
    c.setting.prefill_batch = together;
    law_all(&c);
    return c;
}

static void same_times(law_tally *t, const law_case *c, const kvt_cost *a)
{
#define SAME(field)   law_near(t, c->cost.field, a->field, 0, c, #field);
#define X(name, help) SAME(prefill.name)
    KVT_PREFILL_PARTS(X)
#undef X
#define X(name, help) SAME(evict.name)
    KVT_EVICT_PARTS(X)
#undef X
    SAME(prefill.total)
    SAME(evict.total)
    SAME(ttft)
    SAME(evict_band.hi)
}

/* As many as the batch, or more: nothing changes, save that a larger batch would be read so. */
static void test_all_together_is_the_default(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int64_t more = 0; more < 2; more++) {
                law_case c = batch_of(p, g, BATCH, BATCH + more);
                const kvt_cost a = batch_of(p, g, BATCH, 0).cost;
                same_times(&t, &c, &a);
#define X(name, help)                                          \
    law_near(&t, c.cost.peak.name, a.peak.name, 0, &c, #name); \
    law_near(&t, c.cost.steady.name, a.steady.name, 0, &c, #name);
                KVT_MEMORY_PARTS(X)
#undef X
                law_near(&t, c.cost.peak.total, a.peak.total, 0, &c, "peak");
                law_near(&t, c.cost.request, a.request, 0, &c, "request");
                law_is(&t, c.cost.peak_phase == a.peak_phase, &c, "phase", 0, 0);
                law_is(&t, c.cost.max_context == a.max_context, &c, "longest prompt",
                       (double)c.cost.max_context, (double)a.max_context);
                law_is(&t, c.cost.max_batch >= a.max_batch, &c, "requests that fit",
                       (double)c.cost.max_batch, (double)a.max_batch);
            }
    law_end(&t, 10000);
}

/* The prompt is that of so many requests, the decode step that of the batch. */
static void test_times_are_of_those_together(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int64_t k = 1; k < BATCH; k += 2) {
                law_case c = batch_of(p, g, BATCH, k);
                const kvt_cost few = batch_of(p, g, k, 0).cost;
                const kvt_cost all = batch_of(p, g, BATCH, 0).cost;
                same_times(&t, &c, &few);
                law_near(&t, c.cost.step_mean.total, all.step_mean.total, 0, &c, "step");
                law_near(&t, c.cost.decode, all.decode, 0, &c, "decode");
                law_near(&t, c.cost.request, few.ttft + all.decode, 1e-12, &c, "request");
                law_near(&t, c.cost.steady.total, all.steady.total, 0, &c, "steady");
                law_near(&t, c.cost.kv_mean, all.kv_mean, 0, &c, "mean cache");
            }
    law_end(&t, 10000);
}

/* The fewer, the less memory, and the more requests fit; never less than while decoding. */
static void test_memory_grows_with_those_together(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++) {
            kvt_cost last = {.max_batch = INT64_MAX, .max_context = INT64_MAX};
            for (int64_t k = 1; k <= BATCH + 1; k++) {
                law_case c = batch_of(p, g, BATCH, k <= BATCH ? k : 0);
                c.constants.machine.alloc_round = 0; /* more tensors are rounded */
                law_predict(&c);
                law_least(&t, c.cost.peak.total, last.peak.total, &c, "peak");
                law_least(&t, c.cost.peak.total, c.cost.steady.total, &c, "peak and steady");
                law_is(&t, c.cost.max_batch <= last.max_batch, &c, "requests that fit",
                       (double)c.cost.max_batch, (double)last.max_batch);
                law_is(&t, c.cost.max_context <= last.max_context, &c, "longest prompt",
                       (double)c.cost.max_context, (double)last.max_context);
                last = c.cost;
            }
        }
    law_end(&t, 10000);
}

static void test_what_fits_just_fits(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int64_t k = 1; k <= BATCH; k *= 2) {
                law_case c = batch_of(p, g, 2, k), more = c;
                if (c.cost.max_batch < 0)
                    continue;
                more.setting.batch = c.cost.max_batch;
                if (c.cost.max_batch > 0) {
                    law_predict(&more);
                    law_is(&t, more.cost.short_bytes == 0, &more, "the largest batch fits",
                           more.cost.short_bytes, 0);
                }
                more.setting.batch = c.cost.max_batch + 1;
                law_predict(&more);
                law_is(&t, more.cost.short_bytes > 0, &more, "one more does not",
                       more.cost.short_bytes, 0);
                law_is(&t, more.cost.max_batch == c.cost.max_batch, &more, "from any batch",
                       (double)more.cost.max_batch, (double)c.cost.max_batch);
            }
    law_end(&t, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_together_is_the_default),
        cmocka_unit_test(test_times_are_of_those_together),
        cmocka_unit_test(test_memory_grows_with_those_together),
        cmocka_unit_test(test_what_fits_just_fits),
    };
    return cmocka_run_group_tests(tests, law_open, law_close);
}
