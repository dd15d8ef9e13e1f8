/* test_replay_probe - what a replay reads of probes, weights, decisions and whole layers: rows
 * against plain sums, which probe a budget takes, what is said where there is none. */
#include "tests/check.h"
#include "tests/runs.h"
#include "tests/synth_more.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "kvt/arena.h"
#include "replay/feed_priv.h"

static const char *const plugin[] = {LOOK_PLUGIN};

static synth_spec spec_of(void)
{
    synth_spec s = synth_default();
    s.draft_budget[0] = 6;
    s.draft_budget[1] = 12;
    s.probe_rows = 5;
    s.decision_policy = "dms";
    s.decision_shift = 3;
    s.window = 7;
    s.force = true;
    return s;
}

static const char *trace_of(synth **s, const char *name, const synth_spec *spec)
{
    static char path[400];
    kvt_err err;
    *s = synth_new(spec);
    synth_probes(*s);
    snprintf(path, sizeof path, "%s/%s.h5", runs_dir, name);
    CHECK_OK(synth_write(*s, path, &err), &err);
    return path;
}

static kvt_replay_spec run_of(const char *const *trace, const char *policies,
                              const char *budgets)
{
    return (kvt_replay_spec){.trace = trace,
                             .n_trace = 1,
                             .policies = policies,
                             .budgets = budgets,
                             .plugin = plugin,
                             .n_plugin = 1,
                             .no_controls = true,
                             .out_dir = "",
                             .keep_arrays = true};
}

/* ---- rows ----------------------------------------------------------------------------------
 */

/* Share of a prompt token in a row of the probe. */
static double plain_row(const synth *s, const kvt_probe_data *p, int l, int h, int64_t i,
                        int64_t j)
{
    double sum = 0;
    int layer = (int)s->out.layer_id[l];
    for (int64_t k = 0; k < s->spec.n_prompt; k++)
        if (synth_probe_sees(s, p, layer, h, i, k))
            sum += exp(synth_probe_logit(s, p, l, h, i, k));
    for (int64_t k = 0; k < p->info.n_row; k++)
        if (synth_probe_sees_own(s, p, layer, i, k))
            sum += exp(synth_probe_own(s, p, l, h, i, k));
    return synth_probe_sees(s, p, layer, h, i, j)
               ? exp(synth_probe_logit(s, p, l, h, i, j)) / sum
               : 0;
}

static void rows_are_softmax_over_prompt_and_probe(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    synth *s;
    kvt_trace *t;
    kvt_err err;
    CHECK_OK(kvt_trace_open(&t, trace_of(&s, "rows", &spec), 0, &err), &err);
    int n = kvt_trace_probe_count(t), whole = 0;
    bool all[SYNTH_PROBES_MAX];
    memset(all, 1, sizeof all);
    assert_true(n > 0);
    feed_wants want = {.probe = all};
    for (int l = 0; l < spec.n_layer; l++) {
        layer_feed f;
        CHECK_OK(feed_open(&f, t, l, &want, &err), &err);
        for (int i = 0; i < n; i++) {
            const kvt_probe_info *info = kvt_trace_probe_info(t, i);
            const kvt_probe_data *p = NULL;
            for (int k = 0; k < s->n_probe; k++)
                if (strcmp(s->probe[k].info.name, info->name) == 0)
                    p = &s->probe[k];
            bool rows = !p->data[KVT_PROBE_SET_KEEP] && !p->data[KVT_PROBE_SET_SEGMENT];
            kvt_view v = f.probe[i].attn;
            assert_int_equal(v.data != NULL, rows);
            for (int h = 0; rows && h < spec.n_head; h++)
                for (int64_t q = 0; q < info->n_row; q++)
                    for (int64_t j = 0; j < spec.n_prompt; j++)
                        CHECK_NEAR((double)((const float *)
                                                v.data)[h * v.stride[0] + q * v.stride[1] + j],
                                   plain_row(s, p, l, h, q, j), 5e-4);
            whole += rows;
        }
        feed_close(&f);
    }
    assert_true(whole > 0);
    kvt_trace_close(t);
    synth_free(s);
}

