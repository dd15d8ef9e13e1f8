/* test_replay_cases - what a run does with odd traces, budgets and policies: skipped with a
 * reason, the others go on. Numbers of cases are those of the project's list of known failures
 * of tools like this one. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "kvt/metric.h"

#define SCORES_JSON                                                 \
    "{\"trace\": \"scored.h5\", \"name\": \"mine\", \"datasets\": " \
    "{\"score/value\": \"v.npy\"}}"

static kvt_replay_spec spec_of(const char *const *path, const char *policies,
                               const char *budgets)
{
    return (kvt_replay_spec){
        .trace = path, .n_trace = 1, .policies = policies, .budgets = budgets, .out_dir = ""};
}

static void expect_skipped(const kvt_results *s, const char *policy, const char *budget,
                           const char *part)
{
    const kvt_cell *c = runs_cell(s, policy, budget);
    if (strcmp(c->status, "skipped") != 0 || !strstr(c->error, part))
        fail_msg("%s at %s: expected skipped with '%s', got %s '%s'", policy, budget, part,
                 c->status, c->error);
    assert_true(isnan(runs_value(c, "lost_mass_mean_frac")) != 0);
}

static const kvt_cell *expect_ok(const kvt_results *s, const char *policy, const char *budget)
{
    const kvt_cell *c = runs_cell(s, policy, budget);
    if (strcmp(c->status, "ok") != 0)
        fail_msg("%s at %s: %s: %s", policy, budget, c->status, c->error);
    return c;
}

/* C002: prompts of 1, 2, 3 tokens at shares that round to nothing. */
static void tiny_prompts_keep_at_least_one_token(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 3; n++) {
        synth_spec s = synth_default();
        s.n_prompt = n;
        s.last_queries = 64;
        const char *path = runs_trace("tiny", &s);
        kvt_replay_spec spec = spec_of(&path, "all", "90%,40%,1%");
        kvt_results *found = runs_replay(&spec, NULL);
        for (int64_t i = 0; i < found->n; i++)
            for (int c = 0; c < found->result[i]->n_cell; c++) {
                const kvt_cell *x = &found->result[i]->cell[c];
                if (strcmp(x->status, "ok") != 0) {
                    assert_true(x->error[0]);
                    continue;
                }
                assert_true(x->kept_tokens_min >= 1);
                const kvt_policy *p = kvt_policy_find(x->policy);
                bool loses = !p || p->traits.effect != KVT_CHANNELS;
                assert_int_equal(isnan(runs_value(x, "lost_mass_mean_frac")), !loses);
            }
        kvt_results_free(found);
        kvt_replay_spec zero = spec_of(&path, "all", "0%");
        kvt_err err;
        CHECK_FAILS(kvt_replay(&found, NULL, &zero, NULL, &err), KVT_USAGE, "budget of 0",
                    &err);
        kvt_results_free(found);
    }
}

/* Under kvpress's rule a share may round to 0: that cell is skipped. */
static void a_rule_that_gives_no_slot_skips_the_cell(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_prompt = 10;
    s.last_queries = 10;
    const char *path = runs_trace("ten", &s);
    kvt_replay_spec spec = spec_of(&path, "window", "10%,50%");
    spec.rule = KVT_RULE_FLOOR_IEEE;
    kvt_results *found = runs_replay(&spec, NULL);
    expect_skipped(found, "window", "10%", "no slot at all");
    assert_true(expect_ok(found, "window", "50%")->kept_tokens_mean == 5);
    kvt_results_free(found);
    spec.rule = KVT_RULE_ABS;
    kvt_err err;
    CHECK_FAILS(kvt_replay(&found, NULL, &spec, NULL, &err), KVT_USAGE, "tokens only", &err);
    kvt_results_free(found);
}

/* C005: window 64 on prompts of 1 to 65 tokens. */
static void a_window_as_long_as_the_prompt_keeps_the_latest(void **state)
{
    static const int64_t length[] = {1, 2, 8, 63, 64, 65};
    (void)state;
    for (int i = 0; i < 6; i++) {
        synth_spec s = synth_default();
        int64_t n = s.n_prompt = length[i];
        s.last_queries = 64;
        const char *path = runs_trace("short", &s);
        kvt_replay_spec spec = spec_of(&path, "snapkv:window=64", "8,1000");
        spec.keep_arrays = true;
        kvt_results *found = runs_replay(&spec, NULL);
        assert_true(expect_ok(found, "snapkv", "1000")->kept_tokens_mean == (double)n);
        assert_true(runs_value(runs_cell(found, "snapkv", "1000"), "lost_mass_max_frac") == 0);
        if (n == 65) {
            expect_skipped(found, "snapkv", "8", "64");
            kvt_results_free(found);
            continue;
        }
        assert_true(expect_ok(found, "snapkv", "8")->kept_tokens_mean ==
                    (double)(n < 8 ? n : 8));
        const kvt_result *r = runs_result(found, "snapkv");
        for (int64_t t = 0; t < n; t++)
            for (int a = 0; a < r->n_lane; a++)
                assert_int_equal(kvt_result_evict_step(r, 0, 1, a, t), t >= n - 8 ? -1 : 0);
        if (n > 8)
            assert_non_null(strstr(r->plan_note, "latest tokens are kept"));
        kvt_results_free(found);
    }
}

