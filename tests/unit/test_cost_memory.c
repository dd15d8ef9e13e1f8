/* test_cost_memory - what must hold of memory whatever the numbers are: parts add up to their
 * total, and policies, budgets and layouts are ordered. */
#include "tests/check.h"
#include "tests/unit/cost_memory.h"

#include <math.h>

static double sum_of(const kvt_memory_cost *m)
{
    double sum = 0;
#define X(name, help) sum += m->name;
    KVT_MEMORY_PARTS(X)
#undef X
    return sum;
}

static void parts_add_up(void **state)
{
    (void)state;
    static const kvt_cost_work *const works[] = {&full, &snapkv, &late,  &ring,
                                                 &h2o,  &laq,    &speckv};
    for (int i = 0; i < CHECK_COUNT(works); i++)
        for (int engine = 0; engine < 2; engine++) {
            kvt_phase_row rows[KVT_COST_PHASES_MAX];
            bench b = on("gemma-3-1b", works[i], engine ? KVT_ENGINE_EAGER : KVT_ENGINE_FUSED);
            b.draft = model("smollm2-135m");
            b.k.machine.alloc_round = 2 * MI;
            b.s = (kvt_cost_setting){.batch = 3, .fragmentation = 0.1, .page_tokens = 16};
            predict(&b, 4000, 300, 512);
            int n = kvt_cost_timeline(rows, &b.c);
            double most = 0;
            for (int k = 0; k < n; k++) {
                within("sum", sum_of(&rows[k].memory), rows[k].memory.total, 1e-9);
                most = fmax(most, rows[k].memory.total);
            }
            CHECK_NEAR(b.out.peak.total, most, 0);
            within("steady", sum_of(&b.out.steady), b.out.steady.total, 1e-9);
            assert_true(n <= KVT_COST_PHASES_MAX && rows[0].phase == KVT_PHASE_LOAD);
        }
}

static double peak_of(const kvt_cost_work *w, int64_t n, int64_t budget)
{
    bench b = on("llama-3.1-8b", w, KVT_ENGINE_FUSED);
    predict(&b, n, 0, budget);
    return b.out.peak.total;
}

static void orders(void **state)
{
    (void)state;
    kvt_cost_work together = snapkv;
    together.when = KVT_WHEN_AFTER_PREFILL;
    double whole = 2.0 * (double)model("llama-3.1-8b").theta_all;
    for (int64_t n = 512; n <= 131072; n *= 4) {
        double in_layer = peak_of(&snapkv, n, 256), after = peak_of(&together, n, 256);
        assert_true(after >= in_layer);
        assert_true(in_layer - whole >= (double)n * 4096); /* one layer, dense */
        assert_true(peak_of(&snapkv, n, 512) >= in_layer); /* monotone in the budget */
        CHECK_NEAR(peak_of(&snapkv, n, n), peak_of(&full, n, n), 0); /* saves nothing */
        CHECK_NEAR(peak_of(&snapkv, n, 2 * n), peak_of(&full, n, n), 0);
    }
}

static double steady_of(const kvt_cost_work *w, const kvt_cost_setting *s, int64_t budget)
{
    bench b = on("llama-3.1-8b", w, KVT_ENGINE_FUSED);
    b.s = *s;
    predict(&b, 4096, 0, budget);
    return b.out.steady.kv;
}

static void layouts_are_ordered(void **state)
{
    (void)state;
    static const kvt_cost_setting exact, paged = {.page_tokens = 64}, masked = {.masked = true};
    kvt_cost_work heads = snapkv;
    heads.by_query_head = true;
    for (int64_t budget = 1; budget <= 1024; budget += 31) {
        double bytes = steady_of(&snapkv, &exact, budget);
        double pages = steady_of(&snapkv, &paged, budget);
        assert_true(pages >= bytes);
        assert_true((pages == bytes) == (budget % 64 == 0));
        CHECK_NEAR(steady_of(&heads, &exact, budget), 4 * bytes, 0);
        CHECK_NEAR(steady_of(&snapkv, &masked, budget), steady_of(&full, &exact, 4096), 0);
        CHECK_NEAR(steady_of(&heads, &masked, budget), steady_of(&full, &exact, 4096), 0);
    }
    CHECK_NEAR(steady_of(&snapkv, &paged, 128), steady_of(&snapkv, &exact, 128), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(orders),
        cmocka_unit_test(layouts_are_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