/* Scores of a policy that sums rows: of a kv head, the sum of those of its query heads. */
static void heads_see_their_rows(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "heads", &spec)};
    kvt_replay_spec run = run_of(trace, "test-rows,test-heads", "8");
    kvt_results *found = runs_replay(&run, NULL);
    const kvt_result *by_group = runs_result(found, "test-rows");
    const kvt_result *by_head = runs_result(found, "test-heads");
    int64_t N = spec.n_prompt, per = spec.n_head / spec.n_kv_head;
    assert_string_equal(by_group->cell[0].exactness, "exact");
    for (int64_t lane = 0; lane < spec.n_layer * spec.n_kv_head; lane++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0;
            for (int64_t h = lane * per; h < (lane + 1) * per; h++)
                sum += (double)by_head->score[h * N + j];
            CHECK_NEAR((double)by_group->score[lane * N + j], sum, 1e-5);
        }
    kvt_results_free(found);
    synth_free(s);
}

/* At the prompt's end and after every row and eviction a row is the softmax of its logits; of
 * twice the logits it is not. */
static void rows_are_softmax_of_logits(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *found;
    kvt_replay_counts counts;
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "logits", &spec)};
    for (int act = 0; act < 2; act++) {
        kvt_replay_spec run = run_of(trace, "test-logits", "5,12");
        run.act = act ? KVT_ACT_PREFILL : KVT_ACT_OWN;
        found = runs_replay(&run, &counts);
        assert_int_equal(counts.computed, 2);
        assert_string_equal(runs_cell(found, "test-logits", "5")->status, "ok");
        kvt_results_free(found);
        run.policies = "test-logits-wrong";
        CHECK_FAILS(kvt_replay(&found, &counts, &run, NULL, &err), KVT_NO, "score of token",
                    &err);
        kvt_results_free(found);
    }
    synth_free(s);
}

/* An allocator over the model sees the scores of every layer, made from its rows, though layers
 * are read one at a time: the same scores as lane by lane, other shares, the same total. */
static void lanes_of_the_model_are_scored_from_rows(void **state)
{
    (void)state;
    static const char *const names[] = {"test-seen-model", "test-seen-budget"};
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "model", &spec)};
    kvt_replay_spec run = run_of(trace, "test-seen,test-seen-model,test-seen-budget", "6,10");
    kvt_results *found = runs_replay(&run, NULL);
    const kvt_result *alone = runs_result(found, "test-seen");
    int64_t N = spec.n_prompt, lanes = alone->n_layer * alone->n_lane;
    int64_t most = 0, least = 0;
    for (int64_t i = 0; i < lanes; i++) {
        most = alone->score[i * N] > alone->score[most * N] ? i : most;
        least = alone->score[i * N] < alone->score[least * N] ? i : least;
    }
    assert_true(most / alone->n_lane != least / alone->n_lane); /* of two layers */
    for (int p = 0; p < 2; p++) {
        const kvt_result *r = runs_result(found, names[p]);
        assert_int_equal(r->n_cell, 2);
        assert_memory_equal(r->score, alone->score, (size_t)(lanes * N) * sizeof *r->score);
        for (int c = 0; c < 2; c++)
            for (int64_t i = 0; i < lanes; i++) {
                int64_t gets = c == 0 ? 6 : 10, kept = 0;
                gets += i == least ? 4 : i == most ? -4 : 0;
                const kvt_lane_row *lane = &r->lane[c * lanes + i];
                assert_int_equal(lane->asked_tokens, gets);
                assert_int_equal(lane->kept_prefill_tokens, gets);
                for (int64_t j = 0; j < N; j++) {
                    int64_t above = 0;
                    for (int64_t k = 0; k < N; k++)
                        above += alone->score[i * N + k] > alone->score[i * N + j] ||
                                 (alone->score[i * N + k] == alone->score[i * N + j] && k < j);
                    kept += above < gets;
                    if (r->rank)
                        assert_int_equal(r->rank[i * N + j], above);
                }
                assert_int_equal(kept, gets);
            }
    }
    kvt_results_free(found);
    synth_free(s);
}

