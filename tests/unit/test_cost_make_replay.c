/* test_cost_make_replay - the table of costs of what a replay kept: its cells priced, on
 * another model and at other lengths. */
#include "tests/check.h"
#include "tests/runs.h"
#include "tests/unit/cost_make.h"

static kvt_code geometry_of_trace(void *user, const char *path, kvt_cost_geometry *out,
                                  kvt_err *err)
{
    kvt_trace *t;
    int *calls = user;
    ++*calls;
    CHECK_OK(kvt_trace_open(&t, path, 0, err), err);
    kvt_geometry g = kvt_trace_info_of(t)->facts.model;
    kvt_trace_close(t);
    /* A random trace has no feed-forward and no vocabulary. */
    if (g.n_ff == 0)
        g.n_ff = 64;
    if (g.n_vocab == 0)
        g.n_vocab = 100;
    return kvt_cost_geometry_of(out, &g, err);
}

static kvt_results *replayed(void)
{
    synth_spec s = synth_default(); /* 2 layers, 4 heads on 2 kv heads of 8 channels, 24 + 6 */
    const char *path = runs_trace("cost", &s);
    kvt_replay_spec run = runs_spec(&path, "snapkv:window=4,streaming", "8,12");
    return runs_replay(&run, NULL);
}

static kvt_cost_spec spec_of_results(const kvt_results *results, int *calls)
{
    kvt_cost_spec spec = spec_of(NULL, NULL);
    spec.geometry = NULL;
    spec.n_machine = spec.n_profile = spec.n_batch = 1;
    spec.n_length = 0;
    spec.results = results;
    spec.trace_geometry = geometry_of_trace;
    spec.user = calls;
    return spec;
}

static void cells_of_a_replay_are_priced(void **state)
{
    int calls = 0;
    kvt_results *results = replayed();
    kvt_cost_spec spec = spec_of_results(results, &calls);
    kvt_cost_table t = make(&spec);
    (void)state;
    assert_int_equal(calls, 1);
    assert_int_equal(t.n, 1 + 2 * 2);
    assert_string_equal(t.row[0].policy, "full");
    assert_string_equal(t.row[0].run_id, "");
    for (int64_t i = 1; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        const kvt_cell *c = runs_cell(results, r->policy, r->budget_asked);
        assert_string_equal(r->run_id, c->run_id);
        assert_string_equal(r->trace_id, "cost");
        assert_string_equal(r->exactness, c->exactness);
        assert_string_equal(r->policy_params, c->policy_params);
        assert_true(r->budget_tokens == c->budget_tokens);
        assert_true(i < 2 || t.row[i - 1].budget_tokens <= r->budget_tokens);
        CHECK_NEAR(r->kept_tokens_mean, c->kept_tokens_mean, 1e-9);
        CHECK_NEAR(r->end_slots_mean_tokens, c->end_slots_mean_tokens, 1 + 1e-9);
        assert_int_equal(r->assumed + r->mapped + r->scaled, 0);
        assert_int_equal(r->prompt_tokens, 24);
        assert_int_equal(r->response_tokens, 6);
        check_sums(r);
    }
    kvt_cost_table_free(&t);
    kvt_results_free(results);
}

static void another_model_is_mapped_and_another_length_scaled(void **state)
{
    static const int64_t length[] = {24, 4800};
    int calls = 0;
    kvt_results *results = replayed();
    kvt_cost_spec spec = spec_of_results(results, &calls);
    (void)state;
    spec.geometry = &llama;
    spec.length = length;
    spec.n_length = 2;
    kvt_cost_table t = make(&spec);
    assert_int_equal(calls, 0);
    assert_int_equal(t.n, 2 * (1 + 2 * 2));
    for (int64_t i = 0; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        assert_string_equal(r->geometry, "llama-3.1-8b");
        assert_int_equal(r->prompt_tokens, length[i / 5]);
        if (i % 5 == 0)
            continue;
        const kvt_cell *c = runs_cell(results, r->policy, r->budget_asked);
        assert_int_equal(r->mapped, 1);
        assert_int_equal(r->scaled, i / 5);
        /* The kept share stays: 8 of 24 are 1600 of 4800. */
        CHECK_NEAR(r->kept_tokens_mean, c->kept_tokens_mean * (double)length[i / 5] / 24,
                   1e-6 * 4800);
        CHECK_NEAR(r->budget_frac, c->budget_tokens / 24, 1e-3);
    }
    kvt_cost_table_free(&t);
    kvt_results_free(results);
}

static void results_without_cells_are_refused(void **state)
{
    synth_spec s = synth_default();
    const char *path = runs_trace("none", &s);
    kvt_replay_spec run = runs_spec(&path, "streaming", "2");
    kvt_replay_counts counts;
    kvt_results *results = NULL;
    kvt_err err;
    int calls = 0;
    (void)state;
    assert_int_equal(kvt_replay(&results, &counts, &run, &(kvt_ctx){0}, &err), KVT_NO);
    kvt_cost_spec spec = spec_of_results(results, &calls);
    refuses(&spec, KVT_NOTFOUND, "no cell that was computed");
    kvt_results_free(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_of_a_replay_are_priced),
        cmocka_unit_test(another_model_is_mapped_and_another_length_scaled),
        cmocka_unit_test(results_without_cells_are_refused),
    };
    return cmocka_run_group_tests(tests, runs_open, runs_close);
}
