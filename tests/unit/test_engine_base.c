/* test_engine_base - a policy behind a base: the same marks, windows, streams and refusals as
 * if the base ran alone; what is no base. */
#include "tests/check.h"
#include "tests/runs.h"

#include "kvt/engine.h"

#include <math.h>
#include <stdio.h>

static const char *const plugin = STAGE_PLUGIN;

static const char *trace_of(const char *name, uint64_t seed)
{
    synth_spec s = synth_default();
    s.n_prompt = 40, s.n_response = 14, s.seed = seed, s.sharpness = 2, s.last_queries = -1;
    return runs_trace(name, &s);
}

/* Every token leaves every lane at the same step, and what is lost is the same. */
static void expect_equal(const kvt_result *a, const kvt_result *b, const char *what)
{
    int64_t n = a->n_prompt + a->n_response, gone = 0;
    assert_int_equal(a->n_cell, b->n_cell);
    assert_int_equal(a->n_lane, b->n_lane);
    for (int c = 0; c < a->n_cell; c++) {
        assert_string_equal(a->cell[c].status, "ok");
        assert_string_equal(b->cell[c].status, "ok");
        for (int l = 0; l < a->n_layer; l++)
            for (int k = 0; k < a->n_lane; k++)
                for (int64_t t = 0; t < n; t++) {
                    int32_t x = kvt_result_evict_step(a, c, l, k, t);
                    int32_t y = kvt_result_evict_step(b, c, l, k, t);
                    if (x != y)
                        fail_msg(
                            "%s: cell %d, layer %d, lane %d: token %d leaves at %d, not %d",
                            what, c, l, k, (int)t, x, y);
                    gone += x >= 0;
                }
        CHECK_NEAR(runs_value(&a->cell[c], "lost_mass_mean_frac"),
                   runs_value(&b->cell[c], "lost_mass_mean_frac"), 0);
    }
    assert_true(gone > 0);
    int64_t lanes = (int64_t)a->n_layer * a->n_lane * a->n_prompt;
    assert_memory_equal(a->score, b->score, (size_t)lanes * sizeof *a->score);
    assert_memory_equal(a->pinned, b->pinned, (size_t)lanes);
}

/* h2o adds to its marks with every row, and slots go from the middle: marks of both move. */
static const struct alike {
    const char *alone, *behind, *budgets;
    kvt_act act;
} alikes[] = {
    {"snapkv:window=4", "test-echo:base.window=4", "8,16", KVT_ACT_OWN},
    {"snapkv:window=4,compat=official", "test-echo:base.window=4,base.compat=official", "8,16",
     KVT_ACT_OWN},
    {"snapkv:window=4,compat=official", "test-head:base.window=4,base.compat=official", "8,16",
     KVT_ACT_OWN},
    {"snapkv:window=64", "test-echo:base=snapkv,base.window=64", "8", KVT_ACT_OWN}, /* C005 */
    {"h2o", "test-echo:base=h2o", "8,16,30", KVT_ACT_OWN},
    {"h2o", "test-echo:base=h2o", "8,16", KVT_ACT_PREFILL},
    {"test-keys", "test-echo:base=test-keys", "8", KVT_ACT_OWN},
};

static void a_base_scores_as_it_does_alone(void **state)
{
    const struct alike *r = *state;
    const char *path = trace_of("alike", 3);
    kvt_results *a = runs_plugin(plugin, path, r->alone, r->budgets, r->act);
    kvt_results *b = runs_plugin(plugin, path, r->behind, r->budgets, r->act);
    assert_int_equal(b->n, 1);
    expect_equal(a->result[0], b->result[0], r->behind);
    assert_int_equal(a->result[0]->by_query_head, b->result[0]->by_query_head);
    assert_string_equal(a->result[0]->cell[0].exactness, b->result[0]->cell[0].exactness);
    kvt_results_free(a);
    kvt_results_free(b);
}

