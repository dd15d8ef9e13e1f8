/* test_regret - what passes that stay inside their budget lose beyond the best schedule: of
 * lanes so small that all schedules are tried (assign_small.h), at the budgets and drop times
 * that each policy had. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "assign_small.h"
#include "base/half.h"

enum { N = 6, M = 5, T = N + M, L = 2, H = 4, G = 2 };

static const char *small_trace(uint64_t seed)
{
    synth_spec s = synth_default();
    s.seed = seed;
    s.n_prompt = N, s.n_response = M;
    s.sharpness = 3;
    return runs_trace("regret", &s);
}

/* The response rows of some heads of a layer, as a small lane. */
static void take_lane(small *s, const char *path, int layer, int head, int n_head)
{
    kvt_trace *t;
    kvt_rows *rows;
    kvt_err err;
    CHECK_OK(kvt_trace_open(&t, path, 0, &err), &err);
    CHECK_OK(kvt_rows_open(&rows, t, &err), &err);
    int64_t before = kvt_trace_info_of(t)->n_query - M;
    *s = (small){.lane = {.rows = {.data = s->half,
                                   .n_head = n_head,
                                   .n_query = M,
                                   .n_token = T,
                                   .head_stride = M * T,
                                   .row_stride = T},
                          .n_head = n_head,
                          .n_prompt = N,
                          .n_response = M,
                          .every = 1}};
    for (int h = 0; h < n_head; h++) {
        const uint16_t *from;
        CHECK_OK(kvt_rows_head(rows, layer, head + h, &from, &err), &err);
        memcpy(s->half + h * M * T, from + before * T, (size_t)(M * T) * sizeof *from);
    }
    kvt_rows_close(rows);
    kvt_trace_close(t);
}

static double all_mass(const small *s)
{
    double sum = 0;
    for (int64_t m = 0; m < M; m++)
        for (int64_t j = 0; j <= N + m; j++)
            sum += small_at(s, m, j);
    return sum;
}

typedef struct expectation {
    const char *policies;
    int64_t every;
    bool drop_first, by_head, empty;
} expectation;

static const kvt_result *result_of(const kvt_results *found, const char *text)
{
    for (int64_t i = 0; i < found->n; i++)
        if (!found->result[i]->is_control &&
            strncmp(found->result[i]->policy_text, text, strcspn(text, ":,")) == 0)
            return found->result[i];
    fail_msg("no result of %s", text);
    return NULL;
}

static void check_lane(const kvt_lane_row *row, const char *path, const expectation *x,
                       int layer, double *sum)
{
    static small s;
    int per = x->by_head ? 1 : H / G;
    take_lane(&s, path, layer, (int)row->kv_head * per, per);
    s.lane.every = x->every, s.lane.drop_first = x->drop_first;
    double least = all_mass(&s) - small_best(&s, row->asked_tokens);
    double lost = row->value[kvt_metric_value("lost_mass_mean_frac")] * per * M;
    if (fabs(row->oracle_lost_mass_mean_frac * per * M - least) > 1e-12)
        fail_msg("%s: layer %d, lane %d, %d tokens: the best loses %.17g, all schedules %.17g",
                 x->policies, layer, (int)row->kv_head, (int)row->asked_tokens,
                 row->oracle_lost_mass_mean_frac * per * M, least);
    assert_true(lost - least >= -1e-12); /* without any cut */
    assert_true(fabs(row->regret_mean_frac * per * M - (lost - least)) < 1e-12);
    *sum += least;
}

static void regret_is_from_the_best_schedule(void **state)
{
    static const expectation all[] = {
        {"h2o", 1, false, false, false},
        {"tova", 1, false, false, false},
        {"streaming:sinks=1", 1, true, false, false},
        {"streaming:sinks=1,every=2", 2, true, false, false},
        {"h2o:every=2", 2, false, false, false},
        {"tova:every=3", 3, false, false, false},
        {"h2o/pyramid:beta=2", 1, false, false, false},
        {"window", 1, false, false, false},
    };
    (void)state;
    for (int i = 0; i < CHECK_COUNT(all) * 3; i++) {
        const expectation *x = &all[i / 3];
        const char *path = small_trace((uint64_t)(i + 1));
        kvt_replay_spec spec = {.trace = &path,
                                .n_trace = 1,
                                .policies = x->policies,
                                .budgets = "3,4,5,8",
                                .out_dir = ""};
        kvt_results *found = runs_replay(&spec, NULL);
        const kvt_result *r = result_of(found, x->policies);
        expectation with = *x;
        with.drop_first |=
            strcmp(x->policies, "window") == 0 && kvt_policy_find("window")->traits.drop_first;
        for (int c = 0; c < r->n_cell; c++) {
            double sum = 0, rows = L * H * M;
            if (strcmp(r->cell[c].status, "ok") != 0)
                continue;
            for (int a = 0; a < L * r->n_lane; a++)
                check_lane(&r->lane[c * L * r->n_lane + a], path, &with, a / r->n_lane, &sum);
            const kvt_cell *cell = &r->cell[c];
            assert_true(fabs(cell->oracle_lost_mass_mean_frac - sum / rows) < 1e-12);
            assert_true(fabs(cell->regret_mean_frac -
                             (runs_value(cell, "lost_mass_mean_frac") - sum / rows)) < 1e-12);
            assert_true(isnan(cell->allocation_regret_mean_frac));
        }
        kvt_results_free(found);
    }
}

