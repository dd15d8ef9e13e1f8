/* test_scorer_laws.c - policies that read learned weights or decisions of a retrofitted model,
 * against their papers' formulae in double: kvpop-mlp, kvpop, dms, kvzap, kvp-supervised,
 * locret, fast-kvzip, trim-kv, wg-kv. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws.h"

enum { LAYERS = 2, HEADS = 4, GROUPS = 2, EACH = HEADS / GROUPS, N = 50, M = 6, CAP = 200 };
enum { D = 8, E = HEADS * D, WIDE = 256 };
enum { SINKS = 2, WINDOW = 3 }; /* of the synthetic scorers */
static toy *trace;

/* ---- tensors -------------------------------------------------------------------------------
 */

static kvt_scorer_tensor *tensor_of(const toy *t, const char *kind, const char *name)
{
    for (int i = 0; i < t->n_weights; i++)
        for (int k = 0; strcmp(t->weights[i].kind, kind) == 0 && k < t->weights[i].n; k++)
            if (strcmp(t->weights[i].tensor[k].name, name) == 0)
                return (kvt_scorer_tensor *)(uintptr_t)&t->weights[i].tensor[k];
    fail_msg("no tensor %s of %s", name, kind);
    return NULL;
}

/* The floats of a tensor at one place of its first two axes: [L G ...] or [L H ...]. */
static const float *part_of(const toy *t, const char *kind, const char *name, int layer,
                            int group)
{
    const kvt_view *v = &tensor_of(t, kind, name)->view;
    int64_t at = (v->rank > 0 ? layer * v->stride[0] : 0) +
                 (group >= 0 && v->rank > 1 ? group * v->stride[1] : 0);
    return (const float *)v->data + at;
}

static double number_of(const toy *t, const char *kind, const char *name, int layer, int group)
{
    return (double)*part_of(t, kind, name, layer, group);
}

static double affine(const float *w, const float *b, const double *x, int64_t n)
{
    double y = (double)*b;
    for (int64_t i = 0; i < n; i++)
        y += (double)w[i] * x[i];
    return y;
}

static double silu(double u)
{
    return u / (1 + exp(-u));
}

static double sigmoid(double u)
{
    return 1 / (1 + exp(-u));
}

/* out . SiLU(in x + b) + b of a lane; shared: the hidden layer is the whole layer's. */
static double perceptron(const toy *t, const char *kind, int layer, int group, const double *x,
                         int64_t n_in, bool shared)
{
    const kvt_view *in = &tensor_of(t, kind, "in/weight")->view;
    int64_t K = in->dim[in->rank - 2];
    const float *w = part_of(t, kind, "in/weight", layer, shared ? -1 : group);
    const float *b = part_of(t, kind, "in/bias", layer, shared ? -1 : group);
    const float *out = part_of(t, kind, "out/weight", layer, group);
    double y = number_of(t, kind, "out/bias", layer, group);
    for (int64_t k = 0; k < K; k++)
        y += (double)out[k] * silu(affine(w + k * n_in, b + k, x, n_in));
    return y;
}

/* x = [k; v] of a token, after RoPE. */
static void key_and_value(const toy *t, int layer, int group, int64_t j, double *x)
{
    for (int d = 0; d < D; d++) {
        x[d] = laws_at(&t->more[layer].keys, group, j, d);
        x[D + d] = laws_at(&t->more[layer].values, group, j, d);
    }
}

/* ---- kvpop
 * -----------------------------------------------------------------------------------
 */

static void mlp_scores(const toy *t, int layer, int group, double *r)
{
    double x[2 * D];
    for (int64_t j = 0; j < t->T; j++) {
        key_and_value(t, layer, group, j, x);
        r[j] = perceptron(t, "kvpop-mlp", layer, group, x, 2 * D, false);
    }
}

/* phi(u) = [softmax(u); softmax(-u)] */
static void hedgehog(double *phi, const double *u, int n)
{
    for (int side = 0; side < 2; side++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += phi[side * n + i] = exp(side ? -u[i] : u[i]);
        for (int i = 0; i < n; i++)
            phi[side * n + i] /= sum;
    }
}

