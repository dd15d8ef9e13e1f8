/* test_replay - whole runs on small traces of random numbers: what is there, what is skipped
 * and why, and that order, threads, shards and old results change no byte. */
#include "tests/check.h"
#include "tests/plain.h"
#include "tests/runs.h"
#include "tests/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/half.h"
#include "compute/rows.h"
#include "compute/slots.h"
#include "kvt/arena.h"
#include "kvt/metric.h"
#include "kvt/replay.h"
#include "replay/judge_priv.h"

/* ---- every number against plain loops ------------------------------------------------------
 */

/* Response rows of a layer as synth wrote them, f16 [H M T] behind head_stride. */
static plain_spec plain_of(const synth *s, const kvt_result *r, int cell, int layer)
{
    const synth_spec *p = &s->spec;
    int64_t T = p->n_prompt + p->n_response, Q = s->dim[KVT_DS_ROWS][2];
    const uint16_t *rows = s->data[KVT_DS_ROWS];
    int64_t per_layer = p->n_head * Q * T;
    return (plain_spec){.n_head = p->n_head,
                        .n_kv = p->n_kv_head,
                        .n_prompt = p->n_prompt,
                        .n_response = p->n_response,
                        .n_dim = p->head_dim,
                        .rows = rows + layer * per_layer + (Q - p->n_response) * T,
                        .head_stride = Q * T,
                        .result = r,
                        .cell = cell,
                        .layer = layer,
                        .inside = strcmp(r->cell[cell].growth, "inside") == 0,
                        .drop_first =
                            strstr(r->policy_text, "streaming") == r->policy_text ||
                            strstr(r->policy_text, "window") == r->policy_text ||
                            strstr(r->policy_text, "test-model-first") == r->policy_text};
}

static float *decoded(const synth *s, kvt_ds ds, int layer)
{
    int64_t n = s->dim[ds][1] * s->dim[ds][2] * s->dim[ds][3];
    float *out = malloc((size_t)n * sizeof *out);
    half_to_floats(out, (const uint16_t *)s->data[ds] + layer * n, n);
    return out;
}

static void near(double got, double want, double tolerance, const kvt_cell *c, const char *what)
{
    if (!(fabs(got - want) <= tolerance) && !(isnan(got) && isnan(want)))
        fail_msg("%s at %s: %s is %.9g, expected %.9g", c->policy, c->budget_asked, what, got,
                 want);
}

/* Sums over lanes of their means over rows. */
typedef struct sums {
    double lost, max, kl, out, recall, best;
    int64_t n_inf, n_kl, n_out, n_lane;
} sums;

/* What the rows of a lane's heads say, those left out that say nothing: infinite KL, no output.
 */
static void add_lane(sums *all, const double *lost, const double *out_err, int64_t n_head,
                     int64_t n)
{
    double kl = 0, out = 0;
    int64_t kl_heads = 0, out_heads = 0;
    for (int64_t h = 0; h < n_head; h++, lost += n, out_err += n) {
        double head_kl = 0, head_out = 0;
        int64_t n_kl = 0, n_out = 0;
        for (int64_t i = 0; i < n; i++) {
            all->lost += lost[i] / (double)(n * n_head);
            all->max = lost[i] > all->max ? lost[i] : all->max;
            all->n_inf += lost[i] >= 1;
            if (lost[i] < 1)
                head_kl -= log1p(-lost[i]), n_kl++;
            if (!isnan(out_err[i]))
                head_out += out_err[i], n_out++;
        }
        if (n_kl > 0)
            kl += head_kl / (double)n_kl, kl_heads++;
        if (n_out > 0)
            out += head_out / (double)n_out, out_heads++;
    }
    all->n_lane++;
    if (kl_heads > 0)
        all->kl += kl / (double)kl_heads, all->n_kl++;
    if (out_heads > 0)
        all->out += out / (double)out_heads, all->n_out++;
}

/* Where slots are traded over the model while it decodes, recall is not measured at every step.
 */
static bool has_recall(const kvt_cell *c)
{
    return strcmp(c->growth, "on-top") == 0 || !strstr(c->policy, "test-model");
}

