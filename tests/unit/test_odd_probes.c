/* test_odd_probes.c - probes that a trace may hold and a policy cannot read, and numbers of
 * scorers that make no rule: each is told in one line, none is computed with. */
#include "tests/check.h"
#include "tests/runs.h"
#include "tests/synth_more.h"

#include <math.h>
#include <stdio.h>

#include "base/half.h"
#include "kvt/arena.h"

enum { ROWS = 5, ROOM = 4096 };

static synth *made;

static synth_spec spec_of(void)
{
    synth_spec s = synth_default();
    s.draft_budget[0] = 12;
    s.probe_rows = ROWS;
    s.force = true;
    return s;
}

/* ---- runs ----------------------------------------------------------------------------------
 */

typedef struct told {
    kvt_code code;
    char status[16], reason[600];
    double lost; /* mean lost mass */
} told;

/* Warnings of the last run. */
static char warned[2048];

static void listen(void *user, kvt_log_level level, const char *area, const char *text)
{
    size_t n = strlen(warned);
    (void)user, (void)area;
    if (level == KVT_LOG_WARN)
        snprintf(warned + n, sizeof warned - n, "%s\n", text);
}

static const char *budgets = "12";

/* What the one cell of a policy says. */
static told run(const char *policy, const char *weights)
{
    const char *trace[] = {NULL}, *file[] = {weights};
    char path[400];
    kvt_err err;
    kvt_ctx ctx = {.log = listen, .n_thread = 1};
    kvt_results *found = NULL;
    kvt_replay_counts counts;
    told out = {.code = KVT_OK};
    warned[0] = 0;
    snprintf(path, sizeof path, "%s/odd.h5", runs_dir);
    out.code = synth_write(made, path, &err);
    if (out.code) {
        snprintf(out.reason, sizeof out.reason, "%s", err.text);
        return out;
    }
    trace[0] = path;
    kvt_replay_spec spec = {.trace = trace,
                            .n_trace = 1,
                            .policies = policy,
                            .budgets = budgets,
                            .weights = file,
                            .n_weights = weights != NULL,
                            .no_controls = true,
                            .out_dir = ""};
    out.code = kvt_replay(&found, &counts, &spec, &ctx, &err);
    if (out.code)
        snprintf(out.reason, sizeof out.reason, "%s", err.text);
    if (found && found->n > 0 && found->result[0]->n_cell > 0) {
        const kvt_cell *c = &found->result[0]->cell[0];
        snprintf(out.status, sizeof out.status, "%s", c->status);
        out.lost = runs_value(c, "lost_mass_mean_frac");
        snprintf(out.reason, sizeof out.reason, "%s", c->error);
    }
    kvt_results_free(found);
    return out;
}

/* ---- probes --------------------------------------------------------------------------------
 */

static int32_t list[ROOM];

static kvt_probe_data *probe(kvt_probe_kind kind)
{
    int i = 0;
    while (i < made->n_probe && made->probe[i].info.kind != kind)
        i++;
    assert_true(i < made->n_probe);
    return &made->probe[i];
}

static void in_segments(kvt_probe_data *p)
{
    for (int i = 0; i < ROWS; i++)
        list[i] = i > 0;
    p->info.n_segment = 2;
    p->data[KVT_PROBE_SET_SEGMENT] = memcpy(kvt_alloc(ROOM, sizeof *list), list, sizeof list);
}

static void on_an_evicted_cache(kvt_probe_data *p)
{
    uint8_t *keep = kvt_alloc(ROOM, 1);
    memset(keep, 1, ROOM);
    p->info.budget = 12;
    p->info.n_keep = made->spec.n_head;
    p->data[KVT_PROBE_SET_KEEP] = keep;
}

static void without_chunks(kvt_probe_data *p)
{
    kvt_free((void *)(uintptr_t)p->data[KVT_PROBE_SET_BEGIN]);
    kvt_free((void *)(uintptr_t)p->data[KVT_PROBE_SET_END]);
    p->data[KVT_PROBE_SET_BEGIN] = p->data[KVT_PROBE_SET_END] = NULL;
}

static void with_a_nan(kvt_probe_data *p)
{
    ((uint16_t *)(uintptr_t)p->data[KVT_PROBE_SET_Q])[3] = 0x7e00;
}

static void with_an_endless_lse(kvt_probe_data *p)
{
    ((float *)(uintptr_t)p->data[KVT_PROBE_SET_LSE])[3] = INFINITY;
}

/* Beside the one of Judge Q, which becomes LookaheadKV's: neither has the policy's name. */
static void one_of_two(kvt_probe_data *p)
{
    kvt_probe_data *other = probe(KVT_PROBE_JUDGEQ);
    if (!other)
        return;
    snprintf(p->info.name, sizeof p->info.name, "a");
    snprintf(other->info.name, sizeof other->info.name, "b");
    other->info.kind = KVT_PROBE_LOOKAHEADKV;
}