static void project(double *out, const toy *t, const char *name, int layer, int group,
                    const double *x, int n)
{
    char weight[32], bias[32];
    snprintf(weight, sizeof weight, "%s/weight", name);
    snprintf(bias, sizeof bias, "%s/bias", name);
    for (int o = 0; o < n; o++)
        out[o] = affine(part_of(t, "kvpop", weight, layer, group) + o * 2 * D,
                        part_of(t, "kvpop", bias, layer, group) + o, x, 2 * D);
}

/* A matrix memory that takes in every token, read for token t when `delay` more have come. */
static void mlstm_scores(const toy *t, int layer, int group, int64_t delay, double *r)
{
    enum { O = D / 2 };
    double C[2 * O][O] = {{0}}, z[2 * O] = {0}, read[CAP][2 * O], gate[1];
    const float *gain = part_of(t, "kvpop", "norm/gain", layer, group);
    const float *out = part_of(t, "kvpop", "out/weight", layer, group);
    for (int64_t q = 0; q < t->T; q++) {
        double x[2 * D], u[O], key[2 * O], value[O];
        key_and_value(t, layer, group, q, x);
        project(u, t, "query", layer, group, x, O);
        hedgehog(read[q], u, O);
        project(u, t, "key", layer, group, x, O);
        hedgehog(key, u, O);
        project(value, t, "value", layer, group, x, O);
        project(gate, t, "gate_i", layer, group, x, 1);
        double in = exp(gate[0]);
        project(gate, t, "gate_f", layer, group, x, 1);
        double forget = sigmoid(gate[0]);
        for (int i = 0; i < 2 * O; i++) {
            z[i] = forget * z[i] + in * key[i];
            for (int o = 0; o < O; o++)
                C[i][o] = forget * C[i][o] + in * key[i] * value[o];
        }
        r[q] = 0; /* not read yet */
        if (q < delay)
            continue;
        double y[O] = {0}, below = 0, square = 0;
        for (int i = 0; i < 2 * O; i++) {
            below += read[q - delay][i] * z[i];
            for (int o = 0; o < O; o++)
                y[o] += read[q - delay][i] * C[i][o];
        }
        for (int o = 0; o < O; o++)
            square += (y[o] / below) * (y[o] / below) / O;
        r[q - delay] = number_of(t, "kvpop", "out/bias", layer, group);
        for (int o = 0; o < O; o++)
            r[q - delay] +=
                (double)out[o] * silu(y[o] / below / sqrt(square + 1e-6) * (double)gain[o]);
    }
}

/* After every row: sinks, window, and of what left the window the k best by r - t log gamma. */
static void holds_static(const toy *t, const char *policy, double r[LAYERS][GROUPS][CAP],
                         int64_t B)
{
    mini_result got = laws_run(t, policy, "", B, false);
    assert_int_equal(got.n_step, t->M + 1);
    for (int64_t step = 0; step <= t->M; step++)
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                int64_t n = N + step;
                double pi[CAP];
                bool pinned[CAP];
                for (int64_t j = 0; j < n; j++) {
                    pi[j] =
                        r[l][g][j] - (double)j * number_of(t, policy, "decay/log_gamma", l, g);
                    pinned[j] = j < SINKS || n - 1 - j < WINDOW;
                }
                laws_holds(t, &got, step, l, g, pi, pinned, n, B);
            }
    assert_true(got.most <= B);
}

static void kvpop_is_a_heap_over_static_priorities(void **state)
{
    (void)state;
    static double r[LAYERS][GROUPS][CAP];
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++)
            mlp_scores(trace, l, g, r[l][g]);
    for (int64_t B = SINKS + WINDOW + 1; B <= N + M + 1; B += 7)
        holds_static(trace, "kvpop-mlp", r, B);
    for (int64_t delay = WINDOW; delay >= 0; delay -= WINDOW) {
        float *number = (float *)(uintptr_t)tensor_of(trace, "kvpop", "read_delay")->view.data;
        float was = *number;
        *number = (float)delay;
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++)
                mlstm_scores(trace, l, g, delay, r[l][g]);
        for (int64_t B = SINKS + WINDOW + 1; B <= N + M + 1; B += 7)
            holds_static(trace, "kvpop", r, B);
        *number = was;
    }
}

