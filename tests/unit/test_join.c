/* test_join - averaging tokens into slots: against plain loops, and the two ends, no join and
 * nothing but joins. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"

static const char *const plugin[] = {LOOK_PLUGIN};

static synth_spec spec_of(void)
{
    synth_spec s = synth_default();
    s.decision_policy = "dmc";
    s.window = 9;
    s.sharpness = 2;
    s.force = true;
    return s;
}

/* Writes the trace with every decision at `all` (NAN: as they are) and weights above 0. */
static synth *write(const char *path, const synth_spec *spec, double all)
{
    kvt_err err;
    synth *s = synth_new(spec);
    float *logit = s->data[KVT_DS_DECISION], *weight = s->data[KVT_DS_DECISION_W];
    int64_t n = spec->n_layer * spec->n_kv_head * (spec->n_prompt + spec->n_response);
    for (int64_t i = 0; i < n; i++) {
        logit[i] = isnan(all) ? logit[i] : (float)all;
        weight[i] = 0.25F + fabsf(weight[i]);
    }
    CHECK_OK(synth_write(s, path, &err), &err);
    return s;
}

static kvt_results *replay(const char *path, const char *budgets)
{
    kvt_replay_spec run = runs_spec(&path, "test-join", budgets);
    run.plugin = plugin, run.n_plugin = 1;
    return runs_replay(&run, NULL);
}

static void no_join_is_the_full_cache(void **state)
{
    (void)state;
    char path[400];
    synth_spec spec = spec_of();
    snprintf(path, sizeof path, "%s/none.h5", runs_dir);
    synth *s = write(path, &spec, -1);
    kvt_results *found = replay(path, "4,50%");
    const kvt_result *r = runs_result(found, "test-join");
    for (int c = 0; c < r->n_cell; c++) {
        assert_string_equal(r->cell[c].status, "ok");
        CHECK_NEAR(r->cell[c].kept_tokens_mean, (double)spec.n_prompt, 0);
        CHECK_NEAR(runs_value(&r->cell[c], "out_err_max_rel"), 0, 1e-5);
        assert_int_equal(r->cell[c].kept_bytes, r->cell[c].full_bytes);
        assert_true(isnan(runs_value(&r->cell[c], "lost_mass_mean_frac")));
        assert_true(isnan(runs_value(&r->cell[c], "recall_mean_frac")));
        assert_true(isnan(r->cell[c].regret_mean_frac));
    }
    assert_non_null(strstr(r->plan_note, "keeps what its model decided"));
    kvt_results_free(found);
    synth_free(s);
}

static void joins_alone_are_one_slot(void **state)
{
    (void)state;
    char path[400];
    synth_spec spec = spec_of();
    snprintf(path, sizeof path, "%s/one.h5", runs_dir);
    synth *s = write(path, &spec, 1);
    kvt_results *found = replay(path, "4");
    const kvt_cell *c = runs_cell(found, "test-join", "4");
    CHECK_NEAR(c->kept_tokens_mean, 1, 0);
    CHECK_NEAR(c->end_slots_mean_tokens, 1, 0);
    kvt_results_free(found);
    synth_free(s);
}

/* Turns [D] by an angle a pair times `position`. */
static void turn(double *x, const double *freq, int64_t D, double position)
{
    for (int64_t i = 0; i < D / 2; i++) {
        double a = position * freq[i], u = x[i], v = x[i + D / 2];
        x[i] = u * cos(a) - v * sin(a);
        x[i + D / 2] = u * sin(a) + v * cos(a);
    }
}

typedef struct plain_slots {
    int64_t n, newest[64];
    double key[64][16], value[64][16], z[64]; /* keys before rotation */
} plain_slots;

static void plain_token(plain_slots *p, const synth *s, int lane, int64_t t)
{
    int64_t D = s->spec.head_dim, T = s->spec.n_prompt + s->spec.n_response;
    const uint16_t *k = (const uint16_t *)s->data[KVT_DS_KEYS] + (lane * T + t) * D;
    const uint16_t *v = (const uint16_t *)s->data[KVT_DS_VALUES] + (lane * T + t) * D;
    double w = (double)((const float *)s->data[KVT_DS_DECISION_W])[lane * T + t], key[16];
    bool join = ((const float *)s->data[KVT_DS_DECISION])[lane * T + t] > 0 && p->n > 0;
    for (int64_t d = 0; d < D; d++)
        key[d] = (double)half_to_float(k[d]);
    turn(key, s->out.facts.model.rope_freq, D, -(double)t);
    int64_t at = join ? p->n - 1 : p->n++;
    double z = join ? p->z[at] : 0;
    for (int64_t d = 0; d < D; d++) {
        p->key[at][d] = (z * (join ? p->key[at][d] : 0) + w * key[d]) / (z + w);
        p->value[at][d] =
            (z * (join ? p->value[at][d] : 0) + w * (double)half_to_float(v[d])) / (z + w);
    }
    p->z[at] = z + w;
    p->newest[at] = t;
}