/* C006 and design 6: above the length nothing is evicted; every share adds up. */
static void a_budget_above_the_length_evicts_nothing(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_layer = 4;
    const char *path = runs_trace("c006", &s);
    kvt_replay_spec spec =
        spec_of(&path, "all,snapkv:window=4,pyramidkv:window=4", "18,24,2048");
    kvt_results *found = runs_replay(&spec, NULL);
    for (int64_t i = 0; i < found->n; i++)
        for (int c = 1; c < found->result[i]->n_cell; c++) {
            const kvt_cell *x = &found->result[i]->cell[c];
            if (strcmp(x->status, "ok") != 0)
                continue;
            assert_true(x->kept_tokens_min == 24 && x->evictions_prefill_count == 0);
            if (strcmp(x->growth, "inside") == 0 && strcmp(x->budget_asked, "24") == 0)
                continue; /* it drops while it decodes */
            assert_true(runs_value(x, "lost_mass_max_frac") == 0);
            assert_true(runs_value(x, "attn_kl_max_nats") == 0);
            assert_true(runs_value(x, "out_err_mean_rel") == 0);
            double recall = runs_value(x, "recall_mean_frac");
            assert_true(recall == 1 || isnan(recall));
        }
    const kvt_cell *pyramid = expect_ok(found, "pyramidkv", "18");
    assert_true(pyramid->kept_tokens_mean == 18 && pyramid->kept_tokens_max > 18);
    kvt_results_free(found);
}

/* C009: a recent share of 0 freezes the kept set, and the result says so. */
static void accumulated_scores_freeze_and_it_is_said(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_response = 43;
    const char *path = runs_trace("c009", &s);
    kvt_replay_spec spec = spec_of(&path, "h2o:recent=0,h2o:recent=0.5", "14");
    spec.keep_arrays = true;
    spec.no_controls = true;
    kvt_results *found = runs_replay(&spec, NULL);
    assert_int_equal(found->n, 2);
    for (int i = 0; i < 2; i++) {
        const kvt_result *r = found->result[i];
        bool frozen = strstr(r->policy_text, "recent=0,") != NULL;
        for (int a = 0; a < r->n_lane; a++)
            for (int64_t t = 24; t < 24 + 43; t++) {
                int32_t gone = kvt_result_evict_step(r, 0, 0, a, t);
                if (frozen) /* it leaves in the decision behind its own row */
                    assert_int_equal(gone, t - 24 + 1);
                else if (t >= 24 + 43 - 7)
                    assert_int_equal(gone, -1);
            }
        assert_int_equal(r->cell[0].acted_count, 44);
        assert_non_null(strstr(r->plan_note, "acted 44 times"));
        assert_true(frozen == (strstr(r->plan_note, "frozen") != NULL));
    }
    kvt_results_free(found);
}

/* C080: tiny capacities, splits that are impossible. */
static void tiny_capacities_do_not_loop(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("c080", &s);
    kvt_replay_spec spec =
        spec_of(&path, "streaming:sinks=1,h2o:recent=0.1,h2o:recent=0,tova,window", "1,2,4");
    kvt_results *found = runs_replay(&spec, NULL);
    expect_skipped(found, "h2o", "4", "is no token");
    assert_true(expect_ok(found, "streaming", "1")->end_slots_mean_tokens == 1);
    assert_true(expect_ok(found, "streaming", "2")->end_slots_mean_tokens == 2);
    assert_true(expect_ok(found, "tova", "1")->end_slots_mean_tokens == 1);
    kvt_results_free(found);
}

