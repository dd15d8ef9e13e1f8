/* test_cost_make - the table of costs: its columns, which rows there are and in which order,
 * what they say, that the parts of every total sum to it, and that neither threads nor the
 * number of rows change how they are made. */
#include "tests/check.h"
#include "tests/unit/cost_make.h"

#include <math.h>
#include <stdio.h>

#include "kvt/arena.h"

static void columns_have_names_of_their_own(void **state)
{
    const kvt_column *c = kvt_cost_columns();
    int n = kvt_table_columns(c);
    (void)state;
    assert_true(n > 60 && n <= KVT_COLUMNS_MAX);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(c[i].name, c[k].name) == 0)
                fail_msg("two columns '%s'", c[i].name);
}

static void rows_stand_in_order(void **state)
{
    kvt_cost_spec spec = spec_of("streaming,snapkv", "256,10%");
    kvt_cost_table t = make(&spec);
    const kvt_cost_row *r = t.row;
    (void)state;
    /* length x batch x (full + 2 budgets x 2 policies) x machine x profile */
    assert_int_equal(t.n, 2 * 2 * 5 * 2 * 2);
    /* 10 % of 1280 is 128, below 256; of 8192 it is 819. */
    static const struct {
        const char *policy;
        double budget;
    } want[2][5] = {
        {{"full", 1280},
         {"streaming", 128},
         {"snapkv", 128},
         {"streaming", 256},
         {"snapkv", 256}},
        {{"full", 8192},
         {"streaming", 256},
         {"snapkv", 256},
         {"streaming", 819},
         {"snapkv", 819}},
    };
    for (int n = 0; n < 2; n++)
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < 5; i++)
                for (int m = 0; m < 2; m++)
                    for (int p = 0; p < 2; p++, r++) {
                        assert_int_equal(r->prompt_tokens, n ? 8192 : 1280);
                        assert_int_equal(r->batch, b ? 4 : 1);
                        assert_string_equal(r->policy, want[n][i].policy);
                        assert_true(r->budget_tokens == want[n][i].budget);
                        assert_string_equal(r->machine, machine[m].name);
                        assert_string_equal(r->profile, p ? "as-published" : "fused");
                        assert_string_equal(r->status, "ok");
                        assert_int_equal(r->response_tokens, 256);
                        assert_string_equal(r->run_id, "");
                    }
    kvt_cost_table_free(&t);
}

static void parts_sum_to_their_totals(void **state)
{
    kvt_cost_spec spec = spec_of("lookaheadkv,snapkv,laq,speckv,h2o,kvpop,streaming", "512");
    kvt_cost_table t = make(&spec);
    (void)state;
    for (int64_t i = 0; i < t.n; i++)
        check_sums(&t.row[i]);
    kvt_cost_table_free(&t);
}

/* The theory of a paper knows times of prefill and eviction only: the rest is empty, not 0. */
static void what_is_not_known_is_empty(void **state)
{
    static const kvt_cost_profile paper[] = {KVT_PROFILE_PAPER_LKV};
    kvt_cost_spec spec = spec_of("lookaheadkv", "128");
    (void)state;
    spec.profile = paper;
    spec.n_profile = 1;
    kvt_cost_table t = make(&spec);
    for (int64_t i = 0; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        assert_true(r->cost.ttft > 0 && r->cost.ttft_band.lo >= 0);
        assert_true(isnan(r->cost.peak.total) && isnan(r->cost.memory_band.hi));
        assert_true(isnan(r->cost.step_mean.total) && isnan(r->cost.step_band.lo));
        assert_true(r->peak_layer == KVT_EMPTY_INT && r->fits == KVT_EMPTY_INT);
        assert_string_equal(r->peak_phase, "");
        assert_string_equal(r->step_bottleneck, "");
    }
    kvt_cost_table_free(&t);
}

static void the_dense_cache_is_not_assumed(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "128");
    kvt_cost_table t = make(&spec);
    (void)state;
    for (int64_t i = 0; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        bool full = strcmp(r->policy, "full") == 0;
        assert_int_equal(r->assumed, !full);
        assert_int_equal(r->mapped + r->scaled, 0);
        assert_int_equal(r->is_control, full);
        assert_true(r->cost.evict.total > 0 || full);
        assert_true(r->cost.evict.total == 0 || !full);
        assert_true(r->kept_tokens_mean == (full ? (double)r->prompt_tokens : 128));
        /* 256 tokens are decoded on top; the last step sees all but itself, or itself, too. */
        assert_true(r->end_slots_mean_tokens >= r->kept_tokens_mean + 255 &&
                    r->end_slots_mean_tokens <= r->kept_tokens_mean + 256);
        assert_true(r->seed == KVT_EMPTY_INT);
    }
    kvt_cost_table_free(&t);
}

/* Rows of Quest skip slots, one set for each of the model's query heads: all of the prompt
 * stays, a row sees the budget, and the scores are paid for where the prompt ends. */