enum { STEP = 4 };

/* The least effective score at row q; of equal ones the later token. */
static int64_t least_of(const bool *in, const double *r, double gamma, int64_t q)
{
    int64_t at = -1;
    double least = INFINITY;
    for (int64_t j = 0; j <= q; j++) {
        double x = r[j] + (double)((q - j) / STEP) * gamma;
        if (in[j] && x <= least)
            least = x, at = j;
    }
    return at;
}

/* With a decay step the order changes with age: what is dropped in front of each row, the
 * prompt's, too, is the least at that moment, and never returns. */
static void kvpop_decays_in_steps(void **state)
{
    (void)state;
    enum { B = 14, K = B - SINKS - WINDOW };
    float *step = (float *)(uintptr_t)tensor_of(trace, "kvpop-mlp", "decay_step")->view.data;
    kvt_scorer_tensor *decay = tensor_of(trace, "kvpop-mlp", "decay/log_gamma");
    const void *was = decay->view.data;
    float steep[LAYERS * GROUPS] = {-0.05f, -0.3f, -0.11f, -0.01f};
    *step = STEP;
    decay->view.data = steep;
    mini_result got = laws_run(trace, "kvpop-mlp", "", B, false);
    decay->view.data = was;
    *step = 1;
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            double r[CAP], gamma = (double)steep[l * GROUPS + g];
            bool in[CAP] = {false};
            mlp_scores(trace, l, g, r);
            for (int64_t q = 0, n = 0; q < N + M; q++) {
                int64_t came = q - WINDOW;
                if (came >= SINKS)
                    in[came] = true, n++;
                for (; n > K; n--)
                    in[least_of(in, r, gamma, q)] = false;
                if (q < N - 1)
                    continue;
                const uint8_t *held = mini_held(&got, trace, q - N + 1, l, g);
                for (int64_t j = 0; j <= q; j++)
                    if (held[j] != (in[j] || j < SINKS || q - j < WINDOW))
                        fail_msg("layer %d lane %d row %lld token %lld: held %d", l, g,
                                 (long long)q, (long long)j, held[j]);
            }
        }
}

static void kvpop_needs_a_slot_to_choose(void **state)
{
    (void)state;
    for (int64_t B = 1; B <= SINKS + WINDOW + 1; B++)
        for (int i = 0; i < 2; i++) {
            mini_result r = laws_try(trace, i ? "kvpop" : "kvpop-mlp", "", B, false);
            assert_true(r.skipped == (B < SINKS + WINDOW + 1));
            assert_true(!r.skipped || strlen(r.why) > 0);
        }
}

/* ---- dms
 * -------------------------------------------------------------------------------------
 */

/* Decisions that a test sets; the toy's are back at the end. */
static float *decisions_of(int layer, int group)
{
    return (float *)(uintptr_t)trace->more[layer].decision.data + group * (N + M);
}

static void set_decisions(float value)
{
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++)
            for (int64_t j = 0; j < N + M; j++)
                decisions_of(l, g)[j] = value;
}

static void dms_holds(const char *params, int64_t W, const float *bits[LAYERS][GROUPS])
{
    mini_result r = laws_run(trace, "dms", params, N + M, false);
    for (int64_t step = 0; step <= M; step++)
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                const uint8_t *held = mini_held(&r, trace, step, l, g);
                int64_t q = N - 1 + step;
                for (int64_t j = 0; j <= q; j++)
                    if (held[j] != (q < j + W || !(bits[l][g][j] > 0)))
                        fail_msg("row %lld layer %d lane %d token %lld (logit %g): held %d",
                                 (long long)q, l, g, (long long)j, (double)bits[l][g][j],
                                 held[j]);
            }
}

