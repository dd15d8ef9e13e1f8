/* test_scorer_math.c - scorers and the boundary loss: slopes against finite differences, the
 * stabilised memory against the formula as printed, f32 against f64. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "train/cutoff.h"
#include "train/fit.h"
#include "train/scorer.h"

/* ---- finite differences
 * ----------------------------------------------------------------------
 */

/* A scalar loss of a scorer's parameters, and where its tensors begin. */
typedef struct problem {
    mlp_shape mlp;
    mlstm_shape mlstm;
    gate_shape gate;
    bool is_mlstm, is_gate;
    int64_t n, n_read, n_param;
    const double *x, *weight; /* loss = sum of weight x score */
    const int32_t *read;
    double *work;
} problem;

static double loss_of(const problem *p, const double *param)
{
    double score[64], sum = 0;
    int64_t n = p->is_mlstm ? p->n_read : p->n * p->mlp.n_out;
    if (p->is_gate) {
        n = p->n * p->gate.n_kv;
        gate_score_f64(&p->gate, param, p->x, p->n, score, p->work);
    } else if (p->is_mlstm)
        mlstm_score_f64(&p->mlstm, param, p->x, p->n, p->read, p->n_read, true, score, p->work);
    else
        mlp_score_f64(&p->mlp, param, p->x, p->n, score, p->work);
    for (int64_t i = 0; i < n; i++)
        sum += p->weight[i] * score[i];
    return sum;
}

static void slopes_of(const problem *p, const double *param, double *grad)
{
    loss_of(p, param);
    if (p->is_gate)
        gate_back_f64(&p->gate, param, p->x, p->n, p->weight, grad, p->work);
    else if (p->is_mlstm)
        mlstm_back_f64(&p->mlstm, param, p->x, p->n, p->read, p->n_read, p->weight, grad,
                       p->work);
    else
        mlp_back_f64(&p->mlp, param, p->x, p->n, p->weight, grad, p->work);
}

/* Largest gap over the tensor's largest slope. */
static void check_slopes(const problem *p, double *param, const int64_t *begin, int n_tensor)
{
    double *grad = calloc((size_t)p->n_param, sizeof *grad);
    slopes_of(p, param, grad);
    for (int k = 0; k < n_tensor; k++) {
        double gap = 0, most = 0;
        for (int64_t i = begin[k]; i < begin[k + 1]; i++) {
            double old = param[i], h = 1e-5;
            param[i] = old + h;
            double up = loss_of(p, param);
            param[i] = old - h;
            double down = loss_of(p, param);
            param[i] = old;
            double want = (up - down) / (2 * h);
            gap = fmax(gap, fabs(want - grad[i]));
            most = fmax(most, fabs(want));
        }
        if (!(most > 1e-6) || !(gap <= 1e-5 * most))
            fail_msg("tensor %d: slopes up to %g, off by %g", k, most, gap);
    }
    free(grad);
}

static void fill(double *out, int64_t n, double size, const char *key)
{
    uint64_t rng[4];
    float one;
    rng_init(rng, key, strlen(key));
    for (int64_t i = 0; i < n; i++) {
        fit_normal(&one, 1, size, rng);
        out[i] = (double)one;
    }
}

enum { IN = 6, TOKENS = 19, MOST = 4096 };

static void mlp_slopes(void **state)
{
    (void)state;
    static double param[MOST], x[TOKENS * IN], weight[64], work[MOST];
    for (int act = MLP_LINEAR; act <= MLP_GELU; act++) {
        problem p = {
            .mlp = {IN, 5, 3, (mlp_act)act}, .n = 7, .x = x, .weight = weight, .work = work};
        p.n_param = mlp_count(&p.mlp);
        fill(param, p.n_param, 0.7, "param");
        fill(x, TOKENS * IN, 1, "x");
        fill(weight, 64, 1, "weight");
        const int64_t begin[] = {0, mlp_in_bias(&p.mlp), mlp_out(&p.mlp), mlp_out_bias(&p.mlp),
                                 p.n_param};
        check_slopes(&p, param, begin, 4);
    }
}

