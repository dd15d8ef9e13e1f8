/* test_replay_decided - whole replays of policies with a learned score: from a retrofitted
 * model's own decisions and from scorers, what class they have and what is said where the trace
 * has nothing for them. */
#include "tests/check.h"
#include "tests/runs.h"
#include "tests/synth_more.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static synth_spec spec_of(const char *decisions)
{
    synth_spec s = synth_default();
    s.level = KVT_FULL;
    s.last_queries = -1;
    s.decision_policy = decisions;
    s.force = true;
    return s;
}

static const char *trace_of(const char *name, const synth_spec *spec, const char *cache)
{
    static char path[400];
    kvt_err err;
    synth *s = synth_new(spec);
    snprintf(s->out.facts.decision_cache, sizeof s->out.facts.decision_cache, "%s", cache);
    snprintf(path, sizeof path, "%s/%s.h5", runs_dir, name);
    CHECK_OK(synth_write(s, path, &err), &err);
    synth_free(s);
    return path;
}

static kvt_results *replay(const char *trace, const char *policy, const char *budgets,
                           kvt_act act, kvt_replay_counts *counts)
{
    const char *const traces[] = {trace};
    kvt_replay_spec run = {.trace = traces,
                           .n_trace = 1,
                           .policies = policy,
                           .budgets = budgets,
                           .act = act,
                           .no_controls = true,
                           .out_dir = ""};
    return runs_replay(&run, counts);
}

static void check_class(const char *trace, const char *policy, kvt_act act, const char *class)
{
    char name[32];
    kvt_results *found = replay(trace, policy, "12", act, NULL);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(policy, ":"), policy);
    assert_string_equal(runs_cell(found, name, "12")->exactness, class);
    kvt_results_free(found);
}

/* Decisions of a model that runs on its own cache are what it keeps; those that it makes while
 * nothing is evicted are not, nor is what later queries of such a cache would see. */
static void decisions_have_a_class(void **state)
{
    (void)state;
    const char *pop = "kvpop:from=decisions,sinks=1,window=3";
    synth_spec spec = spec_of("kvpop");
    const char *trace = trace_of("own", &spec, "evicted");
    check_class(trace, pop, KVT_ACT_PREFILL, "exact");
    check_class(trace, pop, KVT_ACT_OWN, "open-loop");
    trace = trace_of("own", &spec, "dense");
    check_class(trace, pop, KVT_ACT_PREFILL, "open-loop");
}

/* Gates and logarithms are no attention: their shares are compared with none, though a gate is
 * never negative. */
static void scores_of_gates_have_no_kl(void **state)
{
    (void)state;
    static const char *const policies[][2] = {{"wg-kv", "wg-kv:threshold=0.1,window=4"},
                                              {"trim-kv", "trim-kv"},
                                              {"dms", "dms:from=decisions,window=4"}};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        const char *name = policies[i][0];
        synth_spec spec = spec_of(name);
        const char *trace = trace_of("kl", &spec, "dense");
        for (int act = KVT_ACT_OWN; act <= KVT_ACT_PREFILL; act++) {
            kvt_results *found = replay(trace, policies[i][1], "12", (kvt_act)act, NULL);
            assert_true(isnan(runs_value(runs_cell(found, name, "12"), "score_kl_mean_nats")));
            kvt_results_free(found);
            found = replay(trace, "h2o", "12", (kvt_act)act, NULL);
            assert_true(runs_value(runs_cell(found, "h2o", "12"), "score_kl_mean_nats") > 0);
            kvt_results_free(found);
        }
    }
}

/* A policy that was not this model's has no decisions here. */
static void decisions_of_another_policy_are_no_answer(void **state)
{
    (void)state;
    synth_spec spec = spec_of("kvpop");
    const char *trace = trace_of("other", &spec, "dense");
    static const char *const policies[] = {"trim-kv", "dmc", "dms:from=decisions",
                                           "wg-kv:threshold=0.1"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        const char *const traces[] = {trace};
        kvt_replay_spec run = {.trace = traces,
                               .n_trace = 1,
                               .policies = policies[i],
                               .budgets = "12",
                               .no_controls = true,
                               .out_dir = ""};
        kvt_results *found = NULL;
        kvt_replay_counts counts;
        kvt_err err;
        kvt_ctx ctx = {.n_thread = 1};
        assert_int_equal(kvt_replay(&found, &counts, &run, &ctx, &err), KVT_NO);
        assert_int_equal(counts.skipped, 1);
        kvt_results_free(found);
    }
}

/* DMS has a threshold of its own, so that one trace is enough and budgets change nothing. */
static void dms_needs_no_other_trace(void **state)
{
    (void)state;
    synth_spec spec = spec_of("dms");
    spec.decision_shift = 1;
    kvt_replay_counts counts;
    kvt_results *found = replay(trace_of("bits", &spec, "evicted"),
                                "dms:from=decisions,window=4", "6,12", KVT_ACT_OWN, &counts);
    assert_int_equal(counts.computed, 2);
    assert_float_equal(runs_value(runs_cell(found, "dms", "6"), "lost_mass_mean_frac"),
                       runs_value(runs_cell(found, "dms", "12"), "lost_mass_mean_frac"), 0);
    kvt_results_free(found);
}

/* Every kind of scorer, from the file to the cells. */
static void scorers_are_replayed(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *kind, *params, *class;
    } all[] = {
        {"kvpop", "kvpop", "", "surrogate"},
        {"kvpop-mlp", "kvpop-mlp", "", "surrogate"},
        {"dms", "kvpop-mlp", ",window=4,threshold=0", "surrogate"},
        {"kvzap", "kvzap", ",window=4,threshold=0", "open-loop"},
        {"kvp-supervised", "kvp-supervised", ",sinks=2,recent=3", "exact"},
        {"locret", "locret", "", "surrogate"},
        {"fast-kvzip", "fast-kvzip", "", "exact"},
        {"foresightkv", "foresightkv", ",block=3", "open-loop"},
    };
    synth_spec spec = spec_of(NULL);
    const char *trace = trace_of("scored", &spec, "");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char file[512], policy[700];
        kvt_err err;
        kvt_replay_counts counts;
        snprintf(file, sizeof file, "%s/%s.h5", runs_dir, all[i].kind);
        CHECK_OK(synth_scorer(all[i].kind, &spec, file, &err), &err);
        snprintf(policy, sizeof policy, "%s:weights=%s%s", all[i].policy, file, all[i].params);
        kvt_results *found = replay(trace, policy, "8,14", KVT_ACT_OWN, &counts);
        assert_int_equal(counts.computed, 2);
        const kvt_cell *less = runs_cell(found, all[i].policy, "8");
        const kvt_cell *more = runs_cell(found, all[i].policy, "14");
        double lost = runs_value(more, "lost_mass_mean_frac");
        assert_string_equal(less->exactness, all[i].class);
        const char *note = runs_result(found, all[i].policy)->plan_note;
        /* queries that a scorer reads are no observation window */
        assert_true(!note || !strstr(note, "observation window"));
        assert_true(lost > 0 && lost < 1 && runs_value(less, "lost_mass_mean_frac") >= lost);
        kvt_results_free(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_have_a_class),
        cmocka_unit_test(scores_of_gates_have_no_kl),
        cmocka_unit_test(decisions_of_another_policy_are_no_answer),
        cmocka_unit_test(dms_needs_no_other_trace),
        cmocka_unit_test(scorers_are_replayed),
    };
    return cmocka_run_group_tests_name("replay_decided", tests, runs_open, runs_close);
}
