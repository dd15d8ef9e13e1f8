/* test_channels - dropping channels of the keys (think): against plain loops in double, its
 * bytes, and budgets that leave none. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>

#include "base/half.h"
#include "kvt/engine.h"

enum { D = 8, N = 24, M = 6 };

static synth_spec spec_of(void)
{
    synth_spec s = synth_default(); /* 2 layers, 4 heads on 2 kv heads of 8 channels, 24 + 6 */
    s.window = 9;
    s.last_queries = -1;
    s.sharpness = 2;
    return s;
}

static kvt_results *replay(const char *path, const char *policies, const char *budgets)
{
    kvt_replay_spec run = runs_spec(&path, policies, budgets);
    return runs_replay(&run, NULL);
}

static double key_at(const synth *s, int lane, int64_t t, int64_t c)
{
    const uint16_t *k = s->data[KVT_DS_KEYS];
    return (double)half_to_float(k[(lane * (N + M) + t) * D + c]);
}

static double value_at(const synth *s, int lane, int64_t t, int64_t c)
{
    const uint16_t *v = s->data[KVT_DS_VALUES];
    return (double)half_to_float(v[(lane * (N + M) + t) * D + c]);
}

/* Query of a head (over all layers) at a position. */
static double query_at(const synth *s, int head, int64_t pos, int64_t c)
{
    int64_t Q = s->dim[KVT_DS_QUERIES][2], q = 0;
    while (((const int32_t *)s->data[KVT_DS_QUERY_POS])[q] != pos)
        q++;
    return (double)half_to_float(
        ((const uint16_t *)s->data[KVT_DS_QUERIES])[(head * Q + q) * D + c]);
}

/* The k best channels by mean k^2 x mean q^2 of the heads first..first + n - 1. */
static void best_channels(bool *keep, const synth *s, int lane, int first, int n, int window,
                          int k)
{
    double score[D];
    for (int c = 0; c < D; c++) {
        double keys = 0, queries = 0;
        for (int64_t t = 0; t < N; t++)
            keys += key_at(s, lane, t, c) * key_at(s, lane, t, c) / N;
        for (int h = first; h < first + n; h++)
            for (int64_t t = N - window; t < N; t++)
                queries += query_at(s, h, t, c) * query_at(s, h, t, c) / (n * window);
        score[c] = keys * queries;
        keep[c] = false;
    }
    for (; k > 0; k--) {
        int at = -1;
        for (int c = 0; c < D; c++)
            if (!keep[c] && (at < 0 || score[c] > score[at]))
                at = c;
        keep[at] = true;
    }
}

/* Output of a head's query over its keys, of which the prompt's before `whole` hold what is
 * kept. */
static void output(double *out, const synth *s, int head, int lane, int64_t pos,
                   const bool *keep, int64_t whole)
{
    const kvt_geometry *g = &s->out.facts.model;
    int layer = head / s->spec.n_head;
    double sum = 0;
    memset(out, 0, D * sizeof *out);
    for (int64_t t = 0; t <= pos; t++) {
        double z = 0;
        if (!kvt_geometry_sees(g, s->out.layer_id[layer], pos, t))
            continue;
        for (int c = 0; c < D; c++)
            if (t >= whole || keep[c])
                z += g->attn_scale * query_at(s, head, pos, c) * key_at(s, lane, t, c);
        sum += exp(z);
        for (int c = 0; c < D; c++)
            out[c] += exp(z) * value_at(s, lane, t, c);
    }
    for (int c = 0; c < D; c++)
        out[c] /= sum;
}

/* Mean relative error over rows and heads. */
static double error_of(const synth *s, bool by_head, int k, int64_t recent, int window)
{
    int heads = s->spec.n_layer * s->spec.n_head, per = s->spec.n_head / s->spec.n_kv_head;
    double mean = 0;
    for (int h = 0; h < heads; h++) {
        int lane = h / per; /* of the kv head, over all layers */
        bool keep[D];
        best_channels(keep, s, lane, by_head ? h : lane * per, by_head ? 1 : per, window, k);
        for (int64_t m = 0; m < M; m++) {
            double thin[D], full[D], x = 0, y = 0;
            output(thin, s, h, lane, N + m, keep, N - recent);
            output(full, s, h, lane, N + m, keep, 0);
            for (int c = 0; c < D; c++) {
                x += (thin[c] - full[c]) * (thin[c] - full[c]);
                y += full[c] * full[c];
            }
            mean += sqrt(x / y) / (heads * M);
        }
    }
    return mean;
}