static void mlstm_slopes(void **state)
{
    (void)state;
    static double param[MOST], x[TOKENS * IN], weight[64], work[1 << 16];
    static const int32_t read[] = {0, 2, 3, 7, 11, 14};
    for (int64_t delay = 0; delay <= 4; delay += 4) {
        problem p = {.mlstm = {IN, 4, delay},
                     .is_mlstm = true,
                     .n = TOKENS,
                     .n_read = 6,
                     .read = read,
                     .x = x,
                     .weight = weight,
                     .work = work};
        const mlstm_shape *s = &p.mlstm;
        int64_t rows = s->inner * IN, bias = mlstm_bias(s), O = s->inner;
        p.n_param = mlstm_count(s);
        assert_true(mlstm_work(s, TOKENS, 6) <= 1 << 16);
        fill(param, p.n_param, 0.6, "param");
        fill(x, TOKENS * IN, 1, "x");
        fill(weight, 64, 1, "weight");
        const int64_t begin[] = {0,
                                 rows,
                                 2 * rows,
                                 3 * rows,
                                 3 * rows + IN,
                                 bias,
                                 bias + O,
                                 bias + 2 * O,
                                 bias + 3 * O, /* both gates: a factor of all i cancels */
                                 mlstm_gain(s),
                                 mlstm_out(s),
                                 mlstm_out_bias(s),
                                 p.n_param};
        check_slopes(&p, param, begin, 12);
    }
}

/* The formula of a gate, one query head u of token x. */
static double plain_share(const gate_shape *s, const double *param, const double *x, int64_t u)
{
    double q[3], k[3], square[2] = {0}, a = param[gate_logit(s) + u], others = 0;
    int64_t g = u / 2;
    for (int64_t i = 0; i < 3; i++) {
        q[i] = param[gate_bias(s) + u * 3 + i];
        k[i] = 0;
        for (int64_t e = 0; e < IN; e++) {
            q[i] += param[(u * 3 + i) * IN + e] * x[e];
            k[i] += param[((4 + g) * 3 + i) * IN + e] * x[e];
        }
        square[0] += q[i] * q[i] / 3;
        square[1] += k[i] * k[i] / 3;
    }
    for (int64_t i = 0; i < 3; i++) {
        q[i] *= param[gate_gain(s) + i] / sqrt(square[0] + 1e-6);
        k[i] *= param[gate_gain(s) + 3 + i] / sqrt(square[1] + 1e-6);
        a += q[i] * k[i] / sqrt(3);
    }
    for (int64_t e = 0; e < 5; e++) {
        double b = 0;
        for (int64_t i = 0; i < 3; i++)
            b += q[i] * param[gate_base(s) + (g * 5 + e) * 3 + i] / sqrt(3);
        others += exp(b);
    }
    return exp(a) / (exp(a) + others);
}

/* Two query heads on each of two kv heads; scores by the formula, too. */
static void gate_slopes(void **state)
{
    (void)state;
    static double param[MOST], x[TOKENS * IN], weight[64], work[MOST], score[64];
    problem p = {.gate = {IN, 4, 2, 3, 5}, .is_gate = true, .n = 8};
    const gate_shape *s = &p.gate;
    p.x = x;
    p.weight = weight;
    p.work = work;
    p.n_param = gate_count(s);
    assert_true(gate_work(s, p.n) <= MOST && p.n_param <= MOST);
    fill(param, p.n_param, 0.8, "gate");
    fill(x, TOKENS * IN, 1, "x");
    fill(weight, 64, 1, "weight");
    const int64_t begin[] = {0,
                             s->n_head * 3 * IN,
                             gate_bias(s),
                             gate_gain(s),
                             gate_gain(s) + 3,
                             gate_base(s),
                             gate_logit(s),
                             p.n_param};
    check_slopes(&p, param, begin, 7);
    gate_score_f64(s, param, x, p.n, score, work);
    for (int64_t i = 0; i < p.n * 2; i++) {
        const double *at = x + i / 2 * IN;
        double want = plain_share(s, param, at, i % 2 * 2) / 2;
        CHECK_NEAR(score[i], want + plain_share(s, param, at, i % 2 * 2 + 1) / 2, 1e-12);
    }
}

/* ---- the formula as printed
 * ------------------------------------------------------------------
 */