/* C080: a rule that is impossible while decoding is refused though the prompt itself fits. */
static void a_rule_is_asked_for_what_comes_while_it_decodes(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_prompt = 1, s.n_response = 20;
    s.last_queries = 64;
    const char *path = runs_trace("one", &s);
    kvt_replay_spec spec = spec_of(&path, "h2o,h2o:every=4", "1,21");
    kvt_results *found = runs_replay(&spec, NULL);
    expect_skipped(found, "h2o", "1", "recent=0.5 of a budget of 1 is no token");
    expect_ok(found, "h2o", "21"); /* prompt and response fit */
    kvt_results_free(found);
    spec.act = KVT_ACT_PREFILL; /* nothing is evicted: nothing is impossible */
    found = runs_replay(&spec, NULL);
    assert_true(expect_ok(found, "h2o", "1")->kept_tokens_mean == 1);
    kvt_results_free(found);
    s.n_prompt = 2;
    path = runs_trace("two", &s);
    spec = spec_of(&path, "h2o:compat=flexgen,streaming", "2,3");
    found = runs_replay(&spec, NULL);
    expect_skipped(found, "h2o", "2", "flexgen needs a budget of 3 or more");
    expect_ok(found, "h2o", "3");
    expect_skipped(found, "streaming", "3", "4 sinks need a budget of 4 or more, got 3");
    kvt_results_free(found);
}

static void more_protection_than_budget_is_skipped(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("pin", &s), *plugin = REPLAY_PLUGIN;
    kvt_replay_spec spec = spec_of(&path, "streaming,test-pin", "2,8");
    spec.plugin = &plugin;
    spec.n_plugin = 1;
    kvt_replay_counts n;
    kvt_results *found = runs_replay(&spec, &n);
    expect_skipped(found, "streaming", "2",
                   "policy streaming: 4 sinks need a budget of 4 or more, got 2");
    expect_skipped(found, "test-pin", "2", "need a budget of 6 or more, got 2");
    expect_ok(found, "streaming", "8");
    expect_ok(found, "test-pin", "8");
    assert_int_equal(n.skipped, 4); /* and position, at both budgets */
    assert_int_equal(n.failed, 0);
    kvt_results_free(found);
}

/* C082: a trace without a response has no future. */
static void without_a_future_oracles_are_refused_and_others_run(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_response = 0;
    const char *path = runs_trace("c082", &s);
    kvt_replay_spec spec = spec_of(&path, "h2o,snapkv:window=4,oracle-step", "8,12");
    kvt_results *found = runs_replay(&spec, NULL);
    expect_skipped(found, "oracle", "8", "policy oracle needs future attention");
    expect_skipped(found, "oracle-step", "12", "policy oracle-step needs future attention");
    const kvt_cell *c = expect_ok(found, "h2o", "8");
    assert_true(c->kept_tokens_mean == 8 && isnan(runs_value(c, "lost_mass_mean_frac")));
    assert_true(isnan(runs_value(c, "recall_mean_frac")) &&
                isnan(c->oracle_lost_mass_mean_frac));
    c = expect_ok(found, "snapkv", "12");
    assert_true(c->kept_tokens_mean == 12 && isnan(runs_value(c, "attn_kl_mean_nats")));
    assert_int_equal(c->worst_layer, KVT_EMPTY_INT);
    kvt_results_free(found);
}

static void only_skipped_cells_are_an_answer_of_their_own(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("none", &s), *plugin = REPLAY_PLUGIN;
    kvt_replay_spec spec = spec_of(&path, "streaming", "2,3");
    kvt_results *found;
    kvt_err err;
    CHECK_FAILS(kvt_replay(&found, NULL, &spec, NULL, &err), KVT_NO, "4 sinks", &err);
    assert_true(found->n > 0);
    kvt_results_free(found);
    spec.policies = "test-never";
    spec.plugin = &plugin, spec.n_plugin = 1;
    CHECK_FAILS(kvt_replay(&found, NULL, &spec, NULL, &err), KVT_NO, "not replayable", &err);
    kvt_results_free(found);
}

static void wrong_policies_fail_alone(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("wrong", &s), *plugin = REPLAY_PLUGIN;
    kvt_replay_spec spec = spec_of(&path, "test-nan,test-greedy,window", "8,12");
    spec.plugin = &plugin, spec.n_plugin = 1;
    kvt_results *found;
    kvt_replay_counts n;
    kvt_err err;
    CHECK_FAILS(kvt_replay(&found, &n, &spec, NULL, &err), KVT_PARTLY, "4 of", &err);
    const kvt_cell *c = runs_cell(found, "test-nan", "8");
    assert_string_equal(c->status, "failed");
    assert_non_null(strstr(c->error, "policy test-nan: score of token 5 is"));
    c = runs_cell(found, "test-greedy", "12");
    assert_string_equal(c->status, "failed");
    assert_non_null(strstr(c->error, "selects 24 slots"));
    expect_ok(found, "window", "8");
    assert_int_equal(n.failed, 4);
    kvt_results_free(found);
}

static void rows_that_are_not_stored_are_asked_for(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("few", &s);
    kvt_replay_spec spec = spec_of(&path, "snapkv:window=9,window", "12");
    kvt_results *found = runs_replay(&spec, NULL);
    expect_skipped(found, "snapkv", "12", "needs the last 9 prompt rows, the trace holds 8");
    kvt_results_free(found);
}