/* Own window 3, base's 7, and the other way round. */
static void each_gets_its_own_window(void **state)
{
    (void)state;
    static const char *const both[] = {"test-both:window=3,base.window=7",
                                       "test-both:window=7,base.window=3"};
    const char *path = trace_of("windows", 5);
    kvt_results *three = runs_plugin(plugin, path, "test-window:window=3", "10", KVT_ACT_OWN);
    kvt_results *seven = runs_plugin(plugin, path, "test-window:window=7", "10", KVT_ACT_OWN);
    for (int i = 0; i < 2; i++) {
        kvt_results *r = runs_plugin(plugin, path, both[i], "10", KVT_ACT_OWN);
        const kvt_result *x = r->result[0];
        assert_string_equal(x->cell[0].status, "ok");
        for (int64_t k = 0; k < (int64_t)x->n_layer * x->n_lane * x->n_prompt; k++) {
            float want = three->result[0]->score[k] + seven->result[0]->score[k];
            assert_true(x->score[k] == want && want > 0);
        }
        kvt_results_free(r);
    }
    kvt_results_free(three);
    kvt_results_free(seven);
}

/* Lanes that compete over the model are scored early: with the base's scores, too. */
static void the_model_trades_what_a_base_scored(void **state)
{
    (void)state;
    const char *path = trace_of("model", 7);
    kvt_results *alone =
        runs_plugin(plugin, path, "snapkv/pyramid:window=4", "10,16", KVT_ACT_OWN);
    kvt_results *behind =
        runs_plugin(plugin, path, "test-echo/pyramid:base.window=4", "10,16", KVT_ACT_PREFILL);
    expect_equal(alone->result[0], behind->result[0], "pyramid");
    kvt_results_free(alone);
    kvt_results_free(behind);
}

static void refusals_name_the_base(void **state)
{
    (void)state;
    const char *path = trace_of("refused", 9);
    kvt_results *r = runs_plugin(plugin, path, "test-echo:base=test-nan", "8", KVT_ACT_PREFILL);
    const kvt_cell *c = &r->result[0]->cell[0];
    assert_string_equal(c->status, "failed");
    assert_non_null(strstr(c->error, "base test-nan: score of token 5 is nan"));
    kvt_results_free(r);
    r = runs_plugin(plugin, path, "test-echo:base=test-fits", "4,8", KVT_ACT_PREFILL);
    c = r->result[0]->cell;
    assert_string_equal(c[0].status, "skipped");
    assert_non_null(strstr(c[0].error, "base test-fits: eight or more"));
    assert_string_equal(c[1].status, "ok");
    kvt_results_free(r);
}

/* ---- the text form -------------------------------------------------------------------------
 */

static kvt_registry *registry;

static int open_all(void **state)
{
    kvt_err err;
    return kvt_registry_new(&registry, &err) || kvt_registry_plugin(registry, plugin, &err) ||
           runs_open(state);
}

static int close_all(void **state)
{
    kvt_registry_free(registry);
    return runs_close(state);
}

static const struct text {
    const char *in, *want; /* how the canonical text begins, or a part of the message */
    kvt_code code;
} texts[] = {
    {"test-echo",
     "test-echo:base=snapkv,base.compat=paper,base.window=32,base.pool=7,base.kind=max",
     KVT_OK},
    {"test-echo:base.pool=5,base.compat=kvpress,base.window=16",
     "test-echo:base=snapkv,base.compat=kvpress,base.window=16,base.pool=5,base.kind=mean",
     KVT_OK},
    {"test-both:window=3,base=test-keys", "test-both:window=3,base=test-keys", KVT_OK},
    {"test-echo:base=random", "test-echo:base=random", KVT_OK},
    {"test-echo:base=snapk", "base: no policy 'snapk' (did you mean 'snapkv'?)", KVT_USAGE},
    {"test-echo:base=zzzzzzzzz", "base: no policy 'zzzzzzzzz'", KVT_USAGE},
    {"test-echo:base=snapkv/ada", "expected the name of a policy", KVT_USAGE},
    {"test-echo:base=full", "base=full: no base: it is a control", KVT_USAGE},
    {"test-echo:base=test-echo", "no base: it has a base itself", KVT_USAGE},
    {"test-echo:base=test-skip", "no base: it skips slots", KVT_USAGE},
    {"test-echo:base=test-select", "no base: it scores nothing", KVT_USAGE},
    {"test-echo:base=test-layer", "no base: it selects over several lanes", KVT_USAGE},
    {"test-echo:base=dmc", "no base: it cannot be replayed", KVT_USAGE},
    {"test-echo:base=kvpop", "no base: ", KVT_USAGE},
    {"test-echo:base=scores", "it reads a score file", KVT_USAGE},
    {"test-both:base=test-decode", "one of the two acts on the prompt only", KVT_USAGE},
    {"test-echo:base.windw=4", "base: policy snapkv: no parameter 'windw'", KVT_USAGE},
    {"test-echo:base.window=0", "window: 0 is not a whole number", KVT_USAGE},
    {"test-head:base=snapkv,base.order=pool", "a lane for each kv head", KVT_USAGE},
    {"test-echo:base=h2o,base.every=4", "base.every: set every of the policy itself",
     KVT_USAGE},
    {"h2o:base=snapkv", "no parameter 'base'", KVT_USAGE},
    {"h2o:base.window=4", "no parameter 'base.window'", KVT_USAGE},
};

