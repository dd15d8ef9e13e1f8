/* test_cost_machine.c - machines and profiles of the cost model: what is compiled in, files of
 * users, and which constants hold for a policy.
 *
 * Constants of machines are held against a second calculation of prefill and decode (G28), in
 * Python from the formulae alone; those of profiles against its fits. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "kvt/cost.h"
#include "replay/cost/data.h"
#include "tests/folder.h"
#include "tests/german.h"
#include "traces/csv.h"

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

static void names_that_are_not_there(void **state)
{
    (void)state;
    kvt_machine m;
    CHECK_FAILS(kvt_machine_find(&m, "rtx-4080", &err), KVT_USAGE,
                "no machine 'rtx-4080' (did you mean 'rtx-4090'?)", &err);
    CHECK_FAILS(kvt_machine_find(&m, "a\033[2Jb", &err), KVT_USAGE, "no machine 'a<ESC>", &err);
    CHECK_FAILS(kvt_machine_find(&m, "nothing", &err), KVT_USAGE,
                "no machine 'nothing'; there are a100-40, ", &err);
    CHECK_FAILS(kvt_cost_profile_find(&m, "lkv-measure", &err), KVT_USAGE,
                "no profile 'lkv-measure' (did you mean 'lkv-measured'?)", &err);
    CHECK_FAILS(kvt_machine_find(&m, folder_path("not-there.json"), &err), KVT_NOTFOUND,
                "not-there.json", &err);
    CHECK_FAILS(kvt_machine_find(&m, folder_name, &err), KVT_IO, "directory", &err);
}

static const char *written(const char *name, const char *text)
{
    const char *path = folder_path(name);
    CHECK_OK(file_write(path, text, strlen(text), &err), &err);
    return path;
}

/* A machine's file with one text in place of another. */
static const char *changed(const char *from, const char *to)
{
    kvt_machine m;
    buf text, out;
    CHECK_OK(kvt_machine_find(&m, "h100", &err), &err);
    CHECK_OK(kvt_machine_save(&m, folder_path("whole.json"), &err), &err);
    buf_init(&text, 1 << 16);
    buf_init(&out, 1 << 16);
    CHECK_OK(file_read(&text, folder_path("whole.json"), 1 << 16, &err), &err);
    const char *at = strstr(buf_get(&text), from);
    if (!at)
        fail_msg("no '%s' in the file", from);
    buf_add(&out, buf_get(&text), (size_t)(at - buf_get(&text)));
    buf_text(&out, to);
    buf_text(&out, at + strlen(from));
    const char *path = written("machine.json", buf_get(&out));
    buf_fini(&text);
    buf_fini(&out);
    return path;
}

static const struct change_row {
    const char *name, *from, *to, *part;
} changes[] = {
    {"missing", "  \"e_att\": [0.55, \"default\"],\n", "", "'e_att' is missing"},
    {"negative", "\"e_att\": [0.55", "\"e_att\": [-0.55",
     "'e_att': expected 0 to 1, got -0.55"},
    {"too large", "\"e_att\": [0.55", "\"e_att\": [1.01", "'e_att': expected 0 to 1, got 1.01"},
    {"nothing to divide by", "\"e_att\": [0.55", "\"e_att\": [0",
     "'e_att': expected above 0, got 0"},
    {"a rate of nothing", "\"mem_bw\": [3350000000000", "\"mem_bw\": [0",
     "'mem_bw': expected 1 to 1e+16 B/s, got 0"},
    {"no number", "\"e_att\": [0.55", "\"e_att\": [\"0.55\"",
     "'e_att': expected [number, \"origin\"]"},
    {"no pair", "\"e_att\": [0.55, \"default\"]", "\"e_att\": 0.55",
     "'e_att': expected [number, \"origin\"]"},
    {"no origin", "\"e_att\": [0.55, \"default\"]", "\"e_att\": [0.55]",
     "'e_att': expected [number, \"origin\"]"},
    {"three of them", "\"e_att\": [0.55, \"default\"]", "\"e_att\": [0.55, \"default\", 1]",
     "'e_att': expected [number, \"origin\"]"},
    {"an unknown origin", "\"e_att\": [0.55, \"default\"]", "\"e_att\": [0.55, \"guess\"]",
     "'e_att': expected the origin vendor, kernel-fit, calibrated or default"},
    {"unknown", "\"e_att\":", "\"e_atk\":", "unknown member 'e_atk' (did you mean 'e_att'?)"},
    {"twice", "\"e_att\":", "\"e_att\": [0.5, \"default\"], \"e_att\":", "duplicate"},
    {"not a number", "\"e_att\": [0.55", "\"e_att\": [NaN", "JSON: line"},
    {"infinite", "\"e_att\": [0.55", "\"e_att\": [1e999", "JSON: line"},
    {"no engine", "  \"engine\": \"fused\",\n", "", "'engine' is missing"},
    {"an unknown engine", "\"engine\": \"fused\"", "\"engine\": \"fast\"",
     "'engine': expected fused, eager or paper, got 'fast'"},
    {"no name", "  \"name\": \"h100-sxm\",\n", "", "'name' is missing"},
    {"an empty name", "\"name\": \"h100-sxm\"", "\"name\": \"\"", "'name': expected a line"},
    {"two lines of title", "\"title\": \"", "\"title\": \"a\\nb", "'title': expected a line"},
    {"aliases that are none",
     "\"engine\":", "\"aliases\": \"x\", \"engine\":", "'aliases': expected an array of texts"},
    {"a range that ends before it begins", "\"range_from\": [0", "\"range_from\": [9",
     "'range_from' 9: expected at most 'range_to', which is 0"},
    {"cut", "\"band_bytes\": [0.02, \"default\"]\n}", "\"band_bytes\": [0.02", "JSON: line"},
};