/* The policy that follows the schedule loses what is said, and is not compared with itself. */
static void the_schedule_can_be_followed(void **state)
{
    static const char *const with[] = {"oracle-assign", "oracle-assign:every=2",
                                       "oracle-assign:heads=query"};
    (void)state;
    for (int i = 0; i < CHECK_COUNT(with) * 4; i++) {
        const char *path = small_trace((uint64_t)(40 + i));
        kvt_replay_spec spec = {.trace = &path,
                                .n_trace = 1,
                                .policies = with[i / 4],
                                .budgets = "2,3,5,7,20",
                                .no_controls = true,
                                .out_dir = ""};
        kvt_results *found = runs_replay(&spec, NULL);
        const kvt_result *r = found->result[0];
        bool by_head = r->n_lane == H;
        assert_int_equal(r->n_cell, 5);
        for (int c = 0; c < r->n_cell; c++)
            for (int a = 0; a < L * r->n_lane; a++) {
                static small s;
                const kvt_lane_row *row = &r->lane[c * L * r->n_lane + a];
                int per = by_head ? 1 : H / G;
                take_lane(&s, path, a / r->n_lane, a % r->n_lane * per, per);
                s.lane.every = strstr(with[i / 4], "every") ? 2 : 1;
                double least = all_mass(&s) - small_best(&s, row->asked_tokens);
                double lost = row->value[kvt_metric_value("lost_mass_mean_frac")] * per * M;
                if (fabs(lost - least) > 1e-12)
                    fail_msg("%s: %d tokens lose %.17g, the best schedule %.17g", with[i / 4],
                             (int)row->asked_tokens, lost, least);
                assert_true(isnan(row->regret_mean_frac));
                assert_true(isnan(row->oracle_lost_mass_mean_frac));
            }
        kvt_results_free(found);
    }
}

/* Above the limit the schedule is the greedy one, said so, and nothing has a regret. */
static void a_limit_of_memory_is_said(void **state)
{
    (void)state;
    const char *path = small_trace(99);
    kvt_replay_spec spec = {
        .trace = &path, .n_trace = 1, .policies = "h2o", .budgets = "3", .out_dir = ""};
    kvt_results *best = runs_replay(&spec, NULL);
    spec.oracle_limit = 64;
    kvt_results *found = runs_replay(&spec, NULL);
    const kvt_cell *h2o = runs_cell(found, "h2o", "3");
    assert_true(isnan(h2o->regret_mean_frac) && isnan(h2o->oracle_lost_mass_mean_frac));
    assert_true(!isnan(runs_cell(best, "h2o", "3")->regret_mean_frac));
    assert_string_not_equal(h2o->run_id, runs_cell(best, "h2o", "3")->run_id);
    double greedy = runs_value(runs_cell(found, "oracle-assign", "3"), "lost_mass_mean_frac");
    double exact = runs_value(runs_cell(best, "oracle-assign", "3"), "lost_mass_mean_frac");
    assert_true(greedy >= exact);
    assert_non_null(strstr(runs_result(found, "oracle-assign")->plan_note,
                           "greedy, for the best schedule needs more than --oracle-limit"));
    assert_non_null(strstr(runs_result(found, "h2o")->plan_note,
                           "no regret: the best schedule needs more than --oracle-limit"));
    kvt_results_free(best);
    kvt_results_free(found);
}

static bool has(const kvt_results *found, const char *policy)
{
    for (int64_t i = 0; i < found->n; i++)
        if (strcmp(found->result[i]->cell[0].policy, policy) == 0)
            return true;
    return false;
}

static void it_is_a_control_where_a_policy_acts_in_decode(void **state)
{
    static const struct {
        const char *policies, *oracle;
        kvt_act act;
        bool there;
    } cases[] = {
        {"h2o", NULL, KVT_ACT_OWN, true},         {"snapkv:window=2", NULL, KVT_ACT_OWN, false},
        {"h2o", NULL, KVT_ACT_PREFILL, false},    {"h2o", "none", KVT_ACT_OWN, false},
        {"h2o", "oracle-max", KVT_ACT_OWN, true}, {"oracle-step", NULL, KVT_ACT_OWN, false},
    };
    (void)state;
    const char *path = small_trace(7);
    for (int i = 0; i < CHECK_COUNT(cases); i++) {
        kvt_replay_spec spec = {.trace = &path,
                                .n_trace = 1,
                                .policies = cases[i].policies,
                                .oracle = cases[i].oracle,
                                .act = cases[i].act,
                                .budgets = "4",
                                .out_dir = ""};
        kvt_results *found = runs_replay(&spec, NULL);
        assert_int_equal(has(found, "oracle-assign"), cases[i].there);
        kvt_results_free(found);
    }
}

/* What has no bound: tokens that return, and schedules of lanes that trade slots. */
static void where_it_is_no_bound_it_is_empty(void **state)
{
    (void)state;
    const char *path = small_trace(8);
    kvt_replay_spec spec = runs_spec(&path, "oracle-step,oracle-assign/pyramid", "4");
    kvt_results *found = runs_replay(&spec, NULL);
    assert_true(isnan(runs_cell(found, "oracle-step", "4")->regret_mean_frac));
    const kvt_cell *c = runs_cell(found, "oracle-assign/pyramid", "4");
    assert_string_equal(c->status, "skipped");
    assert_non_null(strstr(c->error, "at even budgets"));
    kvt_results_free(found);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(regret_is_from_the_best_schedule),
        cmocka_unit_test(the_schedule_can_be_followed),
        cmocka_unit_test(a_limit_of_memory_is_said),
        cmocka_unit_test(it_is_a_control_where_a_policy_acts_in_decode),
        cmocka_unit_test(where_it_is_no_bound_it_is_empty),
    };
    return cmocka_run_group_tests(tests, runs_open, runs_close);
}
