/* test_policies_scored.c - KVpop through the engine: its memory against the paper's formula in
 * double, its sets against the heap, decay, budgets. */
#include "scored_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/running.h"

/* ---- the formulae, in double ---------------------------------------------------------------
 */

static double affine(const char *name, int lane, int64_t row, int64_t n_row, const double *x)
{
    char full[64];
    snprintf(full, sizeof full, "%s/weight", name);
    const float *w = scorer_tensor(full) + (lane * n_row + row) * 2 * D;
    snprintf(full, sizeof full, "%s/bias", name);
    double sum = (double)scorer_tensor(full)[lane * n_row + row];
    for (int d = 0; d < 2 * D; d++)
        sum += (double)w[d] * x[d];
    return sum;
}

static void phi(double out[DM], const char *name, int lane, const double *x)
{
    double u[O], plus = 0, minus = 0;
    for (int o = 0; o < O; o++) {
        u[o] = affine(name, lane, o, O, x);
        plus += exp(u[o]);
        minus += exp(-u[o]);
    }
    for (int o = 0; o < O; o++) {
        out[o] = exp(u[o]) / plus;
        out[O + o] = exp(-u[o]) / minus;
    }
}

static void input(double x[2 * D], const lanes *l, int lane, int64_t t)
{
    for (int d = 0; d < D; d++) {
        x[d] = (double)l->key[lane][t][d];
        x[D + d] = (double)l->value[lane][t][d];
    }
}

static double silu(double u)
{
    return u / (1 + exp(-u));
}

/* r of every token that can be read, as the paper prints it: no stabiliser. */
static void memory_scores(double r[T], const lanes *l, int lane, int64_t delay)
{
    static double query[T][DM];
    double C[DM][O] = {{0}}, z[DM] = {0}, x[2 * D], k[DM], v[O], y[O];
    for (int64_t q = 0; q < T; q++) {
        input(x, l, lane, q);
        phi(query[q], "query", lane, x);
        phi(k, "key", lane, x);
        for (int o = 0; o < O; o++)
            v[o] = affine("value", lane, o, O, x);
        double in = exp(affine("gate_i", lane, 0, 1, x));
        double keep = 1 / (1 + exp(-affine("gate_f", lane, 0, 1, x)));
        for (int i = 0; i < DM; i++) {
            z[i] = keep * z[i] + in * k[i];
            for (int o = 0; o < O; o++)
                C[i][o] = keep * C[i][o] + in * k[i] * v[o];
        }
        if (q < delay)
            continue;
        double mass = 0, square = 0, sum = (double)scorer_tensor("out/bias")[lane];
        for (int i = 0; i < DM; i++)
            mass += query[q - delay][i] * z[i];
        for (int o = 0; o < O; o++) {
            y[o] = 0;
            for (int i = 0; i < DM; i++)
                y[o] += query[q - delay][i] * C[i][o];
            y[o] /= mass;
            square += y[o] * y[o] / O;
        }
        for (int o = 0; o < O; o++)
            sum += (double)scorer_tensor("out/weight")[lane * O + o] *
                   silu((double)scorer_tensor("norm/gain")[lane * O + o] * y[o] /
                        sqrt(square + 1e-6));
        r[q - delay] = sum;
    }
}

/* What the heap keeps at every q, beside sinks and window: the paper's online form. */
static void heap_sets(bool held[T][T], const double *r, double log_gamma, const recipe *p,
                      int64_t k)
{
    double score[T];
    int32_t token[T];
    bool in[T] = {false};
    running_heap h = {.score = score, .token = token, .size = k};
    for (int64_t q = 0; q < T; q++) {
        int64_t t = q - p->window; /* it leaves the window */
        if (t >= p->sinks) {
            int32_t gone = running_heap_push(&h, (int32_t)t, r[t] - (double)t * log_gamma);
            in[t] = true;
            if (gone >= 0)
                in[gone] = false;
        }
        for (int64_t j = 0; j <= q; j++)
            held[q][j] = j < p->sinks || q - j < p->window || in[j];
    }
}

static void compare_with_heap(const run *r, const double *score, int lane, const recipe *p)
{
    static bool want[T][T];
    int64_t k = r->budget - p->sinks - p->window;
    memset(want, 0, sizeof want);
    heap_sets(want, score, (double)scorer_tensor("decay/log_gamma")[lane], p, k);
    for (int64_t q = r->n_prompt - 1; q < T; q++) {
        const bool *got = r->held[q + 1 - r->n_prompt][lane];
        int64_t n = run_count(r, q + 1 - r->n_prompt, lane);
        assert_int_equal(n, q + 1 < r->budget ? q + 1 : r->budget);
        for (int64_t j = 0; j < T; j++)
            if (got[j] != want[q][j])
                fail_msg("lane %d, query %d: token %d is %s, the heap says otherwise", lane,
                         (int)q, (int)j, got[j] ? "kept" : "gone");
    }
}

/* ---- KVpop ---------------------------------------------------------------------------------
 */

static void check_memory(const recipe *p)
{
    const lanes *l = make_lanes(5);
    kvt_scorer *s = make_memory(p);
    static run r;
    r = (run){.policy = "kvpop", .weights = s, .n_prompt = N, .budget = 13};
    run_on(&r, l);
    assert_string_equal(r.why, "");
    assert_true(r.ranked);
    for (int g = 0; g < G; g++) {
        double score[T] = {0}, lg = (double)scorer_tensor("decay/log_gamma")[g];
        memory_scores(score, l, g, p->delay);
        for (int64_t t = p->sinks; t <= N - 1 - p->window; t++) {
            double want = score[t] - (double)t * lg, got = (double)r.score[g][t];
            if (!(fabs(want - got) <= 2e-5 * (1 + fabs(want))))
                fail_msg("lane %d, token %d: %.8g, expected %.8g", g, (int)t, got, want);
        }
        compare_with_heap(&r, score, g, p);
    }
    kvt_scorer_close(s);
}