static void dms_delays_what_is_marked(void **state)
{
    (void)state;
    static float was[LAYERS][GROUPS][N + M];
    const float *bits[LAYERS][GROUPS];
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            memcpy(was[l][g], decisions_of(l, g), sizeof was[l][g]);
            bits[l][g] = decisions_of(l, g);
        }
    for (int64_t W = 1; W <= N + M; W += 9) {
        char params[64];
        snprintf(params, sizeof params, "from=decisions,window=%lld", (long long)W);
        dms_holds(params, W, bits);
        set_decisions(-5); /* nothing is marked: dense */
        dms_holds(params, W, bits);
        set_decisions(1); /* all are: the window alone */
        dms_holds(params, W, bits);
        mini_result r = laws_run(trace, "dms", params, N + M, false);
        for (int64_t step = 0; step <= M; step++)
            assert_int_equal(mini_count(&r, trace, step, 1, 1), W < N + step ? W : N + step);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++)
                memcpy(decisions_of(l, g), was[l][g], sizeof was[l][g]);
    }
    /* One bit is one token. */
    mini_result one = laws_run(trace, "dms", "from=decisions,window=4", N + M, false);
    decisions_of(1, 0)[20] *= -1;
    mini_result two = laws_run(trace, "dms", "from=decisions,window=4", N + M, false);
    decisions_of(1, 0)[20] *= -1;
    for (int64_t i = 0, k; i < (M + 1) * LAYERS * GROUPS * (N + M); i++) {
        k = i / (N + M) % (LAYERS * GROUPS);
        assert_true((one.held[i] != two.held[i]) == (k == GROUPS && i % (N + M) == 20));
    }
}

static void dms_on_a_frozen_model_is_a_threshold(void **state)
{
    (void)state;
    mini_spec spec = {.trace = trace,
                      .policy = kvt_policy_find("dms"),
                      .params = "window=6",
                      .budget = 20,
                      .threshold = 0.1};
    kvt_err err;
    mini_result r;
    assert_int_equal(mini_run(&r, &spec, laws_memory, &err), KVT_OK);
    assert_false(r.skipped);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++) {
            double s[CAP];
            mlp_scores(trace, l, g, s);
            for (int64_t step = 0; step <= M; step++)
                for (int64_t j = 0; j < N + step; j++)
                    assert_true(mini_held(&r, trace, step, l, g)[j] ==
                                (j < SINKS || N - 1 + step < j + 6 || s[j] > 0.1));
        }
}

/* ---- one score a token
 * -------------------------------------------------------------------------
 */

static void kvzap_is_a_linear_map(void **state)
{
    (void)state;
    for (int decode = 0; decode < 2; decode++) {
        mini_result r = laws_run(trace, "kvzap", "window=4", 20, !decode);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                double s[CAP], x[E];
                bool pinned[CAP];
                for (int64_t j = 0; j < N + M; j++) {
                    for (int e = 0; e < E; e++)
                        x[e] = laws_at(&trace->more[l].hidden, j, e, 0);
                    s[j] = affine(part_of(trace, "kvzap", "weight", l, g),
                                  part_of(trace, "kvzap", "bias", l, g), x, E);
                    pinned[j] = j >= N - 4;
                }
                laws_scores(trace, &r, l, g, s, pinned, false);
                for (int64_t step = 0; step < r.n_step; step++)
                    for (int64_t j = 0; j < N + step; j++)
                        assert_true(mini_held(&r, trace, step, l, g)[j] ==
                                    (N + step - j <= 4 || s[j] > 0));
            }
    }
}

static void kvp_reads_key_value_and_distance(void **state)
{
    (void)state;
    for (int64_t B = 21; B < N; B += 9) {
        mini_result r = laws_run(trace, "kvp-supervised", "", B, true);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                double s[CAP], x[2 * D + 1];
                bool pinned[CAP];
                for (int64_t j = 0; j < N; j++) {
                    key_and_value(trace, l, g, j, x);
                    x[2 * D] = log2(1 + (double)(N - 1 - j));
                    s[j] = perceptron(trace, "kvp-supervised", l, g, x, 2 * D + 1, false);
                    pinned[j] = j < 4 || j >= N - 16;
                }
                laws_scores(trace, &r, l, g, s, pinned, false);
                laws_holds(trace, &r, 0, l, g, s, pinned, N, B);
            }
    }
}

