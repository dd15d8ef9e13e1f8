/* test_cost_fit_evict - calibrations: factor and floor of evictions that were measured.
 *
 * Numbers with "appendix A" are printed by the reference calculator of the cost model's
 * specification, from measurements that its section 2 lists with their sources. */
#include "tests/check.h"
#include "tests/unit/cost_fit.h"

/* Appendix A: "s_impl SnapKV 4.05 LookaheadKV 1.99" from 32K; the floor is the shortest
 * prompt's own time. */
static void factor_of_the_long_floor_of_the_short(void **state)
{
    static const double lkv[] = {11.38e-3, 10.88e-3, 18.50e-3, 38.04e-3};
    kvt_machine base = machine("h100-sxm");
    kvt_calibration c;
    (void)state;
    base.engine = KVT_ENGINE_EAGER;
    FILE *f = begin();
    for (int i = 0; i < 4; i++)
        fprintf(f, "evict,llama-3.1-8b,%d,,,,32,%.17g\n", 4096 << i, lkv[i]);
    calibrate(&c, &base, f);
    CHECK_NEAR(c.machine.evict_factor, 1.99, 0.005);
    CHECK_NEAR(c.machine.evict_floor, 11.38e-3, 1e-12);
    CHECK_NEAR(c.point[2].residual_frac, 0.0281, 6e-5); /* appendix A: +2.81 % */
    CHECK_NEAR(c.point[3].residual_frac, 0, 1e-9);
    /* Without 32K the factor is that of 16K: 37.00 ms, without 4K the floor is 8K's. */
    CHECK_NEAR(c.point[3].left_out_frac, 2 * 18.50 / 38.04 - 1, 2e-4);
    CHECK_NEAR(c.point[0].left_out_frac, 10.88 / 11.38 - 1, 1e-9);
    kvt_calibration_free(&c);
}

static void one_eviction_gives_the_factor(void **state)
{
    kvt_machine base = machine("h100-sxm");
    kvt_calibration c;
    (void)state;
    base.evict_floor = 0.011;
    FILE *f = begin();
    fprintf(f, "evict,llama-3.1-8b,32768,,,snapkv:window=32,,%.17g\n", 77.67e-3);
    calibrate(&c, &base, f);
    CHECK_NEAR(c.machine.evict_factor, 4.05, 0.015); /* 32 scoring rows are the policy's own */
    assert_true(c.machine.evict_floor == 0.011);
    assert_non_null(strstr(c.note, "evict_floor left at 0.011 s"));
    assert_non_null(strstr(c.note, "evict_factor of snapkv:window=32 counts for every policy"));
    kvt_calibration_free(&c);
}

/* SnapKV's times of 8,192 to 32,768 tokens (LookaheadKV, table 15) follow their traffic (4.05
 * times that of the longest gives 19.4 ms at 8,192): they show no floor, and 20.17 ms is none.
 * At 4,096 the traffic would take 9.7 ms, and 13.14 ms were measured: that is the floor. */
static void long_evictions_show_no_floor(void **state)
{
    static const double snapkv[] = {13.14e-3, 20.17e-3, 37.12e-3, 77.67e-3};
    kvt_machine base = machine("h100-sxm");
    (void)state;
    for (int first = 0; first < 2; first++) {
        kvt_calibration c;
        FILE *f = begin();
        for (int i = first; i < 4; i++)
            fprintf(f, "evict,llama-3.1-8b,%d,,,,32,%.17g\n", 4096 << i, snapkv[i]);
        calibrate(&c, &base, f);
        CHECK_NEAR(c.machine.evict_factor, 4.05, 0.015);
        CHECK_NEAR(c.machine.evict_floor, first ? 0.011 : 13.14e-3, 1e-12);
        assert_true(c.machine.origin[KVT_MACHINE_evict_floor] ==
                    (first ? KVT_ORIGIN_DEFAULT : KVT_ORIGIN_CALIBRATED));
        assert_true(!strstr(c.note, "evict_floor left at") == !first);
        if (!first) /* without it: 11 ms */
            CHECK_NEAR(c.point[0].left_out_frac, 11 / 13.14 - 1, 1e-9);
        kvt_calibration_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factor_of_the_long_floor_of_the_short),
        cmocka_unit_test(one_eviction_gives_the_factor),
        cmocka_unit_test(long_evictions_show_no_floor),
    };
    return cmocka_run_group_tests(tests, open_dir, close_dir);
}
