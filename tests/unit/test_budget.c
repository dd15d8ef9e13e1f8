/* test_budget - budgets as people type them, and every rounding rule (C002, C079, and products
 * that kvpress's arithmetic in doubles brings below the exact value). */
#include "tests/check.h"

#include <stdlib.h>

#include "kvt/replay.h"

/* ---- reading -------------------------------------------------------------------------------
 */

static const struct text_row {
    const char *in, *want; /* texts of the budgets, or a part of the message */
    kvt_code code;
} texts[] = {
    {"64", "64", KVT_OK},
    {"64,128,10%,1/8,64MiB,12.5%,0.25", "64 128 10% 1/8 64MiB 12.5% 0.25", KVT_OK},
    {"5%..40%x2", "5% 10% 20% 40%", KVT_OK},
    {"5%..50%x2", "5% 10% 20% 40%", KVT_OK},
    {"64..600x2", "64 128 256 512", KVT_OK},
    {"64..100", "64", KVT_OK},
    {"100..200x1.5", "100 150", KVT_OK},
    {"1/9..1x3", "one kind", KVT_USAGE}, /* 1 is one token: two kinds */
    {"1/9..1/1x3", "1/9 1/3 100%", KVT_OK},
    {"1..4x1.1", "1 2 3 4", KVT_OK}, /* a factor near 1 still moves on */
    {"100%", "100%", KVT_OK},
    {"0", "budget of 0", KVT_USAGE},
    {"0%", "budget of 0", KVT_USAGE},
    {"0/3", "budget of 0", KVT_USAGE},
    {"0MiB", "budget of 0", KVT_USAGE},
    {"101%", "more than 100 %", KVT_USAGE},
    {"5/4", "more than 100 %", KVT_USAGE},
    {"1.5", "more than 100 %", KVT_USAGE},
    {"-3", "expected tokens", KVT_USAGE},
    {"nan", "expected tokens", KVT_USAGE},
    {"10 %", "expected tokens", KVT_USAGE},
    {"1/0", "expected tokens", KVT_USAGE},
    {"99999999999999999999", "expected tokens", KVT_USAGE},
    {"64,,128", "expected tokens", KVT_USAGE},
    {"", "at least one", KVT_USAGE},
    {"40%..5%x2", "smaller one first", KVT_USAGE},
    {"64..10%x2", "one kind", KVT_USAGE},
    {"64..128x1", "factor above 1", KVT_USAGE},
    {"1..65x1.01", "more than 64", KVT_USAGE},
};

static void is_read(void **state)
{
    const struct text_row *r = *state;
    kvt_budget b[KVT_BUDGETS_MAX];
    char got[512] = "";
    kvt_err err;
    int n;
    kvt_code code = kvt_budgets_parse(b, &n, r->in, &err);
    if (code != r->code)
        fail_msg("'%s': expected %s, got %s (%s)", r->in, kvt_code_name(r->code),
                 kvt_code_name(code), code ? err.text : "");
    for (int i = 0; !code && i < n; i++) {
        strncat(got, i ? " " : "", sizeof got - strlen(got) - 1);
        strncat(got, b[i].text, sizeof got - strlen(got) - 1);
    }
    if (!code)
        assert_string_equal(got, r->want);
    else if (r->code == KVT_USAGE && !strstr(err.text, r->want))
        fail_msg("'%s': expected '%s' in '%s'", r->in, r->want, err.text);
}

/* ---- resolving -----------------------------------------------------------------------------
 */

