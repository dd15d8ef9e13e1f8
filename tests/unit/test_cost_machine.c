/* test_cost_machine - machines and profiles of the cost model: what is compiled in, how it is
 * written and named.
 *
 * Constants of machines are held against a second calculation of prefill and decode (G28), in
 * Python from the formulae alone. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "kvt/cost.h"
#include "tests/folder.h"
#include "tests/german.h"

static kvt_err err;

/* ---- machines ------------------------------------------------------------------------------
 */

static double value(const kvt_machine *m, int i)
{
    double x;
    memcpy(&x, (const char *)m + kvt_machine_fields()[i].offset, sizeof x);
    return x;
}

typedef kvt_code finder(kvt_machine *, const char *, kvt_err *);

static void each_file_reads(finder *find, const char *const *names, int want)
{
    int n = 0;
    for (; names[n]; n++) {
        kvt_machine m, back;
        if (n)
            assert_true(strcmp(names[n - 1], names[n]) < 0);
        CHECK_OK(find(&m, names[n], &err), &err);
        assert_string_equal(m.name, names[n]);
        assert_true(m.title[0] != 0);
        for (int i = 0; i < KVT_MACHINE_N; i++) {
            const kvt_machine_field_info *f = &kvt_machine_fields()[i];
            if (!(value(&m, i) >= f->least && value(&m, i) <= f->most))
                fail_msg("%s: %s is %g", names[n], f->name, value(&m, i));
        }
        CHECK_OK(kvt_machine_save(&m, folder_path("back.json"), &err), &err);
        CHECK_OK(find(&back, folder_path("back.json"), &err), &err);
        assert_memory_equal(&m, &back, sizeof m);
    }
    assert_int_equal(n, want);
}

static void machines_read_and_write_back(void **state)
{
    (void)state;
    each_file_reads(kvt_machine_find, kvt_machine_names(), 17);
    each_file_reads(kvt_cost_profile_find, kvt_cost_profile_names(), 8);
}

static void the_same_in_a_locale_with_commas(void **state)
{
    if (!enter_german())
        skip();
    machines_read_and_write_back(state);
    setlocale(LC_ALL, "C");
}

static void numbers_keep_all_their_digits(void **state)
{
    (void)state;
    kvt_machine m, back;
    CHECK_OK(kvt_machine_find(&m, "h100", &err), &err);
    m.e_lin = 0x1.fffffffffffffp-2; /* just below a half */
    m.t_layer = 4.9406564584124654e-324;
    m.mem_bw = 1e16;
    m.origin[KVT_MACHINE_e_lin] = KVT_ORIGIN_CALIBRATED;
    memset(m.title, 0, sizeof m.title);
    snprintf(m.title, sizeof m.title, "quotes \" and \\, \u6f22");
    CHECK_OK(kvt_machine_save(&m, folder_path("own.json"), &err), &err);
    CHECK_OK(kvt_machine_find(&back, folder_path("own.json"), &err), &err);
    assert_memory_equal(&m, &back, sizeof m);
    m.e_kv = NAN;
    CHECK_FAILS(kvt_machine_save(&m, folder_path("own.json"), &err), KVT_USAGE,
                "e_kv: expected 0 to 1, got nan", &err);
    CHECK_OK(kvt_machine_find(&back, folder_path("own.json"), &err), &err); /* the old file */
    m.e_kv = .5;
    CHECK_FAILS(kvt_machine_save(&m, folder_path("no/such/own.json"), &err), KVT_NOTFOUND, NULL,
                &err);
    assert_false(file_exists(folder_path("no")));
}

static const struct alias_row {
    const char *name, *want;
} aliases[] = {
    {"h100", "h100-sxm"},    {"H100-SXM", "h100-sxm"}, {"a100", "a100-sxm-80"},
    {"rtx-4090", "rtx4090"}, {"rtx-3090", "rtx3090"},  {"pi", "pi5"},
    {"cpu", "cpu-2core"},    {"phone", "phone-sd8g3"},
};