/* ---- which probe ---------------------------------------------------------------------------
 */

static void a_draft_is_of_its_budget(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "drafts", &spec)};
    kvt_replay_spec run = run_of(trace, "test-draft,test-chunks", "6,9,12");
    kvt_results *found = runs_replay(&run, NULL);
    const kvt_cell *there = runs_cell(found, "test-draft", "6");
    const kvt_cell *absent = runs_cell(found, "test-draft", "9");
    assert_string_equal(there->status, "ok");
    assert_string_equal(there->exactness, "budget-exact");
    assert_string_equal(runs_cell(found, "test-draft", "12")->status, "ok");
    assert_string_equal(absent->status, "skipped");
    assert_non_null(strstr(absent->error,
                           "no draft was run at a budget of 9 (there are 6 and 12; kvt "
                           "capture --trace FILE --probe test-draft-9=draft:tokens=8@9 "
                           "--model MODEL)"));
    assert_string_equal(runs_cell(found, "test-chunks", "9")->status, "ok");
    assert_string_equal(runs_cell(found, "test-chunks", "9")->exactness, "exact");
    kvt_results_free(found);
    synth_free(s);
}

/* With budgets in bytes two query heads share what 12 slots of a kv head take: LAQ gets 6, and
 * reads the draft that was written on 6. All that is missing is named by one command. */
static void a_draft_is_of_the_slots_that_it_gets(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "bytes", &spec)};
    assert_int_equal(spec.n_head / spec.n_kv_head, 2);
    kvt_replay_spec run = run_of(trace, "laq:pool=0", "12,18,20");
    run.fair = KVT_FAIR_BYTES;
    kvt_results *bytes = runs_replay(&run, NULL);
    run = run_of(trace, "laq:pool=0", "6");
    kvt_results *slots = runs_replay(&run, NULL);
    const kvt_cell *a = runs_cell(bytes, "laq", "12"), *b = runs_cell(slots, "laq", "6");
    assert_string_equal(a->status, "ok");
    assert_string_equal(a->exactness, "budget-exact");
    CHECK_NEAR(a->budget_tokens, 6, 0);
    CHECK_NEAR(runs_value(a, "lost_mass_mean_frac"), runs_value(b, "lost_mass_mean_frac"), 0);
    const kvt_cell *absent = runs_cell(bytes, "laq", "18");
    assert_string_equal(absent->status, "skipped");
    assert_non_null(strstr(absent->error, "no draft was run at a budget of 9 ("));
    assert_non_null(strstr(absent->error, "--probe laq=draft:tokens=8@9,10 --model"));
    kvt_results_free(bytes);
    kvt_results_free(slots);
    synth_free(s);
}

static void another_draft_is_a_surrogate(void **state)
{
    (void)state;
    char policy[128];
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "named", &spec)};
    snprintf(policy, sizeof policy, "test-draft:probe=%s",
             synth_probe_of(s, KVT_PROBE_DRAFT, 6)->info.name);
    kvt_replay_spec run = run_of(trace, policy, "6,9");
    kvt_results *found = runs_replay(&run, NULL);
    assert_string_equal(runs_cell(found, "test-draft", "6")->exactness, "budget-exact");
    assert_string_equal(runs_cell(found, "test-draft", "9")->exactness, "surrogate");
    assert_string_equal(runs_cell(found, "test-draft", "9")->status, "ok");
    assert_string_not_equal(runs_cell(found, "test-draft", "6")->run_id,
                            runs_cell(found, "test-draft", "9")->run_id);
    kvt_results_free(found);
    synth_free(s);
}

