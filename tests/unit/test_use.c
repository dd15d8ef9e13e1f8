/* test_use - the text form of policies, and the registry with plug-ins. */
#include "tests/check.h"

#include <stdio.h>

#include "kvt/replay.h"

static kvt_registry *registry;

static int open_registry(void **state)
{
    kvt_err err;
    (void)state;
    return (int)kvt_registry_new(&registry, &err);
}

static int close_registry(void **state)
{
    (void)state;
    kvt_registry_free(registry);
    return 0;
}

static const struct text_row {
    const char *in, *want; /* the canonical text begins with this, or the message holds it */
    kvt_code code;
} texts[] = {
    {"full", "full", KVT_OK},
    {"snapkv", "snapkv:compat=paper,window=32,pool=7", KVT_OK},
    {"snapkv:window=16", "snapkv:compat=paper,window=16,pool=7", KVT_OK},
    {"snapkv,window=16", "snapkv:compat=paper,window=16,pool=7", KVT_OK},
    {"snapkv:compat=kvpress", "snapkv:compat=kvpress,window=64,pool=5", KVT_OK},
    {"snapkv:window=16,compat=kvpress", "snapkv:compat=kvpress,window=16,pool=5", KVT_OK},
    {"snapkv/pyramid:beta=10", "snapkv/pyramid:compat=paper", KVT_OK},
    {"h2o:every=8", "h2o:compat=paper", KVT_OK},
    {"snapkv:every=8", "snapkv:compat=paper", KVT_OK}, /* decides anew */
    {"snapkv:weights=x", "no parameter 'weights'", KVT_USAGE},
    {"snapkv:base=h2o", "no parameter 'base'", KVT_USAGE},
    {"snapkv:windw=16", "did you mean 'window'?", KVT_USAGE},
    {"snapkv:window=0", "window: 0 is not a whole number from 1", KVT_USAGE},
    {"snapkv:window", "expected name=value", KVT_USAGE},
    {"snapkv:compat=hf", "not one of", KVT_USAGE},
    {"snpkv", "did you mean 'snapkv'?", KVT_USAGE},
    {"zzzzzzzzzzzz", "no policy 'zzzzzzzzzzzz'", KVT_USAGE},
    {"snapkv/pyramd", "did you mean 'pyramid'?", KVT_USAGE},
    {"snapkv/", "expected an allocator", KVT_USAGE},
    {"", "no policy ''", KVT_USAGE},
};

static void is_read(void **state)
{
    const struct text_row *r = *state;
    kvt_use *u, *again;
    kvt_err err;
    kvt_code code = kvt_use_parse(&u, registry, r->in, &err);
    if (code != r->code)
        fail_msg("'%s': expected %s, got %s (%s)", r->in, kvt_code_name(r->code),
                 kvt_code_name(code), code ? err.text : "");
    if (code) {
        if (!strstr(err.text, r->want))
            fail_msg("'%s': expected '%s' in '%s'", r->in, r->want, err.text);
        return;
    }
    if (strncmp(u->text, r->want, strlen(r->want)) != 0)
        fail_msg("'%s': expected '%s...', got '%s'", r->in, r->want, u->text);
    CHECK_OK(kvt_use_parse(&again, registry, u->text, &err), &err);
    assert_string_equal(again->text, u->text); /* the canonical text is its own */
    kvt_use_free(u);
    kvt_use_free(again);
}

static void lists_keep_parameters_with_their_policy(void **state)
{
    (void)state;
    kvt_use **list;
    kvt_err err;
    int n;
    CHECK_OK(kvt_uses_parse(&list, &n, registry,
                            "snapkv:window=16,pool=5,h2o,streaming:sinks=8,snapkv", &err),
             &err);
    assert_int_equal(n, 4);
    assert_string_equal(list[0]->name, "snapkv");
    assert_non_null(strstr(list[0]->text, "window=16,pool=5"));
    assert_string_equal(list[1]->name, "h2o");
    assert_non_null(strstr(list[2]->text, "sinks=8"));
    assert_non_null(strstr(list[3]->text, "window=32"));
    kvt_uses_free(list, n);
}

