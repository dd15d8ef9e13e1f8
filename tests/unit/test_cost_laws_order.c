/* test_cost_laws_order - monotone in what they should be monotone in: lengths, budgets, pages,
 * profiles, host floors. */
#include "tests/check.h"

#include <math.h>

#include "tests/unit/cost_laws.h"

static const int64_t lengths[] = {64,   500,  512,   513,   1000,  2048,
                                  4096, 5000, 16384, 65536, 100000};

static void test_overhead_grows_with_the_prompt(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int m = 0; m < LAW_MACHINES; m++)
                for (int profile = 0; profile < 2; profile++) {
                    kvt_cost last = {0};
                    double top = 0;
                    for (int i = 0; i < CHECK_COUNT(lengths); i++) {
                        law_case c = law_usual(law.policy[p]);
                        law_on(&c, g, m);
                        c.profile = (kvt_cost_profile)profile;
                        c.n_prompt = lengths[i];
                        law_all(&c);
                        law_least(&t, c.cost.evict.total, last.evict.total, &c, "overhead");
                        law_least(&t, c.cost.prefill.total, last.prefill.total, &c, "prefill");
                        law_least(&t, c.cost.ttft, last.ttft, &c, "ttft");
                        /* A threshold keeps that share of decoded tokens which it keeps of the
                         * prompt: fewer of them behind a longer one. */
                        if (c.load.top.held >= top)
                            law_least(&t, c.cost.peak.total, last.peak.total, &c, "peak");
                        last = c.cost, top = c.load.top.held;
                    }
                }
    law_end(&t, 100000);
}

/* The theory has its own arithmetic; four policies and the full cache are in it. */
static void test_overhead_grows_in_the_theory(void **state)
{
    static const char *const policies[] = {"full", "snapkv", "lookaheadkv", "speckv", "laq"};
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < CHECK_COUNT(policies); p++) {
        double last = 0, dense = 0;
        for (int64_t n = 1024; n <= 131072; n *= 2) {
            law_case c = law_usual(policies[p]);
            c.profile = KVT_PROFILE_PAPER_LKV;
            c.n_prompt = n;
            law_all(&c);
            law_least(&t, c.cost.evict.total, last, &c, "overhead");
            law_is(&t, c.cost.prefill.total > dense, &c, "prefill", c.cost.prefill.total,
                   dense);
            law_near(&t, c.cost.ttft, c.cost.prefill.total + c.cost.evict.total, 1e-9, &c,
                     "ttft");
            last = c.cost.evict.total, dense = c.cost.prefill.total;
        }
    }
    law_end(&t, 100);
}

static void test_memory_grows_with_the_budget(void **state)
{
    static const int64_t budgets[] = {1, 64, 300, 320, 512, 2000, 4096, 8191, 8192, 10000};
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int page = 0; page <= 256; page += 256) {
                kvt_cost last = {.max_batch = INT64_MAX};
                for (int i = 0; i < CHECK_COUNT(budgets); i++) {
                    law_case c = law_usual(law.policy[p]);
                    law_on(&c, g, 0);
                    c.budget = budgets[i];
                    c.setting.page_tokens = page;
                    law_all(&c);
                    law_least(&t, c.cost.steady.kv, last.steady.kv, &c, "cache at the end");
                    law_least(&t, c.cost.kv_mean, last.kv_mean, &c, "mean cache");
                    law_least(&t, c.cost.step_last.kv, last.step_last.kv, &c, "reading it");
                    /* Without a cut after the prefill there is no copy beside the dense cache.
                     */
                    if (c.work.when == KVT_WHEN_IN_LAYER || c.budget < c.n_prompt)
                        law_is(&t, c.cost.max_batch <= last.max_batch, &c, "requests that fit",
                               (double)c.cost.max_batch, (double)last.max_batch);
                    last = c.cost;
                }
            }
    law_end(&t, 20000);
}

static void test_memory_grows_with_batch_and_bits(void **state)
{
    static const double bits[] = {4, 8, 16};
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++) {
            kvt_cost last = {0};
            for (int i = 0; i < 3; i++) {
                law_case c = law_usual(law.policy[p]);
                law_on(&c, g, 0);
                c.setting.kv_bits = bits[i];
                law_all(&c);
                law_is(&t, c.cost.steady.kv > last.steady.kv, &c, "bits of the cache",
                       c.cost.steady.kv, last.steady.kv);
                law_least(&t, c.cost.step_mean.total, last.step_mean.total, &c, "bits");
                last = c.cost;
            }
            last = (kvt_cost){0};
            for (int64_t batch = 1; batch <= 64; batch *= 4) {
                law_case c = law_usual(law.policy[p]);
                law_on(&c, g, 0);
                c.setting.batch = batch;
                law_all(&c);
                law_least(&t, c.cost.ttft, last.ttft, &c, "ttft of a batch");
                law_least(&t, c.cost.step_mean.total, last.step_mean.total, &c, "its step");
                law_least(&t, c.cost.evict.total, last.evict.total, &c, "its eviction");
                law_least(&t, c.cost.peak.total, last.peak.total, &c, "its peak");
                law_near(&t, c.cost.steady.kv,
                         last.steady.kv > 0 ? 4 * last.steady.kv : c.cost.steady.kv, 1e-12, &c,
                         "its cache");
                last = c.cost;
            }
        }
    law_end(&t, 5000);
}

