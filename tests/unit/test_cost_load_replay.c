/* test_cost_load_replay - slots of lanes from replays of traces, against the policies' own
 * rules. */
#include "tests/check.h"
#include "tests/runs.h"
#include "tests/unit/cost_load.h"

#include "replay/cost/cost_priv.h"

static kvt_err err;

/* A replay of the engine, and the same policies by their own rules. */
static void a_replay_agrees_with_the_rule(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        bool exact;
    } rows[] = {{"full", true},
                {"streaming", true},
                {"tova", true},
                {"snapkv:window=4", true},
                {"snapkv/pyramid:window=4", true},
                {"snapkv/ada:window=4", false}};
    synth_spec spec = synth_default();
    spec.n_prompt = 48, spec.n_response = 9;
    const char *trace = runs_trace("load", &spec);
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_replay_spec ask = runs_spec(&trace, rows[i].policy, "12");
        kvt_results *found = runs_replay(&ask, NULL);
        const kvt_result *r = found->result[0];
        kvt_use *u = policy(rows[i].policy);
        kvt_cost_geometry g = model((int)r->n_layer, 0);
        kvt_cost_load x, y;
        kvt_cost_work w;
        g.g.n_head = spec.n_head, g.g.n_kv_head = spec.n_kv_head;
        kvt_cost_work_of(&w, u, &g, 48, 12, KVT_ACT_OWN);
        w.page_tokens = 0; /* pages and rounding differ by lane */
        int64_t budget = strcmp(rows[i].policy, "full") == 0 ? 48 : 12;
        kvt_cost_load_assume(&y, u, &w, &g, &plain, 48, 9, budget);
        CHECK_OK(kvt_cost_load_result(&x, r, 0, &w, &g, &plain, 48, 9, &err), &err);
        double got[3], want[3];
        sums(&x, &got[0], &got[1], &got[2]);
        sums(&y, &want[0], &want[1], &want[2]);
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(got[k], want[k], 1e-6);
        for (int l = 0; l < r->n_layer; l++)
            CHECK_NEAR(x.kept[l].slots, y.kept[l].slots, 1e-9);
        CHECK_NEAR(x.first.slots, y.first.slots, 1e-9);
        CHECK_NEAR(x.top.held, y.top.held, 1e-9);
        if (!rows[i].exact)
            assert_true(x.run[0].busiest >= x.run[0].slots);
        kvt_use_free(u);
        kvt_results_free(found);
    }
}

/* Policies that drop no token: rows that read a part of the slots, and channels of keys. */
static void nothing_leaves(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.n_prompt = 48, spec.n_response = 9;
    const char *trace = runs_trace("whole", &spec);
    kvt_cost_geometry g = model(2, 0);
    g.g.n_head = spec.n_head, g.g.n_kv_head = spec.n_kv_head;
    kvt_use *u = policy("quest:page=4");
    kvt_cost_work w;
    kvt_cost_load x;
    kvt_replay_spec ask = runs_spec(&trace, "quest:page=4", "12");
    kvt_results *found = runs_replay(&ask, NULL);
    kvt_cost_work_of(&w, u, &g, 48, 12, KVT_ACT_OWN);
    w.page_tokens = 0;
    CHECK_OK(kvt_cost_load_result(&x, found->result[0], 0, &w, &g, &plain, 48, 9, &err), &err);
    CHECK_NEAR(x.last.held, 4 * (48 + 9), 1e-9); /* four lanes in all */
    CHECK_NEAR(x.kept[1].held, 2 * 48, 1e-9);
    /* a set for each of the 8 query heads, stored once for each kv head */
    assert_true(x.last.slots <= 8 * 12 && x.last.slots > 4 * 12);
    kvt_cost_load_assume(&x, u, &w, &g, &plain, 48, 9, 12);
    CHECK_NEAR(x.last.held, 4 * (48 + 9), 1e-9);
    CHECK_NEAR(x.last.slots, 8 * 12, 1e-9);
    CHECK_NEAR(x.last.busiest, 8 * 12, 1e-9);
    kvt_use_free(u);
    kvt_results_free(found);
    u = policy("think:window=8,recent=0");
    ask = runs_spec(&trace, "think:window=8,recent=0", "36");
    found = runs_replay(&ask, NULL);
    kvt_cost_work_of(&w, u, &g, 48, 36, KVT_ACT_OWN);
    CHECK_OK(kvt_cost_load_result(&x, found->result[0], 0, &w, &g, &plain, 48, 9, &err), &err);
    CHECK_NEAR(x.kept[0].slots, 4 * 36, 1e-6);    /* 4 of 8 channels: 3/4 of the bytes */
    CHECK_NEAR(x.last.slots, 8 * (36 + 9), 1e-6); /* sets of the 4 query heads */
    kvt_use_free(u);
    kvt_results_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_agrees_with_the_rule),
        cmocka_unit_test(nothing_leaves),
    };
    return cmocka_run_group_tests(tests, runs_open, runs_close);
}
