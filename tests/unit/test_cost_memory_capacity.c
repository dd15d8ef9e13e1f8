/* test_cost_memory_capacity - the largest batch and the longest prompt that fit: one more does
 * not, from whatever case one starts, and fast enough for a choice among thousands. */
#include "tests/check.h"
#include "tests/unit/cost_memory.h"

#include <math.h>
#include <time.h>

#include "replay/cost/cost_priv.h"

static double total_at(bench b, int64_t batch, int64_t n, int64_t budget)
{
    b.s.batch = batch;
    predict(&b, n, 64, budget);
    return b.out.peak.total;
}

/* The largest batch and prompt fit, one more does not. */
static void capacity_is_the_largest(void **state)
{
    (void)state;
    static const kvt_cost_work *const works[] = {&full, &snapkv, &late,  &ring,
                                                 &h2o,  &laq,    &speckv};
    for (int i = 0; i < CHECK_COUNT(works); i++)
        for (int k = 0; k < 4; k++) {
            bench b = on("llama-3.1-8b", works[i], k & 1 ? KVT_ENGINE_EAGER : KVT_ENGINE_FUSED);
            b.draft = model("llama-3.2-1b");
            b.k.machine.alloc_round = k & 2 ? 64 * MI : 0;
            int64_t n = 4096, budget = works[i] == &full ? n : n / 4;
            predict(&b, n, 64, budget);
            int64_t batch = b.out.max_batch, context = b.out.max_context;
            assert_true(batch > 0 && context > 0);
            assert_true(total_at(b, batch, n, budget) <= 85e9);
            assert_true(total_at(b, batch + 1, n, budget) > 85e9);
            /* whole slots only where the budget stays a quarter of the prompt */
            int64_t at = context / 4 * 4, over = at + 8;
            assert_true(total_at(b, 1, at, works[i] == &full ? at : at / 4) <= 85e9);
            assert_true(total_at(b, 1, over, works[i] == &full ? over : over / 4) > 85e9);
        }
}

static void what_never_fits(void **state)
{
    (void)state;
    bench b = on("llama-3.1-70b", &full, KVT_ENGINE_FUSED);
    predict(&b, 4096, 16, 4096);
    assert_int_equal(b.out.max_batch, 0);
    assert_int_equal(b.out.max_context, 0);
    assert_true(b.out.short_bytes > 55e9);
    b.k.machine.mem_bytes = 0;
    predict(&b, 4096, 16, 4096);
    assert_int_equal(b.out.max_batch, -1);
    assert_int_equal(b.out.max_context, -1);
    assert_true(isnan(b.out.short_bytes));
}

/* Windows bound what a long prompt holds. */
static void windows_count_at_other_lengths(void **state)
{
    (void)state;
    bench b = on("gemma-3-4b", &full, KVT_ENGINE_FUSED);
    predict(&b, 64, 16, 64);
    int64_t from_short = b.out.max_context;
    predict(&b, 65536, 16, 65536);
    CHECK_NEAR((double)from_short, (double)b.out.max_context, 64);
    b.k.machine.mem_bytes = b.out.peak.weights + 0.5 * GI; /* less than the prompt takes */
    predict(&b, 64, 16, 64);
    from_short = b.out.max_context;
    predict(&b, 65536, 16, 128); /* nothing is dropped, whatever the budget */
    assert_true(from_short > 1000 && from_short < 65536);
    CHECK_NEAR((double)from_short, (double)b.out.max_context, 64);
}

/* A share of the prompt, from a length whose windows are full and from one where none is. */
static void shares_count_at_other_lengths(void **state)
{
    (void)state;
    bench b = on("gemma-3-4b", &snapkv, KVT_ENGINE_FUSED);
    predict(&b, 16384, 16, 4096);
    b.k.machine.mem_bytes = b.out.peak.weights + 0.4 * GI;
    predict(&b, 16384, 16, 4096);
    int64_t from_long = b.out.max_context;
    predict(&b, 64, 16, 16);
    assert_true(from_long > 1024 && from_long < 4096);
    CHECK_NEAR((double)from_long, (double)b.out.max_context, 8);
}

/* A long generation: windows fill while it runs. */
static void generations_count_at_other_lengths(void **state)
{
    (void)state;
    bench b = on("gemma-3-4b", &full, KVT_ENGINE_EAGER);
    predict(&b, 64, 20000, 64);
    assert_int_equal(b.out.peak_phase, KVT_PHASE_DECODE);
    b.k.machine.mem_bytes = b.out.peak.total + 2000 * 1000.0;
    predict(&b, 64, 20000, 64);
    int64_t n = b.out.max_context;
    assert_true(n > 64);
    predict(&b, n, 20000, n);
    CHECK_NEAR(b.out.short_bytes, 0, 0);
    predict(&b, n + 1, 20000, n + 1);
    assert_true(b.out.short_bytes > 0);
}

/* 30,000 predictions are made at once by a choice. */
static void takes_microseconds(void **state)
{
    (void)state;
    enum { TIMES = 4000 };
    bench b = on("llama-3.1-8b", &snapkv, KVT_ENGINE_FUSED);
    b.k.machine.alloc_round = 512;
    predict(&b, 32768, 256, 1024);
    clock_t from = clock();
    for (int i = 0; i < TIMES; i++) {
        cost_memory(&b.out, &b.c);
        cost_capacity(&b.out, &b.c);
    }
    double each = (double)(clock() - from) / CLOCKS_PER_SEC / TIMES;
    print_message("memory and capacity: %.2f us\n", each * 1e6);
    assert_true(each < 1e-3); /* under a checker of memory, too */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_is_the_largest),
        cmocka_unit_test(what_never_fits),
        cmocka_unit_test(windows_count_at_other_lengths),
        cmocka_unit_test(shares_count_at_other_lengths),
        cmocka_unit_test(generations_count_at_other_lengths),
        cmocka_unit_test(takes_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
