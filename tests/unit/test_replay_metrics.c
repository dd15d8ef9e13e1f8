/* test_replay_metrics - whole runs with every metric: errors of the output by the identity of
 * policies-training-free.md 9.4, sums over a cell against means, what is empty for which kind
 * of policy, and that names are part of a cell's identity. */
#include "tests/check.h"
#include "tests/runs.h"
#include "tests/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "kvt/metric.h"

static kvt_replay_spec spec_of(const char *const *path, const char *policies,
                               const char *budgets, const char *metrics)
{
    kvt_replay_spec spec = runs_spec(path, policies, budgets);
    spec.metrics = metrics;
    spec.no_controls = false;
    return spec;
}

static double lane_value(const kvt_result *r, int64_t lane, const char *column)
{
    return r->lane[lane].value[kvt_metric_value(column)];
}

/* ---- errors of the output ------------------------------------------------------------------
 */

enum { DIM = 8 };

/* Means over what a row keeps and over what it lost, and the share that it lost. */
typedef struct halves {
    double kept[DIM], lost[DIM], share;
} halves;

static halves split(const synth *s, const kvt_result *r, int layer, int head, int64_t m)
{
    const synth_spec *p = &s->spec;
    int64_t T = p->n_prompt + p->n_response, Q = s->dim[KVT_DS_ROWS][2];
    int kv = head * p->n_kv_head / p->n_head, lane = head * r->n_lane / p->n_head;
    const uint16_t *row = (const uint16_t *)s->data[KVT_DS_ROWS] +
                          ((layer * p->n_head + head) * Q + Q - p->n_response + m) * T;
    const uint16_t *v =
        (const uint16_t *)s->data[KVT_DS_VALUES] + (layer * p->n_kv_head + kv) * T * DIM;
    double kept = 0, lost = 0;
    halves out = {.share = 0};
    for (int64_t t = 0; t <= p->n_prompt + m; t++) {
        int32_t step = kvt_result_evict_step(r, 0, layer, lane, t);
        bool gone = step >= 0 && step <= m;
        double a = (double)half_to_float(row[t]);
        *(gone ? &lost : &kept) += a;
        for (int d = 0; d < DIM; d++)
            (gone ? out.lost : out.kept)[d] += a * (double)half_to_float(v[t * DIM + d]);
    }
    for (int d = 0; d < DIM; d++) {
        out.kept[d] /= kept;
        out.lost[d] = lost > 0 ? out.lost[d] / lost : 0;
    }
    out.share = lost / (kept + lost);
    return out;
}

/* Sums over rows of the errors of a cell's outputs. */
typedef struct errors {
    double relative, l1, turn, masked, size, apart, n;
} errors;

/* o = (1 - x) o_K + x o_Ev, so that o_K - o = x (o_K - o_Ev), and masking leaves x o_Ev out. */
static void add_row(errors *e, const halves *h)
{
    double o2 = 0, e2 = 0, k2 = 0, dot = 0, u2 = 0, o1 = 0, e1 = 0, x = h->share;
    for (int d = 0; d < DIM; d++) {
        double o = (1 - x) * h->kept[d] + x * h->lost[d], k = h->kept[d];
        double error = x * (h->kept[d] - h->lost[d]);
        o2 += o * o, e2 += error * error, k2 += k * k, dot += o * k;
        u2 += x * h->lost[d] * x * h->lost[d];
        o1 += fabs(o), e1 += fabs(error);
    }
    e->relative += sqrt(e2 / o2);
    e->l1 += e1 / o1;
    e->turn += 1 - dot / sqrt(o2) / sqrt(k2);
    e->masked += sqrt(u2 / o2);
    e->size += sqrt(o2);
    e->apart += sqrt(e2);
    e->n++;
}

