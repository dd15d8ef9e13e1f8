/* test_cost_time_decode - times of decode steps: published ones, by constants that stand here
 * (G24, G29, G30), and what must hold of any: sums, floors of the host, caches. */
#include "tests/check.h"
#include "tests/unit/cost_time.h"

#include <math.h>

/* ---- published -----------------------------------------------------------------------------
 */

static void fast_dms_is_reproduced(void **state)
{
    (void)state; /* FastDMS README: batch, context, bits of keys and values, tokens a second */
    static const struct {
        const char *name;
        int64_t batch;
        double n, kv_bits, rate;
    } rows[] = {
        {"llama-3.2-1b", 1, 8256, 16, 459.4},   {"llama-3.2-1b", 1, 8256, 8, 489.4},
        {"llama-3.2-1b", 8, 8256, 16, 2357.5},  {"llama-3.2-1b", 8, 8256, 8, 2888.7},
        {"qwen3-8b", 1, 8256, 16, 89.44},       {"qwen3-8b", 1, 8256, 8, 93.12},
        {"qwen3-8b", 8, 8256, 16, 444.59},      {"qwen3-8b", 8, 8256, 8, 583.39},
        {"llama-3.2-1b", 1, 131008, 16, 189.1}, {"llama-3.2-1b", 1, 131008, 8, 265.9},
        {"qwen3-8b", 1, 40896, 16, 69.24},      {"qwen3-8b", 1, 40896, 8, 79.46},
        {"qwen3-8b", 8, 40896, 16, 161.6},      {"qwen3-8b", 8, 40896, 8, 286.3},
    };
    kvt_machine m = machine(467.8e12, 1.792e12);
    m.t_step = 0;
    m.t_layer = 27.6e-6;
    m.e_w = 0.922;
    m.e_kv = 0.722;
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_cost_geometry g = model(rows[i].name);
        kvt_cost_setting s = {.batch = rows[i].batch, .kv_bits = rows[i].kv_bits};
        within("G24", step(&g, &m, &s, NULL, rows[i].n, 1),
               (double)rows[i].batch / rows[i].rate, 0.07);
    }
}

static void a_framework_is_reproduced(void **state)
{
    (void)state; /* kvpress's notebook, A100: seconds of 100 tokens */
    static const struct {
        double slots, s;
    } rows[] = {{8000, 3.0},   {16000, 3.1},  {32000, 3.35}, {64000, 5.0},
                {128000, 9.0}, {32000, 3.45}, {64000, 5.55}};
    kvt_cost_geometry g = model("llama-3.1-8b");
    kvt_machine m = machine(312e12, 2.039e12);
    m.engine = KVT_ENGINE_EAGER;
    m.t_step = m.t_layer = 0;
    m.e_w = m.e_kv = 0.73;
    m.kv_traffic = 7.09;
    m.host_floor_step = 0.030;
    m.host_smooth = 4;
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        within("G30", 100 * step(&g, &m, &(kvt_cost_setting){0}, &full, rows[i].slots, 1),
               rows[i].s, 0.08);
}

static void order_at_131k(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("qwen3-8b");
    kvt_machine m = machine(989e12, 3.35e12);
    kvt_cost_setting s = {0};
    kvt_cost_work dms = {.in_decode = true, .in_place = true, .ragged = true};
    kvt_cost_work kvpop = {.in_decode = true,
                           .in_place = true,
                           .selects = true,
                           .network_flops = 1e6,
                           .decode_state_moves = 4};
    within("G29 dense", step(&g, &m, &s, &full, 131072, 1), 13.9e-3, 0.02);
    within("G29 dms", step(&g, &m, &s, &dms, 32768, 1.5), 9.3e-3, 0.02);
    within("G29 kvpop", step(&g, &m, &s, &kvpop, 4096, 1), 6.75e-3, 0.02);
}

/* ---- what must hold ------------------------------------------------------------------------
 */

static void nothing_may_be_decoded(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 0);
    kvt_cost cost = predict(&b);
    assert_true(cost.decode == 0 && cost.request == cost.ttft);
    assert_true(isnan(cost.step_first.total) && isnan(cost.step_mean.kv) &&
                isnan(cost.step_last.total) && isnan(cost.step_band.hi));
}

static void steps_are_summed(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &snapkv, 4096, 128, 5);
    kvt_cost one = predict(&b);
    double sum = 0;
    for (int t = 0; t < 5; t++)
        sum += step(&b.g, &b.p.machine, &b.s, &snapkv, 128 + t, 1);
    CHECK_NEAR(one.decode, sum, 1e-12 * sum);
    assert_true(one.request == one.ttft + one.decode && one.ttft > one.prefill.total);
    CHECK_NEAR(one.step_mean.total * 5, sum, 1e-12 * sum);
    CHECK_NEAR(one.step_first.total, step(&b.g, &b.p.machine, &b.s, &snapkv, 128, 1), 1e-15);
    b.load.run[0].steps = 7; /* a run of equal steps */
    b.load.n_run = 1;
    CHECK_NEAR(predict(&b).decode, 7 * one.step_first.total, 1e-12);
}

static void a_host_floor_never_lowers(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("llama-3.2-1b");
    kvt_machine m = machine(989e12, 3.35e12);
    double bare = step(&g, &m, &(kvt_cost_setting){0}, &full, 4096, 1), last = bare;
    for (double smooth = 0; smooth <= 8; smooth += 4) {
        m.host_smooth = smooth;
        for (double floor = 0; floor < 0.01; floor += 0.0005) {
            m.host_floor_step = floor;
            double t = step(&g, &m, &(kvt_cost_setting){0}, &full, 4096, 1);
            assert_true(t >= bare && t >= floor && (floor == 0 || t >= last));
            last = t;
        }
    }
}

static void the_cache_is_faster(void **state)
{
    (void)state;
    kvt_cost_geometry g = model("smollm2-135m");
    kvt_machine m = machine(989e12, 1e12);
    m.t_step = m.t_layer = 0;
    double far = step(&g, &m, &(kvt_cost_setting){0}, &full, 100, 1);
    m.cache_bytes =
        2 * (double)(g.theta_lin + g.theta_head) + (double)kvt_cost_cache_bytes(&g, 100);
    m.cache_gain = 2;
    CHECK_NEAR(step(&g, &m, &(kvt_cost_setting){0}, &full, 100, 1), far / 2, 1e-12);
    assert_true(step(&g, &m, &(kvt_cost_setting){0}, &full, 101, 1) > far);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_dms_is_reproduced), cmocka_unit_test(a_framework_is_reproduced),
        cmocka_unit_test(order_at_131k),          cmocka_unit_test(nothing_may_be_decoded),
        cmocka_unit_test(steps_are_summed),       cmocka_unit_test(a_host_floor_never_lowers),
        cmocka_unit_test(the_cache_is_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
