/* test_learned_runs.c - whole replays of policies that read probes, learned weights or
 * decisions: threads, shards and the other budgets change no byte; what a trace lacks is said
 * by name; of what a policy does not declare it may be without. */
#include "tests/check.h"
#include "tests/runs.h"
#include "tests/synth_more.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

enum { N_SCORER = 13, TEXT = 256 };
static char scorer_path[N_SCORER][400];
static const char *scorers[N_SCORER];

/* Two prompts with all that a policy may read; the decisions are those of one policy. */
static synth_spec rich_spec(const char *decisions)
{
    synth_spec s = synth_default();
    s.n_prompt = 60;
    s.n_response = 9;
    s.last_queries = -1;
    s.level = KVT_FULL;
    s.decision_policy = decisions;
    s.decision_shift = strcmp(decisions, "dms") == 0;
    s.draft_budget[2] = 40;
    s.force = true;
    return s;
}

static const char *rich_trace(const char *name, const synth_spec *spec, bool probes)
{
    static char path[8][400];
    static int at;
    char *p = path[at++ % 8];
    kvt_err err;
    snprintf(p, sizeof path[0], "%s/%s.h5", runs_dir, name);
    synth *s = synth_new(spec);
    if (probes)
        synth_probes(s);
    CHECK_OK(synth_write(s, p, &err), &err);
    synth_free(s);
    return p;
}

static int make_scorers(void **state)
{
    synth_spec s = rich_spec("dms");
    kvt_err err;
    if (runs_open(state))
        return -1;
    for (int i = 0; i < N_SCORER; i++) {
        snprintf(scorer_path[i], sizeof scorer_path[i], "%s/%s.scorer.h5", runs_dir,
                 synth_scorers[i]);
        CHECK_OK(synth_scorer(synth_scorers[i], &s, scorer_path[i], &err), &err);
        scorers[i] = scorer_path[i];
    }
    return 0;
}

static kvt_replay_spec spec_of(const char *const *trace, int n, const char *policies)
{
    return (kvt_replay_spec){.trace = trace,
                             .n_trace = n,
                             .policies = policies,
                             .budgets = "8,16,40",
                             .weights = scorers,
                             .n_weights = N_SCORER,
                             .no_controls = true,
                             .out_dir = ""};
}

static kvt_results *with(const kvt_replay_spec *spec, int n_thread)
{
    kvt_ctx ctx = {.n_thread = n_thread};
    kvt_err err;
    kvt_results *found;
    kvt_code code = kvt_replay(&found, NULL, spec, &ctx, &err);
    if (code != KVT_OK && code != KVT_NO)
        fail_msg("%s", err.text);
    return found;
}

/* ---- the same bytes ------------------------------------------------------------------------
 */

/* "all" and those that need their decisions named. */
static const char *const decided[] = {"dms", "kvpop", "trim-kv", "wg-kv"};
static const char *const named[] = {
    "all,dms:from=decisions,window=5,kvzap:window=6",
    "all,kvpop:from=decisions,sinks=2,window=4,foresightkv:block=8", "all,trim-kv:every=3",
    "all,wg-kv:window=5,threshold=0.4"};

static void threads_and_shards_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        synth_spec s = rich_spec(decided[i]), t = s;
        t.seed = 2;
        const char *path[] = {rich_trace("one", &s, true), rich_trace("two", &t, true)};
        kvt_replay_spec spec = spec_of(path, 2, named[i]);
        kvt_results *one = with(&spec, 1);
        for (int n = 2; n <= 5; n += 3) {
            kvt_results *many = with(&spec, n);
            runs_same(one, many, "threads");
            kvt_results_free(many);
        }
        spec.n_shard = 3;
        spec.shard = 1;
        kvt_results *all = with(&spec, 1);
        for (spec.shard = 2; spec.shard <= 3; spec.shard++)
            runs_join(all, with(&spec, 2));
        runs_same(one, all, "shards");
        kvt_results_free(all);
        kvt_results_free(one);
    }
}

static const kvt_cell *cell_of(const kvt_results *s, const char *policy, const char *budget)
{
    for (int64_t i = 0; i < s->n; i++)
        for (int c = 0; c < s->result[i]->n_cell; c++)
            if (strcmp(s->result[i]->cell[c].policy, policy) == 0 &&
                strcmp(s->result[i]->cell[c].budget_asked, budget) == 0)
                return &s->result[i]->cell[c];
    return NULL;
}

/* Whether one use of the policy is computed at that budget: a default window may be longer than
 * these prompts. None may fail. */