static void a_summary_has_means_of_oracles_only(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.level = KVT_SUMMARY;
    synth *made = synth_new(&s);
    const char *path = runs_trace("summary", &s);
    kvt_replay_spec spec =
        spec_of(&path, "oracle,oracle-max,snapkv:window=4,h2o,streaming", "8");
    spec.keep_arrays = true;
    kvt_results *found = runs_replay(&spec, NULL);
    expect_skipped(found, "snapkv", "8", "which this trace lacks");
    expect_skipped(found, "h2o", "8", "which this trace lacks");
    expect_skipped(found, "oracle-max", "8", "which this trace lacks");
    expect_skipped(found, "streaming", "8", "acts in decode and needs rows");
    const kvt_cell *c = expect_ok(found, "oracle", "8");
    const kvt_result *r = runs_result(found, "oracle");
    assert_non_null(strstr(r->plan_note, "future/mean"));
    double lost = 0;
    const float *mean = made->data[KVT_DS_FUTURE_MEAN];
    for (int l = 0; l < 2; l++)
        for (int h = 0; h < 4; h++)
            for (int64_t t = 0; t < 24; t++)
                if (kvt_result_evict_step(r, 0, l, h / 2, t) == 0)
                    lost += (double)mean[(l * 4 + h) * 24 + t] / 8;
    assert_true(fabs(runs_value(c, "lost_mass_mean_frac") - lost) < 1e-9);
    assert_true(isnan(runs_value(c, "lost_mass_max_frac")) != 0);
    assert_true(fabs(c->regret_mean_frac) < 1e-7);
    kvt_results_free(found);
    synth_free(made);
}

/* Scores that another program computed, imported for one trace: the ranking is theirs. */
static void scores_of_another_program_rank(void **state)
{
    enum { LANES = 4, N = 24 };
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("scored", &s), *other = runs_trace("other", &s);
    char name[400], manifest[500], scores[500], policy[600];
    float value[LANES * N];
    for (int i = 0; i < LANES * N; i++)
        value[i] = (float)(i * 7 % 24);
    /* .npy version 1: magic, header of 118 bytes, the values */
    char head[128];
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 24), }";
    memcpy(head + 10, text, sizeof text - 1);
    head[127] = '\n';
    snprintf(name, sizeof name, "%s/v.npy", runs_dir);
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(head, 1, sizeof head, f), sizeof head);
    assert_int_equal(fwrite(value, sizeof *value, LANES * N, f), LANES * N);
    fclose(f);
    snprintf(manifest, sizeof manifest, "%s/s.json", runs_dir);
    snprintf(scores, sizeof scores, "%s/s.h5", runs_dir);
    kvt_err err;
    CHECK_OK(file_write(manifest, SCORES_JSON, sizeof SCORES_JSON - 1, &err), &err);
    CHECK_OK(kvt_scores_import(manifest, scores, false, &err), &err);
    snprintf(policy, sizeof policy, "scores:file=%s", scores);
    kvt_replay_spec spec = spec_of(&path, policy, "5,12");
    spec.keep_arrays = true;
    kvt_results *found = runs_replay(&spec, NULL);
    expect_ok(found, "scores", "5");
    const kvt_result *r = runs_result(found, "scores");
    for (int a = 0; a < LANES; a++)
        for (int t = 0; t < N; t++) {
            int better = 0; /* higher, or equal and in front */
            for (int k = 0; k < N; k++)
                better += value[a * N + k] > value[a * N + t] ||
                          (value[a * N + k] == value[a * N + t] && k < t);
            assert_int_equal(kvt_result_evict_step(r, 0, a / 2, a % 2, t), better < 5 ? -1 : 0);
        }
    kvt_results_free(found);
    synth_spec twin = s;
    twin.seed = 77;
    other = runs_trace("other", &twin);
    spec.trace = &other;
    CHECK_FAILS(kvt_replay(&found, NULL, &spec, NULL, &err), KVT_NO, "of another trace", &err);
    kvt_results_free(found);
    spec.policies = "scores";
    CHECK_FAILS(kvt_replay(&found, NULL, &spec, NULL, &err), KVT_NO, "needs file=", &err);
    kvt_results_free(found);
}