static void outputs_follow_the_identity(void **state)
{
    static const char *const policies[] = {"snapkv:window=4", "h2o", "tova",
                                           "snapkv:window=4,compat=kvcf"};
    (void)state;
    synth_spec spec = synth_default();
    spec.sharpness = 2;
    synth *s = synth_new(&spec);
    const char *path = runs_trace("identity", &spec);
    for (int i = 0; i < 4; i++) {
        kvt_replay_spec run = spec_of(&path, policies[i], "8", "all");
        run.no_controls = true;
        kvt_results *found = runs_replay(&run, NULL);
        const kvt_result *r = found->result[0];
        const kvt_cell *c = &r->cell[0];
        errors e = {0};
        for (int l = 0; l < spec.n_layer; l++)
            for (int h = 0; h < spec.n_head; h++)
                for (int64_t m = 0; m < spec.n_response; m++) {
                    halves x = split(s, r, l, h, m);
                    add_row(&e, &x);
                }
        CHECK_NEAR(runs_value(c, "out_err_mean_rel"), e.relative / e.n, 2e-6);
        CHECK_NEAR(runs_value(c, "out_err_micro_rel"), e.apart / e.size, 2e-6);
        CHECK_NEAR(runs_value(c, "out_l1_mean_rel"), e.l1 / e.n, 2e-6);
        CHECK_NEAR(runs_value(c, "out_cos_mean_rel"), e.turn / e.n, 2e-6);
        CHECK_NEAR(runs_value(c, "out_err_unnorm_mean_rel"), e.masked / e.n, 2e-6);
        assert_true(runs_value(c, "out_err_unnorm_max_rel") >=
                    runs_value(c, "out_err_unnorm_p95_rel"));
        kvt_results_free(found);
    }
    synth_free(s);
}

/* ---- sums over a cell ----------------------------------------------------------------------
 */

/* On top: hits of a lane are its recall times k. Lanes of PyramidKV have different k, so that
 * both means differ. */
static void micro_is_sum_over_sum(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.sharpness = 3;
    const char *path = runs_trace("micro", &s);
    kvt_replay_spec spec = spec_of(&path, "pyramidkv:window=4", "8", NULL);
    kvt_results *found = runs_replay(&spec, NULL);
    const kvt_result *r = runs_result(found, "pyramidkv");
    double hits = 0, asked = 0, held = 0, kept = 0, best = 0, mean = 0;
    int64_t n = (int64_t)r->n_layer * r->n_lane;
    for (int64_t a = 0; a < n; a++) {
        const kvt_lane_row *x = &r->lane[a];
        hits += lane_value(r, a, "recall_mean_frac") * (double)x->asked_tokens;
        asked += (double)x->asked_tokens;
        held += (double)x->kept_prefill_tokens;
        kept += 1 - lane_value(r, a, "lost_mass_mean_frac");
        best += 1 - x->oracle_lost_mass_mean_frac;
        mean += (1 - lane_value(r, a, "lost_mass_mean_frac")) /
                (1 - x->oracle_lost_mass_mean_frac) / (double)n;
        CHECK_NEAR(lane_value(r, a, "precision_mean_frac"),
                   lane_value(r, a, "recall_mean_frac"), 1e-12);
    }
    const kvt_cell *c = &r->cell[0];
    CHECK_NEAR(runs_value(c, "recall_micro_frac"), hits / asked, 1e-12);
    CHECK_NEAR(runs_value(c, "precision_micro_frac"), hits / held, 1e-12);
    CHECK_NEAR(runs_value(c, "kept_to_oracle_micro_frac"), kept / best, 1e-12);
    CHECK_NEAR(runs_value(c, "kept_to_oracle_mean_frac"), mean, 1e-12);
    assert_true(fabs(runs_value(c, "recall_micro_frac") - runs_value(c, "recall_mean_frac")) >
                1e-6);
    kvt_results_free(found);
}

/* What a lane holds after decision t, by the steps at which tokens left. */
static bool holds(const kvt_result *r, int layer, int lane, int64_t token, int64_t t)
{
    int32_t gone = kvt_result_evict_step(r, 0, layer, lane, token);
    return token < r->n_prompt + t && (gone < 0 || gone > t);
}

static void overlap_is_that_of_the_kept_sets(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.n_response = 9;
    const char *path = runs_trace("overlap", &s);
    kvt_replay_spec spec = spec_of(&path, "h2o:every=3", "7", NULL);
    kvt_results *found = runs_replay(&spec, NULL);
    const kvt_result *r = runs_result(found, "h2o");
    double sum = 0, above = 0, below = 0;
    for (int64_t i = 0; i < (int64_t)r->n_layer * r->n_lane; i++) {
        int l = (int)(i / r->n_lane), a = (int)(i % r->n_lane);
        for (int64_t m = 1; m < r->n_response; m++) {
            double both = 0, any = 0;
            for (int64_t t = 0; t < r->n_prompt + m; t++) {
                bool now = holds(r, l, a, t, m), before = holds(r, l, a, t, m - 1);
                both += now && before;
                any += now || before;
            }
            sum += both / any;
            above += both, below += any;
        }
    }
    const kvt_cell *c = &r->cell[0];
    double rows = (double)(r->n_layer * r->n_lane * (r->n_response - 1));
    CHECK_NEAR(runs_value(c, "step_overlap_mean_frac"), sum / rows, 1e-12);
    CHECK_NEAR(runs_value(c, "step_overlap_micro_frac"), above / below, 1e-12);
    kvt_results_free(found);
}

