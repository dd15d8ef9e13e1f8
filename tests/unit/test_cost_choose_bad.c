/* test_cost_choose_bad - the choice that cannot be made: costs of no cell, memory that runs
 * out.
 */
#include "tests/check.h"
#include "tests/unit/cost_choose.h"

#include "kvt/arena.h"

static void costs_without_cells(void **state)
{
    kvt_selection s;
    kvt_slo slo;
    kvt_err err;
    world w = begin();
    (void)state;
    add(&w, "aye", "10%", 0, 0.1, 1, 5 * MS, GIB);
    w.costs.row[0].run_id[0] = 0;
    CHECK_OK(kvt_slo_parse(&slo, "ttft=2s", &err), &err);
    CHECK_FAILS(kvt_selection_make(&s, w.results, &w.costs, &slo, KVT_AXIS_TTFT, 1, &err),
                KVT_NOTFOUND, "none of the 1 rows of costs has a replayed cell", &err);
    assert_null(s.row);
    finish(&w, &s);
}

/* Each allocation fails once. */
static void memory_runs_out(void **state)
{
    kvt_selection s = {0};
    kvt_winner won;
    kvt_slo slo;
    kvt_err err;
    kvt_code code = KVT_NOMEM;
    int64_t n = 0, next;
    world w = begin();
    (void)state;
    for (int i = 0; i < 9; i++) {
        add(&w, "aye", "10%", i, 0.1 + 0.01 * i, 1, 5 * MS, GIB);
        add(&w, "bee", "10%", i, 0.2 + 0.01 * i, 1, 5 * MS, GIB);
    }
    CHECK_OK(kvt_slo_parse(&slo, "ttft=2s", &err), &err);
    while (code) {
        kvt_alloc_fail_at(++n, false);
        code = kvt_selection_make(&s, w.results, &w.costs, &slo, KVT_AXIS_TTFT, 1, &err);
        if (!code)
            code = kvt_selection_winner(&won, &next, &s, 0, w.results, &slo, 1, &err);
        kvt_alloc_fail_at(0, false);
        if (code && code != KVT_NOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)n, kvt_code_name(code), err.text);
        if (code)
            kvt_selection_free(&s);
    }
    assert_true(n > 5 && is(&s, won.row, "aye", "10%"));
    finish(&w, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_without_cells),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
