/* test_reposition - streaming with the positions of the cache: output errors against plain
 * loops in double that turn every key to its slot and the query to the last one. */
#include "tests/check.h"
#include "tests/runs.h"

#include <math.h>
#include <stdio.h>

#include "base/half.h"

enum { D = 8, N = 24, M = 6, SINKS = 2 };

static synth_spec spec_of(void)
{
    synth_spec s = synth_default(); /* 2 layers, 4 heads on 2 kv heads of 8 channels, 24 + 6 */
    s.sharpness = 2;
    s.window = 11;
    return s;
}

static kvt_results *replay(const char *path, const char *policies, kvt_act act)
{
    kvt_replay_spec run = runs_spec(&path, policies, "5,12,40");
    run.act = act;
    return runs_replay(&run, NULL);
}

static void load(double *out, const synth *s, kvt_ds ds, int64_t row)
{
    for (int c = 0; c < D; c++)
        out[c] = (double)half_to_float(((const uint16_t *)s->data[ds])[row * D + c]);
}

static void load_query(double *out, const synth *s, int head, int64_t pos)
{
    int64_t Q = s->dim[KVT_DS_QUERIES][2], q = 0;
    while (((const int32_t *)s->data[KVT_DS_QUERY_POS])[q] != pos)
        q++;
    load(out, s, KVT_DS_QUERIES, head * Q + q);
}

/* As a model turns it: pairs (i, i + D/2). */
static void turn(double *x, const double *freq, double by)
{
    for (int i = 0; i < D / 2; i++) {
        double a = by * freq[i], u = x[i], v = x[i + D / 2];
        x[i] = u * cos(a) - v * sin(a);
        x[i + D / 2] = u * sin(a) + v * cos(a);
    }
}

/* Output of a head (over all layers) at position `now` over n slots; `turned`: at the positions
 * of the slots. */
static void output(double *out, const synth *s, int head, const int64_t *pos, int64_t n,
                   int64_t now, bool turned)
{
    const kvt_geometry *g = &s->out.facts.model;
    int64_t per = s->spec.n_head / s->spec.n_kv_head, lane = head / per;
    double q[D], k[D], v[D], sum = 0;
    load_query(q, s, head, now);
    if (turned)
        turn(q, g->rope_freq, (double)(n - 1 - now));
    memset(out, 0, D * sizeof *out);
    for (int64_t i = 0; i < n; i++) {
        double z = 0;
        if (!kvt_geometry_sees(g, s->out.layer_id[head / s->spec.n_head], now, pos[i]))
            continue;
        load(k, s, KVT_DS_KEYS, lane * (N + M) + pos[i]);
        load(v, s, KVT_DS_VALUES, lane * (N + M) + pos[i]);
        if (turned)
            turn(k, g->rope_freq, (double)(i - pos[i]));
        for (int c = 0; c < D; c++)
            z += g->attn_scale * q[c] * k[c];
        sum += exp(z);
        for (int c = 0; c < D; c++)
            out[c] += exp(z) * v[c];
    }
    for (int c = 0; c < D; c++)
        out[c] /= sum;
}

/* What streaming holds when row m attends: inside B, or the prompt's B and all that came. */
static int64_t held(int64_t *pos, int64_t budget, int64_t m, bool inside)
{
    int64_t total = inside ? N + m + 1 : N, n = 0, left = budget < total ? budget : total;
    int64_t late = total - (left - (left < total ? SINKS : 0));
    for (int64_t t = 0; t < total; t++)
        if ((left < total && t < SINKS) || t >= late)
            pos[n++] = t;
    for (int64_t t = total; t <= N + m; t++)
        pos[n++] = t;
    return n;
}

static double error_of(const synth *s, int64_t budget, bool inside, bool turned)
{
    int heads = s->spec.n_layer * s->spec.n_head;
    double mean = 0;
    for (int h = 0; h < heads; h++)
        for (int64_t m = 0; m < M; m++) {
            int64_t pos[N + M], all[N + M], n = held(pos, budget, m, inside);
            double part[D], full[D], x = 0, y = 0;
            for (int64_t t = 0; t <= N + m; t++)
                all[t] = t;
            output(part, s, h, pos, n, N + m, turned);
            output(full, s, h, all, N + m + 1, N + m, false);
            for (int c = 0; c < D; c++) {
                x += (part[c] - full[c]) * (part[c] - full[c]);
                y += full[c] * full[c];
            }
            mean += sqrt(x / y) / (heads * M);
        }
    return mean;
}

