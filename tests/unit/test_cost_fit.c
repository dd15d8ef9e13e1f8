/* test_cost_fit - calibrations: constants that are known are given back, what is not fitted
 * stays as it was, steps that the host bounds, and what comes out as a file. */
#include "tests/check.h"
#include "tests/unit/cost_case.h"
#include "tests/unit/cost_fit.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

/* ---- known constants -----------------------------------------------------------------------
 */

static void all_left_out_are_met(const kvt_calibration *c)
{
    for (int64_t i = 0; i < c->n_point; i++) {
        CHECK_NEAR(c->point[i].residual_frac, 0, 1e-9);
        CHECK_NEAR(c->point[i].left_out_frac, 0, 1e-8);
    }
}

static void prefill_gives_constants_back(void **state)
{
    static const int64_t length[] = {2048, 4096, 9000, 32768, 65536};
    kvt_machine base = machine("a100-sxm-80"), known = base;
    kvt_calibration c;
    (void)state;
    known.e_lin = 0.61, known.e_att = 0.37, known.t_ttft = 0.02;
    known.n_half = known.elementwise = 0;
    for (int n = 3; n <= 5; n++) { /* of three points there is none to leave out */
        FILE *f = begin();
        for (int i = 0; i < n; i++)
            add(f, "prefill", "qwen3-4b", length[i], 1, 16,
                prefill_time(&known, "qwen3-4b", length[i]));
        calibrate(&c, &base, f);
        CHECK_NEAR(c.machine.e_lin, known.e_lin, 1e-9);
        CHECK_NEAR(c.machine.e_att, known.e_att, 1e-9);
        CHECK_NEAR(c.machine.t_ttft, known.t_ttft, 1e-9);
        if (n > 3)
            all_left_out_are_met(&c);
        kvt_calibration_free(&c);
    }
}

/* Layers with windows have an efficiency of their own, which the fit leaves as it is. */
static void windows_keep_their_factor(void **state)
{
    static const int64_t length[] = {2048, 8192, 32768};
    kvt_machine base = machine("h100-sxm"), known = base;
    kvt_calibration c;
    (void)state;
    assert_true(base.window_half > 0);
    known.e_lin = 0.5, known.e_att = 0.4, known.n_half = known.elementwise = known.t_ttft = 0;
    FILE *f = begin();
    for (int i = 0; i < 3; i++)
        add(f, "prefill", "gemma-3-4b", length[i], 1, 16,
            prefill_time(&known, "gemma-3-4b", length[i]));
    calibrate(&c, &base, f);
    CHECK_NEAR(c.machine.e_lin, 0.5, 1e-9);
    CHECK_NEAR(c.machine.e_att, 0.4, 1e-9);
    assert_true(c.machine.t_ttft < 1e-9 && c.machine.window_half == base.window_half);
    kvt_calibration_free(&c);
}

static void decode_gives_constants_back(void **state)
{
    static const char *const model[] = {"llama-3.2-1b", "llama-3.1-8b", "qwen3-1.7b"};
    kvt_machine base = machine("h100-sxm"), known = base;
    kvt_calibration c;
    (void)state;
    known.t_layer = 41e-6, known.t_step = 230e-6, known.e_w = 0.77, known.e_kv = 0.58;
    known.t_req = 0;
    FILE *f = begin();
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            int64_t batch = k % 2 ? 4 : 1, context = k / 2 ? 60000 : 4000;
            add(f, "decode", model[i], context, batch, 16,
                decode_time(&known, model[i], context, (double)batch));
        }
    calibrate(&c, &base, f);
    CHECK_NEAR(c.machine.t_layer / known.t_layer, 1, 1e-9);
    CHECK_NEAR(c.machine.t_step / known.t_step, 1, 1e-9);
    CHECK_NEAR(c.machine.e_w, known.e_w, 1e-9);
    CHECK_NEAR(c.machine.e_kv, known.e_kv, 1e-9);
    all_left_out_are_met(&c);
    kvt_calibration_free(&c);
}