static bool is_computed(const kvt_results *s, const char *policy, const char *budget)
{
    bool any = false;
    for (int64_t i = 0; i < s->n; i++) {
        for (int j = 0; j < s->result[i]->n_cell; j++) {
            const kvt_cell *c = &s->result[i]->cell[j];
            if (strcmp(c->policy, policy) != 0 || strcmp(c->budget_asked, budget) != 0)
                continue;
            if (strcmp(c->status, "failed") == 0)
                fail_msg("%s: %s", c->policy, c->error);
            any |= strcmp(c->status, "ok") == 0;
        }
    }
    return any;
}

/* Every policy of the registry is computed in at least one of the four sets. */
static void every_policy_runs(void **state)
{
    (void)state;
    enum { MANY = 256 };
    bool ran[MANY] = {false};
    for (int i = 0; i < 4; i++) {
        synth_spec s = rich_spec(decided[i]), t = s;
        t.seed = 2;
        const char *path[] = {rich_trace("one", &s, true), rich_trace("two", &t, true)};
        kvt_replay_spec spec = spec_of(path, 2, named[i]);
        kvt_results *found = with(&spec, 2);
        for (int k = 0; kvt_policies()[k]; k++)
            ran[k] |= is_computed(found, kvt_policies()[k]->name, "40");
        kvt_results_free(found);
    }
    for (int k = 0; kvt_policies()[k]; k++) {
        const kvt_policy *p = kvt_policies()[k];
        bool other = p->traits.control || p->traits.effect == KVT_JOIN ||
                     p->traits.exactness == KVT_NOT_REPLAYABLE ||
                     p->traits.needs & KVT_NEED_SCORES;
        if (!ran[k] && !other)
            fail_msg("%s was never computed", p->name);
    }
}

/* ---- what a trace lacks --------------------------------------------------------------------
 */

/* A trace of the summary level answers none of them; the reason names policy and need. */
static void what_is_missing_is_named(void **state)
{
    (void)state;
    synth_spec s = rich_spec("dms");
    s.level = KVT_SUMMARY;
    s.decision_policy = NULL;
    s.n_response = 0;
    const char *path = rich_trace("poor", &s, false);
    for (int k = 0; kvt_policies()[k]; k++) {
        const kvt_policy *p = kvt_policies()[k];
        const unsigned plain =
            KVT_NEED_COLUMNS | KVT_NEED_TOKENS | KVT_NEED_BLOCKS | KVT_NEED_WEIGHTS;
        char text[TEXT];
        if (!(p->traits.needs & ~plain) || p->traits.control ||
            p->traits.needs & KVT_NEED_SCORES)
            continue;
        snprintf(text, sizeof text, p->traits.by_threshold ? "%s:threshold=0" : "%s", p->name);
        kvt_replay_spec spec = spec_of(&path, 1, text);
        kvt_ctx ctx = {.n_thread = 1};
        kvt_err err;
        kvt_results *found = NULL;
        kvt_code code = kvt_replay(&found, NULL, &spec, &ctx, &err);
        kvt_results_free(found);
        if (code != KVT_NO || !strstr(err.text, p->name))
            fail_msg("%s: code %d: %s", p->name, code, code ? err.text : "");
        if (!strstr(err.text, "needs") && !strstr(err.text, "not replayable"))
            fail_msg("%s: expected what it needs, got '%s'", p->name, err.text);
    }
}

/* Each probe policy without its probe, though those of other kinds are there. */
static void probes_are_missed_one_by_one(void **state)
{
    (void)state;
    synth_spec s = rich_spec("dms");
    synth *all = synth_new(&s);
    synth_probes(all);
    for (int k = 0; kvt_policies()[k]; k++) {
        const kvt_policy *p = kvt_policies()[k];
        if (!p->traits.probe)
            continue;
        char path[400];
        const char *at = path;
        kvt_err err;
        synth one = *all;
        one.n_probe = 0;
        for (int i = 0; i < all->n_probe; i++)
            if (strcmp(kvt_probe_kind_name(all->probe[i].info.kind), p->traits.probe) != 0)
                one.probe[one.n_probe++] = all->probe[i];
        snprintf(path, sizeof path, "%s/less.h5", runs_dir);
        CHECK_OK(synth_write(&one, path, &err), &err);
        kvt_replay_spec spec = spec_of(&at, 1, p->name);
        kvt_ctx ctx = {.n_thread = 1};
        kvt_results *found = NULL;
        assert_int_equal(kvt_replay(&found, NULL, &spec, &ctx, &err), KVT_NO);
        kvt_results_free(found);
        if (!strstr(err.text, "probe") || !strstr(err.text, p->traits.probe))
            fail_msg("%s: expected the kind %s, got '%s'", p->name, p->traits.probe, err.text);
    }
    synth_free(all);
}