/* A result holds 383 characters: uses that differ behind them would be taken for one. */
static void parameters_fit_into_a_result(void **state)
{
    (void)state;
    char text[600];
    kvt_use *u;
    kvt_err err;
    for (int n = 250; n < 420; n++) {
        int half = n / 2;
        snprintf(text, sizeof text, "duo/table:weights=%0*d,table=%0*d", half, 1, n - half, 2);
        kvt_code code = kvt_use_parse(&u, registry, text, &err);
        if (code) {
            assert_int_equal(code, KVT_USAGE);
            assert_non_null(strstr(err.text, "expected at most 383: name files by shorter"));
            assert_true(n > 250);
            continue;
        }
        const char *params = strchr(u->text, ':') + 1;
        assert_true(strlen(params) < sizeof((kvt_cell *)0)->policy_params);
        assert_non_null(strstr(params, "table=0")); /* nothing is cut off */
        assert_int_equal(params[strlen(params) - 1], '2');
        kvt_use_free(u);
        assert_true(n < 419);
    }
}

static void equal_uses_count_once(void **state)
{
    (void)state;
    kvt_use **list;
    kvt_err err;
    int n;
    CHECK_OK(kvt_uses_parse(&list, &n, registry, "h2o,snapkv:window=32,snapkv,h2o", &err),
             &err);
    assert_int_equal(n, 2);
    kvt_uses_free(list, n);
}

static void all_is_every_policy_but_controls(void **state)
{
    (void)state;
    kvt_use **list;
    kvt_err err;
    int n;
    CHECK_OK(kvt_uses_parse(&list, &n, registry, "all", &err), &err);
    assert_true(n >= 6);
    for (int i = 0; i < n; i++)
        assert_false(list[i]->policy->traits.control);
    kvt_uses_free(list, n);
    CHECK_FAILS(kvt_uses_parse(&list, &n, registry, "", &err), KVT_USAGE, "at least one", &err);
}

static void a_named_allocator_is_part_of_the_name(void **state)
{
    (void)state;
    kvt_use *u;
    kvt_err err;
    CHECK_OK(kvt_use_parse(&u, registry, "snapkv/pyramid:beta=10", &err), &err);
    assert_string_equal(u->name, "snapkv/pyramid");
    assert_non_null(strstr(u->text, "beta=10"));
    kvt_use_free(u);
    CHECK_OK(kvt_use_parse(&u, registry, "snapkv", &err), &err);
    assert_string_equal(u->share->name, "even");
    assert_false(u->share_named);
    kvt_use_free(u);
}

static void plug_ins_are_checked(void **state)
{
    (void)state;
    kvt_err err;
    CHECK_OK(kvt_registry_plugin(registry, REPLAY_PLUGIN, &err), &err);
    assert_non_null(kvt_registry_find(registry, "test-nan"));
    assert_string_equal(kvt_registry_nearest(registry, "tset-nan"), "test-nan");
    CHECK_FAILS(kvt_registry_plugin(registry, REPLAY_PLUGIN, &err), KVT_FORMAT, "already there",
                &err);
    CHECK_FAILS(kvt_registry_plugin(registry, "/nowhere/x.so", &err), KVT_NOTFOUND, "x.so",
                &err);
    CHECK_FAILS(kvt_registry_plugin(registry, __FILE__, &err), KVT_FORMAT, "cannot be loaded",
                &err);
    CHECK_FAILS(kvt_registry_plugin(registry, REPLAY_PLUGIN_OLD, &err), KVT_FORMAT,
                "built for interface 99", &err);
}

static void exactness_has_names(void **state)
{
    (void)state;
    assert_string_equal(kvt_exactness_name(KVT_OPEN_LOOP), "open-loop");
    assert_string_equal(kvt_exactness_name(KVT_BUDGET_EXACT), "budget-exact");
    assert_true(strlen(kvt_exactness_help(KVT_SURROGATE)) > 10);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(texts) + 7];
    int n = 0;
    CHECK_ROWS(tests, &n, texts, is_read);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(lists_keep_parameters_with_their_policy);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(equal_uses_count_once);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(parameters_fit_into_a_result);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(all_is_every_policy_but_controls);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_named_allocator_is_part_of_the_name);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(plug_ins_are_checked);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(exactness_has_names);
    return _cmocka_run_group_tests("use", tests, (size_t)n, open_registry, close_registry);
}