/* The table of relative positions over the other traces of the set, by plain loops. */
static void positions_come_from_the_other_traces(void **state)
{
    (void)state;
    synth *made[3];
    const char *path[3];
    static const int64_t length[] = {24, 40, 33};
    for (int i = 0; i < 3; i++) {
        char name[16];
        synth_spec s = synth_default();
        s.seed = 50 + (uint64_t)i;
        s.n_prompt = length[i];
        made[i] = synth_new(&s);
        snprintf(name, sizeof name, "set%d", i);
        path[i] = runs_trace(name, &s);
    }
    kvt_replay_spec spec = spec_of(path, "window", "8");
    spec.n_trace = 3;
    spec.keep_arrays = true;
    kvt_results *found = runs_replay(&spec, NULL);
    const kvt_result *r = runs_result(found, "position"); /* of the first trace */
    assert_string_equal(r->trace_id, "set0");
    for (int lane = 0; lane < 4; lane++) {
        double mass[KVT_POSITION_BINS] = {0};
        int n[KVT_POSITION_BINS] = {0};
        for (int k = 1; k < 3; k++) {
            double sum[KVT_POSITION_BINS] = {0};
            int64_t N = length[k], count[KVT_POSITION_BINS] = {0};
            const float *mean = made[k]->data[KVT_DS_FUTURE_MEAN];
            for (int64_t j = 0; j < N; j++) {
                double d = (double)(N - 1 - j), bin = floor(2 * log2(1 + d) + 1e-9);
                int b = j < 8 ? (int)j : 8 + (bin < 23 ? (int)bin : 23);
                for (int h = 0; h < 2; h++)
                    sum[b] += (double)mean[(lane * 2 + h) * N + j];
                count[b] += 2;
            }
            for (int b = 0; b < KVT_POSITION_BINS; b++)
                if (count[b])
                    mass[b] += sum[b] / (double)count[b], n[b]++;
        }
        for (int64_t j = 0; j < 24; j++) {
            int b = kvt_position_bin(j, 24);
            if (n[b]) /* the others are empty bins, filled from their neighbours */
                assert_true(fabs((double)r->score[lane * 24 + j] - mass[b] / n[b]) < 1e-6);
        }
    }
    kvt_results_free(found);
    for (int i = 0; i < 3; i++)
        synth_free(made[i]);
}

/* C073 and golden vector 7: kept 0.75 of the mass is a KL of 0.287682. */
static void kl_has_its_edges(void **state)
{
    (void)state;
    const kvt_metric *m = kvt_metric_find("attn_kl"), *s = kvt_metric_find("score_kl");
    kvt_judged j = {.lost = 0.25, .kept = 0.75};
    assert_true(fabs(m->row(&j) - 0.287682) < 5e-7);
    j.lost = 0;
    assert_true(m->row(&j) == 0);
    j.lost = 1;
    assert_true(isinf(m->row(&j)) && m->row(&j) > 0);
    j.lost = NAN;
    assert_true(isnan(m->row(&j)) != 0);
    float p[3] = {0.5F, 0.5F, 0}, q[3] = {0, 1, 1}, none[3] = {0, 0, 0};
    kvt_judged l = {.n_head = 1, .n_prompt = 3, .future_mean = p, .score = p};
    assert_true(fabs(s->lane(&l)) < 1e-12);
    l.score = q; /* 0.5 ln(0.5 / e^-30) + 0.5 ln(0.5 / 0.5) */
    assert_true(fabs(s->lane(&l) - 0.5 * (log(0.5) + 30)) < 1e-9);
    l.score = none;
    assert_true(isnan(s->lane(&l)) != 0);
    l.n_prompt = 0;
    assert_true(isnan(s->lane(&l)) != 0);
}

/* C004: arithmetic that adds up to more than was asked for shows in every place. */
static void what_holds_more_than_asked_is_marked(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_layer = 4;
    const char *path = runs_trace("c004", &s);
    /* window 4, budget 8: KVCache-Factory gives 4 + {8, 6, 4, 2} by its integer step of 2 */
    kvt_replay_spec spec = spec_of(&path, "pyramidkv:compat=kvcf,window=4", "8");
    kvt_results *found = runs_replay(&spec, NULL);
    const kvt_cell *c = expect_ok(found, "pyramidkv", "8");
    const kvt_result *r = runs_result(found, "pyramidkv");
    static const int64_t want[] = {12, 10, 8, 6};
    for (int l = 0; l < 4; l++) {
        const kvt_lane_row *lane = &r->lane[l * r->n_lane];
        assert_int_equal(lane->kept_prefill_tokens, want[l]);
        assert_int_equal(lane->asked_tokens, want[l]);
        assert_string_equal(lane->flag, "over");
    }
    assert_true(c->budget_tokens == 8 && c->kept_tokens_mean == 9);
    /* It stores a set for each query head: bytes are counted so. */
    assert_int_equal(c->kept_bytes, 4 * 4 * (9 + 6) * 2 * 8 * 2);
    assert_int_equal(c->full_bytes, 4 * 2 * (24 + 6) * 2 * 8 * 2);
    kvt_results_free(found);
}