static void alias_is_found(void **state)
{
    const struct alias_row *r = *state;
    kvt_machine m;
    CHECK_OK(kvt_machine_find(&m, r->name, &err), &err);
    assert_string_equal(m.name, r->want);
}

static void names_and_aliases_are_distinct(void **state)
{
    (void)state;
    const char *seen[256];
    int n = 0;
    for (const char *const *name = kvt_machine_names(); *name; name++) {
        seen[n++] = *name;
        for (const char *const *a = kvt_machine_aliases(*name); *a; a++)
            seen[n++] = *a;
    }
    assert_true(n > 17 && n < CHECK_COUNT(seen));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(seen[i], seen[k]);
    assert_null(*kvt_machine_aliases("nothing"));
}

/* ---- the machines against a second calculation (G28) ---------------------------------------
 */

/* Milliseconds of a prefill of 512, 4,096 and 32,768 tokens, and of a step over 128, 4,096 and
 * 32,768 slots; the 1B, then the 8B. */
static const struct speed_row {
    const char *name;
    double prefill[2][3], step[2][3];
} speeds[] = {
    {"h200",
     {{1.6321, 15.347, 269.78}, {11.369, 98.015, 1236.9}},
     {{1.2129, 1.2476, 1.4985}, {4.7692, 4.9081, 5.9119}}},
    {"h100-sxm",
     {{1.6321, 15.347, 269.78}, {11.369, 98.015, 1236.9}},
     {{1.4756, 1.5253, 1.8849}, {6.3635, 6.5625, 8.0007}}},
    {"a100-sxm-80",
     {{4.8223, 45.841, 832.7}, {33.521, 290.56, 3759.7}},
     {{2.1241, 2.2152, 2.8734}, {10.299, 10.664, 13.297}}},
    {"l40s",
     {{4.8342, 45.558, 806.24}, {33.661, 290.51, 3684.8}},
     {{3.9775, 4.1705, 5.5646}, {21.548, 22.32, 27.897}}},
    {"l4",
     {{14.463, 136.3, 2412}, {100.71, 869.13, 11024}},
     {{10.316, 10.872, 14.887}, {60.018, 62.24, 78.301}}},
    {"rtx4090",
     {{9.1075, 86.576, 1572.7}, {63.309, 548.75, 7100.6}},
     {{3.4959, 3.6613, 4.8562}, {18.625, 19.287, 24.067}}},
    {"phone-sd8g3",
     {{8714.9, 84563, 1628428}, {61395, 536910, 7227248}},
     {{52.004, 55.082, 77.325}, {315.61, 327.93, 416.9}}},
    {"cpu-2core",
     {{13354, 129501, 2489861}, {94081, 822525, 11058115}},
     {{203.8, 215.84, 302.84}, {1236.9, 1285, 1633}}},
};

/* The formulae themselves, so that nothing but the file's constants is tested here. */
static double prefill_ms(const kvt_machine *m, const kvt_cost_geometry *g, int64_t n)
{
    double peak = m->peak_flops_16 > 0 ? m->peak_flops_16 : m->peak_flops_32, x = (double)n;
    double narrow = g->g.head_dim == 64 ? m->hd64_factor : 1;
    double linear = (kvt_cost_linear_flops(g, n) + 2 * (double)g->theta_head) / peak / m->e_lin;
    return 1e3 * (linear + kvt_cost_attention_flops(g, n, false) / peak / m->e_att / narrow *
                               (x + m->n_half) / x);
}

static double step_ms(const kvt_machine *m, const kvt_cost_geometry *g, int64_t n)
{
    return 1e3 * (m->t_step + m->t_layer * (double)g->g.n_layer +
                  2 * (double)(g->theta_lin + g->theta_head) / m->mem_bw / m->e_w +
                  kvt_cost_cache_bytes(g, n) * m->kv_traffic / m->mem_bw / m->e_kv);
}