/* One model's layers and weights are the same in all of its steps: the fixed times stay. */
static void one_model_fits_the_rates(void **state)
{
    kvt_machine base = machine("h100-sxm"), known = base;
    kvt_calibration c;
    (void)state;
    known.e_w = 0.71, known.e_kv = 0.64;
    FILE *f = begin();
    for (int k = 0; k < 4; k++) {
        int64_t batch = k % 2 ? 8 : 1, context = k / 2 ? 30000 : 2000;
        add(f, "decode", "llama-3.1-8b", context, batch, 16,
            decode_time(&known, "llama-3.1-8b", context, (double)batch));
    }
    calibrate(&c, &base, f);
    CHECK_NEAR(c.machine.e_w, known.e_w, 1e-9);
    CHECK_NEAR(c.machine.e_kv, known.e_kv, 1e-9);
    assert_true(c.machine.t_layer == base.t_layer && c.machine.t_req == base.t_req);
    assert_int_equal(c.machine.origin[KVT_MACHINE_t_layer], base.origin[KVT_MACHINE_t_layer]);
    assert_non_null(strstr(c.note, "one model"));
    kvt_calibration_free(&c);
}

/* Attention twice as fast as the peak allows: held at 1, e_lin is the best for what remains. */
static void a_share_above_1_is_clamped(void **state)
{
    static const int64_t length[] = {4096, 65536};
    kvt_machine base = machine("h100-sxm");
    kvt_cost_geometry g;
    kvt_calibration c;
    kvt_err err;
    (void)state;
    CHECK_OK(kvt_cost_geometry_find(&g, "llama-3.1-8b", &err), &err);
    double up = 0, down = 0, peak = base.peak_flops_16;
    FILE *f = begin();
    for (int i = 0; i < 2; i++) {
        double x = (kvt_cost_linear_flops(&g, length[i]) + 2 * (double)g.theta_head) / peak;
        double z = kvt_cost_attention_flops(&g, length[i], false) / peak;
        double y = x / 0.5 + z / 2;
        add(f, "prefill", "llama-3.1-8b", length[i], 1, 16, y);
        up += x * x / (y * y);
        down += x * (y - z) / (y * y);
    }
    calibrate(&c, &base, f);
    CHECK_NEAR(c.machine.e_att, 1, 1e-12);
    CHECK_NEAR(c.machine.e_lin, up / down, 1e-9);
    assert_non_null(strstr(c.note, "e_att clamped to 1"));
    kvt_calibration_free(&c);
}

/* ---- the host ------------------------------------------------------------------------------
 */

/* 30 ms at 8K and at 32K where the device takes less than 15: 30 ms / 32 layers, also where the
 * host's time is smoothed with the device's. */
static void steps_that_stay_are_the_hosts(void **state)
{
    (void)state;
    for (int smooth = 0; smooth <= 4; smooth += 4) {
        kvt_machine base = machine("a100-sxm-80");
        kvt_calibration c;
        base.host_smooth = smooth;
        FILE *f = begin();
        for (int i = 0; i < 3; i++) {
            double device = decode_time(&base, "llama-3.1-8b", 8192 << i, 1);
            double step = smooth ? pow(pow(device, 4) + pow(0.030, 4), 0.25) : 0.030;
            add(f, "decode", "llama-3.1-8b", 8192 << i, 1, 16, step);
        }
        calibrate(&c, &base, f);
        assert_true(c.host_bound);
        CHECK_NEAR(c.machine.host_floor_layer * 32, 0.030, 1e-9);
        assert_true(c.machine.e_w == base.e_w && c.machine.t_layer == base.t_layer);
        CHECK_NEAR(c.rms_decode, 0, 1e-9);
        assert_non_null(strstr(c.note, "host floor of 937.5 us a layer"));
        kvt_calibration_free(&c);
    }
}

/* Steps that stay because keys and values are few are the device's own. */
static void short_contexts_are_not(void **state)
{
    kvt_machine base = machine("h100-sxm"), known = base;
    kvt_calibration c;
    (void)state;
    known.e_w = 0.8;
    FILE *f = begin();
    for (int k = 0; k < 4; k++)
        add(f, "decode", "llama-3.1-8b", k % 2 ? 512 : 128, k / 2 ? 8 : 1, 16,
            decode_time(&known, "llama-3.1-8b", k % 2 ? 512 : 128, k / 2 ? 8 : 1));
    calibrate(&c, &base, f);
    assert_false(c.host_bound);
    CHECK_NEAR(c.machine.e_w, 0.8, 1e-9);
    assert_true(c.machine.host_floor_layer == 0);
    kvt_calibration_free(&c);
}

