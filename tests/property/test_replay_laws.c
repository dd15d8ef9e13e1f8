/* test_replay_laws - what must hold of every run: one pass for many budgets gives what a pass
 * for each gives; order, threads, shards and old results change no byte; more budget never
 * loses more; the oracles are not beaten. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

static const char policies[] =
    "snapkv:window=4,pyramidkv:window=4,snapkv:compat=kvcf,window=4,h2o,"
    "h2o:compat=kvpress,tova,streaming,window,oracle-max,oracle-step,"
    "h2o/pyramid";
static const char budgets[] = "5,8,12,50%,18,22,60";

static const char *small(const char *name, uint64_t seed)
{
    synth_spec s = synth_default();
    s.seed = seed;
    s.n_layer = 3;
    s.n_response = 9;
    return runs_trace(name, &s);
}

static kvt_replay_spec spec_of(const char *const *path, int n)
{
    return (kvt_replay_spec){
        .trace = path, .n_trace = n, .policies = policies, .budgets = budgets, .out_dir = ""};
}

static void one_pass_is_a_pass_for_each_budget(void **state)
{
    static const char *const one[] = {"5", "8", "12", "18", "22", "60"};
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const char *path = small("cut", seed);
        kvt_replay_spec spec = spec_of(&path, 1);
        kvt_results *all = runs_replay(&spec, NULL);
        spec.budgets = one[0];
        kvt_results *each = runs_replay(&spec, NULL);
        for (int i = 1; i < 6; i++) {
            spec.budgets = one[i];
            runs_join(each, runs_replay(&spec, NULL));
        }
        runs_same(all, each, "one pass, six passes");
        kvt_results_free(all);
        kvt_results_free(each);
    }
}

/* C079: policies in another order, budgets as shares and counts. */
static void order_changes_nothing(void **state)
{
    (void)state;
    const char *path[3] = {small("o1", 1), small("o2", 2), small("o3", 3)};
    const char *back[3] = {path[2], path[0], path[1]};
    kvt_replay_spec spec = spec_of(path, 3);
    kvt_results *a = runs_replay(&spec, NULL);
    spec.trace = back;
    spec.policies =
        "h2o/pyramid,window,oracle-step,streaming,tova,h2o:compat=kvpress,h2o,oracle-max,"
        "snapkv:window=4,compat=kvcf,pyramidkv:window=4,snapkv:window=4";
    spec.budgets = "60,22,18,12,50%,8,5";
    kvt_results *b = runs_replay(&spec, NULL);
    runs_same(a, b, "two orders");
    kvt_results_free(a);
    kvt_results_free(b);
}

static kvt_results *with_threads(const kvt_replay_spec *spec, int n)
{
    kvt_ctx ctx = {.n_thread = n};
    kvt_results *found;
    kvt_err err;
    CHECK_OK(kvt_replay(&found, NULL, spec, &ctx, &err), &err);
    return found;
}

static void same_floats(const float *a, const float *b, int64_t n)
{
    assert_true((a == NULL) == (b == NULL));
    if (a)
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    const char *path[2] = {small("t1", 4), small("t2", 5)};
    kvt_replay_spec spec = spec_of(path, 2);
    spec.keep_arrays = true;
    kvt_results *one = with_threads(&spec, 1);
    for (int n = 2; n <= 8; n *= 2) {
        kvt_results *many = with_threads(&spec, n);
        runs_same(one, many, "threads");
        for (int64_t i = 0; i < one->n; i++) {
            const kvt_result *a = one->result[i], *b = many->result[i];
            int64_t lanes = (int64_t)a->n_layer * a->n_lane;
            assert_string_equal(a->pass_id, b->pass_id);
            same_floats(a->score, b->score, lanes * a->n_prompt);
            same_floats(a->lost, b->lost, a->n_cell * lanes * a->n_response);
            if (a->evict_step)
                assert_memory_equal(
                    a->evict_step, b->evict_step,
                    (size_t)(a->n_cell * lanes * (a->n_prompt + a->n_response)) *
                        sizeof *a->evict_step);
        }
        kvt_results_free(many);
    }
    kvt_results_free(one);
}