static void machine_has_the_tabled_speed(void **state)
{
    const struct speed_row *r = *state;
    static const int64_t length[] = {512, 4096, 32768}, slots[] = {128, 4096, 32768};
    kvt_machine m;
    CHECK_OK(kvt_machine_find(&m, r->name, &err), &err);
    assert_int_equal(m.engine, KVT_ENGINE_FUSED);
    for (int k = 0; k < 2; k++) {
        kvt_cost_geometry g;
        CHECK_OK(kvt_cost_geometry_find(&g, k ? "llama-3.1-8b" : "llama-3.2-1b", &err), &err);
        for (int i = 0; i < 3; i++) {
            double prefill = r->prefill[k][i], step = r->step[k][i];
            CHECK_NEAR(prefill_ms(&m, &g, length[i]), prefill, 1e-3 * prefill);
            CHECK_NEAR(step_ms(&m, &g, slots[i]), step, 1e-3 * step);
        }
    }
}

/* A model file's own weights of four bits take the same products as those that were asked for;
 * its output matrix is one of 16 bits in both. */
static void a_file_of_four_bits(void **state)
{
    kvt_cost_geometry g;
    kvt_machine m;
    kvt_prefill_cost own, asked, half;
    (void)state;
    CHECK_OK(kvt_machine_find(&m, "phone", &err), &err);
    CHECK_OK(kvt_cost_geometry_find(&g, "llama-3.2-1b", &err), &err);
    kvt_cost_prefill(&half, &g, &m, &(kvt_cost_setting){0}, 4096);
    kvt_cost_prefill(&asked, &g, &m, &(kvt_cost_setting){.weight_bits = 4}, 4096);
    g.lin_bytes = g.theta_lin * 9 / 16; /* 4.5 bits */
    g.head_bytes = 2 * g.theta_head;
    g.all_bytes = g.lin_bytes + g.head_bytes;
    kvt_cost_prefill(&own, &g, &m, &(kvt_cost_setting){0}, 4096);
    CHECK_NEAR(own.linear, asked.linear, 1e-9);
    assert_true(own.linear < half.linear / 4); /* 506 to 118 GFLOP/s */
    g.lin_bytes = 2 * g.theta_lin;
    g.all_bytes = g.lin_bytes + g.head_bytes;
    kvt_cost_prefill(&own, &g, &m, &(kvt_cost_setting){0}, 4096);
    CHECK_NEAR(own.linear, half.linear, 1e-9);
}

/* ---- fields --------------------------------------------------------------------------------
 */

static void names_of_the_enumerations(void **state)
{
    (void)state;
    const kvt_machine_field_info *f = kvt_machine_fields();
    assert_string_equal(f[KVT_MACHINE_e_lin].name, "e_lin");
    assert_string_equal(f[KVT_MACHINE_N - 1].name, "band_bytes");
    assert_int_equal(f[KVT_MACHINE_t_layer].offset, offsetof(kvt_machine, t_layer));
    assert_string_equal(kvt_origin_name(KVT_ORIGIN_KERNEL_FIT), "kernel-fit");
    assert_string_equal(kvt_engine_name(KVT_ENGINE_EAGER), "eager");
    assert_string_equal(kvt_engine_name(KVT_ENGINE_PAPER), "paper");
}

int main(void)
{
    static const struct CMUnitTest single[] = {
        cmocka_unit_test(machines_read_and_write_back),
        cmocka_unit_test(the_same_in_a_locale_with_commas),
        cmocka_unit_test(numbers_keep_all_their_digits),
        cmocka_unit_test(names_and_aliases_are_distinct),
        cmocka_unit_test(a_file_of_four_bits),
        cmocka_unit_test(names_of_the_enumerations),
    };
    struct CMUnitTest tests[CHECK_COUNT(single) + CHECK_COUNT(aliases) + CHECK_COUNT(speeds)];
    int n = 0;
    for (int i = 0; i < CHECK_COUNT(single); i++)
        tests[n++] = single[i];
    CHECK_ROWS(tests, &n, aliases, alias_is_found);
    CHECK_ROWS(tests, &n, speeds, machine_has_the_tabled_speed);
    folder_new();
    int failed = CHECK_RUN("cost machines", tests, n);
    folder_end();
    return failed;
}