/* ---- what comes out ------------------------------------------------------------------------
 */

static void it_is_stamped_and_saved(void **state)
{
    kvt_machine base = machine("h20"), back;
    kvt_calibration c;
    kvt_err err;
    char today[16], file[160];
    time_t now = time(NULL);
    struct tm day;
    (void)state;
    FILE *f = begin();
    add(f, "prefill", "llama-3.1-8b", 8192, 1, 16, 1.1106);
    add(f, "prefill", "llama-3.1-8b", 131072, 1, 16, 60.8399);
    calibrate(&c, &base, f);
    strftime(today, sizeof today, "%Y-%m-%d", gmtime_r(&now, &day));
    assert_non_null(strstr(c.machine.calibrated_on, "points.csv"));
    assert_non_null(strstr(c.machine.calibrated_on, "engine fused"));
    assert_non_null(strstr(c.machine.calibrated_on, today));
    assert_null(strstr(c.machine.calibrated_on, "/tmp"));
    assert_string_equal(c.machine.name, "h20-calibrated");
    snprintf(file, sizeof file, "%s/mine.json", dir);
    CHECK_OK(kvt_machine_save(&c.machine, file, &err), &err);
    CHECK_OK(kvt_machine_find(&back, file, &err), &err);
    unlink(file);
    assert_true(back.e_lin == c.machine.e_lin && back.band_prefill == c.machine.band_prefill);
    assert_memory_equal(back.origin, c.machine.origin, sizeof back.origin);
    kvt_table t = kvt_calibration_table(&c);
    assert_int_equal(t.n_row, 2);
    assert_string_equal(t.name, "calibration");
    kvt_calibration_free(&c);
}

/* Prefill and decode in one file: each is fitted to its own points. Together they say how far a
 * draft may be off: 12 % where neither misses by more. */
static void quantities_of_one_file(void **state)
{
    kvt_machine base = machine("h100-sxm"), known = base;
    kvt_calibration c;
    (void)state;
    known.e_lin = 0.5, known.e_att = 0.4, known.e_w = 0.7, known.e_kv = 0.6;
    known.n_half = known.elementwise = 0;
    FILE *f = begin();
    for (int k = 0; k < 4; k++) {
        int64_t batch = k % 2 ? 8 : 1, context = k / 2 ? 30000 : 2000;
        add(f, "decode", "llama-3.1-8b", context, batch, 16,
            decode_time(&known, "llama-3.1-8b", context, (double)batch));
        add(f, "prefill", "llama-3.1-8b", 2048 << k, 1, 16,
            prefill_time(&known, "llama-3.1-8b", 2048 << k));
    }
    calibrate(&c, &base, f);
    CHECK_NEAR(c.machine.e_lin, 0.5, 1e-9);
    CHECK_NEAR(c.machine.e_att, 0.4, 1e-9);
    CHECK_NEAR(c.machine.e_w, 0.7, 1e-9);
    CHECK_NEAR(c.machine.e_kv, 0.6, 1e-9);
    CHECK_NEAR(c.machine.band_draft, 0.12, 0);
    assert_true(c.machine.range_from == 2048 && c.machine.range_to == 16384); /* prompts */
    assert_true(isnan(c.rms_evict) && c.machine.band_evict == base.band_evict);
    kvt_calibration_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefill_gives_constants_back),
        cmocka_unit_test(windows_keep_their_factor),
        cmocka_unit_test(decode_gives_constants_back),
        cmocka_unit_test(one_model_fits_the_rates),
        cmocka_unit_test(a_share_above_1_is_clamped),
        cmocka_unit_test(steps_that_stay_are_the_hosts),
        cmocka_unit_test(short_contexts_are_not),
        cmocka_unit_test(quantities_of_one_file),
        cmocka_unit_test(it_is_stamped_and_saved),
    };
    return cmocka_run_group_tests(tests, open_dir, close_dir);
}