static void rows_are_made_again(void **state)
{
    (void)state;
    kvt_err err;
    char path[400];
    synth_spec spec = spec_of();
    snprintf(path, sizeof path, "%s/thin.h5", runs_dir);
    synth *s = synth_new(&spec);
    CHECK_OK(synth_write(s, path, &err), &err);
    static const struct {
        const char *text;
        bool by_head;
        int64_t recent;
        int window;
    } cases[] = {{"think:window=16", true, 0, 16},
                 {"think:compat=official,recent=5,window=7", true, 5, 7},
                 {"think:compat=kvpress,window=24", false, 0, 24}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvt_results *found = replay(path, cases[i].text, "14,18,24");
        for (int b = 0; b < 3; b++) {
            const int left[] = {1, 4, 8}; /* floor(8 (2 B - 24) / 24) */
            const kvt_cell *c =
                runs_cell(found, "think", ((const char *[]){"14", "18", "24"})[b]);
            double want =
                error_of(s, cases[i].by_head, left[b], cases[i].recent, cases[i].window);
            assert_string_equal(c->status, "ok");
            assert_string_equal(c->exactness, "exact");
            assert_true(b == 2 || want > 0.02);
            CHECK_NEAR(runs_value(c, "out_err_mean_rel"), want, 0.01 * want + 1e-9);
            assert_true(isnan(runs_value(c, "lost_mass_mean_frac")));
            assert_true(isnan(runs_value(c, "recall_mean_frac")));
            assert_true(isnan(runs_value(c, "attn_kl_mean_nats")));
            assert_true(isnan(c->regret_mean_frac) && isnan(c->oracle_lost_mass_mean_frac));
            CHECK_NEAR(c->kept_tokens_mean, N, 0);
            int64_t lanes = spec.n_layer * (cases[i].by_head ? spec.n_head : spec.n_kv_head);
            int64_t whole = cases[i].recent;
            assert_int_equal(c->kept_bytes,
                             lanes * 2 * ((N - whole) * (left[b] + D) + (whole + M) * 2 * D));
        }
        assert_non_null(strstr(runs_result(found, "think")->plan_note,
                               "channels of a key: 1 of 8 at 14 ("));
        assert_non_null(strstr(runs_result(found, "think")->plan_note, ", 4 of 8 at 18 ("));
        assert_non_null(strstr(runs_result(found, "think")->plan_note,
                               cases[i].by_head ? ", 8 of 8 at 24 (2.000 of the full bytes)"
                                                : ", 8 of 8 at 24 (1.000 of the full bytes)"));
        kvt_results_free(found);
    }
    synth_free(s);
}

/* Published as a share, whatever the budget: floor(0.4 x 8) = 3 channels go. */
static void a_share_goes_at_every_budget(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    const char *path = runs_trace("share", &spec);
    kvt_results *found = replay(path, "think:prune=0.4", "14,24");
    const kvt_cell *a = runs_cell(found, "think", "14"), *b = runs_cell(found, "think", "24");
    assert_int_equal(a->kept_bytes, b->kept_bytes);
    assert_int_equal(a->kept_bytes, 8 * 2 * (N * (5 + D) + M * 2 * D));
    CHECK_NEAR(runs_value(a, "out_err_mean_rel"), runs_value(b, "out_err_mean_rel"), 0);
    assert_true(runs_value(a, "out_err_mean_rel") > 0);
    kvt_results_free(found);
}

/* Values stay: half of the bytes is the least, and one channel of 24 keys takes 1.5 slots. */
static void half_of_the_bytes_is_the_least(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    const char *path = runs_trace("least", &spec);
    kvt_results *found = replay(path, "think", "13,14");
    const kvt_cell *c = runs_cell(found, "think", "13");
    assert_string_equal(c->status, "skipped");
    assert_non_null(strstr(c->error, "keys are half of the bytes"));
    assert_non_null(strstr(c->error, "need a budget of 14 or more"));
    assert_string_equal(runs_cell(found, "think", "14")->status, "ok");
    kvt_results_free(found);
}

/* Without a response there are bytes, and nothing to compare outputs with. */
static void a_prompt_alone_has_bytes(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    spec.n_response = 0;
    const char *path = runs_trace("alone", &spec);
    kvt_results *found = replay(path, "think:compat=kvpress", "18");
    const kvt_cell *c = runs_cell(found, "think", "18");
    assert_string_equal(c->status, "ok");
    assert_int_equal(c->kept_bytes, 4 * 2 * N * (4 + D));
    assert_int_equal(c->full_bytes, 4 * 2 * N * 2 * D);
    assert_true(isnan(runs_value(c, "out_err_mean_rel")));
    kvt_results_free(found);
}

/* A user of the engine alone is told. */
static void the_engine_refuses_it(void **state)
{
    (void)state;
    kvt_err err;
    kvt_use *use;
    kvt_engine *e;
    kvt_geometry g = {.n_layer = 1, .n_head = 2, .n_kv_head = 1, .head_dim = D};
    int64_t budget = 8;
    kvt_sequence seq = {.n_prompt = N, .geometry = &g, .n_layer = 1};
    CHECK_OK(kvt_use_parse(&use, NULL, "think", &err), &err);
    kvt_engine_spec spec = {
        .use = use, .seq = &seq, .budget = &budget, .n_budget = 1, .every = 1};
    CHECK_FAILS(kvt_engine_new(&e, &spec, &err), KVT_USAGE, "dropping channels", &err);
    kvt_use_free(use);
}

