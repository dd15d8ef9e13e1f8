/* test_golden_equal - evictions on an H100 where every policy is implemented equally well
 * (profile fused): the numbers of a second calculation (cost_section8.py), and those that were
 * printed before. */
#include "tests/check.h"
#include "tests/golden/tally.h"

#include <math.h>
#include <stdlib.h>

#include "kvt/cost.h"

enum { SLOTS = 128 };

/* Of cost_equal.csv. Sets are by kv head, as there. "h2o eager" is a pass that materialises all
 * rows, before any factor. */
static const struct {
    const char *name, *policy;
    int64_t draft_tokens; /* 0: the policy's own */
} policies[] = {
    {"prefill", "full", 0},
    {"streaming", "streaming", 0},
    {"snapkv", "snapkv", 0},
    {"lookaheadkv", "lookaheadkv", 0},
    {"h2o", "h2o", 0},
    {"h2o eager", "h2o", 0},
    {"laq 8", "laq:group=mean", 8},
    {"laq 32", "laq:group=mean", 32},
    {"speckv", "speckv", 32},
};

static double predict_ms(const char *name, int64_t n)
{
    static kvt_cost_geometry g, draft;
    static kvt_published constants;
    static kvt_cost_load load;
    kvt_machine m;
    kvt_cost_work work;
    kvt_cost_setting setting = {0};
    kvt_cost cost;
    kvt_err err;
    kvt_use *use;
    int k = 0;
    while (strcmp(policies[k].name, name))
        assert_true(++k < CHECK_COUNT(policies));
    CHECK_OK(kvt_cost_geometry_find(&g, "llama-3.1-8b", &err), &err);
    CHECK_OK(kvt_cost_geometry_find(&draft, "llama-3.2-1b", &err), &err);
    CHECK_OK(kvt_machine_find(&m, "h100-sxm", &err), &err);
    CHECK_OK(kvt_use_parse(&use, NULL, policies[k].policy, &err), &err);
    kvt_cost_work_of(&work, use, &g, n, SLOTS, KVT_ACT_OWN);
    kvt_cost_load_assume(&load, use, &work, &g, &setting, n, 0, SLOTS);
    kvt_cost_constants(&constants, &m, KVT_PROFILE_FUSED, use->policy->name);
    constants.draft_tokens = policies[k].draft_tokens;
    kvt_cost_case c = {.geometry = &g,
                       .draft = &draft,
                       .constants = &constants,
                       .work = &work,
                       .load = &load,
                       .setting = &setting,
                       .n_prompt = n,
                       .budget = SLOTS};
    kvt_use_free(use);
    if (!strcmp(name, "h2o eager"))
        return 1e3 * kvt_cost_eager_score(&g, &m, n, n);
    kvt_cost_predict(&cost, &c);
    return 1e3 * (k == 0 ? cost.prefill.total : cost.evict.total);
}

/* Half of the last digit that was printed. */
static double rounding(const char *text)
{
    const char *point = strchr(text, '.');
    return point ? 0.5 * pow(10, -(double)strlen(point + 1)) : 0.5;
}

/* What was printed counted one reading of the keys for LAQ's second stage, launches of adapters
 * for SpecKV, and no expansion of keys and values for H2O; LookaheadKV at 16K rounds to the
 * neighbouring number. */
static bool other_recipe(const char *policy, const char *n)
{
    return !strncmp(policy, "laq", 3) || !strcmp(policy, "speckv") ||
           !strcmp(policy, "h2o eager") ||
           (!strcmp(policy, "lookaheadkv") && !strcmp(n, "16384"));
}

static kvt_code compare(void *user, const csv_row *row, kvt_err *err)
{
    tally *t = user;
    (void)err;
    assert_int_equal(row->n_field, 4); /* prompt_tokens, policy, formula_ms, printed_ms */
    if (row->line == 1)
        return KVT_OK;
    double got = predict_ms(row->field[1], (int64_t)strtoll(row->field[0], NULL, 10));
    double want = strtod(row->field[2], NULL), printed = strtod(row->field[3], NULL);
    double room =
        other_recipe(row->field[1], row->field[0]) ? 0.02 * printed : rounding(row->field[3]);
    t->rows++;
    if (fabs(got - want) <= 1e-3 * want && fabs(got - printed) <= room)
        return KVT_OK;
    print_error("%s at %s: calculated %.6g ms, printed %s ms, predicted %.6g ms\n",
                row->field[1], row->field[0], want, row->field[3], got);
    t->wrong++;
    return KVT_OK;
}

static void agrees_with_a_second_calculation(void **state)
{
    (void)state;
    tally_file("cost_equal.csv", 36, compare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_second_calculation),
    };
    return cmocka_run_group_tests_name("policies implemented equally well", tests, NULL, NULL);
}