static void whole(kvt_probe_data *p)
{
    (void)p;
}

static const struct odd {
    const char *policy;
    kvt_probe_kind kind;
    void (*edit)(kvt_probe_data *p);
    const char *part; /* of the line; "": computed */
} odds[] = {
    {"lookaheadkv", KVT_PROBE_LOOKAHEADKV, whole, ""},
    {"lookaheadkv", KVT_PROBE_LOOKAHEADKV, in_segments, "segments"},
    {"lookaheadkv", KVT_PROBE_LOOKAHEADKV, one_of_two, "several probes of kind lookaheadkv"},
    {"lookaheadkv:probe=b", KVT_PROBE_LOOKAHEADKV, one_of_two, ""},
    {"judgeq", KVT_PROBE_JUDGEQ, on_an_evicted_cache, "evicted"},
    {"lookaheadkv:probe=lookaheadkv", KVT_PROBE_LOOKAHEADKV, in_segments, "segments"},
    {"suffix", KVT_PROBE_SUFFIX, in_segments, "segments"},
    {"laq", KVT_PROBE_DRAFT, in_segments, "segments"},
    {"kvzip", KVT_PROBE_REPEAT, on_an_evicted_cache, "evicted"},
    {"laq", KVT_PROBE_DRAFT, whole, ""},
    {"kvzip", KVT_PROBE_REPEAT, whole, ""},
    {"kvzip", KVT_PROBE_REPEAT, without_chunks, "chunk"},
    {"lookaheadkv", KVT_PROBE_LOOKAHEADKV, with_a_nan, "score of token 0 is nan"},
    {"lookaheadkv", KVT_PROBE_LOOKAHEADKV, with_an_endless_lse, ""}, /* rows are made anew */
};

static void is_told(void **state)
{
    const struct odd *o = *state;
    synth_spec spec = spec_of();
    made = synth_new(&spec);
    synth_probes(made);
    o->edit(probe(o->kind));
    told t = run(o->policy, NULL);
    if (*o->part ? !strstr(t.reason, o->part) : strcmp(t.status, "ok") != 0)
        fail_msg("%s: %s: %s", o->policy, t.status, t.reason);
    assert_null(strchr(t.reason, '\n'));
    synth_free(made);
}

/* ---- scorers -------------------------------------------------------------------------------
 */

static const struct number {
    const char *policy, *name;
    float value;
    const char *part; /* of the line; "": computed */
} numbers[] = {
    {"kvpop", "window", 3, ""},
    {"kvpop", "read_delay", 0, ""},
    {"kvpop", "read_delay", 4, "read_delay: expected at most the window of 3 tokens, got 4"},
    {"kvpop", "window", 0, "window: expected a whole number from 1"},
    {"kvpop-mlp", "window", 1e30f, "window: expected a whole number from 1"},
    {"kvpop-mlp", "window", 2.5f, "got 2.5"},
    {"kvpop-mlp", "sinks", -1, "sinks: expected a whole number from 0"},
    {"kvpop-mlp", "sinks", 3e38f, "sinks: expected a whole number from 0"},
    {"kvpop-mlp", "sinks", 9, "budget of 13 or more, got 12"}, /* S + w + 1 > B */
    {"kvpop-mlp", "decay_step", 0, "decay_step: expected a whole number from 1"},
    {"kvpop-mlp", "decay/log_gamma", .5f, "decay/log_gamma, element 0: expected at most 0"},
    {"dms:threshold=0", "sinks", -1, "sinks: expected a whole number from 0"},
    {"dms:threshold=0", "decay/log_gamma", .5f, ""}, /* which it does not read */
};

/* The file again, with another number in front of one of its tensors. */
static void edit_scorer(char path[400], const char *kind, const char *name, float value)
{
    enum { MOST = 32 };
    static float data[ROOM];
    kvt_scorer_tensor copy[MOST];
    kvt_scorer *s;
    kvt_err err;
    synth_spec spec = spec_of();
    snprintf(path, 400, "%s/odd-%s.h5", runs_dir, kind);
    remove(path);
    CHECK_OK(synth_scorer(kind, &spec, path, &err), &err);
    CHECK_OK(kvt_scorer_open(&s, path, &err), &err);
    int n = kvt_scorer_count(s);
    assert_in_range(n, 1, MOST);
    for (int i = 0; i < n; i++) {
        copy[i] = *kvt_scorer_at(s, i);
        if (strcmp(copy[i].name, name) != 0)
            continue;
        int64_t m = 1;
        for (int k = 0; k < copy[i].view.rank; k++)
            m *= copy[i].view.dim[k];
        assert_in_range(m, 1, ROOM);
        memcpy(data, copy[i].view.data, (size_t)m * sizeof *data);
        data[0] = value;
        copy[i].view.data = data;
    }
    kvt_scorer_info info = *kvt_scorer_info_of(s);
    CHECK_OK(kvt_scorer_write(path, &info, copy, n, true, &err), &err);
    kvt_scorer_close(s);
}

