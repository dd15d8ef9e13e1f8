/* test_cost_make_bad - the table of costs: rows that are skipped and why, specs that are
 * refused, memory that runs out. */
#include "tests/check.h"
#include "tests/unit/cost_make.h"

#include <math.h>

#include "kvt/arena.h"

/* ---- what is skipped -----------------------------------------------------------------------
 */

static const struct skip_row {
    const char *name, *policy, *budget, *why;
    bool small; /* on smollm2-135m, of which no draft model is known */
} skips[] = {
    {"sinks that do not fit", "streaming", "2", "4 sinks need a budget of 4 or more", false},
    {"kvpop's sinks and window", "kvpop:from=decisions", "260", "a budget of 261 or more",
     false},
    {"kvpop with one slot more", "kvpop:from=decisions", "261", NULL, false},
    {"no channel is left", "think", "10%", "leave no channel of 128", false},
    {"a draft model that is known", "speckv", "128", NULL, false},
    {"and one that is not", "speckv", "128", "none is known for smollm2-135m", true},
};

static void is_skipped(void **state)
{
    const struct skip_row *s = *state;
    kvt_cost_spec spec = spec_of(s->policy, s->budget);
    if (s->small)
        spec.geometry = &smol;
    kvt_cost_table t = make(&spec);
    const kvt_cost_row *r = &t.row[4]; /* behind full on two machines under two profiles */
    assert_true(strncmp(r->policy, s->policy, strlen(r->policy)) == 0);
    assert_string_equal(r->status, s->why ? "skipped" : "ok");
    if (s->why && !strstr(r->error, s->why))
        fail_msg("expected '%s' in '%s'", s->why, r->error);
    assert_true((s->why != NULL) == isnan(r->cost.ttft));
    assert_true((s->why != NULL) == isnan(value(r, "peak_kv_bytes")));
    assert_true((s->why != NULL) == (r->fits == KVT_EMPTY_INT));
    kvt_cost_table_free(&t);
}

static void a_draft_may_be_named(void **state)
{
    kvt_cost_spec spec = spec_of("speckv", "128");
    kvt_cost_geometry draft;
    kvt_err err;
    (void)state;
    CHECK_OK(kvt_cost_geometry_find(&draft, "smollm2-360m", &err), &err);
    spec.draft = &draft;
    kvt_cost_table t = make(&spec);
    assert_string_equal(t.row[4].draft_geometry, "smollm2-360m");
    assert_true(t.row[4].cost.draft_tokens > 0);
    kvt_cost_table_free(&t);
}

/* ---- what is refused -----------------------------------------------------------------------
 */

static void wrong_specs_are_refused(void **state)
{
    kvt_cost_spec spec = spec_of("snapvk", "128");
    (void)state;
    refuses(&spec, KVT_USAGE, "did you mean 'snapkv'?");
    /* A slot of every lane of llama-3.1-8b: 32 layers x 8 heads x 2 x 128 channels x 2 bytes */
    spec = spec_of("snapkv", "131071B");
    refuses(&spec, KVT_USAGE, "takes 131072 bytes");
    spec = spec_of("snapkv", "10%");
    spec.rule = KVT_RULE_ABS;
    refuses(&spec, KVT_USAGE, "takes tokens only");
    spec = spec_of("snapkv", "128");
    spec.geometry = NULL;
    refuses(&spec, KVT_USAGE, "geometry must be named");
    spec = spec_of("snapkv", "128");
    spec.n_length = 0;
    refuses(&spec, KVT_USAGE, "length must be given");
    spec = spec_of("snapkv", "128");
    spec.n_machine = 0;
    refuses(&spec, KVT_USAGE, "machine must be named");
}

/* 70 553 706 496 weights of 2 bytes are 141.1 GB. */
static void weights_that_do_not_fit_are_an_error(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "128");
    kvt_err err;
    (void)state;
    CHECK_OK(kvt_cost_geometry_find(&llama, "llama-3.1-70b", &err), &err);
    spec.weights_must_fit = true;
    refuses(&spec, KVT_NO, "GiB) short");
    spec.setting.weight_bits = 4; /* 36 GB: on one of the two */
    kvt_cost_table t = make(&spec);
    assert_int_equal(t.row[0].fits, 1);
    assert_int_equal(t.row[2].fits, 0);
    assert_true(t.row[2].cost.short_bytes > 0);
    kvt_cost_table_free(&t);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "128");
    kvt_code code = KVT_NOMEM;
    (void)state;
    for (int64_t n = 1; code == KVT_NOMEM; n++) {
        kvt_cost_table t;
        kvt_err err;
        kvt_alloc_fail_at(n, true);
        code = kvt_cost_make(&t, &spec, NULL, &err);
        kvt_alloc_fail_at(0, false);
        kvt_cost_table_free(&t);
        assert_true(n < 1000);
    }
    assert_int_equal(code, KVT_OK);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(skips) + 4];
    int n = 0;
    CHECK_ROWS(tests, &n, skips, is_skipped);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_draft_may_be_named);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(wrong_specs_are_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(weights_that_do_not_fit_are_an_error);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(memory_that_runs_out_is_an_error);
    return CHECK_RUN("cost_make_bad", tests, n);
}