/* The response as suffix is a bound: marked as the oracles are, and said. */
static void the_response_is_no_policy(void **state)
{
    (void)state;
    static const char *const args[] = {"response,tokens=5", "response", "response.txt,tokens=5",
                                       "some.txt"};
    for (int i = 0; i < 4; i++) {
        synth_spec spec = spec_of();
        synth *s = synth_new(&spec);
        synth_probes(s);
        for (int k = 0; k < s->n_probe; k++)
            if (s->probe[k].info.kind == KVT_PROBE_SUFFIX)
                snprintf(s->probe[k].info.args, sizeof s->probe[k].info.args, "%s", args[i]);
        char path[400];
        const char *trace[] = {path};
        kvt_err err;
        snprintf(path, sizeof path, "%s/knows.h5", runs_dir);
        CHECK_OK(synth_write(s, path, &err), &err);
        kvt_replay_spec run = run_of(trace, "suffix", "8");
        kvt_results *found = runs_replay(&run, NULL);
        const kvt_result *r = runs_result(found, "suffix");
        const char *note = r->plan_note ? r->plan_note : "";
        assert_string_equal(r->cell[0].status, "ok");
        assert_true(r->is_control == (i < 2));
        assert_true((strcmp(note, "knows the response: a bound, no policy") == 0) == (i < 2));
        kvt_results_free(found);
        synth_free(s);
    }
}

static void no_probe_is_a_reason(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *found;
    kvt_replay_counts counts;
    synth_spec spec = synth_default();
    const char *trace[] = {runs_trace("bare", &spec)};
    kvt_replay_spec run = run_of(trace, "test-rows", "8");
    CHECK_FAILS(kvt_replay(&found, &counts, &run, NULL, &err), KVT_NO,
                "policy test-rows needs a probe of kind lookaheadkv (kvt capture --trace FILE "
                "--probe NAME=lookaheadkv:",
                &err);
    kvt_results_free(found);
    run.policies = "all";
    found = runs_replay(&run, &counts);
    assert_non_null(strstr(counts.left_out, "test-rows"));
    for (int64_t i = 0; i < found->n; i++)
        assert_string_not_equal(found->result[i]->cell[0].policy, "test-rows");
    kvt_results_free(found);
}

/* ---- weights, layers, decisions ------------------------------------------------------------
 */

static void weights_are_cut_for_lanes(void **state)
{
    (void)state;
    char path[400], policy[500];
    kvt_err err;
    kvt_scorer *w;
    kvt_view in, bias, last;
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "weights", &spec)};
    snprintf(path, sizeof path, "%s/pop.h5", runs_dir);
    CHECK_OK(synth_scorer("kvpop-mlp", &spec, path, &err), &err);
    CHECK_OK(kvt_scorer_open(&w, path, &err), &err);
    CHECK_OK(kvt_scorer_find(w, "in/weight", &in, &err), &err);
    CHECK_OK(kvt_scorer_find(w, "in/bias", &bias, &err), &err);
    CHECK_OK(kvt_scorer_find(w, "out/bias", &last, &err), &err);
    snprintf(policy, sizeof policy, "test-weights:weights=%s", path);
    kvt_replay_spec run = run_of(trace, policy, "8");
    kvt_results *found = runs_replay(&run, NULL);
    const kvt_result *r = runs_result(found, "test-weights");
    int64_t G = spec.n_kv_head, N = spec.n_prompt, K = in.dim[2], W = in.dim[3];
    for (int64_t i = 0; i < spec.n_layer * G; i++)
        for (int64_t j = 0; j < N; j++) {
            const float *x = in.data, *b = bias.data, *c = last.data;
            CHECK_NEAR((double)r->score[i * N + j],
                       (double)(x[(i * K + j % K) * W + j % W] + b[i * K + j % K] + c[i]),
                       1e-5);
        }
    /* Offered to all of its kind, it is the same number under another name of the run. */
    const char *files[] = {path};
    kvt_replay_spec all = run_of(trace, "all", "8");
    all.weights = files, all.n_weights = 1;
    kvt_results *offered = runs_replay(&all, NULL);
    const kvt_result *same = runs_result(offered, "test-weights");
    assert_memory_equal(same->rank, r->rank, (size_t)(spec.n_layer * G * N) * sizeof *r->rank);
    kvt_results_free(offered);
    kvt_results_free(found);
    kvt_scorer_close(w);
    synth_free(s);
}