static void is_read(void **state)
{
    const struct text *r = *state;
    kvt_use *u, *again;
    kvt_err err;
    kvt_code code = kvt_use_parse(&u, registry, r->in, &err);
    if (code != r->code)
        fail_msg("'%s': expected %s, got %s (%s)", r->in, kvt_code_name(r->code),
                 kvt_code_name(code), code ? err.text : u->text);
    if (code) {
        if (!strstr(err.text, r->want))
            fail_msg("'%s': expected '%s' in '%s'", r->in, r->want, err.text);
        return;
    }
    if (strncmp(u->text, r->want, strlen(r->want)) != 0)
        fail_msg("'%s': expected '%s...', got '%s'", r->in, r->want, u->text);
    for (const kvt_param *p = u->base->policy->params; p && p->name; p++) {
        char name[64]; /* all that the base takes is part of the text */
        snprintf(name, sizeof name, ",base.%s=", p->name);
        assert_non_null(strstr(u->text, name));
    }
    CHECK_OK(kvt_use_parse(&again, registry, u->text, &err), &err);
    assert_string_equal(again->text, u->text); /* the canonical text is its own */
    kvt_use_free(u);
    kvt_use_free(again);
}

static void traits_are_taken_over(void **state)
{
    (void)state;
    kvt_use *u;
    kvt_err err;
    CHECK_OK(kvt_use_parse(&u, registry, "test-both:base=snapkv,base.compat=official", &err),
             &err);
    assert_true(u->traits.by_query_head && u->traits.one_ranking);
    assert_int_equal(u->traits.phases, KVT_PREFILL);
    assert_int_equal(kvt_use_window(u, 1000), 64); /* the base's; its own is 5 */
    kvt_use_free(u);
    CHECK_OK(kvt_use_parse(&u, registry, "test-echo:base=h2o", &err), &err);
    assert_true(u->traits.needs & KVT_NEED_ATTN);
    kvt_use_free(u);
}

int main(void)
{
    enum { N_ALIKE = sizeof alikes / sizeof *alikes, N_TEXT = sizeof texts / sizeof *texts };
    struct CMUnitTest tests[N_ALIKE + N_TEXT + 4] = {
        cmocka_unit_test(each_gets_its_own_window),
        cmocka_unit_test(the_model_trades_what_a_base_scored),
        cmocka_unit_test(refusals_name_the_base), cmocka_unit_test(traits_are_taken_over)};
    for (int i = 0; i < N_ALIKE; i++)
        tests[4 + i] = (struct CMUnitTest){.name = alikes[i].behind,
                                           .test_func = a_base_scores_as_it_does_alone,
                                           .initial_state = (void *)(uintptr_t)&alikes[i]};
    for (int i = 0; i < N_TEXT; i++)
        tests[4 + N_ALIKE + i] =
            (struct CMUnitTest){.name = texts[i].in,
                                .test_func = is_read,
                                .initial_state = (void *)(uintptr_t)&texts[i]};
    return cmocka_run_group_tests_name("engine_base", tests, open_all, close_all);
}