/* Nothing is shared out where no slot goes, and nothing is decided anew. */
static void what_shares_slots_does_not_fit(void **state)
{
    (void)state;
    static const char *const texts[] = {"think/ada", "quest/even", "h2o-mask/pyramid",
                                        "think:every=4"};
    for (int i = 0; i < 4; i++) {
        kvt_err err;
        kvt_use *use = NULL;
        CHECK_FAILS(kvt_use_parse(&use, NULL, texts[i], &err), KVT_USAGE, "evicts no slots",
                    &err);
        assert_null(use);
    }
}

/* Listed, refused with the reason, no part of "all", named beside it. */
static void no_trace_answers_some(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *found;
    kvt_replay_counts counts;
    synth_spec spec = spec_of();
    const char *path = runs_trace("none", &spec);
    kvt_replay_spec run = runs_spec(&path, "pyramidinfer", "20");
    CHECK_FAILS(kvt_replay(&found, NULL, &run, NULL, &err), KVT_NO,
                "policy pyramidinfer: not replayable: it drops hidden states", &err);
    kvt_results_free(found);
    run.policies = "all";
    CHECK_OK(kvt_replay(&found, &counts, &run, NULL, &err), &err);
    static const char *const names[] = {"cam", "kvgrad", "pyramidinfer"};
    for (int i = 0; i < 3; i++) {
        const kvt_policy *p = kvt_policy_find(names[i]);
        assert_non_null(p);
        assert_non_null(strstr(counts.no_trace, p->why_not));
        for (int64_t k = 0; k < found->n; k++)
            assert_string_not_equal(found->result[k]->cell[0].policy, names[i]);
    }
    assert_null(strstr(counts.no_trace, "think"));
    kvt_results_free(found);
}

static const char *const plugin = STAGE_PLUGIN;

static kvt_replay_spec with_plugin(const char *const *path, const char *policies,
                                   const char *budgets)
{
    kvt_replay_spec run = runs_spec(path, policies, budgets);
    run.plugin = &plugin, run.n_plugin = 1;
    return run;
}

/* Marks and state of its own sizes, cleared for each lane, and a stream of each lane's. */
static void a_policy_has_marks_state_and_a_stream(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    const char *path = runs_trace("plugin", &spec);
    kvt_replay_spec run = with_plugin(&path, "test-channels", "15,20");
    double error[3];
    for (int i = 0; i < 3; i++) {
        kvt_ctx ctx = {.n_thread = 1 + i % 2, .seed = i == 2 ? 7 : 3};
        kvt_results *found;
        kvt_err err;
        CHECK_OK(kvt_replay(&found, NULL, &run, &ctx, &err), &err);
        const kvt_cell *c = &found->result[0]->cell[0];
        assert_string_equal(c->status, "ok");
        assert_int_equal(c->seed, i == 2 ? 7 : 3);
        error[i] = runs_value(c, "out_err_mean_rel");
        kvt_results_free(found);
    }
    assert_true(error[0] > 0 && error[0] == error[1] && error[0] != error[2]);
}

/* Of layers 0 and 1 the latter; every budget fails, the same on any number of threads. */
static void an_odd_score_fails_every_budget(void **state)
{
    (void)state;
    synth_spec spec = spec_of();
    const char *path = runs_trace("odd", &spec);
    kvt_replay_spec run = with_plugin(&path, "test-channels:odd=true", "4,15,20");
    for (int n = 1; n < 4; n++) {
        kvt_ctx ctx = {.n_thread = n};
        kvt_results *found;
        kvt_err err;
        CHECK_FAILS(kvt_replay(&found, NULL, &run, &ctx, &err), KVT_NO,
                    "a channel's score in layer 1 is not a finite number", &err);
        const kvt_cell *c = found->result[0]->cell;
        assert_string_equal(c[0].status, "skipped"); /* leaves no channel */
        assert_string_equal(c[1].status, "failed");
        assert_string_equal(c[2].status, "failed");
        kvt_results_free(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_made_again),
        cmocka_unit_test(a_share_goes_at_every_budget),
        cmocka_unit_test(half_of_the_bytes_is_the_least),
        cmocka_unit_test(a_prompt_alone_has_bytes),
        cmocka_unit_test(the_engine_refuses_it),
        cmocka_unit_test(what_shares_slots_does_not_fit),
        cmocka_unit_test(no_trace_answers_some),
        cmocka_unit_test(a_policy_has_marks_state_and_a_stream),
        cmocka_unit_test(an_odd_score_fails_every_budget),
    };
    return cmocka_run_group_tests_name("channels", tests, runs_open, runs_close);
}