static void weights_of_another_model_are_refused(void **state)
{
    (void)state;
    char path[400], policy[500];
    kvt_err err;
    kvt_results *found;
    synth_spec spec = spec_of(), wide = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "other", &spec)};
    kvt_replay_spec run = run_of(trace, "test-weights", "8");
    CHECK_FAILS(kvt_replay(&found, NULL, &run, NULL, &err), KVT_NO,
                "policy test-weights needs weights=FILE (kvt train kvpop)", &err);
    kvt_results_free(found);
    wide.head_dim = 16;
    snprintf(path, sizeof path, "%s/wide.h5", runs_dir);
    snprintf(policy, sizeof policy, "test-weights:weights=%s", path);
    CHECK_OK(synth_scorer("kvpop-mlp", &wide, path, &err), &err);
    run.policies = policy;
    CHECK_FAILS(kvt_replay(&found, NULL, &run, NULL, &err), KVT_NO,
                "channels of a head: expected 8, got 16", &err);
    kvt_results_free(found);
    CHECK_OK(synth_scorer("kvzap", &spec, path, &err), &err);
    CHECK_FAILS(kvt_replay(&found, NULL, &run, NULL, &err), KVT_NO,
                "expected a file of kind kvpop-mlp, got kvzap", &err);
    kvt_results_free(found);
    synth_free(s);
}

/* One clear line: the file, its kind and the tensor, each once. */
static void a_tensor_that_is_missing_is_named(void **state)
{
    (void)state;
    enum { MOST = 16 };
    char path[400], policy[500];
    kvt_err err;
    kvt_results *found;
    kvt_scorer *s;
    kvt_scorer_tensor part[MOST];
    int n = 0;
    synth_spec spec = spec_of();
    synth *made;
    const char *trace[] = {trace_of(&made, "lacks", &spec)};
    snprintf(path, sizeof path, "%s/lacks.scorer.h5", runs_dir);
    CHECK_OK(synth_scorer("kvpop-mlp", &spec, path, &err), &err);
    CHECK_OK(kvt_scorer_open(&s, path, &err), &err);
    for (int i = 0; i < kvt_scorer_count(s) && n < MOST; i++)
        if (strcmp(kvt_scorer_at(s, i)->name, "out/bias") != 0)
            part[n++] = *kvt_scorer_at(s, i);
    assert_int_equal(n, kvt_scorer_count(s) - 1);
    CHECK_OK(kvt_scorer_write(path, kvt_scorer_info_of(s), part, n, true, &err), &err);
    kvt_scorer_close(s);
    snprintf(policy, sizeof policy, "kvpop-mlp:weights=%s", path);
    kvt_replay_spec run = run_of(trace, policy, "8");
    CHECK_FAILS(kvt_replay(&found, NULL, &run, NULL, &err), KVT_NO,
                "this scorer of kind kvpop-mlp has no tensor 'out/bias'", &err);
    const char *first = strstr(err.text, path);
    assert_non_null(first);
    assert_null(strstr(first + 1, path));
    kvt_results_free(found);
    synth_free(made);
}

static void a_layer_shows_all_heads(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "layer", &spec)};
    kvt_replay_spec run = run_of(trace, "test-layer", "8");
    kvt_results *found = runs_replay(&run, NULL);
    const kvt_result *r = runs_result(found, "test-layer");
    int64_t G = spec.n_kv_head, N = spec.n_prompt, T = N + spec.n_response;
    const uint16_t *key = s->data[KVT_DS_KEYS];
    for (int64_t l = 0; l < spec.n_layer; l++)
        for (int64_t g = 0; g < G; g++)
            for (int64_t j = 0; j < N; j++)
                assert_float_equal(
                    r->score[(l * G + g) * N + j],
                    half_to_float(key[((l * G + (g + 1) % G) * T + j) * spec.head_dim]), 0);
    kvt_results_free(found);
    synth_free(s);
}