static void plain_phi(double *out, const double *u, int n)
{
    double up = 0, down = 0;
    for (int i = 0; i < n; i++) {
        up += exp(u[i]);
        down += exp(-u[i]);
    }
    for (int i = 0; i < n; i++) {
        out[i] = exp(u[i]) / up;
        out[n + i] = exp(-u[i]) / down;
    }
}

static double row(const double *param, const mlstm_shape *s, int64_t r, const double *x)
{
    double sum = param[mlstm_bias(s) + r];
    for (int64_t i = 0; i < s->n_in; i++)
        sum += param[r * s->n_in + i] * x[i];
    return sum;
}

/* r_t by sums over all tokens up to t + delay: weights i_j prod f. */
static double plain_score(const mlstm_shape *s, const double *param, const double *x, int64_t t)
{
    enum { O = 4 };
    double u[O], q[2 * O], k[2 * O], num[O] = {0}, den = 0, later = 1;
    for (int64_t i = 0; i < O; i++)
        u[i] = row(param, s, i, x + t * s->n_in);
    plain_phi(q, u, O);
    for (int64_t j = t + s->delay; j >= 0; j--) {
        const double *at = x + j * s->n_in;
        for (int64_t i = 0; i < O; i++)
            u[i] = row(param, s, O + i, at);
        plain_phi(k, u, O);
        double w = later * exp(row(param, s, 3 * O, at)), dot = 0;
        for (int i = 0; i < 2 * O; i++)
            dot += q[i] * k[i];
        for (int64_t i = 0; i < O; i++)
            num[i] += w * dot * row(param, s, 2 * O + i, at);
        den += w * dot;
        later *= 1 / (1 + exp(-row(param, s, 3 * O + 1, at)));
    }
    double square = 0, r = param[mlstm_out_bias(s)];
    for (int i = 0; i < O; i++)
        square += num[i] / den * num[i] / den;
    double rms = sqrt(square / O + 1e-6);
    for (int64_t i = 0; i < O; i++) {
        double n = num[i] / den / rms * param[mlstm_gain(s) + i];
        r += param[mlstm_out(s) + i] * n / (1 + exp(-n));
    }
    return r;
}

static void stable_form_is_the_formula(void **state)
{
    (void)state;
    static double param[MOST], x[TOKENS * IN], work[1 << 16], score[TOKENS];
    int32_t read[TOKENS];
    for (int64_t delay = 0; delay <= 5; delay += 5) {
        const mlstm_shape s = {IN, 4, delay};
        int64_t n_read = TOKENS - delay;
        fill(param, mlstm_count(&s), 0.9, "formula");
        fill(x, TOKENS * IN, 1.5, "x");
        for (int32_t t = 0; t < n_read; t++)
            read[t] = t;
        mlstm_score_f64(&s, param, x, TOKENS, read, n_read, false, score, work);
        for (int64_t t = 0; t < n_read; t++)
            CHECK_NEAR(score[t], plain_score(&s, param, x, t), 1e-11);
    }
}

/* Gates whose exponentials overflow by themselves. */
static void large_gates_stay_finite(void **state)
{
    (void)state;
    static double param[MOST], x[TOKENS * IN], work[1 << 16], score[TOKENS], grad[MOST];
    const mlstm_shape s = {IN, 4, 2};
    static const int32_t read[] = {1, 9, 16};
    static const double slope[] = {1, -1, 2};
    fill(param, mlstm_count(&s), 0.9, "formula");
    fill(x, TOKENS * IN, 1, "x");
    param[mlstm_bias(&s) + 12] = 2000;
    param[mlstm_bias(&s) + 13] = -1000;
    mlstm_score_f64(&s, param, x, TOKENS, read, 3, true, score, work);
    mlstm_back_f64(&s, param, x, TOKENS, read, 3, slope, grad, work);
    for (int i = 0; i < 3; i++)
        assert_true(isfinite(score[i]));
    for (int64_t i = 0; i < mlstm_count(&s); i++)
        assert_true(isfinite(grad[i]));
}

/* ---- f32
 * -------------------------------------------------------------------------------------
 */

enum { WIDE = 32, LONG = 64 };