static void controls_are_always_there(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("controls", &s);
    kvt_replay_spec spec = spec_of(&path, "random,window", "8");
    kvt_results *found = runs_replay(&spec, NULL);
    int64_t seeds = 0, controls = 0;
    for (int64_t i = 0; i < found->n; i++) {
        const kvt_result *r = found->result[i];
        controls += r->is_control;
        if (strcmp(r->cell[0].policy, "random") == 0)
            seeds |= INT64_C(1) << r->cell[0].seed;
    }
    assert_int_equal(seeds, 7); /* 0, 1, 2, though one was asked for again */
    assert_int_equal(controls, 7);
    assert_int_equal(found->n, 8);
    expect_skipped(found, "position", "8", "there is none"); /* no other trace, and no note */
    assert_null(runs_result(found, "position")->plan_note);
    assert_true(runs_value(expect_ok(found, "full", "8"), "lost_mass_max_frac") == 0);
    assert_true(runs_value(runs_cell(found, "oracle", "8"), "recall_mean_frac") == 1);
    kvt_results_free(found);
    spec.oracle = "oracle-max";
    found = runs_replay(&spec, NULL);
    expect_ok(found, "oracle-max", "8");
    kvt_results_free(found);
}

static void layers_can_be_chosen(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_layer = 3;
    s.model_layers = 6; /* the trace holds layers 3, 4, 5 */
    const char *path = runs_trace("layers", &s);
    kvt_replay_spec spec = spec_of(&path, "tova", "8");
    kvt_results *all = runs_replay(&spec, NULL);
    spec.layers = "4-5";
    kvt_results *some = runs_replay(&spec, NULL);
    const kvt_result *a = runs_result(all, "tova"), *b = runs_result(some, "tova");
    assert_int_equal(b->n_layer, 2);
    assert_int_equal(b->layer_id[0], 4);
    for (int i = 0; i < 4; i++)
        assert_true(b->lane[i].value[0] == a->lane[2 + i].value[0]);
    assert_string_not_equal(a->cell[0].run_id, b->cell[0].run_id);
    kvt_results_free(all);
    kvt_results_free(some);
    kvt_err err;
    spec.layers = "0-2";
    CHECK_FAILS(kvt_replay(&some, NULL, &spec, NULL, &err), KVT_USAGE, "holds none of them",
                &err);
    kvt_results_free(some);
}

static void exactness_is_lowered_never_raised(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("exact", &s);
    kvt_replay_spec spec = spec_of(&path, "h2o,snapkv:window=4", "8");
    kvt_results *found = runs_replay(&spec, NULL);
    assert_string_equal(runs_cell(found, "h2o", "8")->exactness, "open-loop");
    assert_string_equal(runs_cell(found, "h2o", "8")->growth, "inside");
    assert_string_equal(runs_cell(found, "snapkv", "8")->exactness, "exact");
    assert_int_equal(runs_cell(found, "snapkv", "8")->seed, KVT_EMPTY_INT);
    assert_int_equal(runs_cell(found, "random", "8")->seed, 0);
    kvt_results_free(found);
    spec.act = KVT_ACT_PREFILL;
    found = runs_replay(&spec, NULL);
    assert_string_equal(runs_cell(found, "h2o", "8")->exactness, "exact");
    assert_string_equal(runs_cell(found, "h2o", "8")->growth, "on-top");
    kvt_results_free(found);
}

static void periods_change_when_it_decides(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_response = 12;
    const char *path = runs_trace("every", &s);
    kvt_replay_spec spec = spec_of(&path, "tova,tova:every=5", "8");
    spec.shrink_every = 4;
    spec.no_controls = true;
    kvt_results *found = runs_replay(&spec, NULL);
    const kvt_result *four = found->result[0], *five = found->result[1];
    assert_int_equal(four->cell[0].acted_count, 1 + 3);
    assert_int_equal(five->cell[0].acted_count, 1 + 2);
    assert_int_equal(four->lane[0].kept_max_tokens, 8 + 4);
    assert_int_equal(five->lane[0].kept_max_tokens, 8 + 5);
    kvt_results_free(found);
}