static void machine_file_is_refused(void **state)
{
    const struct change_row *r = *state;
    kvt_machine m;
    kvt_code code = kvt_machine_find(&m, changed(r->from, r->to), &err);
    check_fails(code, KVT_FORMAT, r->part, &err, r->name);
    check_fails(code, KVT_FORMAT, "machine.json", &err, r->name);
}

static void machine_without_peaks_is_refused(void **state)
{
    (void)state;
    kvt_machine m;
    CHECK_OK(kvt_machine_find(&m, "cpu", &err), &err);
    assert_true(m.peak_flops_16 == 0 && m.peak_flops_32 > 0); /* one of them is enough */
    m.peak_flops_32 = 0;
    CHECK_OK(kvt_machine_save(&m, folder_path("none.json"), &err), &err);
    CHECK_FAILS(kvt_machine_find(&m, folder_path("none.json"), &err), KVT_FORMAT,
                "'peak_flops_16', 'peak_flops_32': expected one above 0", &err);
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

/* ---- profiles ------------------------------------------------------------------------------
 */

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

/* Fits of the reference calculator (relative least squares in Python), printed there with the
 * digits that stand here. */
static void profiles_have_the_fitted_constants(void **state)
{
    (void)state;
    kvt_machine m;
    CHECK_OK(kvt_cost_profile_find(&m, "lkv-measured", &err), &err);
    assert_int_equal(m.engine, KVT_ENGINE_EAGER);
    CHECK_NEAR(m.e_lin, .490, .0005);
    CHECK_NEAR(m.e_att, .355, .0005);
    CHECK_NEAR(m.host_floor_layer * 32, 15.14e-3, .005e-3);
    assert_true(m.evict_floor == .011 && m.hd64_factor == .77 && m.n_half == 0);
    CHECK_OK(kvt_cost_profile_find(&m, "h20-dapq", &err), &err);
    CHECK_NEAR(m.e_lin, .830, .0005);
    CHECK_NEAR(m.e_att, .662, .0005);
    assert_true(m.n_half == 0);
    CHECK_OK(kvt_cost_profile_find(&m, "pro6000-fastdms", &err), &err);
    CHECK_NEAR(m.e_lin, .659, .0005);
    CHECK_NEAR(m.e_att, .482, .0005);
    CHECK_NEAR(m.t_layer, 27.6e-6, .05e-6);
    CHECK_NEAR(m.e_w, .922, .0005);
    CHECK_NEAR(m.e_kv, .722, .0005);
    assert_true(m.t_step == 0 && m.t_req == 0 && m.hd64_factor == 1 && m.kv8_scale_bytes == 0);
    CHECK_OK(kvt_cost_profile_find(&m, "a100-kvpress", &err), &err);
    CHECK_NEAR(m.kv_traffic, 7.09, .005);
    assert_true(m.e_w == .73 && m.e_kv == .73 && m.host_smooth == 4);
    CHECK_NEAR(m.host_floor_layer * 32, .03, 1e-12);
    CHECK_OK(kvt_cost_profile_find(&m, "sd8g3-executorch", &err), &err);
    CHECK_NEAR(m.peak_flops_16 * m.e_lin, 118e9, 1);
    CHECK_NEAR(m.peak_flops_16 * m.e_att, 84e9, 1);
    assert_true(m.peak_flops_w4 == 506e9);
    CHECK_OK(kvt_cost_profile_find(&m, "paper-lkv", &err), &err);
    assert_int_equal(m.engine, KVT_ENGINE_PAPER);
    CHECK_NEAR(m.peak_flops_16 * m.e_lin, 529.2e12, 1);
    CHECK_NEAR(m.mem_bw * m.e_w, 1800e9, 1e-3);
}

static const struct published_row {
    const char *policy;
    double factor;
    int64_t drafts;
    double step; /* ms */
    int64_t step_tokens;
} published[] = {
    {"snapkv", 4.05, 0, 0, 0},         {"lookaheadkv", 1.99, 0, 0, 0},
    {"laq", 1.99, 32, 15.14, 0},       {"laq-plus", 1.99, 32, 15.14, 0},
    {"speckv", 1.99, 32, 1.903, 4096},
};

static void measured_policy_has_its_own_line(void **state)
{
    const struct published_row *r = *state;
    kvt_machine m;
    kvt_published p;
    CHECK_OK(kvt_machine_find(&m, "h100", &err), &err);
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, r->policy);
    assert_false(p.is_default);
    assert_int_equal(p.machine.engine, KVT_ENGINE_EAGER);
    assert_string_equal(p.machine.name, "h100-sxm");
    CHECK_NEAR(p.machine.evict_factor, r->factor, .005);
    CHECK_NEAR(p.machine.e_lin, .490, .0005);
    assert_true(p.machine.evict_floor == .011);
    assert_int_equal(p.draft_tokens, r->drafts);
    CHECK_NEAR(p.draft_step * 1e3, r->step, .005);
    assert_int_equal(p.draft_step_tokens, r->step_tokens);
    assert_non_null(strstr(p.source, "LookaheadKV, table 15"));
}