static const struct token_row {
    const char *name, *in;
    kvt_rule rule;
    int64_t n_prompt, want;
} tokens[] = {
    {"a quarter of 1000 is 250 (C079)", "0.25", KVT_RULE_FLOOR_EXACT, 1000, 250},
    {"the same as a share", "25%", KVT_RULE_FLOOR_EXACT, 1000, 250},
    {"12.5% of 1000", "12.5%", KVT_RULE_FLOOR_EXACT, 1000, 125},
    {"1% of 3 is 1 (C002)", "1%", KVT_RULE_FLOOR_EXACT, 3, 1},
    {"40% of 2 is 1 (C002)", "40%", KVT_RULE_FLOOR_EXACT, 2, 1},
    {"40% of 1 is 1 (C002)", "40%", KVT_RULE_FLOOR_EXACT, 1, 1},
    {"90% of 3 is 2", "90%", KVT_RULE_FLOOR_EXACT, 3, 2},
    {"half of 5 to even", "50%", KVT_RULE_ROUND_HALF_EVEN, 5, 2},
    {"half of 7 to even", "50%", KVT_RULE_ROUND_HALF_EVEN, 7, 4},
    {"a third of 5 to the nearest", "1/3", KVT_RULE_ROUND_HALF_EVEN, 5, 2},
    {"half of 5 up", "50%", KVT_RULE_CEIL, 5, 3},
    {"half of 4 up", "50%", KVT_RULE_CEIL, 4, 2},
    {"tokens stay", "2048", KVT_RULE_CEIL, 1000, 2048},
    {"a share under abs is refused", "50%", KVT_RULE_ABS, 100, -1},
    /* T, removed share -> int(T (1 - removed)) in doubles, and the exact floor beside it */
    {"ieee 10 -0.9", "10%", KVT_RULE_FLOOR_IEEE, 10, 0},
    {"exact 10 -0.9", "10%", KVT_RULE_FLOOR_EXACT, 10, 1},
    {"min1 10 -0.9", "10%", KVT_RULE_FLOOR_MIN1, 10, 1},
    {"ieee 10 -0.8", "20%", KVT_RULE_FLOOR_IEEE, 10, 1},
    {"exact 10 -0.8", "20%", KVT_RULE_FLOOR_EXACT, 10, 2},
    {"ieee 20 -0.9", "10%", KVT_RULE_FLOOR_IEEE, 20, 1},
    {"ieee 20 -0.8", "20%", KVT_RULE_FLOOR_IEEE, 20, 3},
    {"ieee 50 -0.9", "10%", KVT_RULE_FLOOR_IEEE, 50, 4},
    {"ieee 50 -0.8", "20%", KVT_RULE_FLOOR_IEEE, 50, 9},
    {"ieee 100 -0.9", "10%", KVT_RULE_FLOOR_IEEE, 100, 9},
    {"ieee 100 -0.8", "20%", KVT_RULE_FLOOR_IEEE, 100, 19},
    {"ieee 1000 -0.9", "10%", KVT_RULE_FLOOR_IEEE, 1000, 99},
    {"exact 1000 -0.9", "10%", KVT_RULE_FLOOR_EXACT, 1000, 100},
    {"ieee 1000 -0.8", "20%", KVT_RULE_FLOOR_IEEE, 1000, 199},
    {"ieee 8192 -0.9", "10%", KVT_RULE_FLOOR_IEEE, 8192, 819},
    {"ieee 128 -0.5", "50%", KVT_RULE_FLOOR_IEEE, 128, 64},
};

static void is_resolved(void **state)
{
    const struct token_row *r = *state;
    kvt_budget b[KVT_BUDGETS_MAX];
    kvt_err err;
    int n;
    CHECK_OK(kvt_budgets_parse(b, &n, r->in, &err), &err);
    assert_int_equal(kvt_budget_tokens(&b[0], r->rule, r->n_prompt, 90, 256), r->want);
}

/* "No discrepancy for T of 128, 1024, 4096, 8192 with the usual two-decimal ratios." */
static void usual_lengths_have_no_discrepancy(void **state)
{
    static const int64_t length[] = {128, 1024, 4096, 8192};
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int64_t kept = 5; kept < 100; kept += 5) {
            kvt_budget b = {.kind = KVT_BUDGET_FRACTION, .num = kept, .den = 100};
            assert_int_equal(kvt_budget_tokens(&b, KVT_RULE_FLOOR_IEEE, length[i], 1, 1),
                             kvt_budget_tokens(&b, KVT_RULE_FLOOR_EXACT, length[i], 1, 1));
        }
}

static void bytes_are_shared_by_all_lanes(void **state)
{
    (void)state;
    kvt_budget b[KVT_BUDGETS_MAX];
    kvt_err err;
    int n;
    CHECK_OK(kvt_budgets_parse(b, &n, "1MiB,1KiB", &err), &err);
    /* 90 lanes of 256 bytes a slot: 1048576 / 23040 = 45.5 */
    assert_int_equal(kvt_budget_tokens(&b[0], KVT_RULE_FLOOR_EXACT, 1000, 90, 256), 45);
    assert_int_equal(kvt_budget_tokens(&b[1], KVT_RULE_FLOOR_EXACT, 1000, 90, 256), 1);
}

static void rules_have_names(void **state)
{
    (void)state;
    kvt_rule rule;
    kvt_err err;
    CHECK_OK(kvt_rule_parse(&rule, "floor_ieee", &err), &err);
    assert_int_equal(rule, KVT_RULE_FLOOR_IEEE);
    assert_string_equal(kvt_rule_name(KVT_RULE_ROUND_HALF_EVEN), "round_half_even");
    CHECK_FAILS(kvt_rule_parse(&rule, "floor", &err), KVT_USAGE, "floor_exact", &err);
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(texts) + CHECK_COUNT(tokens) + 3];
    int n = 0;
    CHECK_ROWS(tests, &n, texts, is_read);
    CHECK_ROWS(tests, &n, tokens, is_resolved);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(usual_lengths_have_no_discrepancy);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(bytes_are_shared_by_all_lanes);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(rules_have_names);
    return CHECK_RUN("budget", tests, n);
}