static void compare_layer(const synth *s, const kvt_result *r, int cell, int layer, sums *all)
{
    enum { ROWS = 512 };
    double lost[ROWS], out_err[ROWS], recall[16], best[16];
    const kvt_cell *c = &r->cell[cell];
    plain_spec p = plain_of(s, r, cell, layer);
    float *values = decoded(s, KVT_DS_VALUES, layer);
    p.values = values;
    plain_out out = {lost, out_err, recall, best};
    int64_t M = p.n_response, per = p.n_head / r->n_lane;
    assert_true(p.n_head * M <= ROWS && r->n_lane <= 16);
    plain_judge(&out, &p);
    for (int a = 0; a < r->n_lane; a++) {
        int64_t at = ((int64_t)cell * r->n_layer + layer) * r->n_lane + a;
        for (int64_t m = 0; m < M; m++) {
            double mean = 0;
            for (int64_t h = a * per; h < (a + 1) * per; h++)
                mean += lost[h * M + m] / (double)per;
            /* a float holds the mean of exact sums */
            near((double)r->lost[at * M + m], mean, 1e-7, c, "lost mass of a row");
        }
        if (has_recall(c))
            near(r->lane[at].value[kvt_metric_value("recall_mean_frac")], recall[a], 1e-12, c,
                 "recall");
        all->recall += recall[a];
        all->best += best[a];
        add_lane(all, lost + a * per * M, out_err + a * per * M, per, M);
    }
    free(values);
}

static void compare_cell(const synth *s, const kvt_result *r, int cell)
{
    const kvt_cell *c = &r->cell[cell];
    sums all = {0};
    if (strcmp(c->status, "ok") != 0)
        return;
    for (int i = 0; i < KVT_VALUES_MAX; i++)
        assert_false(c->value[i] == 0 && signbit(c->value[i]));
    for (int l = 0; l < r->n_layer; l++)
        compare_layer(s, r, cell, l, &all);
    double n = (double)all.n_lane;
    near(runs_value(c, "lost_mass_mean_frac"), all.lost / n, 1e-12, c, "mean lost mass");
    near(runs_value(c, "lost_mass_max_frac"), all.max, 0, c, "largest lost mass");
    near(runs_value(c, "attn_kl_mean_nats"), all.kl / (double)all.n_kl, 1e-12, c,
         "attention KL");
    if (has_recall(c))
        near(runs_value(c, "recall_mean_frac"), all.recall / n, 1e-12, c, "recall");
    /* outputs are sums in f32 */
    near(runs_value(c, "out_err_mean_rel"), all.out / (double)all.n_out, 2e-6, c,
         "output error");
    assert_int_equal(c->attn_kl_inf_count, all.n_inf);
    if (strcmp(c->growth, "on-top") == 0) {
        near(c->oracle_lost_mass_mean_frac, all.best / n, 1e-12, c, "oracle");
        double more = runs_value(c, "lost_mass_mean_frac") - c->oracle_lost_mass_mean_frac;
        if (more < -1e-9)
            fail_msg("%s at %s: %.9g less than the oracle loses", c->policy, c->budget_asked,
                     -more);
        near(c->regret_mean_frac, more > 0 ? more : 0, 1e-12, c, "regret");
        assert_true(c->regret_mean_frac >= 0 && c->allocation_regret_mean_frac >= 0);
    }
}

static const char every_kind[] =
    "snapkv:window=4,pyramidkv:window=4,snapkv:window=4,compat=kvcf,h2o,h2o:every=3,tova,"
    "streaming,"
    "window,oracle-max,h2o:compat=kvpress,tova:compat=kvpress,streaming:sinks=2,window=0,"
    "h2o/pyramid,streaming/pyramid,pyramidkv:compat=kvcf,window=4";

static void compare_run(const synth *s, const kvt_replay_spec *spec, int64_t at_least)
{
    kvt_results *found = runs_replay(spec, NULL);
    int64_t n = 0;
    for (int64_t i = 0; i < found->n; i++)
        for (int c = 0; c < found->result[i]->n_cell; c++, n++)
            compare_cell(s, found->result[i], c);
    assert_true(n >= at_least);
    kvt_results_free(found);
}

static void slots_traded_over_the_model_are_judged_alike(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    const char *path = runs_trace("traded", &spec), *plugin = REPLAY_PLUGIN;
    kvt_replay_spec run_spec = {.trace = &path,
                                .n_trace = 1,
                                .policies = "test-model,test-model-first",
                                .budgets = "6,8,12,40",
                                .out_dir = "",
                                .keep_arrays = true,
                                .plugin = &plugin,
                                .n_plugin = 1};
    compare_run(s, &run_spec, 8);
    run_spec.act = KVT_ACT_PREFILL;
    compare_run(s, &run_spec, 8);
    synth_free(s);
}