/* The logit of token t + shift decides on t; what has not arrived is kept. */
static void decisions_lie_where_they_decide(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    synth *s;
    const char *trace[] = {trace_of(&s, "decide", &spec)};
    kvt_replay_spec run = run_of(trace, "test-decision", "8");
    kvt_results *found = runs_replay(&run, NULL);
    const kvt_result *r = runs_result(found, "test-decision");
    int64_t N = spec.n_prompt, T = N + spec.n_response, shift = spec.decision_shift;
    const float *logit = s->data[KVT_DS_DECISION];
    assert_string_equal(r->cell[0].exactness, "open-loop");
    for (int64_t i = 0; i < spec.n_layer * spec.n_kv_head; i++)
        for (int64_t j = 0; j < N; j++) {
            assert_int_equal(r->pinned[i * N + j], j + shift >= N);
            if (j + shift < N)
                assert_float_equal(r->score[i * N + j], -logit[i * T + j + shift], 0);
        }
    kvt_results_free(found);
    synth_free(s);
}

/* Wherever memory ends, the run says so and nothing else goes wrong. */
static void memory_may_end_anywhere(void **state)
{
    (void)state;
    char path[400], policies[800];
    kvt_err err;
    synth *s[2];
    const char *trace[2];
    char name[2][400];
    synth_spec spec = spec_of();
    spec.decision_policy = "dmc", spec.decision_shift = 0;
    for (int i = 0; i < 2; i++) {
        spec.seed += 1;
        snprintf(name[i], sizeof name[i], "%s", trace_of(&s[i], i ? "end1" : "end0", &spec));
        trace[i] = name[i];
    }
    snprintf(path, sizeof path, "%s/end-pop.h5", runs_dir);
    CHECK_OK(synth_scorer("kvpop-mlp", &spec, path, &err), &err);
    snprintf(policies, sizeof policies,
             "test-rows,test-draft,test-weights:weights=%s,test-threshold,test-join,test-layer",
             path);
    kvt_replay_spec run = run_of(trace, policies, "6");
    kvt_ctx one = {.n_thread = 1};
    kvt_code code = KVT_NOMEM;
    run.n_trace = 2;
    run.fail_fast = true;
    for (int64_t n = 1; code != KVT_OK; n += 29) {
        kvt_results *found;
        kvt_alloc_fail_at(n, false);
        code = kvt_replay(&found, NULL, &run, &one, &err);
        kvt_alloc_fail_at(0, false);
        kvt_results_free(found);
        if (code != KVT_OK && code != KVT_NOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)n, kvt_code_name(code), err.text);
    }
    synth_free(s[0]);
    synth_free(s[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_softmax_over_prompt_and_probe),
        cmocka_unit_test(heads_see_their_rows),
        cmocka_unit_test(rows_are_softmax_of_logits),
        cmocka_unit_test(lanes_of_the_model_are_scored_from_rows),
        cmocka_unit_test(a_draft_is_of_its_budget),
        cmocka_unit_test(a_draft_is_of_the_slots_that_it_gets),
        cmocka_unit_test(another_draft_is_a_surrogate),
        cmocka_unit_test(the_response_is_no_policy),
        cmocka_unit_test(no_probe_is_a_reason),
        cmocka_unit_test(weights_are_cut_for_lanes),
        cmocka_unit_test(weights_of_another_model_are_refused),
        cmocka_unit_test(a_tensor_that_is_missing_is_named),
        cmocka_unit_test(a_layer_shows_all_heads),
        cmocka_unit_test(decisions_lie_where_they_decide),
        cmocka_unit_test(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests_name("replay_probe", tests, runs_open, runs_close);
}
