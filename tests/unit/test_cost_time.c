/* test_cost_time - whole predictions of times: how they follow the machine's bandwidth and the
 * number of devices, their bands, and what binds them. */
#include "tests/check.h"
#include "tests/unit/cost_time.h"

#include <math.h>

static void twice_the_bandwidth_halves_memory(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 3);
    b.w.in_decode = true;
    b.w.decode_state_moves = 8;
    kvt_cost one = predict(&b);
    b.p.machine.mem_bw *= 2;
    kvt_cost two = predict(&b);
    assert_true(two.step_mean.kv == one.step_mean.kv / 2);
    assert_true(two.step_mean.weights == one.step_mean.weights / 2);
    assert_true(two.step_mean.policy == one.step_mean.policy / 2);
    assert_true(two.step_mean.copy == one.step_mean.copy / 2);
    assert_true(two.step_mean.fixed == one.step_mean.fixed);
    assert_true(two.evict.copy == one.evict.copy / 2 && two.evict.host == one.evict.host);
    assert_true(two.prefill.linear == one.prefill.linear); /* bound by math */
}

static void devices_want_a_link(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 2);
    kvt_cost one = predict(&b);
    b.s.tensor = 2;
    kvt_cost none = predict(&b);
    assert_true(isnan(none.prefill.total) && isnan(none.step_mean.total) && isnan(none.ttft));
    assert_true(isnan(none.ttft_band.lo));
    b.p.machine.link_bw = 450e9;
    kvt_cost two = predict(&b);
    assert_true(two.prefill.linear == one.prefill.linear / 2);
    CHECK_NEAR(two.step_mean.kv, one.step_mean.kv / 2, 1e-15);
    /* 64 all-reduces of 4096 x 4096 x 2 bytes, half of it twice, and their launches */
    CHECK_NEAR(two.prefill.exchange, 64 * (4096.0 * 4096 * 2 / 450e9 + 3e-6), 1e-12);
}

static void bands_follow_the_machine(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 1);
    kvt_machine *m = &b.p.machine;
    m->band_prefill = 0.03, m->band_evict = 0.05, m->band_draft = 0.12;
    m->band_decode_lo = 0.1, m->band_decode_hi = 0.36, m->band_bytes = 0.01;
    m->range_from = 4096, m->range_to = 32768, m->range_head_dim = 128;
    kvt_cost cost = predict(&b);
    assert_false(cost.out_of_range);
    assert_true(cost.ttft_band.lo == 0.03 && cost.evict_band.hi == 0.05);
    assert_true(cost.step_band.lo == 0.1 && cost.step_band.hi == 0.36);
    m->range_from = 4 * 4096 + 1; /* more than four times outside */
    cost = predict(&b);
    assert_true(cost.out_of_range && cost.ttft_band.lo == 0.06 && cost.step_band.hi == 0.72);
    m->band_decode_lo = 0.8; /* a time is not below zero */
    assert_true(predict(&b).step_band.lo == 1);
    m->range_from = 4 * 4096;
    assert_false(predict(&b).out_of_range);
    m->range_to = 1024;
    assert_false(predict(&b).out_of_range);
    m->range_to = 1023;
    assert_true(predict(&b).out_of_range);
    m->range_to = 32768;
    m->range_head_dim = 64;
    assert_true(predict(&b).out_of_range);
    m->range_from = 0; /* never calibrated */
    assert_false(predict(&b).out_of_range);
    b.w = laq;
    assert_true(predict(&b).evict_band.lo == 0.12);
}

static void what_binds(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 8192, 128, 1);
    kvt_cost cost = predict(&b);
    assert_int_equal(cost.ttft_bound, KVT_BOUND_MATH);
    assert_int_equal(cost.step_bound, KVT_BOUND_MEMORY);
    b.w = laq; /* its steps read the weights */
    assert_int_equal(predict(&b).evict_bound, KVT_BOUND_MEMORY);
    b.w = snapkv;
    b.s.batch = 4000;
    cost = predict(&b);
    assert_int_equal(cost.step_bound, KVT_BOUND_MATH);
    within("math of a batch", cost.step_mean.weights,
           2 * 4000.0 * (6979321856.0 + 128256.0 * 4096) / (989e12 * 0.65), 1e-12);
    b.s.batch = 0;
    b.p.machine.host_floor_step = 1;
    b.p.machine.launches_layer = 1e4;
    b.p.machine.t_launch = 1e-4;
    cost = predict(&b);
    assert_int_equal(cost.ttft_bound, KVT_BOUND_HOST);
    assert_int_equal(cost.step_bound, KVT_BOUND_HOST);
    assert_int_equal(cost.evict_bound, KVT_BOUND_HOST);
    assert_string_equal(kvt_bottleneck_name(KVT_BOUND_MEMORY), "memory");
    assert_string_equal(kvt_memory_phase_name(KVT_PHASE_FFN), "prefill feed-forward");
    assert_string_equal(kvt_cost_profile_name(KVT_PROFILE_AS_PUBLISHED), "as-published");
    assert_string_equal(kvt_bottleneck_name((kvt_bottleneck)3), "");
    assert_string_equal(kvt_memory_phase_name((kvt_memory_phase)7), "");
    assert_string_equal(kvt_cost_profile_name((kvt_cost_profile)3), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twice_the_bandwidth_halves_memory),
        cmocka_unit_test(devices_want_a_link),
        cmocka_unit_test(bands_follow_the_machine),
        cmocka_unit_test(what_binds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
