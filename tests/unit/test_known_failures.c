/* test_known_failures.c - what went wrong in programs like this one and had no test here: runs
 * over whole traces. Numbers 13.N are those of the policy page's list of reported bugs, C0xx
 * those of the list of known failures. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/arena.h"
#include "kvt/pieces.h"

static kvt_replay_spec spec_of(const char *const *path, int n, const char *policies,
                               const char *budgets)
{
    return (kvt_replay_spec){.trace = path,
                             .n_trace = n,
                             .policies = policies,
                             .budgets = budgets,
                             .no_controls = true,
                             .keep_arrays = true,
                             .out_dir = ""};
}

static int64_t kept_of(const bool *keep, int64_t n)
{
    int64_t kept = 0;
    for (int64_t s = 0; s < n; s++)
        kept += keep[s];
    return kept;
}

/* C007 for lanes whose slots are ranked together: 2 heads of 10 keys, a budget of 2 each, and
 * all large scores in one head: the other keeps its best, 4 slots in all. What is pinned
 * counts. */
static void no_lane_is_emptied_by_another(void **state)
{
    enum { S = 10 };
    float score[2][S];
    bool pinned[2][S] = {{false}}, kept[2][S];
    const float *const scores[2] = {score[0], score[1]};
    const bool *const pins[2] = {pinned[0], pinned[1]};
    bool *const keep[2] = {kept[0], kept[1]};
    const int64_t budget[2] = {2, 2};
    kvt_arena *arena = kvt_arena_new(1 << 16);
    (void)state;
    assert_non_null(arena);
    for (int s = 0; s < S; s++)
        score[0][s] = 100 - (float)s, score[1][s] = s == 6 ? 2 : 1;
    const kvt_lane lane[2] = {{.n_slot = S, .scratch = arena}, {.n_slot = S, .scratch = arena}};
    kvt_keep_best_of_all(keep, lane, 2, scores, pins, budget);
    assert_int_equal(kept_of(kept[0], S), 3);
    assert_true(kept_of(kept[1], S) == 1 && kept[1][6]);
    pinned[1][9] = true; /* a lane that pins is not empty */
    kvt_keep_best_of_all(keep, lane, 2, scores, pins, budget);
    assert_int_equal(kept_of(kept[0], S), 3);
    assert_true(kept_of(kept[1], S) == 1 && kept[1][9]);
    kvt_arena_free(arena);
}

/* 13.3: behind a prompt of one token the first decoded one is no prompt: what acts on the
 * prompt only drops nothing, at any budget. */
static void one_token_is_a_prompt(void **state)
{
    synth_spec s = synth_default();
    (void)state;
    s.n_prompt = 1, s.n_response = 20, s.last_queries = -1, s.level = KVT_FULL;
    const char *path = runs_trace("one", &s);
    kvt_replay_spec spec = spec_of(&path, 1, "all", "1,2,5");
    kvt_results *found = runs_replay(&spec, NULL);
    int64_t n = 0;
    for (int64_t i = 0; i < found->n; i++)
        for (int k = 0; k < found->result[i]->n_cell; k++) {
            const kvt_cell *c = &found->result[i]->cell[k];
            if (strcmp(c->status, "ok") != 0 || strcmp(c->act, "prefill") != 0 ||
                c->evictions_prefill_count == KVT_EMPTY_INT) /* think: channels go, not slots */
                continue;
            n++;
            if (c->evictions_prefill_count != 0 || c->evictions_decode_count != 0 ||
                c->kept_tokens_mean != 1)
                fail_msg("%s at %s: %lld and %lld go", c->policy, c->budget_asked,
                         (long long)c->evictions_prefill_count,
                         (long long)c->evictions_decode_count);
        }
    assert_true(n > 30);
    kvt_results_free(found);
}

/* Adds those that run on a plain trace and match nothing on the others of a set. */
static void name_lone(char *out, size_t cap)
{
    const unsigned more = KVT_NEED_WEIGHTS | KVT_NEED_PROBE | KVT_NEED_DECISION |
                          KVT_NEED_SCORES | KVT_NEED_OTHERS;
    for (const kvt_policy *const *p = kvt_policies(); *p; p++) {
        size_t n = strlen(out);
        if (!((*p)->traits.needs & more) && !(*p)->traits.by_threshold)
            snprintf(out + n, cap - n, ",%s", (*p)->name);
    }
}

/* 13.10, 13.21: nothing of a prompt is left for the next one, a shorter one: together in one
 * run they are what each is alone, whatever the order. */