static void single_is_near_double(void **state)
{
    (void)state;
    const mlstm_shape s = {WIDE, 8, 6};
    const mlp_shape m = {WIDE, 16, 1, MLP_SILU};
    int64_t n_mlstm = mlstm_count(&s), n_mlp = mlp_count(&m), n_read = LONG - 6;
    static double param[MOST], x[LONG * WIDE], work[1 << 17], score[LONG], slope[LONG],
        grad[MOST];
    static float param_f[MOST], x_f[LONG * WIDE], work_f[1 << 17], score_f[LONG], slope_f[LONG],
        grad_f[MOST];
    int32_t read[LONG];
    assert_true(n_mlstm <= MOST && mlstm_work(&s, LONG, n_read) <= 1 << 17);
    fill(param, MOST, 0.3, "single");
    fill(x, LONG * WIDE, 1, "x");
    fill(slope, LONG, 1, "slope");
    for (int i = 0; i < MOST; i++)
        param[i] = (double)(param_f[i] = (float)param[i]);
    for (int i = 0; i < LONG * WIDE; i++)
        x[i] = (double)(x_f[i] = (float)x[i]);
    for (int32_t i = 0; i < LONG; i++) {
        slope[i] = (double)(slope_f[i] = (float)slope[i]);
        read[i] = i;
    }
    mlstm_score_f64(&s, param, x, LONG, read, n_read, true, score, work);
    mlstm_score_f32(&s, param_f, x_f, LONG, read, n_read, true, score_f, work_f);
    for (int64_t i = 0; i < n_read; i++)
        CHECK_NEAR((double)score_f[i], score[i], 1e-4);
    mlstm_back_f64(&s, param, x, LONG, read, n_read, slope, grad, work);
    mlstm_back_f32(&s, param_f, x_f, LONG, read, n_read, slope_f, grad_f, work_f);
    double most = 0;
    for (int64_t i = 0; i < n_mlstm; i++)
        most = fmax(most, fabs(grad[i]));
    for (int64_t i = 0; i < n_mlstm; i++)
        CHECK_NEAR((double)grad_f[i], grad[i], 1e-4 * most);
    mlp_score_f64(&m, param, x, LONG, score, work);
    mlp_score_f32(&m, param_f, x_f, LONG, score_f, work_f);
    for (int i = 0; i < LONG; i++)
        CHECK_NEAR((double)score_f[i], score[i], 1e-5);
    assert_true(n_mlp <= MOST);
}

/* ---- the boundary
 * ----------------------------------------------------------------------------
 */

static cutoff_spec plain_cutoff(void)
{
    return (cutoff_spec){.sinks = 2,
                         .window = 4,
                         .decay_step = 1,
                         .least = 0.05,
                         .most = 0.5,
                         .late = 0.5,
                         .effective = true,
                         .tau = 1.3,
                         .margin = 0.4,
                         .margin_scale = 2,
                         .balance = true,
                         .balance_least = 0.5,
                         .balance_most = 2};
}

enum { END = 60, PAIRS = 40 };

static int64_t draw(const cutoff_spec *s, double *target, cutoff_pair *pair, double log_gamma,
                    kvt_arena *work)
{
    uint64_t rng[4];
    rng_init(rng, "pairs", 5);
    fill(target, END, 2, "target");
    target[20] = target[21] = target[22] = 1;
    return cutoff_draw(s, target, END, log_gamma, pair, PAIRS, rng, work);
}

