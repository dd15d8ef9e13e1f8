/* test_threshold - policies that keep what reaches a threshold: the one that meets a
 * budget on the other traces, against plain counting, and whatever order, threads or shards. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "replay/plan_priv.h"

enum { TRACES = 4, SINKS = 2 };
static const char *const plugin[] = {LOOK_PLUGIN};
static const char *trace[TRACES];
static synth_spec specs[TRACES];

static void make_traces(void)
{
    for (int i = 0; i < TRACES; i++) {
        char name[16];
        specs[i] = synth_default();
        specs[i].n_prompt = 18 + 5 * i;
        specs[i].n_response = i % 2 ? 6 : 0;
        specs[i].seed = 100 + (uint64_t)i;
        specs[i].sharpness = 3;
        snprintf(name, sizeof name, "t%d", i);
        trace[i] = runs_trace(name, &specs[i]);
    }
}

static kvt_replay_spec run_of(int n, const char *policies, const char *budgets)
{
    return (kvt_replay_spec){.trace = trace,
                             .n_trace = n,
                             .policies = policies,
                             .budgets = budgets,
                             .plugin = plugin,
                             .n_plugin = 1,
                             .no_controls = true,
                             .out_dir = "",
                             .keep_arrays = true};
}

/* Scores of the policy: column sums of a lane's first query head. */
static float score_of(const synth *s, int lane, int64_t j)
{
    int64_t N = s->spec.n_prompt, per = s->spec.n_head / s->spec.n_kv_head;
    return ((const float *)s->data[KVT_DS_COL_SUM])[lane * per * N + j];
}

/* Slots of all lanes of a trace that are kept at a threshold. */
static int64_t plain_kept(const synth *s, double threshold)
{
    int64_t kept = 0;
    for (int a = 0; a < s->spec.n_layer * s->spec.n_kv_head; a++)
        for (int64_t j = 0; j < s->spec.n_prompt; j++)
            kept += j < SINKS || (double)score_of(s, a, j) >= threshold;
    return kept;
}

/* The smallest threshold at which the others keep no more than they may, by trying the next
 * number above each score. */
static double plain_threshold(synth *const *s, int own, const int64_t *may)
{
    double best = INFINITY;
    int64_t all = 0, room = 0;
    for (int k = 0; k < TRACES; k++) {
        int64_t lanes = s[k]->spec.n_layer * s[k]->spec.n_kv_head;
        room += k == own ? 0 : may[k] * lanes;
        all += k == own ? 0 : s[k]->spec.n_prompt * lanes;
    }
    if (all <= room)
        return -INFINITY;
    for (int k = 0; k < TRACES; k++)
        for (int a = 0; k != own && a < s[k]->spec.n_layer * s[k]->spec.n_kv_head; a++)
            for (int64_t j = SINKS; j < s[k]->spec.n_prompt; j++) {
                double x = (double)nextafterf(score_of(s[k], a, j), INFINITY);
                int64_t kept = 0;
                for (int i = 0; x < best && i < TRACES; i++)
                    kept += i == own ? 0 : plain_kept(s[i], x);
                if (x < best && kept <= room)
                    best = x;
            }
    return best;
}

static const kvt_result *result_of(const kvt_results *found, int i)
{
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    for (int64_t k = 0; k < found->n; k++)
        if (strcmp(found->result[k]->trace_id, name) == 0)
            return found->result[k];
    fail_msg("no result of %s", name);
    return NULL;
}

static void others_meet_the_budget(void **state)
{
    (void)state;
    synth *s[TRACES];
    make_traces();
    kvt_replay_spec run = run_of(TRACES, "test-threshold", "5,30%");
    kvt_results *found = runs_replay(&run, NULL);
    for (int i = 0; i < TRACES; i++)
        s[i] = synth_new(&specs[i]);
    for (int i = 0; i < TRACES; i++) {
        const kvt_result *r = result_of(found, i);
        for (int c = 0; c < r->n_cell; c++) {
            int64_t may[TRACES];
            for (int k = 0; k < TRACES; k++)
                may[k] = r->cell[c].budget_asked[0] == '5' ? 5 : specs[k].n_prompt * 3 / 10;
            double x = plain_threshold(s, i, may);
            int64_t lanes = r->n_layer * r->n_lane;
            assert_string_equal(r->cell[c].status, "ok");
            CHECK_NEAR(r->cell[c].kept_tokens_mean, (double)plain_kept(s[i], x) / (double)lanes,
                       1e-12);
        }
        assert_non_null(strstr(r->plan_note, "matched mean: asked 5"));
    }
    for (int i = 0; i < TRACES; i++)
        synth_free(s[i]);
    kvt_results_free(found);
}