/* A lane that the model's best scores leave with one slot, another with many. */
static void slots_can_be_traded_over_the_model(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("model", &s), *plugin = REPLAY_PLUGIN;
    kvt_replay_spec spec = spec_of(&path, "test-model,test-model-first", "6,12");
    spec.plugin = &plugin, spec.n_plugin = 1;
    for (int act = KVT_ACT_PREFILL; act <= KVT_ACT_DECODE; act++) {
        spec.act = (kvt_act)act;
        kvt_results *found = runs_replay(&spec, NULL);
        for (int i = 0; i < 2; i++) {
            const kvt_cell *c = expect_ok(found, i ? "test-model-first" : "test-model", "6");
            assert_true(c->kept_tokens_mean == 6 && c->kept_tokens_min < 6);
            assert_true(c->kept_tokens_max > 6);
            if (act == KVT_ACT_DECODE)
                assert_true(c->end_slots_mean_tokens == 6);
            assert_true(runs_value(c, "lost_mass_mean_frac") > 0);
        }
        kvt_results_free(found);
    }
}

/* Rows of halves add up to a little more than 1 in places; a set that loses all of them loses
 * 1, whoever chose it, and equal sets differ by exactly 0. */
static void equal_sets_have_no_regret(void **state)
{
    (void)state;
    double largest = 0;
    for (int variant = 0; variant < 6; variant++) {
        synth_spec s = synth_default();
        s.n_head = 6, s.n_kv_head = variant % 2 ? 2 : 6;
        s.n_prompt = 60;
        s.sharpness = variant < 2 ? 0 : variant < 4 ? 3 : 8;
        s.seed = 90 + (uint64_t)variant;
        const char *path = runs_trace("regret", &s);
        kvt_replay_spec spec =
            spec_of(&path, "oracle,snapkv:window=4,snapkv:compat=kvcf,window=4", "1,4,7,30,60");
        kvt_results *found = runs_replay(&spec, NULL);
        spec.no_output_error = true; /* rows are added up in another way then */
        kvt_results *other = runs_replay(&spec, NULL);
        for (int64_t i = 0; i < found->n; i++) {
            const kvt_result *r = found->result[i];
            bool best = strcmp(r->cell[0].policy, "oracle") == 0;
            for (int c = 0; c < r->n_cell; c++) {
                const kvt_cell *x = &r->cell[c];
                double lost = runs_value(x, "lost_mass_mean_frac");
                if (strcmp(x->status, "ok") != 0)
                    continue;
                assert_true(x->oracle_lost_mass_mean_frac <= 1);
                assert_true(x->oracle_lost_mass_mean_frac ==
                            other->result[i]->cell[c].oracle_lost_mass_mean_frac);
                assert_true(x->regret_mean_frac >= 0 && x->allocation_regret_mean_frac >= 0);
                assert_true(fabs(lost - x->oracle_lost_mass_mean_frac - x->regret_mean_frac) <
                            1e-12);
                if (best || x->kept_tokens_min == s.n_prompt)
                    assert_true(x->regret_mean_frac == 0);
                if (best && lost > largest)
                    largest = lost;
            }
            for (int k = 0; best && k < r->n_cell * r->n_layer * r->n_lane; k++)
                assert_true(r->lane[k].regret_mean_frac == 0);
        }
        kvt_results_free(found);
        kvt_results_free(other);
    }
    assert_true(largest > 0.9); /* losses near 1 are among them */
}

/* KVCache-Factory's pyramid on 97 tokens, window 8, 2 layers: at 48 the first layer gets
 * 8 + (80 - 40 / 20) = 86, at 70 all get 70, since 97 < 2 (70 - 8). */
static void a_falling_cut_is_its_own(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_head = 3, s.n_kv_head = 1;
    s.n_prompt = 97, s.n_response = 7;
    s.sharpness = 1;
    s.seed = 15;
    s.last_queries = 64;
    const char *path = runs_trace("odd", &s);
    kvt_replay_spec spec = spec_of(&path, "pyramidkv:compat=kvcf", "50%,70");
    spec.no_controls = true;
    kvt_results *both = runs_replay(&spec, NULL);
    spec.budgets = "70";
    kvt_results *alone = runs_replay(&spec, NULL);
    const kvt_result *a = both->result[0], *b = alone->result[0];
    assert_int_equal(a->lane[0].kept_prefill_tokens, 86);
    assert_int_equal(b->lane[0].kept_prefill_tokens, 70);
    assert_memory_equal(a->cell[1].value, b->cell[0].value, sizeof b->cell[0].value);
    kvt_results_free(both);
    kvt_results_free(alone);
}

/* Scores that only rank have no KL, not even where all are positive, nor has a set that the
 * scores of several lanes chose. */