static void locret_reads_a_whole_layer(void **state)
{
    (void)state;
    enum { IN = (HEADS + 2 * GROUPS) * D };
    for (int64_t B = 6; B < N; B += 9) {
        mini_result r = laws_run(trace, "locret", "", B, true);
        for (int l = 0; l < LAYERS; l++)
            for (int g = 0; g < GROUPS; g++) {
                double s[CAP], x[IN];
                bool pinned[CAP];
                for (int64_t j = 0; j < N; j++) {
                    const kvt_feed *f = &trace->more[l];
                    int n = 0;
                    for (int i = 0; i < HEADS * D; i++)
                        x[n++] = laws_at(&f->queries, i / D, j, i % D);
                    for (int i = 0; i < GROUPS * D; i++)
                        x[n++] = laws_at(&f->keys, i / D, j, i % D);
                    for (int i = 0; i < GROUPS * D; i++)
                        x[n++] = laws_at(&f->values, i / D, j, i % D);
                    s[j] = perceptron(trace, "locret", l, g, x, IN, true);
                    pinned[j] = j >= N - N / 10;
                }
                laws_scores(trace, &r, l, g, s, pinned, false);
                laws_holds(trace, &r, 0, l, g, s, pinned, N, B);
            }
    }
}

/* RMS norm with a gain, in place. */
static void normalise(double *x, const float *gain, int n)
{
    double square = 0;
    for (int i = 0; i < n; i++)
        square += x[i] * x[i] / n;
    for (int i = 0; i < n; i++)
        x[i] *= (double)gain[i] / sqrt(square + trace->geometry.norm_eps);
}

static double gate_of(int layer, int group, int64_t j)
{
    enum { IN = 16, BASES = 16 };
    static const char kind[] = "fast-kvzip";
    double x[E], key[IN], sum = 0;
    for (int e = 0; e < E; e++)
        x[e] = laws_at(&trace->more[layer].hidden, j, e, 0);
    const float zero = 0;
    for (int o = 0; o < IN; o++)
        key[o] = affine(part_of(trace, kind, "key/weight", layer, group) + o * E, &zero, x, E);
    normalise(key, part_of(trace, kind, "key/gain", layer, -1), IN);
    for (int h = group * EACH; h < (group + 1) * EACH; h++) {
        double q[IN], a = 0, all = 1;
        for (int o = 0; o < IN; o++)
            q[o] = affine(part_of(trace, kind, "query/weight", layer, h) + o * E,
                          part_of(trace, kind, "query/bias", layer, h) + o, x, E);
        normalise(q, part_of(trace, kind, "query/gain", layer, -1), IN);
        for (int o = 0; o < IN; o++)
            a += q[o] * key[o] / 4;
        a += number_of(trace, kind, "logit/bias", layer, h);
        for (int e = 0; e < BASES; e++) {
            double b = 0;
            for (int o = 0; o < IN; o++)
                b += q[o] * (double)part_of(trace, kind, "base", layer, group)[e * IN + o] / 4;
            all += exp(b - a);
        }
        sum += 1 / all / EACH;
    }
    return sum;
}

/* Its scores compete over all lanes. */
static void fast_kvzip_is_a_gate(void **state)
{
    (void)state;
    for (int64_t B = 9; B < N; B += 13) {
        mini_result r = laws_run(trace, "fast-kvzip", "", B, true);
        double s[LAYERS * GROUPS * N], worst = INFINITY, best = -INFINITY;
        int64_t n = 0;
        for (int k = 0; k < LAYERS * GROUPS; k++) {
            bool pinned[CAP];
            const uint8_t *held = mini_held(&r, trace, 0, k / GROUPS, k % GROUPS);
            for (int64_t j = 0; j < N; j++) {
                s[k * N + j] = gate_of(k / GROUPS, k % GROUPS, j);
                pinned[j] = j < 4 || j >= N - N * 2 / 100;
                n += held[j];
                assert_true(held[j] || !pinned[j]);
                if (!pinned[j] && held[j])
                    worst = fmin(worst, s[k * N + j]);
                if (!held[j])
                    best = fmax(best, s[k * N + j]);
            }
            laws_scores(trace, &r, k / GROUPS, k % GROUPS, s + k * N, pinned, false);
        }
        assert_int_equal(n, LAYERS * GROUPS * B);
        assert_true(worst >= best * (1 - 1e-4));
    }
}

