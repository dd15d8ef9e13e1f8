/* test_cost_memory_published - published peaks and sizes of pools (G4, G20 to G23), and numbers
 * that the rules of the specification name. */
#include "tests/check.h"
#include "tests/unit/cost_memory.h"

#include <math.h>

/* G4: FastDMS README, 16-bit pools of pages of 16. */
static void pools(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int64_t n;
        double gib;
    } rows[] = {{"llama-3.2-1b", 10240, 0.3125},
                {"llama-3.2-1b", 67584, 2.0625},
                {"qwen3-8b", 10240, 1.40625},
                {"qwen3-8b", 67584, 9.28125}};
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        bench b = on(rows[i].model, &full, KVT_ENGINE_FUSED);
        b.s = (kvt_cost_setting){.page_tokens = 16, .shared_pages = true};
        predict(&b, rows[i].n, 0, rows[i].n);
        CHECK_NEAR(b.out.steady.kv / GI, rows[i].gib, 0);
    }
}

/* G20: kvpress notebook, read off its figure; formula of section 8 E beside it. */
static void kvpress_peaks(void **state)
{
    (void)state;
    static const struct {
        double keep;
        int64_t n;
        double published, formula;
    } rows[] = {
        {1, 8000, 16.85, 16.819},   {1, 16000, 18.7, 18.681},   {1, 32000, 22.45, 22.404},
        {1, 64000, 29.9, 29.850},   {1, 128000, 44.8, 44.743},  {.5, 32000, 20.5, 20.451},
        {.5, 64000, 26, 25.944},    {.5, 128000, 37, 36.930},   {.2, 32000, 19.3, 19.279},
        {.2, 64000, 23.65, 23.600}, {.2, 128000, 32.35, 32.243}};
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        bench b = on("llama-3.1-8b", rows[i].keep < 1 ? &norms : &full, KVT_ENGINE_EAGER);
        double n = (double)rows[i].n;
        predict(&b, rows[i].n, 100, (int64_t)(n * rows[i].keep + 0.5));
        within("published", b.out.peak.total / GI, rows[i].published, 0.01);
        within("formula", b.out.peak.total / GI, rows[i].formula, 5e-5);
        assert_int_equal(b.out.peak_phase, KVT_PHASE_FFN);
        assert_int_equal(b.out.peak_layer, 31);
    }
}

/* G21: KVCache-Factory issue 49: 9k prompt, logits of all positions. */
static void factory_layouts(void **state)
{
    (void)state;
    double total[2][2];
    for (int head = 0; head < 2; head++)
        for (int k = 0; k < 2; k++) {
            bench b = on("llama-3.1-8b", &snapkv, KVT_ENGINE_EAGER);
            b.w.by_query_head = head;
            b.s.all_logits = true;
            predict(&b, 9000, 0, k ? 128 : 2048);
            assert_int_equal(b.out.peak_phase, KVT_PHASE_LOGITS);
            total[head][k] = b.out.peak.total;
        }
    within("query heads", total[1][0] / GI, 22.49, 0.01);
    within("kv heads", total[0][0] / GI, 21.74, 0.01);
    CHECK_NEAR((total[1][0] - total[0][0]) / MI, 768, 1e-6);
    CHECK_NEAR((total[1][1] - total[0][1]) / MI, 48, 1e-6);
}

/* G22, G23: KVpop, Qwen3-8B, a framework's decode. */
static void kvpop_peaks(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        double formula;
    } rows[] = {{16384, 17.788}, {131072, 35.506}};
    double dense = 0;
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        bench b = on("qwen3-8b", &full, KVT_ENGINE_EAGER);
        predict(&b, 128, rows[i].n - 128, 128);
        within("dense", b.out.peak.total / GI, i ? 36 : 18, 0.02);
        within("formula", b.out.peak.total / GI, rows[i].formula, 2e-4);
        assert_int_equal(b.out.peak_phase, KVT_PHASE_DECODE);
        dense = b.out.peak.total / GI;
    }
    for (int64_t budget = 4096; budget <= 32768; budget += 28672) {
        bench b = on("qwen3-8b", &ring, KVT_ENGINE_EAGER);
        predict(&b, 128, 131072 - 128, budget);
        double got = b.out.peak.total / GI;
        if (got < 15.8 || got > 20.4)
            fail_msg("%lld slots: %.2f GiB", (long long)budget, got);
        if (got / dense < 0.44 || got / dense > 0.58)
            fail_msg("%lld slots: %.3f of the dense one", (long long)budget, got / dense);
    }
}

