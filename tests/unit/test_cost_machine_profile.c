/* test_cost_machine_profile - profiles of the cost model: their constants against fits of a
 * second calculation, and which of them hold for a policy. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "kvt/cost.h"
#include "replay/cost/data.h"
#include "traces/csv.h"

static kvt_err err;

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

int main(void)
{
    static const struct CMUnitTest single[] = {
        cmocka_unit_test(profiles_have_the_fitted_constants),
        cmocka_unit_test(unmeasured_policies_get_the_middle),
        cmocka_unit_test(a_machine_without_lines_is_eager_on_its_own_rates),
        cmocka_unit_test(a_measured_framework_is_its_own),
        cmocka_unit_test(no_published_constant_beats_the_machine),
        cmocka_unit_test(other_profiles),
        cmocka_unit_test(lines_name_machines_policies_and_profiles),
    };
    struct CMUnitTest tests[CHECK_COUNT(single) + CHECK_COUNT(published)];
    int n = 0;
    for (int i = 0; i < CHECK_COUNT(single); i++)
        tests[n++] = single[i];
    CHECK_ROWS(tests, &n, published, measured_policy_has_its_own_line);
    return CHECK_RUN("cost profiles", tests, n);
}