static void memory_is_the_formula(void **state)
{
    (void)state;
    check_memory(&(recipe){.sinks = 2, .window = 5, .step = 1, .delay = 5, .gate = 1});
}

static void memory_read_at_insertion(void **state)
{
    (void)state;
    check_memory(&(recipe){.sinks = 2, .window = 5, .step = 1, .delay = 0, .gate = 1});
    check_memory(&(recipe){.sinks = 0, .window = 1, .step = 1, .delay = 1, .gate = 1});
}

/* exp(a) of such gates is beyond f32: only the stabilised form survives. */
static void gates_may_be_large(void **state)
{
    (void)state;
    check_memory(&(recipe){.sinks = 1, .window = 4, .step = 1, .delay = 4, .gate = 40});
}

static void network_scores(double r[T], const lanes *l, int lane, int64_t width)
{
    for (int64_t t = 0; t < T; t++) {
        double x[2 * D];
        input(x, l, lane, t);
        r[t] = (double)scorer_tensor("out/bias")[lane];
        for (int64_t k = 0; k < width; k++)
            r[t] += (double)scorer_tensor("out/weight")[lane * width + k] *
                    silu(affine("in", lane, k, width, x));
    }
}

static void network_keeps_what_the_heap_keeps(void **state)
{
    (void)state;
    enum { WIDTH = 6 };
    recipe p = {.sinks = 2, .window = 5, .step = 1};
    const lanes *l = make_lanes(6);
    kvt_scorer *s = make_network(&p, WIDTH);
    for (int64_t B = 8; B <= 40; B += 8) {
        static run r;
        r = (run){.policy = "kvpop-mlp", .weights = s, .n_prompt = N, .budget = B};
        run_on(&r, l);
        assert_string_equal(r.why, "");
        for (int g = 0; g < G; g++) {
            double score[T];
            network_scores(score, l, g, WIDTH);
            compare_with_heap(&r, score, g, &p);
        }
    }
    kvt_scorer_close(s);
}

/* Older buckets lose log gamma at once: the order changes with q, so that the heap's would be
 * another set; chosen anew among what is left. */
static void decay_in_steps_is_online(void **state)
{
    (void)state;
    enum { WIDTH = 6 };
    recipe p = {.sinks = 1, .window = 3, .step = 7};
    const lanes *l = make_lanes(7);
    kvt_scorer *s = make_network(&p, WIDTH);
    static run r;
    r = (run){.policy = "kvpop-mlp", .weights = s, .n_prompt = N, .budget = 12};
    run_on(&r, l);
    for (int g = 0; g < G; g++) {
        double score[T], lg = (double)scorer_tensor("decay/log_gamma")[g];
        network_scores(score, l, g, WIDTH);
        bool held[T] = {false};
        for (int64_t q = 0; q < T; q++) {
            held[q] = true;
            int64_t n = 0, worst;
            for (int64_t j = 0; j <= q; j++)
                n += held[j];
            for (; n > r.budget; n--) {
                worst = -1;
                for (int64_t j = p.sinks; j <= q - p.window; j++) {
                    double now = score[j] + (double)((q - j) / p.step) * lg;
                    double least =
                        worst < 0 ? 0 : score[worst] + (double)((q - worst) / p.step) * lg;
                    if (held[j] && (worst < 0 || now <= least))
                        worst = j;
                }
                held[worst] = false;
            }
            for (int64_t j = 0; q >= N - 1 && j < T; j++)
                assert_int_equal(held[j], r.held[q + 1 - N][g][j]);
        }
    }
    kvt_scorer_close(s);
}

static void too_small_a_budget_is_refused(void **state)
{
    (void)state;
    recipe p = {.sinks = 2, .window = 5, .step = 1, .delay = 5, .gate = 1};
    const lanes *l = make_lanes(8);
    kvt_scorer *s = make_memory(&p);
    for (int64_t B = 5; B <= 8; B++) {
        static run r;
        r = (run){.policy = "kvpop", .weights = s, .n_prompt = N, .budget = B};
        run_on(&r, l);
        assert_false(r.failed);
        if (B == 8)
            assert_string_equal(r.why, "");
        else
            assert_non_null(strstr(r.why, "need a budget of 8 or more"));
    }
    static run d;
    d = (run){.policy = "kvpop:from=decisions,sinks=2,window=5", .n_prompt = N, .budget = 7};
    run_on(&d, l);
    assert_non_null(strstr(d.why, "need a budget of 8 or more, got 7"));
    kvt_scorer_close(s);
}

/* A file whose read-out comes after the token left has no score to give. */
static void late_read_out_fails(void **state)
{
    (void)state;
    recipe p = {.sinks = 2, .window = 3, .step = 1, .delay = 5, .gate = 1};
    kvt_scorer *s = make_memory(&p);
    static run r;
    r = (run){.policy = "kvpop", .weights = s, .n_prompt = N, .budget = 13};
    run_on(&r, make_lanes(9));
    assert_true(r.failed && strstr(r.why, "expected a finite number"));
    kvt_scorer_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_the_formula),
        cmocka_unit_test(memory_read_at_insertion),
        cmocka_unit_test(gates_may_be_large),
        cmocka_unit_test(network_keeps_what_the_heap_keeps),
        cmocka_unit_test(decay_in_steps_is_online),
        cmocka_unit_test(too_small_a_budget_is_refused),
        cmocka_unit_test(late_read_out_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