static void order_threads_and_shards_change_nothing(void **state)
{
    (void)state;
    kvt_err err;
    make_traces();
    kvt_replay_spec run = run_of(TRACES, "test-threshold", "5,30%");
    kvt_results *found = runs_replay(&run, NULL), *more;
    char *text = runs_text(found);
    kvt_results_free(found);
    const char *first = trace[0];
    trace[0] = trace[3], trace[3] = first;
    kvt_ctx ctx = {.n_thread = 3};
    CHECK_OK(kvt_replay(&more, NULL, &run, &ctx, &err), &err);
    char *again = runs_text(more);
    assert_string_equal(again, text);
    kvt_results_free(more);
    kvt_results parts = {0};
    for (int k = 1; k <= 3; k++) {
        run.shard = k, run.n_shard = 3;
        kvt_results *part = runs_replay(&run, NULL);
        for (int64_t i = 0; i < part->n; i++) {
            CHECK_OK(kvt_results_add(&parts, part->result[i], &err), &err);
            part->result[i] = NULL;
        }
        kvt_results_free(part);
    }
    char *sharded = runs_text(&parts);
    assert_string_equal(sharded, text);
    for (int64_t i = 0; i < parts.n; i++)
        kvt_result_free(parts.result[i]);
    kvt_free(parts.result);
    free(text), free(again), free(sharded);
}

static void a_given_threshold_is_taken(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *found;
    make_traces();
    kvt_replay_spec alone = run_of(1, "test-threshold", "5,9");
    CHECK_FAILS(kvt_replay(&found, NULL, &alone, NULL, &err), KVT_NO, "or threshold=X", &err);
    kvt_results_free(found);
    alone.policies = "test-threshold:threshold=0.75";
    found = runs_replay(&alone, NULL);
    const kvt_result *r = found->result[0];
    synth *s = synth_new(&specs[0]);
    double mean = (double)plain_kept(s, 0.75) / (double)(r->n_layer * r->n_lane);
    for (int c = 0; c < 2; c++)
        CHECK_NEAR(r->cell[c].kept_tokens_mean, mean, 1e-12);
    assert_non_null(strstr(r->plan_note, "threshold 0.75: the same set at every budget"));
    synth_free(s);
    kvt_results_free(found);
    alone.policies = "test-threshold:threshold=much";
    CHECK_FAILS(kvt_replay(&found, NULL, &alone, NULL, &err), KVT_USAGE,
                "expected a finite number, got 'much'", &err);
    kvt_results_free(found);
}

/* KVzap's published rule: what is below the threshold goes, so that what equals it stays. */
static void what_equals_the_threshold_is_kept(void **state)
{
    (void)state;
    make_traces();
    char text[64];
    synth *s = synth_new(&specs[0]);
    double x = (double)score_of(s, 1, SINKS + 2);
    snprintf(text, sizeof text, "test-threshold:threshold=%.17g", x);
    kvt_replay_spec alone = run_of(1, text, "5");
    kvt_results *found = runs_replay(&alone, NULL);
    const kvt_result *r = found->result[0];
    int64_t above = plain_kept(s, nextafter(x, INFINITY));
    CHECK_NEAR(r->cell[0].kept_tokens_mean * (double)(r->n_layer * r->n_lane),
               (double)plain_kept(s, x), 1e-9);
    assert_true(plain_kept(s, x) > above);
    synth_free(s);
    kvt_results_free(found);
}

static void another_set_is_another_run(void **state)
{
    (void)state;
    make_traces();
    kvt_replay_spec few = run_of(2, "test-threshold", "5"), many = few;
    many.n_trace = TRACES;
    kvt_results *a = runs_replay(&few, NULL), *b = runs_replay(&many, NULL);
    assert_string_not_equal(result_of(a, 0)->cell[0].run_id, result_of(b, 0)->cell[0].run_id);
    kvt_results_free(a);
    kvt_results_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_meet_the_budget),
        cmocka_unit_test(order_threads_and_shards_change_nothing),
        cmocka_unit_test(a_given_threshold_is_taken),
        cmocka_unit_test(what_equals_the_threshold_is_kept),
        cmocka_unit_test(another_set_is_another_run),
    };
    return cmocka_run_group_tests_name("threshold", tests, runs_open, runs_close);
}