static void unmeasured_policies_get_the_middle(void **state)
{
    (void)state;
    kvt_machine m;
    kvt_published p;
    CHECK_OK(kvt_machine_find(&m, "h100", &err), &err);
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "h2o");
    assert_true(p.is_default && p.machine.evict_factor == 3 && p.machine.evict_floor == .011);
    assert_int_equal(p.draft_tokens, 0);
    CHECK_NEAR(p.machine.e_lin, .490, .0005); /* the framework was measured */
    assert_non_null(strstr(p.source, "lkv-measured"));
    CHECK_OK(kvt_machine_find(&m, "a100", &err), &err);
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "laq");
    assert_true(p.is_default && p.machine.evict_factor == 3 && p.draft_step == 0);
    assert_true(p.machine.e_w == .73);
    assert_true(p.machine.runtime_bytes == m.runtime_bytes); /* not what a notebook counts */
}

static void a_machine_without_lines_is_eager_on_its_own_rates(void **state)
{
    (void)state;
    kvt_machine m;
    kvt_published p;
    CHECK_OK(kvt_machine_find(&m, "l4", &err), &err);
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "snapkv");
    assert_true(p.is_default);
    assert_int_equal(p.machine.engine, KVT_ENGINE_EAGER);
    assert_true(p.machine.peak_flops_16 == 121e12 && p.machine.mem_bw == .3e12);
    assert_true(p.machine.link_bw == 32e9 && p.machine.mem_bytes == m.mem_bytes);
    assert_true(p.machine.e_lin == .60 && p.machine.e_att == .50); /* not better than fused */
    assert_true(p.machine.n_half == m.n_half && p.machine.launches_layer == 45);
    assert_true(p.machine.host_floor_layer > 0 && p.machine.evict_factor == 3);
    CHECK_OK(kvt_machine_find(&m, "h200", &err), &err); /* attention of the time before */
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "snapkv");
    assert_true(p.machine.e_att == .36 && p.machine.mem_bw == 4.8e12);
    snprintf(m.name, sizeof m.name, "mine");
    m.evict_factor = 2.5;
    m.origin[KVT_MACHINE_evict_factor] = KVT_ORIGIN_CALIBRATED;
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "snapkv");
    assert_true(p.machine.evict_factor == 2.5 && p.machine.evict_floor == .011);
}

/* A framework that somebody measured is as published what it was measured as, also where that
 * is better than the profile of no framework in particular. */
static void a_measured_framework_is_its_own(void **state)
{
    (void)state;
    kvt_machine m;
    kvt_published p;
    CHECK_OK(kvt_machine_find(&m, "h200", &err), &err);
    snprintf(m.name, sizeof m.name, "mine");
    snprintf(m.calibrated_on, sizeof m.calibrated_on, "a day of measuring");
    m.engine = KVT_ENGINE_EAGER;
    m.e_att = .52;
    m.host_floor_layer = 2e-4;
    m.kv_traffic = 1.5;
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "snapkv");
    assert_memory_equal(&p.machine, &m, sizeof m);
    assert_true(p.is_default);
    m.calibrated_on[0] = '\0'; /* nobody measured it */
    kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "snapkv");
    assert_true(p.machine.e_att == .52 && p.machine.kv_traffic == 5); /* the worse ones */
}