/* Rows, lanes, names and sets of two runs. */
static void same_results(const kvt_results *a, const kvt_results *b)
{
    char *x = runs_text(a), *y = runs_text(b);
    assert_int_equal(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++) {
        const kvt_result *p = a->result[i], *q = b->result[i];
        int64_t n = (int64_t)p->n_layer * p->n_lane, T = p->n_prompt + p->n_response;
        assert_string_equal(p->pass_id, q->pass_id);
        assert_string_equal(p->trace_digest, q->trace_digest);
        assert_true(p->n_cell == q->n_cell && p->n_layer == q->n_layer);
        for (int c = 0; c < p->n_cell && p->lost; c++)
            for (int64_t k = 0; k < n; k++)
                for (int64_t t = 0; t < T; t++)
                    assert_int_equal(kvt_result_evict_step(p, c, (int)(k / p->n_lane),
                                                           (int)(k % p->n_lane), t),
                                     kvt_result_evict_step(q, c, (int)(k / p->n_lane),
                                                           (int)(k % p->n_lane), t));
    }
    for (char *p = x, *q = y; *p || *q; p++, q++) /* the trace's name is its file's */
        if (*p != *q)
            fail_msg("'%.80s' and '%.80s'", p, q);
    free(x);
    free(y);
}

/* Rows that were stored and rows that are computed again give the same bits. */
static void stored_rows_change_no_result(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    synth *s = synth_new(&spec);
    int64_t H = spec.n_head, D = spec.head_dim, T = spec.n_prompt + spec.n_response;
    int64_t Q = s->dim[KVT_DS_ROWS][2];
    void *scratch = kvt_alloc(1, rows_scratch_bytes(T, D));
    float *q = malloc((size_t)(Q * D) * sizeof *q), *k = malloc((size_t)(T * D) * sizeof *k);
    for (int64_t i = 0; i < spec.n_layer * H; i++) {
        int64_t group = i / H * spec.n_kv_head + i % H * spec.n_kv_head / H;
        half_to_floats(q, (const uint16_t *)s->data[KVT_DS_QUERIES] + i * Q * D, Q * D);
        half_to_floats(k, (const uint16_t *)s->data[KVT_DS_KEYS] + group * T * D, T * D);
        rows_head((uint16_t *)s->data[KVT_DS_ROWS] + i * Q * T, q, k, s->data[KVT_DS_QUERY_POS],
                  Q, T, D, (float)s->out.facts.model.attn_scale, 0, scratch);
    }
    char stored[400];
    kvt_err err;
    snprintf(stored, sizeof stored, "%s/with/", runs_dir);
    CHECK_OK(file_mkdirs(stored, &err), &err);
    snprintf(stored, sizeof stored, "%s/with/bare.h5", runs_dir); /* trace_id is the name */
    CHECK_OK(synth_write(s, stored, &err), &err);
    spec.no_rows = true;
    const char *bare = runs_trace("bare", &spec), *with = stored;
    kvt_replay_spec run_spec = {
        .n_trace = 1, .budgets = "5,12,20", .out_dir = "", .keep_arrays = true};
    char policies[600]; /* random ones, too: their streams go by the trace's digest */
    snprintf(policies, sizeof policies, "random,%s", every_kind);
    run_spec.policies = policies;
    run_spec.trace = &bare;
    kvt_results *a = runs_replay(&run_spec, NULL);
    run_spec.trace = &with;
    kvt_results *b = runs_replay(&run_spec, NULL);
    same_results(a, b);
    kvt_results_free(a);
    kvt_results_free(b);
    kvt_free(scratch);
    free(q);
    free(k);
    synth_free(s);
}

static void numbers_are_those_of_plain_loops(void **state)
{
    (void)state;
    for (int variant = 0; variant < 5; variant++) {
        synth_spec spec = synth_default();
        spec.n_head =
            variant == 4 ? 6 : 4; /* three heads a lane: a third is no sum of halves */
        spec.n_response = variant == 1 ? 19 : 7;
        spec.window = variant == 2 ? 9 : 0;
        spec.sharpness = variant == 3 ? 6 : 2;
        spec.seed = 11 + (uint64_t)variant;
        synth *s = synth_new(&spec);
        const char *path = runs_trace("plain", &spec);
        kvt_replay_spec run_spec = {.trace = &path,
                                    .n_trace = 1,
                                    .policies = every_kind,
                                    .budgets = "4,5,8,50%,18,22,24,100",
                                    .out_dir = "",
                                    .keep_arrays = true};
        compare_run(s, &run_spec, 100);
        synth_free(s);
    }
}