static void score_kl_is_of_what_decided(void **state)
{
    static const char *const none[] = {"tova", "window", "streaming", "random"};
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("kl", &s);
    for (int act = KVT_ACT_OWN; act <= KVT_ACT_PREFILL; act++) {
        kvt_replay_spec spec =
            spec_of(&path, "tova,window,streaming,random,h2o,snapkv:window=4", "8");
        spec.act = (kvt_act)act;
        spec.keep_arrays = true;
        kvt_results *found = runs_replay(&spec, NULL);
        for (int i = 0; i < 4; i++)
            assert_true(
                isnan(runs_value(expect_ok(found, none[i], "8"), "score_kl_mean_nats")));
        assert_true(runs_value(expect_ok(found, "h2o", "8"), "score_kl_mean_nats") > 0);
        assert_true(runs_value(expect_ok(found, "snapkv", "8"), "score_kl_mean_nats") > 0);
        assert_non_null(runs_result(found, "tova")->score); /* each lane's share is kept */
        kvt_results_free(found);
    }
}

/* Of one pass a part may be there already; arrays come with both parts. */
static void parts_of_a_pass_have_their_arrays(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("parts", &s);
    char out[400];
    snprintf(out, sizeof out, "%s/parts-out", runs_dir);
    kvt_replay_spec spec = spec_of(&path, "h2o,snapkv:window=4,tova", "8,16");
    spec.out_dir = out;
    kvt_replay_counts n;
    kvt_results_free(runs_replay(&spec, NULL));
    spec.budgets = "8,12,20"; /* 16 is left behind, 12 and 20 are new */
    spec.keep_arrays = true;
    kvt_results *parts = runs_replay(&spec, &n);
    assert_true(n.reused > 0 && n.computed > 0);
    spec.out_dir = "";
    kvt_results *whole = runs_replay(&spec, NULL);
    runs_same(parts, whole, "parts, whole");
    int64_t compared = 0;
    for (int64_t i = 0; i < parts->n; i++) {
        const kvt_result *p = parts->result[i];
        for (int64_t k = 0; k < whole->n; k++) {
            const kvt_result *w = whole->result[k];
            for (int c = 0; c < p->n_cell; c++)
                for (int d = 0; d < w->n_cell; d++) {
                    int64_t M = p->n_response, lanes = (int64_t)p->n_layer * p->n_lane;
                    if (strcmp(p->cell[c].run_id, w->cell[d].run_id) != 0 || !w->lost)
                        continue;
                    assert_non_null(p->lost);
                    assert_memory_equal(p->lost + c * lanes * M, w->lost + d * lanes * M,
                                        (size_t)(lanes * M) * sizeof *p->lost);
                    assert_true((p->score != NULL) == (w->score != NULL));
                    for (int a = 0; a < lanes; a++)
                        for (int64_t t = 0; t < p->n_prompt + M; t++)
                            assert_int_equal(
                                kvt_result_evict_step(p, c, a / p->n_lane, a % p->n_lane, t),
                                kvt_result_evict_step(w, d, a / p->n_lane, a % p->n_lane, t));
                    compared++;
                }
        }
    }
    assert_true(compared >= 9);
    kvt_results_free(parts);
    kvt_results_free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_prompts_keep_at_least_one_token),
        cmocka_unit_test(a_rule_that_gives_no_slot_skips_the_cell),
        cmocka_unit_test(a_window_as_long_as_the_prompt_keeps_the_latest),
        cmocka_unit_test(a_budget_above_the_length_evicts_nothing),
        cmocka_unit_test(accumulated_scores_freeze_and_it_is_said),
        cmocka_unit_test(tiny_capacities_do_not_loop),
        cmocka_unit_test(a_rule_is_asked_for_what_comes_while_it_decodes),
        cmocka_unit_test(more_protection_than_budget_is_skipped),
        cmocka_unit_test(without_a_future_oracles_are_refused_and_others_run),
        cmocka_unit_test(only_skipped_cells_are_an_answer_of_their_own),
        cmocka_unit_test(wrong_policies_fail_alone),
        cmocka_unit_test(rows_that_are_not_stored_are_asked_for),
        cmocka_unit_test(a_summary_has_means_of_oracles_only),
        cmocka_unit_test(scores_of_another_program_rank),
        cmocka_unit_test(positions_come_from_the_other_traces),
        cmocka_unit_test(kl_has_its_edges),
        cmocka_unit_test(what_holds_more_than_asked_is_marked),
        cmocka_unit_test(controls_are_always_there),
        cmocka_unit_test(layers_can_be_chosen),
        cmocka_unit_test(exactness_is_lowered_never_raised),
        cmocka_unit_test(periods_change_when_it_decides),
        cmocka_unit_test(slots_can_be_traded_over_the_model),
        cmocka_unit_test(equal_sets_have_no_regret),
        cmocka_unit_test(a_falling_cut_is_its_own),
        cmocka_unit_test(score_kl_is_of_what_decided),
        cmocka_unit_test(parts_of_a_pass_have_their_arrays),
    };
    return cmocka_run_group_tests_name("replay cases", tests, runs_open, runs_close);
}