static void skipped_slots_stay(void **state)
{
    kvt_cost_spec spec = spec_of("quest,h2o-mask,oracle-step", "128");
    kvt_cost_table t = make(&spec);
    (void)state;
    for (int64_t i = 0; i < t.n; i++) {
        const kvt_cost_row *r = &t.row[i];
        if (strcmp(r->policy, "full") == 0)
            continue;
        assert_true(r->kept_tokens_mean == (double)r->prompt_tokens);
        assert_true(r->end_slots_mean_tokens == 128);
        assert_int_equal(r->cost.evict.total > 0, strcmp(r->policy, "oracle-step") != 0);
        assert_true(r->cost.evict.copy == 0 && r->cost.evict.select == 0);
    }
    kvt_cost_table_free(&t);
}

static void equal_budgets_are_one(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "128,10%,1/10");
    spec.n_length = 1; /* 1280 tokens */
    kvt_cost_table t = make(&spec);
    (void)state;
    assert_int_equal(t.n, 2 * 2 * 2 * 2);
    assert_string_equal(t.row[4].budget_asked, "128");
    kvt_cost_table_free(&t);
}

/* "all" has everything that some trace could answer, what reads weights or a probe, too. */
static void all_is_every_policy(void **state)
{
    kvt_cost_spec spec = spec_of("all", "50%");
    spec.n_length = spec.n_machine = spec.n_profile = spec.n_batch = 1;
    kvt_cost_table t = make(&spec);
    int n = 1;
    (void)state;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        bool found = false;
        for (int64_t i = 1; i < t.n; i++)
            found |= strcmp(t.row[i].policy, (*p)->name) == 0;
        bool want = !(*p)->traits.control && !((*p)->traits.needs & KVT_NEED_SCORES) &&
                    ((*p)->traits.exactness != KVT_NOT_REPLAYABLE || !(*p)->why_not);
        if (found != want)
            fail_msg("%s: %s", (*p)->name, found ? "is there" : "is missing");
        n += found;
    }
    assert_int_equal(t.n, n);
    kvt_cost_table_free(&t);
}

static void bytes_are_shared_by_all_lanes(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv", "16MiB"); /* / 131072 bytes a slot of every lane */
    kvt_cost_table t = make(&spec);
    (void)state;
    assert_true(t.row[4].budget_tokens == 128);
    kvt_cost_table_free(&t);
    spec.setting.kv_bits = 8; /* half the bytes */
    t = make(&spec);
    assert_true(t.row[4].budget_tokens == 256);
    kvt_cost_table_free(&t);
}

/* ---- threads, allocations ------------------------------------------------------------------
 */

static void print_row(char *out, size_t cap, const kvt_table *t, int64_t row)
{
    size_t n = 0;
    for (const kvt_column *c = t->columns; c->name && n < cap; c++) {
        n += kvt_cell_print(t, row, c, out + n, cap - n);
        n += (size_t)snprintf(out + (n < cap ? n : cap), n < cap ? cap - n : 0, ";");
    }
    assert_true(n < cap);
}

static void threads_change_nothing(void **state)
{
    kvt_cost_spec spec = spec_of("all", "5%..40%x2");
    kvt_cost_table a, b;
    kvt_err err;
    char one[8192], four[8192];
    (void)state;
    CHECK_OK(kvt_cost_make(&a, &spec, &(kvt_ctx){.n_thread = 1}, &err), &err);
    CHECK_OK(kvt_cost_make(&b, &spec, &(kvt_ctx){.n_thread = 4}, &err), &err);
    assert_int_equal(a.n, b.n);
    const kvt_table ta = kvt_cost_table_of(&a), tb = kvt_cost_table_of(&b);
    for (int64_t i = 0; i < a.n; i++) {
        print_row(one, sizeof one, &ta, i);
        print_row(four, sizeof four, &tb, i);
        assert_string_equal(one, four);
    }
    kvt_cost_table_free(&a);
    kvt_cost_table_free(&b);
}

/* Rows over machines and batches share what was made for them. */
static void rows_allocate_nothing(void **state)
{
    kvt_cost_spec spec = spec_of("snapkv,h2o,lookaheadkv", "128,256");
    (void)state;
    spec.n_profile = 1; /* constants of the other one are read from a table */
    kvt_alloc_fail_at(0, false);
    kvt_cost_table t = make(&spec);
    int64_t many = kvt_alloc_count();
    kvt_cost_table_free(&t);
    spec.n_machine = spec.n_batch = 1;
    kvt_alloc_fail_at(0, false);
    t = make(&spec);
    assert_int_equal(kvt_alloc_count(), many);
    kvt_cost_table_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_have_names_of_their_own),
        cmocka_unit_test(rows_stand_in_order),
        cmocka_unit_test(parts_sum_to_their_totals),
        cmocka_unit_test(what_is_not_known_is_empty),
        cmocka_unit_test(the_dense_cache_is_not_assumed),
        cmocka_unit_test(skipped_slots_stay),
        cmocka_unit_test(equal_budgets_are_one),
        cmocka_unit_test(all_is_every_policy),
        cmocka_unit_test(bytes_are_shared_by_all_lanes),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(rows_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