/* Rule 3 of section 6: half a page a lane is lost on average, 16 MiB of 256 slots. */
static void pages_waste_half(void **state)
{
    (void)state;
    double waste = 0;
    for (int64_t i = 0; i < 256; i++) {
        bench b = on("llama-3.1-8b", &snapkv, KVT_ENGINE_FUSED);
        predict(&b, 32768, 0, 1024 + i);
        double exact = b.out.steady.kv;
        b.w.page_tokens = 256;
        predict(&b, 32768, 0, 1024 + i);
        waste += (b.out.steady.kv - exact) / 256;
    }
    within("waste", waste / MI, 16, 0.005); /* (p - 1) / 2 slots */
}

/* Rule 14: 2.30 GiB of Llama-3.2-1B, and 1 GiB of its cache at 32K. */
static void a_draft_model(void **state)
{
    (void)state;
    bench b = on("llama-3.1-8b", &speckv, KVT_ENGINE_FUSED);
    predict(&b, 32768, 0, 128);
    assert_true(isnan(b.out.peak.total) && isnan(b.out.short_bytes)); /* of what model? */
    b.draft = model("llama-3.2-1b");
    predict(&b, 32768, 16, 128);
    within("weights", b.out.peak.draft / GI, 2.30, 0.005);
    CHECK_NEAR(b.out.peak.draft_kv, (32768 + 32) * 32 * KI, 0);
    CHECK_NEAR(b.out.steady.kv / MI, 16 * (128.0 + 16) / 128, 1e-9);
    CHECK_NEAR(b.out.steady.draft_kv, 0, 0); /* freed when the prompt is cut */
    CHECK_NEAR(b.out.steady.draft, b.out.peak.draft, 0);
}

/* 9b.11: whole rows of H2O at 32K, 16 bits and 32 bits a number. */
static void whole_rows_do_not_fit(void **state)
{
    (void)state;
    bench b = on("llama-3.1-8b", &h2o, KVT_ENGINE_EAGER);
    predict(&b, 32768, 0, 128);
    double matrix = 32.0 * 32768 * 32768 * 6;
    CHECK_NEAR(matrix / 1e9, 206, 0.5);
    within("scratch", b.out.peak.scratch, matrix, 0.005);
    assert_int_equal(b.out.peak_phase, KVT_PHASE_ATTENTION);
    CHECK_NEAR(b.out.short_bytes, b.out.peak.total - 85e9, 1);
    assert_int_equal(b.out.max_batch, 0);
    b.s.chunk = 512; /* queries at a time */
    predict(&b, 32768, 0, 128);
    within("chunk", b.out.peak.scratch, matrix / 64 + 2.0 * 32768 * 32 * 128 * 2, 0.05);
    b.s.chunk = 0, b.k.machine.engine = KVT_ENGINE_FUSED;
    predict(&b, 32768, 0, 128);
    CHECK_NEAR(b.out.short_bytes, 0, 0);
    /* table 7.4: sums of 32 bits of every slot that is kept */
    CHECK_NEAR(b.out.steady.state, 4.0 * 128 * 8 * 32, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools),
        cmocka_unit_test(kvpress_peaks),
        cmocka_unit_test(factory_layouts),
        cmocka_unit_test(kvpop_peaks),
        cmocka_unit_test(pages_waste_half),
        cmocka_unit_test(a_draft_model),
        cmocka_unit_test(whole_rows_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
