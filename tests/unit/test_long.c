/* The long tables, steps and evictions, of a replay of a synthetic trace: they add up to the
 * cells they are about, and their masses are those of the exact attention in double. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>

#include "kvt/analyze.h"
#include "kvt/metric.h"
#include "kvt/replay.h"
#include "tests/folder.h"
#include "tests/synth.h"

static kvt_ctx ctx = {.seed = 1, .n_thread = 2};
static kvt_results *results;
static synth *truth;

static double real_at(const kvt_table *t, int64_t row, const char *name)
{
    double x;
    const kvt_column *c = kvt_column_find(t->columns, name);
    assert_non_null(c);
    assert_int_equal(c->type, KVT_COL_REAL);
    memcpy(&x, (const char *)t->rows + (size_t)row * t->row_size + c->offset, sizeof x);
    return x;
}

static int64_t int_at(const kvt_table *t, int64_t row, const char *name)
{
    int64_t x;
    const kvt_column *c = kvt_column_find(t->columns, name);
    assert_non_null(c);
    assert_int_equal(c->type, KVT_COL_INT);
    memcpy(&x, (const char *)t->rows + (size_t)row * t->row_size + c->offset, sizeof x);
    return x;
}

static const char *text_at(const kvt_table *t, int64_t row, const char *name)
{
    const char *s;
    const kvt_column *c = kvt_column_find(t->columns, name);
    assert_non_null(c);
    assert_int_equal(c->type, KVT_COL_STRING);
    memcpy(&s, (const char *)t->rows + (size_t)row * t->row_size + c->offset, sizeof s);
    return s;
}

/* The one computed cell of a policy. */
static const kvt_result *find(const char *policy)
{
    for (int64_t i = 0; i < results->n; i++)
        if (strcmp(results->result[i]->cell[0].policy, policy) == 0)
            return results->result[i];
    fail_msg("no result of %s", policy);
    return NULL;
}

/* Attention of response row m on a token, mean over the query heads of a kv head. */
static double mass(int layer, int lane, int64_t m, int64_t token)
{
    int each = truth->spec.n_head / truth->spec.n_kv_head;
    double sum = 0;
    for (int h = 0; h < each; h++)
        sum += synth_attn(truth, layer, lane * each + h, truth->spec.n_prompt + m, token);
    return sum / each;
}

static void steps_add_up_to_their_cell(void **state)
{
    (void)state;
    static const char *const policy[] = {"snapkv", "tova", "oracle"};
    for (int p = 0; p < 3; p++) {
        kvt_err err;
        kvt_report *report;
        const kvt_result *r = find(policy[p]);
        CHECK_OK(kvt_report_make(&report, "steps", results, r->cell[0].run_id, &ctx, &err),
                 &err);
        const kvt_table *t = kvt_report_table(report);
        int64_t n = (int64_t)r->n_layer * r->n_lane * r->n_response;
        assert_int_equal(t->n_row, n);
        double lost = 0;
        for (int64_t i = 0; i < n; i++) {
            double l = real_at(t, i, "lost_mass_frac"),
                   top = real_at(t, i, "top_lost_mass_frac");
            lost += l;
            if (!isnan(top))
                assert_true(top <= l + 1e-6 && top > 0);
            else
                CHECK_NEAR(l, 0, 0);
        }
        CHECK_NEAR(lost / (double)n, r->cell[0].value[kvt_metric_value("lost_mass_mean_frac")],
                   1e-6);
        kvt_report_free(report);
    }
}

/* Every token that left is there once, with the attention that it still would have got. */
static void evictions_are_the_tokens_that_left(void **state)
{
    (void)state;
    kvt_err err;
    kvt_report *report;
    const kvt_result *r = find("tova");
    CHECK_OK(kvt_report_make(&report, "evictions", results, r->cell[0].run_id, &ctx, &err),
             &err);
    const kvt_table *t = kvt_report_table(report);
    int64_t n_left = 0, row = 0;
    for (int l = 0; l < r->n_layer; l++)
        for (int a = 0; a < r->n_lane; a++)
            for (int64_t token = 0; token < r->n_prompt + r->n_response; token++) {
                int32_t step = kvt_result_evict_step(r, 0, l, a, token);
                double still = 0;
                if (step < 0)
                    continue;
                n_left++;
                assert_int_equal(int_at(t, row, "token"), token);
                assert_int_equal(int_at(t, row, "kv_head"), a);
                assert_int_equal(int_at(t, row, "step"), step);
                assert_string_equal(text_at(t, row, "phase"), step == 0 ? "prefill" : "decode");
                for (int64_t m = step; m < r->n_response; m++)
                    if (r->n_prompt + m >= token)
                        still += mass(l, a, m, token);
                CHECK_NEAR(real_at(t, row, "future_mass_sum"), still,
                           2e-3); /* halves of rows */
                row++;
            }
    assert_int_equal(t->n_row, n_left);
    assert_true(n_left > 0);
    kvt_report_free(report);
}

/* Regretted tokens are evicted, the oracle keeps them, and dropping the least of them would
 * carry less than 90 % of the regret. */
static void regretted_evictions_are_what_the_oracle_keeps(void **state)
{
    (void)state;
    kvt_err err;
    kvt_report *report;
    const kvt_result *r = find("snapkv");
    CHECK_OK(kvt_report_make(&report, "evictions", results, r->cell[0].run_id, &ctx, &err),
             &err);
    const kvt_table *t = kvt_report_table(report);
    int64_t n_marked = 0;
    for (int64_t i = 0; i < t->n_row; i++) {
        int64_t marked = int_at(t, i, "regretted"), keeps = int_at(t, i, "oracle_keeps");
        assert_true(marked == 0 || keeps == 1);
        assert_true(keeps == 0 || keeps == 1); /* a prompt policy evicts prompt tokens only */
        n_marked += marked;
    }
    assert_true(n_marked > 0);
    kvt_report_free(report);
}

static int start(void **state)
{
    (void)state;
    kvt_err err;
    synth_spec spec = synth_default();
    spec.n_prompt = 90;
    spec.n_response = 8;
    spec.sharpness = 2;
    truth = synth_new(&spec);
    const char *path = folder_path("long.h5");
    CHECK_OK(synth_write(truth, path, &err), &err);
    kvt_replay_spec replay = {.trace = &path,
                              .n_trace = 1,
                              .policies = "snapkv:window=8,tova",
                              .budgets = "20",
                              .out_dir = "",
                              .keep_arrays = true};
    kvt_replay_counts counts;
    CHECK_OK(kvt_replay(&results, &counts, &replay, &ctx, &err), &err);
    return 0;
}

static int end(void **state)
{
    (void)state;
    kvt_results_free(results);
    synth_free(truth);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_add_up_to_their_cell),
        cmocka_unit_test(evictions_are_the_tokens_that_left),
        cmocka_unit_test(regretted_evictions_are_what_the_oracle_keeps),
    };
    folder_new();
    int failed = cmocka_run_group_tests_name("long tables", tests, start, end);
    folder_end();
    return failed;
}