/* Each pair against the definition: sort what has left the window at that query. */
static void pairs_are_the_teachers(void **state)
{
    (void)state;
    kvt_arena *work = kvt_arena_new(1 << 20);
    for (int64_t step = 1; step <= 7; step += 3) {
        double target[END], log_gamma = -0.05;
        cutoff_pair pair[PAIRS];
        cutoff_spec s = plain_cutoff();
        s.decay_step = step;
        assert_int_equal(draw(&s, target, pair, log_gamma, work), PAIRS);
        double omega = 0;
        int kept = 0;
        for (int i = 0; i < PAIRS; i++) {
            const cutoff_pair *p = &pair[i];
            int64_t q = p->query, better_fresh = 0, better_bound = 0;
            assert_int_equal(p->fresh, q - s.window);
            double fresh = target[p->fresh] + (double)((q - p->fresh) / step) * log_gamma;
            double bound = target[p->bound] + (double)((q - p->bound) / step) * log_gamma;
            for (int64_t t = s.sinks; t <= p->fresh; t++) {
                double r = target[t] + (double)((q - t) / step) * log_gamma;
                better_fresh += r > fresh || (r == fresh && t < p->fresh);
                better_bound += r > bound || (r == bound && t < p->bound);
            }
            assert_int_equal(p->keeps, better_fresh < p->slots);
            assert_int_not_equal(p->fresh, p->bound);
            bool is_bound = better_fresh == p->slots - 1;
            assert_int_equal(better_bound, is_bound ? p->slots : p->slots - 1);
            assert_int_equal(p->age, (q - p->fresh) / step - (q - p->bound) / step);
            omega += p->omega;
            kept += p->keeps;
        }
        CHECK_NEAR(omega, PAIRS, 1e-9);
        assert_true(kept > 0 && kept < PAIRS);
    }
    kvt_arena_free(work);
}

static void boundary_slopes(void **state)
{
    (void)state;
    kvt_arena *work = kvt_arena_new(1 << 20);
    double target[END], wide[END];
    float score[END], slope[END] = {0};
    int32_t at[END];
    cutoff_pair pair[PAIRS];
    const cutoff_spec s = plain_cutoff();
    double a = 0.3, by_a, by_gamma = 0, log_gamma = cutoff_gamma(a, &by_a);
    int64_t n = draw(&s, target, pair, log_gamma, work);
    assert_true(n > 0);
    fill(wide, END, 1, "score");
    for (int32_t t = 0; t < END; t++) {
        score[t] = (float)wide[t];
        at[t] = t;
    }
    cutoff_loss(&s, pair, n, at, score, log_gamma, 0.7, slope, &by_gamma);
    for (int t = 0; t < END; t++) {
        float old = score[t], h = 0x1p-8f;
        score[t] = old + h;
        double up = cutoff_loss(&s, pair, n, at, score, log_gamma, 0, NULL, NULL);
        score[t] = old - h;
        double down = cutoff_loss(&s, pair, n, at, score, log_gamma, 0, NULL, NULL);
        double width = (double)(old + h) - (double)(old - h);
        score[t] = old;
        CHECK_NEAR((double)slope[t], 0.7 * (up - down) / width, 2e-5);
    }
    double h = 1e-4;
    double up = cutoff_loss(&s, pair, n, at, score, cutoff_gamma(a + h, NULL), 0, NULL, NULL);
    double down = cutoff_loss(&s, pair, n, at, score, cutoff_gamma(a - h, NULL), 0, NULL, NULL);
    double want = 0.7 * (up - down) / (2 * h);
    assert_true(fabs(want) > 1e-6);
    CHECK_NEAR(by_gamma * by_a, want, 1e-5 * fabs(want));
    kvt_arena_free(work);
}

static void decay_stays_in_its_range(void **state)
{
    (void)state;
    CHECK_NEAR(cutoff_gamma(-40, NULL), log(0.999), 1e-12);
    CHECK_NEAR(cutoff_gamma(40, NULL), log(0.999999), 1e-12);
    double out[3];
    const double score[] = {1, 2, 3, 4};
    cutoff_effective(out, score, 1, 4, 10, 4, -0.5);
    CHECK_NEAR(out[0], 2 - 1.0, 0); /* age 9: two steps */
    CHECK_NEAR(out[1], 3 - 1.0, 0);
    CHECK_NEAR(out[2], 4 - 0.5, 0); /* age 7: one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp_slopes),
        cmocka_unit_test(mlstm_slopes),
        cmocka_unit_test(gate_slopes),
        cmocka_unit_test(stable_form_is_the_formula),
        cmocka_unit_test(large_gates_stay_finite),
        cmocka_unit_test(single_is_near_double),
        cmocka_unit_test(pairs_are_the_teachers),
        cmocka_unit_test(boundary_slopes),
        cmocka_unit_test(decay_stays_in_its_range),
    };
    return cmocka_run_group_tests_name("scorer math", tests, NULL, NULL);
}