static void shards_add_up(void **state)
{
    (void)state;
    const char *path[2] = {small("s1", 6), small("s2", 7)};
    kvt_replay_spec spec = spec_of(path, 2);
    kvt_results *all = runs_replay(&spec, NULL), *parts = NULL;
    spec.n_shard = 3;
    for (spec.shard = 1; spec.shard <= 3; spec.shard++) {
        kvt_results *part = runs_replay(&spec, NULL);
        if (parts)
            runs_join(parts, part);
        else
            parts = part;
    }
    runs_same(all, parts, "three shards");
    kvt_results_free(all);
    kvt_results_free(parts);
    kvt_err err;
    spec.shard = 4;
    CHECK_FAILS(kvt_replay(&all, NULL, &spec, NULL, &err), KVT_USAGE, "shard 4/3", &err);
    kvt_results_free(all);
}

static char *out_folder(const char *name)
{
    static char dir[400];
    snprintf(dir, sizeof dir, "%s/%s", runs_dir, name);
    return dir;
}

static void what_is_there_is_not_computed_again(void **state)
{
    (void)state;
    const char *path = small("resume", 8);
    kvt_replay_spec spec = spec_of(&path, 1);
    kvt_replay_counts n;
    spec.out_dir = out_folder("resume");
    spec.keep_arrays = true;
    spec.budgets = "8,18";
    kvt_results *first = runs_replay(&spec, &n);
    assert_true(n.computed > 20 && n.reused == 0);
    kvt_results *again = runs_replay(&spec, &n);
    assert_int_equal(n.computed, 0);
    assert_int_equal(n.reused, n.n_cell);
    runs_same(first, again, "resume");
    kvt_results_free(again);
    /* More budgets: only those are computed, and what comes back is what a fresh run gives. */
    spec.budgets = "5,8,12,18";
    again = runs_replay(&spec, &n);
    assert_true(n.reused * 2 == n.n_cell);
    kvt_replay_spec fresh = spec;
    fresh.out_dir = "";
    kvt_results *whole = runs_replay(&fresh, NULL);
    runs_same(again, whole, "two halves");
    kvt_results_free(whole);
    kvt_results_free(again);
    /* Fewer: cells that were not asked for stay out. */
    spec.budgets = "12";
    again = runs_replay(&spec, &n);
    assert_int_equal(n.computed, 0);
    for (int64_t i = 0; i < again->n; i++) {
        const kvt_result *r = again->result[i];
        assert_int_equal(r->n_cell, 1);
        assert_string_equal(r->cell[0].budget_asked, "12");
    }
    kvt_results_free(again);
    spec.recompute = true;
    again = runs_replay(&spec, &n);
    assert_int_equal(n.reused, 0);
    kvt_results_free(again);
    kvt_results_free(first);
}

/* Another seed, another act, another share of output errors are other cells. */
static void what_decides_a_cell_is_in_its_name(void **state)
{
    (void)state;
    const char *path = small("names", 9);
    kvt_replay_spec spec = spec_of(&path, 1);
    kvt_ctx ctx = {.n_thread = 1, .seed = 5};
    kvt_replay_counts n;
    kvt_results *found;
    kvt_err err;
    spec.out_dir = out_folder("names");
    spec.policies = "h2o";
    kvt_results_free(runs_replay(&spec, &n));
    CHECK_OK(kvt_replay(&found, &n, &spec, &ctx, &err), &err);
    assert_int_equal(n.reused, 0);
    kvt_results_free(found);
    spec.act = KVT_ACT_PREFILL;
    spec.no_controls = true;
    kvt_results_free(runs_replay(&spec, &n));
    assert_int_equal(n.reused, 0);
    spec.no_output_error = true;
    found = runs_replay(&spec, &n);
    assert_int_equal(n.reused, 0);
    assert_true(isnan(runs_value(runs_cell(found, "h2o", "8"), "out_err_mean_rel")) != 0);
    kvt_results_free(found);
}

static int warnings;
static void count_warnings(void *user, kvt_log_level level, const char *area, const char *text)
{
    (void)user, (void)area, (void)text;
    warnings += level == KVT_LOG_WARN;
}

static void damaged_results_are_computed_again(void **state)
{
    (void)state;
    const char *path = small("damage", 10);
    kvt_replay_spec spec = spec_of(&path, 1);
    kvt_ctx ctx = {.n_thread = 1, .log = count_warnings};
    kvt_replay_counts n;
    kvt_err err;
    spec.out_dir = out_folder("damage");
    spec.policies = "window";
    spec.no_controls = true;
    kvt_results *first = runs_replay(&spec, &n), *again;
    assert_int_equal(truncate(first->result[0]->path, 700), 0);
    warnings = 0;
    CHECK_OK(kvt_replay(&again, &n, &spec, &ctx, &err), &err);
    assert_int_equal(warnings, 1);
    assert_int_equal(n.reused, 0);
    runs_same(first, again, "damaged file");
    kvt_results_free(again);
    again = runs_replay(&spec, &n); /* the new file took the place of the old one */
    assert_int_equal(n.computed, 0);
    kvt_results_free(again);
    kvt_results_free(first);
}