static void plain_output(double *out, const plain_slots *p, const synth *s, int layer, int head,
                         int64_t pos)
{
    int64_t D = s->spec.head_dim, Q = s->dim[KVT_DS_QUERIES][2], q = 0;
    const kvt_geometry *g = &s->out.facts.model;
    while (((const int32_t *)s->data[KVT_DS_QUERY_POS])[q] != pos)
        q++;
    const uint16_t *query = (const uint16_t *)s->data[KVT_DS_QUERIES] +
                            ((layer * s->spec.n_head + head) * Q + q) * D;
    double sum = 0;
    memset(out, 0, (size_t)D * sizeof *out);
    for (int64_t i = 0; i < p->n; i++) {
        double key[16], z = 0;
        if (!kvt_geometry_sees(g, s->out.layer_id[layer], pos, p->newest[i]))
            continue;
        memcpy(key, p->key[i], sizeof key);
        turn(key, g->rope_freq, D, (double)p->newest[i]);
        for (int64_t d = 0; d < D; d++)
            z += g->attn_scale * key[d] * (double)half_to_float(query[d]);
        sum += exp(z);
        for (int64_t d = 0; d < D; d++)
            out[d] += exp(z) * p->value[i][d];
    }
    for (int64_t d = 0; d < D; d++)
        out[d] /= sum;
}

static double distance(const double *a, const double *b, int64_t n)
{
    double x = 0, y = 0;
    for (int64_t d = 0; d < n; d++) {
        x += (a[d] - b[d]) * (a[d] - b[d]);
        y += b[d] * b[d];
    }
    return sqrt(x / y);
}

static void slots_are_weighted_means(void **state)
{
    (void)state;
    char path[400];
    synth_spec spec = spec_of();
    snprintf(path, sizeof path, "%s/some.h5", runs_dir);
    synth *s = write(path, &spec, NAN), *dense = synth_new(&spec);
    int64_t n_lane = spec.n_layer * spec.n_kv_head, per = spec.n_head / spec.n_kv_head;
    float *none = dense->data[KVT_DS_DECISION];
    for (int64_t i = 0; i < n_lane * (spec.n_prompt + spec.n_response); i++)
        none[i] = -1;
    kvt_results *found = replay(path, "4");
    const kvt_result *r = runs_result(found, "test-join");
    double mean = 0, kept = 0;
    for (int lane = 0; lane < n_lane; lane++) {
        plain_slots *p = calloc(2, sizeof *p);
        for (int64_t t = 0; t < spec.n_prompt; t++)
            plain_token(&p[0], s, lane, t), plain_token(&p[1], dense, lane, t);
        kept += (double)p->n;
        assert_int_equal(r->lane[lane].kept_prefill_tokens, p->n);
        for (int64_t t = spec.n_prompt; t < spec.n_prompt + spec.n_response; t++) {
            plain_token(&p[0], s, lane, t), plain_token(&p[1], dense, lane, t);
            for (int64_t h = 0; h < per; h++) {
                double joined[16], whole[16];
                int layer = lane / spec.n_kv_head;
                int head = (int)(lane % spec.n_kv_head * per + h);
                plain_output(joined, &p[0], s, layer, head, t);
                plain_output(whole, &p[1], dense, layer, head, t);
                mean += distance(joined, whole, spec.head_dim);
            }
        }
        assert_int_equal(r->lane[lane].kept_end_tokens, p->n);
        free(p);
    }
    mean /= (double)(n_lane * per * spec.n_response);
    assert_true(kept < (double)(n_lane * spec.n_prompt));
    assert_true(mean > 0.05);
    CHECK_NEAR(runs_value(&r->cell[0], "out_err_mean_rel"), mean, 0.01 * mean);
    kvt_results_free(found);
    synth_free(s);
    synth_free(dense);
}

static void without_decisions_it_is_not_replayable(void **state)
{
    (void)state;
    kvt_err err;
    kvt_results *found;
    synth_spec spec = synth_default();
    const char *trace = runs_trace("frozen", &spec);
    kvt_replay_spec run = {.trace = &trace,
                           .n_trace = 1,
                           .policies = "test-join",
                           .plugin = plugin,
                           .n_plugin = 1,
                           .out_dir = ""};
    CHECK_FAILS(kvt_replay(&found, NULL, &run, NULL, &err), KVT_NO,
                "the trace holds no decisions of a model that was trained for it", &err);
    kvt_results_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_join_is_the_full_cache),
        cmocka_unit_test(joins_alone_are_one_slot),
        cmocka_unit_test(slots_are_weighted_means),
        cmocka_unit_test(without_decisions_it_is_not_replayable),
    };
    return cmocka_run_group_tests_name("join", tests, runs_open, runs_close);
}