/* ---- decisions in decode
 * -----------------------------------------------------------------------
 */

/* (q + 1 - t) log sigma(a_t), at the end of the prompt and 128 tokens on: unlike kvpop's, the
 * order changes with q. */
static void trim_kv_orders_anew(void **state)
{
    (void)state;
    enum { B = 20, LATER = 128, LONG = 130 };
    toy *t = toy_rich(laws_memory, 1, 1, 2, 1, N, LONG, false);
    mini_result r = laws_run(t, "trim-kv", "", B, false);
    const float *a = t->more[0].decision.data;
    double first[CAP], later[CAP];
    int n_flip = 0;
    for (int64_t j = 0; j < N + LONG; j++) {
        double beta = log(sigmoid((double)a[j]));
        first[j] = (double)(N - j) * beta;
        later[j] = (double)(N + LATER - j) * beta;
    }
    laws_holds(t, &r, 0, 0, 0, first, NULL, N, B);
    const uint8_t *before = mini_held(&r, t, 0, 0, 0);
    for (int64_t j = 0; j < N; j++) { /* what left does not compete again */
        later[j] = before[j] ? later[j] : -1e30;
        for (int64_t k = 0; k < j && before[j]; k++)
            n_flip += before[k] && (first[j] > first[k]) != (later[j] > later[k]);
    }
    assert_int_equal(mini_count(&r, t, LATER - 1, 0, 0), B + LATER - 1);
    laws_holds(t, &r, LATER, 0, 0, later, NULL, N + LATER, B);
    assert_true(n_flip > 0);
    toy_close(t);
}

static void wg_kv_admits_by_a_gate(void **state)
{
    (void)state;
    mini_spec spec = {.trace = trace,
                      .policy = kvt_policy_find("wg-kv"),
                      .params = "window=6",
                      .budget = 20,
                      .threshold = 0.4};
    kvt_err err;
    mini_result r;
    assert_int_equal(mini_run(&r, &spec, laws_memory, &err), KVT_OK);
    assert_false(r.skipped);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < GROUPS; g++)
            for (int64_t step = 0; step <= M; step++)
                for (int64_t j = 0; j < N + step; j++) {
                    double gate = sigmoid((double)decisions_of(l, g)[j]);
                    assert_true(mini_held(&r, trace, step, l, g)[j] ==
                                (N - 1 + step < j + 6 || gate > 0.4));
                }
}

int main(void)
{
    laws_memory = kvt_arena_new((size_t)2 << 30);
    trace = toy_rich(laws_memory, LAYERS, 5, HEADS, GROUPS, N, M, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kvpop_is_a_heap_over_static_priorities),
        cmocka_unit_test(kvpop_decays_in_steps),
        cmocka_unit_test(kvpop_needs_a_slot_to_choose),
        cmocka_unit_test(dms_delays_what_is_marked),
        cmocka_unit_test(dms_on_a_frozen_model_is_a_threshold),
        cmocka_unit_test(kvzap_is_a_linear_map),
        cmocka_unit_test(kvp_reads_key_value_and_distance),
        cmocka_unit_test(locret_reads_a_whole_layer),
        cmocka_unit_test(fast_kvzip_is_a_gate),
        cmocka_unit_test(trim_kv_orders_anew),
        cmocka_unit_test(wg_kv_admits_by_a_gate),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    toy_close(trace);
    kvt_arena_free(laws_memory);
    return failed;
}