/* Whole pages are at least what is in them, and just that where lengths are multiples. */
static void test_pages(void **state)
{
    static const int64_t pages[] = {16, 32, 128};
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int k = 0; k < 2 * CHECK_COUNT(pages); k++) {
                law_case exact = law_usual(law.policy[p]);
                law_on(&exact, g, 0);
                exact.n_prompt = 4000, exact.budget = 500, exact.n_response = 77;
                law_work(&exact);
                exact.work.page_tokens = 0;
                law_case paged = exact;
                paged.setting.page_tokens = pages[k / 2];
                paged.setting.shared_pages = k & 1;
                law_load(&exact), law_load(&paged);
                law_predict(&exact), law_predict(&paged);
                law_least(&t, paged.cost.steady.kv, exact.cost.steady.kv, &paged, "at the end");
                law_least(&t, paged.cost.peak.total, exact.cost.peak.total, &paged, "peak");
                law_least(&t, paged.cost.kv_mean, exact.cost.kv_mean, &paged, "mean");
                /* A lane wastes less than a page. */
                double lanes = (double)exact.load.n_lane * exact.load.n_layer;
                double slot = kvt_cost_token_bytes(exact.geometry, 16, 0) /
                              (double)exact.geometry->g.n_kv_head;
                law_is(&t,
                       paged.cost.steady.kv - exact.cost.steady.kv <
                           (double)pages[k / 2] * lanes * slot,
                       &paged, "waste", paged.cost.steady.kv, exact.cost.steady.kv);
                /* Query heads that skip slots read at most what is stored, to the page. */
                if (!(exact.work.keeps_all && exact.work.by_query_head))
                    law_near(&t, paged.cost.step_mean.kv, exact.cost.step_mean.kv, 1e-12,
                             &paged, "a step reads tokens, not pages");
                exact.n_prompt = paged.n_prompt = 4096, exact.budget = paged.budget = 512;
                exact.n_response = paged.n_response = 128;
                law_load(&exact), law_load(&paged);
                law_predict(&exact), law_predict(&paged);
                for (int l = 0; l < exact.load.n_layer; l++)
                    if (fmod(exact.load.kept[l].most, (double)pages[k / 2]) == 0)
                        law_near(&t, paged.load.kept[l].held, exact.load.kept[l].held, 1e-12,
                                 &paged, "multiples of a page");
            }
    law_end(&t, 10000);
}

/* As published is an eager framework: never less, for the same drafts. */
static void test_published_takes_no_less(void **state)
{
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int m = 0; m < LAW_MACHINES; m++)
                for (int64_t n = 1024; n <= 65536; n *= 4) {
                    law_case fused = law_usual(law.policy[p]);
                    law_on(&fused, g, m);
                    fused.n_prompt = n;
                    law_case eager = fused;
                    eager.profile = KVT_PROFILE_AS_PUBLISHED;
                    law_all(&fused), law_all(&eager);
                    if (fused.cost.draft_tokens != eager.cost.draft_tokens)
                        fused.work.draft_tokens = eager.cost.draft_tokens, law_predict(&fused);
                    law_least(&t, eager.cost.evict.total, fused.cost.evict.total, &eager,
                              "overhead");
                }
    law_end(&t, 10000);
}

static void test_a_host_never_speeds_up(void **state)
{
    static const double smooth[] = {0, 1, 4, 50};
    law_tally t = {0};
    (void)state;
    for (int p = 0; p < law.n_policy; p++)
        for (int g = 0; g < LAW_GEOMETRIES; g++)
            for (int k = 0; k < 16; k++) {
                law_case c = law_usual(law.policy[p]);
                law_on(&c, g, k / 4);
                law_all(&c);
                law_case slow = c;
                kvt_machine *m = &slow.constants.machine;
                m->host_smooth = smooth[k % 4];
                m->host_floor_step = 1e-4, m->host_floor_layer = 1e-4;
                law_predict(&slow);
                double host = 1e-4 * (1 + (double)c.geometry->g.n_layer);
                law_least(&t, slow.cost.step_first.total, c.cost.step_first.total, &slow,
                          "step with a host");
                law_least(&t, slow.cost.step_first.total, host, &slow, "host");
                law_near(&t, slow.cost.step_first.kv, c.cost.step_first.kv, 1e-12, &slow,
                         "a host changes no device part");
                if (m->host_smooth == 0)
                    law_near(&t, slow.cost.step_first.total,
                             fmax(host, c.cost.step_first.total), 1e-12, &slow,
                             "larger of both");
                else
                    law_near(&t, slow.cost.step_first.total,
                             pow(pow(c.cost.step_first.total, m->host_smooth) +
                                     pow(host, m->host_smooth),
                                 1 / m->host_smooth),
                             1e-9, &slow, "smooth maximum");
            }
    law_end(&t, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overhead_grows_with_the_prompt),
        cmocka_unit_test(test_overhead_grows_in_the_theory),
        cmocka_unit_test(test_memory_grows_with_the_budget),
        cmocka_unit_test(test_memory_grows_with_batch_and_bits),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_published_takes_no_less),
        cmocka_unit_test(test_a_host_never_speeds_up),
    };
    return cmocka_run_group_tests(tests, law_open, law_close);
}