static void without_a_folder_the_results_still_come(void **state)
{
    (void)state;
    const char *path = small("nowhere", 11);
    char inside[500];
    kvt_replay_spec spec = spec_of(&path, 1);
    kvt_ctx ctx = {.n_thread = 1, .log = count_warnings};
    kvt_results *found;
    kvt_err err;
    snprintf(inside, sizeof inside, "%s/folder", path); /* below a file: nobody can make it */
    spec.out_dir = inside;
    warnings = 0;
    CHECK_OK(kvt_replay(&found, NULL, &spec, &ctx, &err), &err);
    assert_int_equal(warnings, 1);
    assert_true(found->n > 10 && !found->result[0]->path[0]);
    kvt_results_free(found);
}

static void results_lie_beside_the_first_trace(void **state)
{
    (void)state;
    const char *path = small("beside", 12);
    kvt_replay_spec spec = spec_of(&path, 1);
    spec.out_dir = NULL;
    spec.policies = "window";
    kvt_results *found = runs_replay(&spec, NULL);
    char start[400];
    snprintf(start, sizeof start, "%s/kvt-results/beside-", runs_dir);
    assert_memory_equal(found->result[0]->path, start, strlen(start));
    assert_true(kvt_is_result_path(found->result[0]->path) &&
                file_exists(found->result[0]->path));
    /* Result files among the arguments are passed over. */
    const char *both[2] = {path, found->result[0]->path};
    kvt_replay_counts n;
    spec.trace = both, spec.n_trace = 2;
    kvt_results *again = runs_replay(&spec, &n);
    assert_int_equal(n.n_trace, 1);
    kvt_results_free(again);
    kvt_results_free(found);
}

static bool stop_after(void *user, const char *what, int64_t done, int64_t total)
{
    int *left = user;
    (void)what, (void)done, (void)total;
    return --*left > 0;
}

static void a_stopped_run_keeps_what_is_finished(void **state)
{
    (void)state;
    const char *path[2] = {small("stop1", 13), small("stop2", 14)};
    kvt_replay_spec spec = spec_of(path, 2);
    int left = 9; /* two traces are looked at, one is run, the second begins */
    kvt_ctx ctx = {.n_thread = 1, .progress = stop_after, .user = &left};
    kvt_results *found;
    kvt_replay_counts n;
    kvt_err err;
    spec.out_dir = out_folder("stop");
    CHECK_FAILS(kvt_replay(&found, NULL, &spec, &ctx, &err), KVT_STOPPED, NULL, &err);
    assert_true(found->n > 0);
    kvt_results_free(found);
    found = runs_replay(&spec, &n);
    assert_true(n.reused > 0 && n.computed > 0);
    kvt_results_free(found);
}

static void a_plan_counts_and_runs_nothing(void **state)
{
    (void)state;
    const char *path = small("plan", 15);
    kvt_replay_spec spec = spec_of(&path, 1);
    kvt_replay_counts plan, n;
    kvt_err err;
    CHECK_OK(kvt_replay_plan(&plan, &spec, NULL, &err), &err);
    kvt_results_free(runs_replay(&spec, &n));
    assert_int_equal(plan.n_pass, n.n_pass);
    assert_int_equal(plan.n_cell, n.n_cell);
    assert_true(plan.bytes_planned > 0 && plan.computed == 0 && plan.reused == 0);
    /* What is there already is no work. */
    spec.out_dir = out_folder("planned");
    kvt_results_free(runs_replay(&spec, &n));
    CHECK_OK(kvt_replay_plan(&plan, &spec, NULL, &err), &err);
    assert_int_equal(plan.reused, n.n_cell);
    assert_int_equal(plan.n_cell, n.n_cell);
    assert_int_equal(plan.bytes_planned, 0);
    spec.recompute = true;
    CHECK_OK(kvt_replay_plan(&plan, &spec, NULL, &err), &err);
    assert_true(plan.reused == 0 && plan.bytes_planned > 0);
}