/* At the prompt's end the response's own tokens are what no decision could keep. */
static void what_is_not_there_yet_is_unavailable(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    const char *path = runs_trace("later", &spec);
    kvt_replay_spec run = spec_of(&path, "window", "8,12", NULL);
    run.act = KVT_ACT_PREFILL;
    kvt_results *found = runs_replay(&run, NULL);
    double sum = 0;
    int64_t N = spec.n_prompt, n = 0;
    for (int l = 0; l < spec.n_layer; l++)
        for (int h = 0; h < spec.n_head; h++)
            for (int64_t m = 0; m < spec.n_response; m++, n++)
                for (int64_t t = N; t <= N + m; t++)
                    sum += synth_attn(s, l, h, N + m, t);
    for (int c = 0; c < 2; c++) {
        const kvt_cell *x = runs_cell(found, "window", c ? "12" : "8");
        CHECK_NEAR(runs_value(x, "unavailable_mean_frac"), sum / (double)n, 1e-3);
        assert_true(runs_value(x, "whole_rows_mean_frac") == 0);
        x = runs_cell(found, "full", c ? "12" : "8");
        assert_true(runs_value(x, "whole_rows_mean_frac") == 1);
    }
    kvt_results_free(found);
    synth_free(s);
}

/* ---- who has what --------------------------------------------------------------------------
 */

static bool is_there(const kvt_results *s, const char *policy, const char *column)
{
    return !isnan(runs_value(runs_cell(s, policy, "8"), column));
}

static void each_kind_of_policy_has_its_metrics(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.decision_policy = "dmc";
    const char *path = runs_trace("kinds", &s);
    kvt_replay_spec spec = spec_of(
        &path, "snapkv:window=4,h2o,tova,quest:page=4,dmc,pyramidkv:window=4,compat=kvcf", "8",
        "all");
    kvt_results *found = runs_replay(&spec, NULL);
    static const struct {
        const char *column;
        bool snapkv, h2o, tova, quest, dmc;
    } want[] = {
        {"recall_mean_frac", true, true, true, false, false},
        {"precision_micro_frac", true, true, true, false, false},
        {"topk_recall_512_mean_frac", true, true, true, false, false},
        {"kendall_tau_mean_1", true, true, false, false, false},
        {"spearman_mean_1", true, true, false, false, false},
        {"ndcg_mean_1", true, true, false, false, false},
        {"step_overlap_mean_frac", false, true, true, true, false},
        {"unavailable_mean_frac", true, true, true, false, false},
        {"heavy_recall_mean_frac", true, true, true, true, false},
        {"whole_rows_mean_frac", true, true, true, true, false},
        {"support_90_mean_tokens", true, true, true, true, true},
        {"out_err_mean_rel", true, true, true, true, true},
        {"out_cos_mean_rel", true, true, true, true, true},
        {"out_l1_p95_rel", true, true, true, true, true},
        {"out_err_unnorm_mean_rel", true, true, true, true, false},
    };
    for (int i = 0; i < CHECK_COUNT(want); i++) {
        const char *name = want[i].column;
        if (is_there(found, "snapkv", name) != want[i].snapkv ||
            is_there(found, "h2o", name) != want[i].h2o ||
            is_there(found, "tova", name) != want[i].tova ||
            is_there(found, "quest", name) != want[i].quest ||
            is_there(found, "dmc", name) != want[i].dmc)
            fail_msg("%s: snapkv %d, h2o %d, tova %d, quest %d, dmc %d", name,
                     is_there(found, "snapkv", name), is_there(found, "h2o", name),
                     is_there(found, "tova", name), is_there(found, "quest", name),
                     is_there(found, "dmc", name));
    }
    /* A lane for each query head: so are its scores. */
    assert_int_equal(runs_result(found, "pyramidkv")->n_lane, 4);
    assert_true(is_there(found, "pyramidkv", "ndcg_mean_1"));
    /* The order of the future is its own; f32 scores may tie where doubles do not. */
    CHECK_NEAR(runs_value(runs_cell(found, "oracle", "8"), "ndcg_mean_1"), 1, 1e-6);
    CHECK_NEAR(runs_value(runs_cell(found, "oracle", "8"), "kendall_tau_mean_1"), 1, 1e-2);
    assert_false(is_there(found, "full", "kendall_tau_mean_1")); /* its scores are constant */
    double support = runs_value(runs_cell(found, "snapkv", "8"), "support_99_p95_tokens");
    assert_true(support == runs_value(runs_cell(found, "tova", "8"), "support_99_p95_tokens"));
    kvt_results_free(found);
}