/* Golden vectors 7 and 8 of the closed forms, by hand: p = [.5 .2 .15 .1 .05], v = [1 2 3 4
 * -5], o = 1.5; with {0, 1, 4} kept the output is .866667, without key 1 it is 1.5 - .125. */
static void output_errors_of_the_golden_vectors(void **state)
{
    (void)state;
    const float p[5] = {0.5F, 0.2F, 0.15F, 0.1F, 0.05F}, v[5] = {1, 2, 3, 4, -5};
    const int64_t all[5] = {0, 1, 2, 3, 4}, three[3] = {0, 1, 4}, four[4] = {0, 2, 3, 4};
    const float three_p[3] = {0.5F, 0.2F, 0.05F}, four_p[4] = {0.5F, 0.15F, 0.1F, 0.05F};
    float full, kept;
    slots_mix(&full, p, all, 5, v, 1, 1, 1);
    assert_true(fabs((double)full - 1.5) < 1e-6);
    slots_mix(&kept, three_p, three, 3, v, 1, 1, 1);
    double error = (double)judge_relative(&kept, 0.75, &full, 1, 1);
    assert_true(fabs(error - 0.633333 / 1.5) < 1e-6);
    slots_mix(&kept, four_p, four, 4, v, 1, 1, 1);
    error = (double)judge_relative(&kept, 0.8, &full, 1, 1);
    assert_true(fabs(error - 0.125 / 1.5) < 1e-6);
    assert_true(isnan(judge_relative(&kept, 0, &full, 1, 1)) != 0);
}

static void quantiles_are_type_7(void **state)
{
    (void)state;
    /* numpy.percentile([3, 1, 4, 1, 5, 9, 2, 6], [0, 25, 50, 95, 100]) */
    const double want[] = {1, 1.75, 3.5, 7.95, 9}, q[] = {0, 0.25, 0.5, 0.95, 1};
    for (int i = 0; i < 5; i++) {
        double x[] = {3, 1, 4, 1, 5, 9, 2, 6};
        assert_true(fabs(measure_quantile(x, 8, q[i]) - want[i]) < 1e-12);
    }
    double one[] = {2}, infinite[] = {1, INFINITY, 3};
    assert_true(measure_quantile(one, 1, 0.95) == 2);
    assert_true(isinf(measure_quantile(infinite, 3, 0.95)) != 0);
    assert_true(isnan(measure_quantile(one, 0, 0.5)) != 0);
}

/* Every allocation of a run fails once: it ends with NOMEM, or with what it could do without.
 */
static void failing_memory_is_survived(void **state)
{
    (void)state;
    synth_spec s = synth_default();
    const char *path = runs_trace("memory", &s);
    kvt_replay_spec spec = {.trace = &path,
                            .n_trace = 1,
                            .policies = "snapkv:window=4,tova",
                            .budgets = "8,12",
                            .out_dir = ""};
    kvt_ctx ctx = {.n_thread = 1};
    int64_t failed = 0;
    for (int64_t n = 1; n < 100000; n += 1 + n / 16) {
        kvt_err err = {0};
        kvt_results *found = NULL;
        kvt_alloc_fail_at(n, false);
        kvt_code code = kvt_replay(&found, NULL, &spec, &ctx, &err);
        bool through = kvt_alloc_count() < n;
        kvt_alloc_fail_at(0, false);
        kvt_results_free(found);
        if (through)
            break;
        failed += code == KVT_NOMEM || code == KVT_PARTLY || code == KVT_NO;
        if (code && err.text[0] == 0)
            fail_msg("allocation %lld: %s without a text", (long long)n, kvt_code_name(code));
    }
    assert_true(failed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_plain_loops),
        cmocka_unit_test(slots_traded_over_the_model_are_judged_alike),
        cmocka_unit_test(stored_rows_change_no_result),
        cmocka_unit_test(output_errors_of_the_golden_vectors),
        cmocka_unit_test(quantiles_are_type_7),
        cmocka_unit_test(failing_memory_is_survived),
    };
    return cmocka_run_group_tests_name("replay", tests, runs_open, runs_close);
}