/* Over one ranking a larger budget keeps all that a smaller one keeps. */
static void more_budget_never_loses_more(void **state)
{
    (void)state;
    for (uint64_t seed = 20; seed < 24; seed++) {
        const char *path = small("more", seed);
        kvt_replay_spec spec = spec_of(&path, 1);
        spec.policies = "snapkv:window=4,snapkv:compat=kvcf,window=4,oracle-max";
        kvt_results *found = runs_replay(&spec, NULL);
        for (int64_t i = 0; i < found->n; i++) {
            const kvt_result *r = found->result[i];
            for (int c = 1; c < r->n_cell && strcmp(r->cell[c].status, "ok") == 0; c++) {
                int64_t n = (int64_t)r->n_layer * r->n_lane;
                for (int64_t a = 0; a < n; a++) {
                    const kvt_lane_row *less = &r->lane[(c - 1) * n + a],
                                       *more = &r->lane[c * n + a];
                    assert_true(more->kept_prefill_tokens >= less->kept_prefill_tokens);
                    assert_true(!(more->value[0] > less->value[0]));
                }
            }
        }
        kvt_results_free(found);
    }
}

/* Golden law 11, on-top: no policy loses less than the best with as many slots, the oracle's
 * own score is a float (1e-6), and reading the best of every row is a bound below all. */
static void oracles_are_not_beaten(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed < 36; seed++) {
        const char *path = small("bound", seed);
        kvt_replay_spec spec = spec_of(&path, 1);
        spec.act = KVT_ACT_PREFILL;
        kvt_results *found = runs_replay(&spec, NULL);
        static const char *const budget[] = {"5", "8", "12", "18", "22"};
        for (int b = 0; b < 5; b++) {
            double best =
                runs_value(runs_cell(found, "oracle", budget[b]), "lost_mass_mean_frac");
            double read =
                runs_value(runs_cell(found, "oracle-step", budget[b]), "lost_mass_mean_frac");
            assert_true(read <= best + 1e-9);
            for (int64_t i = 0; i < found->n; i++) {
                const kvt_result *r = found->result[i];
                for (int c = 0; c < r->n_cell; c++) {
                    const kvt_cell *x = &r->cell[c];
                    bool even = x->kept_tokens_min == x->kept_tokens_max && !r->by_query_head;
                    if (strcmp(x->status, "ok") != 0 || strcmp(x->budget_asked, budget[b]) != 0)
                        continue;
                    if (even && strcmp(x->policy, "oracle-step") != 0 &&
                        strcmp(x->policy, "full") != 0)
                        assert_true(runs_value(x, "lost_mass_mean_frac") >= best - 1e-6);
                    if (!isnan(x->regret_mean_frac))
                        assert_true(x->regret_mean_frac >= 0);
                }
            }
        }
        kvt_results_free(found);
    }
}

static void budgets_are_never_exceeded(void **state)
{
    (void)state;
    const char *path = small("held", 40);
    kvt_replay_spec spec = spec_of(&path, 1);
    kvt_results *found = runs_replay(&spec, NULL);
    for (int64_t i = 0; i < found->n; i++) {
        const kvt_result *r = found->result[i];
        int64_t n = (int64_t)r->n_layer * r->n_lane;
        for (int c = 0; c < r->n_cell; c++) {
            const kvt_cell *x = &r->cell[c];
            if (strcmp(x->status, "ok") != 0 || strcmp(x->policy, "full") == 0 ||
                strcmp(x->policy, "oracle-step") == 0)
                continue;
            assert_true(x->kept_tokens_mean <= x->budget_tokens);
            for (int64_t a = 0; a < n && strcmp(x->growth, "inside") == 0; a++) {
                const kvt_lane_row *l = &r->lane[c * n + a];
                assert_true(l->kept_end_tokens <= l->asked_tokens);
                assert_true(l->kept_max_tokens <=
                            (l->asked_tokens < 24 ? 24 : l->asked_tokens + 1));
            }
        }
    }
    kvt_results_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_pass_is_a_pass_for_each_budget),
        cmocka_unit_test(order_changes_nothing),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(shards_add_up),
        cmocka_unit_test(what_is_there_is_not_computed_again),
        cmocka_unit_test(what_decides_a_cell_is_in_its_name),
        cmocka_unit_test(damaged_results_are_computed_again),
        cmocka_unit_test(without_a_folder_the_results_still_come),
        cmocka_unit_test(results_lie_beside_the_first_trace),
        cmocka_unit_test(a_stopped_run_keeps_what_is_finished),
        cmocka_unit_test(a_plan_counts_and_runs_nothing),
        cmocka_unit_test(more_budget_never_loses_more),
        cmocka_unit_test(oracles_are_not_beaten),
        cmocka_unit_test(budgets_are_never_exceeded),
    };
    return cmocka_run_group_tests_name("replay laws", tests, runs_open, runs_close);
}