/* Level summary has no rows: what is known is the mean of the future. */
static void a_summary_has_what_needs_no_rows(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    s.level = KVT_SUMMARY;
    const char *path = runs_trace("summary", &s);
    kvt_replay_spec spec = spec_of(&path, "random", "8", "all");
    kvt_results *found = runs_replay(&spec, NULL);
    assert_true(is_there(found, "random", "recall_mean_frac"));
    assert_true(is_there(found, "random", "unavailable_mean_frac"));
    assert_true(is_there(found, "random", "kept_to_oracle_mean_frac"));
    assert_true(is_there(found, "random", "kendall_tau_mean_1"));
    assert_false(is_there(found, "random", "support_90_mean_tokens"));
    assert_false(is_there(found, "random", "out_cos_mean_rel"));
    kvt_results_free(found);
}

/* ---- by name -------------------------------------------------------------------------------
 */

static void names_are_part_of_a_cell(void **state)
{
    static const char *const asked[] = {NULL, "default,recall", "ndcg,spearman",
                                        "spearman,ndcg", "all"};
    char id[5][KVT_RUN_ID];
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("names", &s);
    for (int i = 0; i < 5; i++) {
        kvt_replay_spec spec = spec_of(&path, "snapkv:window=4", "8", asked[i]);
        kvt_results *found = runs_replay(&spec, NULL);
        const kvt_cell *c = runs_cell(found, "snapkv", "8");
        snprintf(id[i], sizeof id[i], "%s", c->run_id);
        assert_int_equal(is_there(found, "snapkv", "ndcg_mean_1"), i >= 2);
        assert_int_equal(is_there(found, "snapkv", "spearman_mean_1"), i >= 2);
        assert_int_equal(is_there(found, "snapkv", "kendall_tau_mean_1"), i == 4);
        assert_int_equal(is_there(found, "snapkv", "support_90_mean_tokens"), i == 4);
        assert_int_equal(is_there(found, "snapkv", "out_cos_mean_rel"), i == 4);
        kvt_results_free(found);
    }
    assert_string_equal(id[0], id[1]);
    assert_string_equal(id[2], id[3]);
    assert_string_not_equal(id[0], id[2]);
    assert_string_not_equal(id[2], id[4]);
}

static void wrong_names_are_refused(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("wrong", &s);
    kvt_err err;
    kvt_results *found;
    kvt_replay_spec spec = spec_of(&path, "h2o", "8", "kendal_tau");
    CHECK_FAILS(kvt_replay(&found, NULL, &spec, NULL, &err), KVT_USAGE,
                "did you mean 'kendall_tau'?", &err);
    kvt_results_free(found);
    spec.metrics = "out_cos";
    spec.no_output_error = true;
    CHECK_FAILS(kvt_replay(&found, NULL, &spec, NULL, &err), KVT_USAGE,
                "metric out_cos is an error of the output, which is left out", &err);
    kvt_results_free(found);
    spec.metrics = "all"; /* all that there are without it */
    found = runs_replay(&spec, NULL);
    assert_false(is_there(found, "h2o", "out_cos_mean_rel"));
    assert_true(is_there(found, "h2o", "support_90_mean_tokens"));
    kvt_results_free(found);
}

static void threads_change_no_byte(void **state)
{
    char *text[2];
    (void)state;
    synth_spec s = synth_default();
    s.n_layer = 4;
    const char *path = runs_trace("threads", &s);
    for (int i = 0; i < 2; i++) {
        kvt_ctx ctx = {.n_thread = i ? 4 : 1};
        kvt_err err;
        kvt_results *found;
        kvt_replay_spec spec = spec_of(
            &path, "snapkv:window=4,h2o,tova,streaming,pyramidkv:window=4", "6,8,20", "all");
        CHECK_OK(kvt_replay(&found, NULL, &spec, &ctx, &err), &err);
        text[i] = runs_text(found);
        kvt_results_free(found);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_follow_the_identity),
        cmocka_unit_test(micro_is_sum_over_sum),
        cmocka_unit_test(overlap_is_that_of_the_kept_sets),
        cmocka_unit_test(what_is_not_there_yet_is_unavailable),
        cmocka_unit_test(each_kind_of_policy_has_its_metrics),
        cmocka_unit_test(a_summary_has_what_needs_no_rows),
        cmocka_unit_test(names_are_part_of_a_cell),
        cmocka_unit_test(wrong_names_are_refused),
        cmocka_unit_test(threads_change_no_byte),
    };
    return cmocka_run_group_tests(tests, runs_open, runs_close);
}