static void a_prompt_leaves_nothing_behind(void **state)
{
    char policies[4096] = "snapkv:window=4,pyramidkv:window=4,adakv:window=4,"
                          "defensivekv:window=4,nacl,h2o,h2o:every=3,quest:page=2";
    synth_spec s = synth_default();
    const char *path[2];
    kvt_results *alone[2];
    (void)state;
    name_lone(policies, sizeof policies);
    s.last_queries = -1, s.level = KVT_FULL, s.n_prompt = 40;
    path[0] = runs_trace("long", &s);
    s.n_prompt = 13, s.seed = 2;
    path[1] = runs_trace("short", &s);
    for (int i = 0; i < 2; i++) {
        kvt_replay_spec spec = spec_of(&path[i], 1, policies, "4,50%");
        alone[i] = runs_replay(&spec, NULL);
    }
    kvt_replay_spec both = spec_of(path, 2, policies, "4,50%");
    kvt_results *found = runs_replay(&both, NULL);
    runs_join(alone[0], alone[1]);
    assert_int_equal(alone[0]->n, found->n);
    runs_same(alone[0], found, "alone, together");
    kvt_results_free(alone[0]);
    kvt_results_free(found);
}

/* 13.29, C015: what a row of a sliding-window layer sees is counted by positions, not by the
 * slots that are left: with the newest 4 kept a layer of window 4 loses nothing, and one slot
 * fewer loses something. */
static void windows_are_of_positions(void **state)
{
    synth_spec s = synth_default();
    (void)state;
    s.n_prompt = 20, s.n_response = 9, s.window = 4;
    const char *path = runs_trace("sliding", &s);
    kvt_replay_spec spec = spec_of(&path, 1, "window,streaming:sinks=2", "3,4,6");
    kvt_results *found = runs_replay(&spec, NULL);
    const kvt_result *r = runs_result(found, "window");
    for (int c = 0; c < 3; c++)
        for (int a = 0; a < r->n_lane; a++)
            for (int64_t m = 0; m < s.n_response; m++) {
                const float *lost = r->lost + (c * 2 * r->n_lane + a) * s.n_response + m;
                assert_true(lost[0] > 0); /* the full layer */
                float sliding = lost[r->n_lane * s.n_response];
                assert_true(c == 0 ? sliding > 0 : sliding <= 1e-3F);
            }
    /* Two of six slots hold sinks that nobody sees there: the others are the window. */
    const kvt_result *sinks = runs_result(found, "streaming");
    for (int a = 0; a < sinks->n_lane; a++)
        assert_true(sinks->lost[(2 * 2 * r->n_lane + r->n_lane + a) * s.n_response + 3] <=
                    1e-3F);
    kvt_results_free(found);
}

/* 13.36: token by token, or in batches of every=K: a lane grows to B + K - 1 and shrinks in
 * steps of K, in front of row 4, 9, ... (this one drops before the row). */
static void eviction_has_two_grains(void **state)
{
    synth_spec s = synth_default();
    (void)state;
    s.n_response = 20;
    const char *path = runs_trace("grains", &s);
    kvt_replay_spec spec = spec_of(&path, 1, "streaming,streaming:every=5", "8");
    kvt_results *found = runs_replay(&spec, NULL);
    assert_int_equal(found->n, 2);
    for (int i = 0; i < 2; i++) {
        const kvt_result *r = found->result[i];
        bool batches = strstr(r->policy_text, "every=5") != NULL;
        int64_t at_once[21] = {0}, most = 0;
        assert_string_equal(r->cell[0].status, "ok");
        for (int64_t t = 0; t < 24 + 20; t++) {
            int32_t gone = kvt_result_evict_step(r, 0, 0, 0, t);
            if (gone > 0)
                most = kvt_max(most, ++at_once[gone]);
            if (batches && gone > 0 && (gone + 1) % 5 != 0)
                fail_msg("token %lld goes at step %d", (long long)t, gone);
        }
        assert_int_equal(most, batches ? 5 : 1);
    }
    kvt_results_free(found);
}

/* 13.22: code that repeats keys and values for every query head holds as many lanes as query
 * heads, and is charged for them. */
static void repeated_heads_cost_bytes(void **state)
{
    synth_spec s = synth_default();
    (void)state;
    s.n_head = 8, s.n_kv_head = 2;
    const char *path = runs_trace("repeated", &s);
    kvt_replay_spec spec =
        spec_of(&path, 1, "snapkv:window=4,snapkv:compat=official,window=4", "10");
    kvt_results *found = runs_replay(&spec, NULL);
    assert_int_equal(found->n, 2);
    const kvt_result *one = found->result[0], *each = found->result[1];
    assert_true(one->n_lane == 2 && each->n_lane == 8);
    assert_int_equal(each->cell[0].kept_bytes, 4 * one->cell[0].kept_bytes);
    assert_int_equal(each->cell[0].full_bytes, one->cell[0].full_bytes);
    kvt_results_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_lane_is_emptied_by_another),
        cmocka_unit_test(one_token_is_a_prompt),
        cmocka_unit_test(a_prompt_leaves_nothing_behind),
        cmocka_unit_test(windows_are_of_positions),
        cmocka_unit_test(eviction_has_two_grains),
        cmocka_unit_test(repeated_heads_cost_bytes),
    };
    return cmocka_run_group_tests_name("known failures", tests, runs_open, runs_close);
}