/* YaRN's factor is in the stored keys already: it changes nothing (C011). */
static void rows_are_made_again(void **state)
{
    (void)state;
    static const char *const names[] = {"5", "12", "40"};
    static const int64_t budgets[] = {5, 12, 40};
    for (int factor = 0; factor < 2; factor++) {
        kvt_err err;
        char path[400];
        synth_spec spec = spec_of();
        snprintf(path, sizeof path, "%s/turned%d.h5", runs_dir, factor);
        synth *s = synth_new(&spec);
        s->out.facts.model.rope_attn_factor = factor ? 1.138629436 : 1;
        CHECK_OK(synth_write(s, path, &err), &err);
        for (int act = 0; act < 2; act++) {
            kvt_results *found = replay(path, "streaming:positions=cache,sinks=2",
                                        act ? KVT_ACT_PREFILL : KVT_ACT_OWN);
            kvt_results *plain =
                replay(path, "streaming:sinks=2", act ? KVT_ACT_PREFILL : KVT_ACT_OWN);
            for (int b = 0; b < 3; b++) {
                const kvt_cell *c = runs_cell(found, "streaming", names[b]);
                const kvt_cell *p = runs_cell(plain, "streaming", names[b]);
                double want = error_of(s, budgets[b], !act, true);
                double text = error_of(s, budgets[b], !act, false);
                CHECK_NEAR(runs_value(c, "out_err_mean_rel"), want, 0.005 * want + 1e-6);
                CHECK_NEAR(runs_value(p, "out_err_mean_rel"), text, 0.005 * text + 1e-6);
                if (b == 2 ? want > 1e-9 : fabs(want - text) < 0.012 * want)
                    fail_msg("budget %s: %.6g turned, %.6g as they are", names[b], want, text);
                assert_string_equal(c->exactness, "open-loop");
                /* which slots stay, and what the full cache gave the others, is the same */
                CHECK_NEAR(runs_value(c, "lost_mass_mean_frac"),
                           runs_value(p, "lost_mass_mean_frac"), 0);
                CHECK_NEAR(c->end_slots_mean_tokens, p->end_slots_mean_tokens, 0);
            }
            kvt_results_free(found);
            kvt_results_free(plain);
        }
        synth_free(s);
    }
}

/* The variants that section 2.1 names: what they keep, and where. */
static void variants_are_what_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool cache, decode, by_head;
    } cases[] = {{"streaming", false, true, false},
                 {"streaming:compat=official", true, true, false},
                 {"streaming:compat=official-ppl", true, true, false},
                 {"streaming:compat=official,positions=text", false, true, false},
                 {"streaming:compat=kvpress", false, false, false},
                 {"streaming:compat=kvpress,positions=cache", true, false, false},
                 {"streaming:compat=kvcf", false, false, true},
                 {"streaming:compat=kvcf-needle", false, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvt_err err;
        kvt_use *u;
        CHECK_OK(kvt_use_parse(&u, NULL, cases[i].text, &err), &err);
        assert_int_equal(u->traits.cache_positions, cases[i].cache);
        assert_int_equal(u->traits.exactness, cases[i].cache ? KVT_OPEN_LOOP : KVT_EXACT);
        assert_int_equal((u->traits.phases & KVT_DECODE) != 0, cases[i].decode);
        assert_int_equal(u->traits.by_query_head, cases[i].by_head);
        kvt_use_free(u);
    }
}

/* C010: without sinks the loss is seen, with them it is not. Token 0 gets most of each row. */
static void sinks_show_in_the_mass(void **state)
{
    (void)state;
    synth_spec spec = synth_default();
    spec.sink = 6;
    const char *path = runs_trace("sink", &spec);
    kvt_replay_spec run = runs_spec(&path, "streaming:sinks=0,streaming:sinks=4", "90%");
    kvt_results *found = runs_replay(&run, NULL);
    assert_int_equal(found->n, 2);
    const kvt_cell *none = &found->result[0]->cell[0], *four = &found->result[1]->cell[0];
    assert_non_null(strstr(none->policy_params, "sinks=0"));
    assert_true(runs_value(none, "lost_mass_mean_frac") > 0.4);
    assert_true(runs_value(four, "lost_mass_mean_frac") < 0.2);
    assert_true(runs_value(none, "attn_kl_mean_nats") >
                5 * runs_value(four, "attn_kl_mean_nats"));
    assert_true(runs_value(none, "out_err_mean_rel") >
                2 * runs_value(four, "out_err_mean_rel"));
    kvt_results_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_made_again),
        cmocka_unit_test(variants_are_what_they_say),
        cmocka_unit_test(sinks_show_in_the_mass),
    };
    return cmocka_run_group_tests_name("reposition", tests, runs_open, runs_close);
}