/* A budget without a draft is skipped and said; the others are computed. */
static void drafts_are_for_their_budgets(void **state)
{
    (void)state;
    synth_spec s = rich_spec("dms");
    const char *path = rich_trace("drafts", &s, true);
    static const char *const policies[] = {"laq", "laq-plus"};
    for (int i = 0; i < 2; i++) {
        kvt_replay_spec spec = spec_of(&path, 1, policies[i]);
        spec.budgets = "9,16,40,59,60";
        kvt_results *found = with(&spec, 1);
        for (int c = 0; c < 5; c++) {
            static const char *const at[] = {"9", "16", "40", "59", "60"};
            static const bool drafted[] = {false, true, true, false, false};
            const kvt_cell *x = cell_of(found, policies[i], at[c]);
            assert_non_null(x);
            if (c == 4) /* the whole prompt: nothing is drafted for */
                continue;
            assert_string_equal(x->status, drafted[c] ? "ok" : "skipped");
            if (drafted[c])
                assert_string_equal(x->exactness, "budget-exact");
            else if (!strstr(x->error, "draft") && !strstr(x->error, "probe"))
                fail_msg("%s at %s: '%s'", policies[i], at[c], x->error);
        }
        kvt_results_free(found);
    }
}

/* ---- joins
 * -----------------------------------------------------------------------------------
 */

/* Value of channel d that is left of tokens 0..q of a lane where all are joined: the mean by
 * weight of the last `most`. */
static double pooled(const synth *s, int lane, int64_t q, int64_t most, int d)
{
    int64_t T = s->spec.n_prompt + s->spec.n_response, D = s->spec.head_dim;
    const uint16_t *v = s->data[KVT_DS_VALUES];
    const float *weight = s->data[KVT_DS_DECISION_W];
    double sum = 0, all = 0;
    for (int64_t t = q + 1 > most ? q + 1 - most : 0; t <= q; t++) {
        double w = (double)weight[lane * T + t];
        sum += w * (double)half_to_float(v[(lane * T + t) * D + d]);
        all += w;
    }
    return sum / all;
}

/* Relative error of a head's output where one pooled value is all that is left. */
static double pooled_error(const synth *s, int layer, int head, int64_t q, int64_t most)
{
    int64_t T = s->spec.n_prompt + s->spec.n_response, D = s->spec.head_dim;
    int each = s->spec.n_head / s->spec.n_kv_head;
    int lane = layer * s->spec.n_kv_head + head / each;
    const uint16_t *v = s->data[KVT_DS_VALUES];
    double far = 0, size = 0;
    for (int d = 0; d < D; d++) {
        double full = 0;
        for (int64_t t = 0; t <= q; t++)
            full += synth_attn(s, layer, head, q, t) *
                    (double)half_to_float(v[(lane * T + t) * D + d]);
        double left = pooled(s, lane, q, most, d);
        far += (left - full) * (left - full);
        size += full * full;
    }
    return sqrt(far / size);
}

/* DMC: no bit set is the full cache; with all of them a lane is one slot, whose value is a
 * weighted mean of the last 12 tokens. */
static void joins_have_two_ends(void **state)
{
    (void)state;
    for (int join = 0; join < 2; join++) {
        synth_spec spec = rich_spec("dmc");
        synth *s = synth_new(&spec);
        float *logit = s->data[KVT_DS_DECISION];
        int64_t T = spec.n_prompt + spec.n_response;
        for (int64_t i = 0; i < spec.n_layer * spec.n_kv_head * T; i++)
            logit[i] = join ? 1 : -1;
        char path[400];
        const char *at = path;
        kvt_err err;
        snprintf(path, sizeof path, "%s/joins.h5", runs_dir);
        CHECK_OK(synth_write(s, path, &err), &err);
        kvt_replay_spec one = spec_of(&at, 1, "dmc");
        kvt_results *found = with(&one, 1);
        const kvt_cell *c = cell_of(found, "dmc", "40");
        assert_non_null(c);
        if (strcmp(c->status, "ok") != 0)
            fail_msg("dmc: %s", c->error);
        assert_true(c->end_slots_mean_tokens == (join ? 1.0 : (double)T));
        double sum = 0;
        int n = 0;
        for (int l = 0; join && l < spec.n_layer; l++)
            for (int h = 0; h < spec.n_head; h++)
                for (int64_t q = spec.n_prompt; q < T; q++, n++)
                    sum += pooled_error(s, l, h, q, 12);
        double want = join ? sum / n : 0, got = runs_value(c, "out_err_mean_rel");
        if (!(fabs(got - want) <= 2e-3 * fmax(1, want)))
            fail_msg("output error with %s joined: expected %.6g, got %.6g",
                     join ? "all" : "nothing", want, got);
        kvt_results_free(found);
        synth_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_and_shards_change_nothing),
        cmocka_unit_test(every_policy_runs),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(probes_are_missed_one_by_one),
        cmocka_unit_test(drafts_are_for_their_budgets),
        cmocka_unit_test(joins_have_two_ends),
    };
    return cmocka_run_group_tests(tests, make_scorers, runs_close);
}
