/* test_fair - budgets in equal bytes: sets per query head and state beside slots get fewer. */
#include "tests/check.h"
#include "tests/runs.h"

static const char *const plugin[] = {LOOK_PLUGIN};

static kvt_results *replay(const char *trace, enum kvt_fair fair)
{
    kvt_replay_spec run = {.trace = &trace,
                           .n_trace = 1,
                           .policies = "test-fair,snapkv:window=2",
                           .budgets = "16,20",
                           .plugin = plugin,
                           .n_plugin = 1,
                           .fair = fair,
                           .no_controls = true,
                           .out_dir = ""};
    return runs_replay(&run, NULL);
}

static void equal_bytes_give_fewer_slots(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    const char *trace = runs_trace("fair", &spec);
    kvt_results *tokens = replay(trace, KVT_FAIR_TOKENS),
                *bytes = replay(trace, KVT_FAIR_BYTES);
    /* Two query heads share what 16 slots of 2 x 8 halves take; each has 64 bytes of state, and
     * 4 beside each slot: (16 * 32 / 2 - 64) / 36 = 5.33 slots. */
    assert_int_equal(spec.head_dim, 8);
    assert_int_equal(spec.n_head / spec.n_kv_head, 2);
    CHECK_NEAR(runs_cell(tokens, "test-fair", "16")->budget_tokens, 16, 0);
    CHECK_NEAR(runs_cell(bytes, "test-fair", "16")->budget_tokens, 5, 0);
    CHECK_NEAR(runs_cell(bytes, "test-fair", "16")->kept_tokens_mean, 5, 0);
    CHECK_NEAR(runs_cell(bytes, "test-fair", "20")->budget_tokens, 7, 0);
    assert_string_equal(runs_cell(bytes, "test-fair", "16")->budget_rule, "abs+bytes");
    /* Nothing beside its slots: the same numbers under another name of the run. */
    const kvt_cell *a = runs_cell(tokens, "snapkv", "16"),
                   *b = runs_cell(bytes, "snapkv", "16");
    CHECK_NEAR(b->budget_tokens, 16, 0);
    CHECK_NEAR(runs_value(a, "lost_mass_mean_frac"), runs_value(b, "lost_mass_mean_frac"), 0);
    assert_string_not_equal(a->run_id, b->run_id);
    kvt_results_free(tokens);
    kvt_results_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_bytes_give_fewer_slots)};
    return cmocka_run_group_tests_name("fair", tests, runs_open, runs_close);
}