static void number_is_told(void **state)
{
    const struct number *x = *state;
    char path[400], kind[32];
    synth_spec spec = spec_of();
    made = synth_new(&spec);
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(x->policy, ":"), x->policy);
    edit_scorer(path, strcmp(kind, "dms") == 0 ? "kvpop-mlp" : kind, x->name, x->value);
    told t = run(x->policy, path);
    if (*x->part ? !strstr(t.reason, x->part) : strcmp(t.status, "ok") != 0)
        fail_msg("%s = %g: %s: %s", x->name, (double)x->value, t.status, t.reason);
    synth_free(made);
}

/* The file was made for k = 4 beside 2 sinks and a window of 3. */
static void another_k_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *budgets;
        bool said;
    } runs[] = {{"kvpop-mlp", "9", false},
                {"kvpop-mlp", "12", true},
                {"kvpop-mlp", "50%", true},
                {"dms:threshold=0", "12", false}};
    char path[400];
    synth_spec spec = spec_of();
    made = synth_new(&spec);
    edit_scorer(path, "kvpop-mlp", "sinks", 2);
    for (int i = 0; i < 4; i++) {
        budgets = runs[i].budgets;
        assert_string_equal(run(runs[i].policy, path).status, "ok");
        const char *said =
            strstr(warned, "trained for k = 4 beside sinks and window, a budget");
        if ((said != NULL) != runs[i].said)
            fail_msg("%s at %s: %s", runs[i].policy, runs[i].budgets, warned);
    }
    budgets = "12";
    synth_free(made);
}

/* A budget of the whole prompt needs no draft: nothing goes. */
static void a_prompt_that_fits_needs_no_draft(void **state)
{
    (void)state;
    static const char *const policies[] = {"laq", "laq-plus"}, *const all[] = {"24", "100%",
                                                                               "99"};
    synth_spec spec = spec_of();
    made = synth_new(&spec);
    synth_probes(made);
    for (int i = 0; i < 6; i++) {
        budgets = all[i / 2];
        told t = run(policies[i % 2], NULL);
        if (strcmp(t.status, "ok") != 0)
            fail_msg("%s at %s: %s: %s", policies[i % 2], budgets, t.status, t.reason);
        assert_float_equal(t.lost, 0, 0);
    }
    budgets = "11";
    assert_string_equal(run("laq", NULL).status, "skipped");
    budgets = "12";
    synth_free(made);
}

/* ---- decisions -----------------------------------------------------------------------------
 */

static void a_decay_above_one_is_told(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    spec.decision_policy = "kvpop";
    made = synth_new(&spec);
    float *gamma = made->data[KVT_DS_DECISION_G];
    const char *policy = "kvpop:from=decisions,sinks=1,window=3";
    assert_string_equal(run(policy, NULL).status, "ok");
    static const float odd[] = {2, 0, -1};
    for (int i = 0; i < 3; i++) {
        gamma[3] = odd[i];
        told t = run(policy, NULL);
        if (!strstr(t.reason, "decision/gamma of layer 1, kv head 1: expected above 0"))
            fail_msg("%g: %s: %s", (double)odd[i], t.status, t.reason);
    }
    synth_free(made);
}

int main(void)
{
    enum { N = sizeof odds / sizeof odds[0], S = sizeof numbers / sizeof numbers[0] };
    struct CMUnitTest tests[N + S + 3];
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){.name = odds[i].policy,
                                       .test_func = is_told,
                                       .initial_state = (void *)(uintptr_t)&odds[i]};
    for (int i = 0; i < S; i++)
        tests[N + i] = (struct CMUnitTest){.name = numbers[i].name,
                                           .test_func = number_is_told,
                                           .initial_state = (void *)(uintptr_t)&numbers[i]};
    tests[N + S] = (struct CMUnitTest)cmocka_unit_test(a_decay_above_one_is_told);
    tests[N + S + 1] = (struct CMUnitTest)cmocka_unit_test(another_k_is_said);
    tests[N + S + 2] = (struct CMUnitTest)cmocka_unit_test(a_prompt_that_fits_needs_no_draft);
    return _cmocka_run_group_tests("odd probes", tests, N + S + 3, runs_open, runs_close);
}