/* Published code is never faster than the same thing with fused kernels. */
static void no_published_constant_beats_the_machine(void **state)
{
    (void)state;
    for (const char *const *name = kvt_machine_names(); *name; name++) {
        kvt_machine m;
        kvt_published p;
        CHECK_OK(kvt_machine_find(&m, *name, &err), &err);
        kvt_cost_constants(&p, &m, KVT_PROFILE_AS_PUBLISHED, "snapkv");
        if (!(p.machine.e_lin <= m.e_lin && p.machine.e_att <= m.e_att &&
              p.machine.e_w <= m.e_w && p.machine.kv_traffic >= m.kv_traffic))
            fail_msg("%s: %s", *name, p.source);
        assert_true(p.machine.peak_flops_16 == m.peak_flops_16);
        assert_true(p.machine.mem_bw == m.mem_bw && p.machine.mem_bytes == m.mem_bytes);
    }
}

static void other_profiles(void **state)
{
    (void)state;
    kvt_machine m;
    kvt_published p;
    CHECK_OK(kvt_machine_find(&m, "h100", &err), &err);
    kvt_cost_constants(&p, &m, KVT_PROFILE_FUSED, "laq");
    assert_memory_equal(&p.machine, &m, sizeof m);
    assert_true(!p.is_default && p.draft_tokens == 0 && p.draft_step == 0);
    kvt_cost_constants(&p, &m, KVT_PROFILE_PAPER_LKV, "laq");
    assert_int_equal(p.machine.engine, KVT_ENGINE_PAPER);
    assert_false(p.is_default);
}

/* ---- published.csv -------------------------------------------------------------------------
 */

static kvt_code line_is_sound(void *user, const csv_row *row, kvt_err *e)
{
    int *n = user;
    kvt_machine m;
    assert_int_equal(row->n_field, 9);
    if (!(*n)++)
        return KVT_OK; /* the heading */
    CHECK_OK(kvt_machine_find(&m, row->field[0], e), e);
    assert_string_equal(m.name, row->field[0]); /* no alias: it is matched as it is */
    if (strcmp(row->field[1], "*") && !kvt_policy_find(row->field[1]))
        fail_msg("line %d: no policy '%s'", (int)row->line, row->field[1]);
    CHECK_OK(kvt_cost_profile_find(&m, row->field[2], e), e);
    assert_true(row->size[8] > 0 && row->size[8] < sizeof((kvt_published *)0)->source);
    return KVT_OK;
}

static void lines_name_machines_policies_and_profiles(void **state)
{
    (void)state;
    int n = 0;
    const cost_file *f = cost_file_find(cost_tables, "published");
    assert_non_null(f);
    CHECK_OK(csv_read_bytes(f->bytes, f->size, f->size, line_is_sound, &n, &err), &err);
    assert_true(n > 1 + 5);
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
    struct CMUnitTest tests[128] = {
        cmocka_unit_test(machines_read_and_write_back),
        cmocka_unit_test(the_same_in_a_locale_with_commas),
        cmocka_unit_test(numbers_keep_all_their_digits),
        cmocka_unit_test(names_and_aliases_are_distinct),
        cmocka_unit_test(names_that_are_not_there),
        cmocka_unit_test(machine_without_peaks_is_refused),
        cmocka_unit_test(a_file_of_four_bits),
        cmocka_unit_test(profiles_have_the_fitted_constants),
        cmocka_unit_test(unmeasured_policies_get_the_middle),
        cmocka_unit_test(a_machine_without_lines_is_eager_on_its_own_rates),
        cmocka_unit_test(a_measured_framework_is_its_own),
        cmocka_unit_test(no_published_constant_beats_the_machine),
        cmocka_unit_test(other_profiles),
        cmocka_unit_test(lines_name_machines_policies_and_profiles),
        cmocka_unit_test(names_of_the_enumerations),
    };
    int n = 13;
    folder_new();
    CHECK_ROWS(tests, &n, aliases, alias_is_found);
    CHECK_ROWS(tests, &n, changes, machine_file_is_refused);
    CHECK_ROWS(tests, &n, speeds, machine_has_the_tabled_speed);
    CHECK_ROWS(tests, &n, published, measured_policy_has_its_own_line);
    int failed = CHECK_RUN("cost machines", tests, n);
    folder_end();
    return failed;
}
