/* test_train_scorers.c - scores and gradients of kvt train's scorers against torch's automatic
 * differentiation (train_scorers.py). */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/cutoff.h"
#include "train/scorer.h"

enum { TOKENS = 14, IN = 6, MOST = 512 };

/* The rule of train_scorers.py. */
static void value(double *out, int n, double salt, double size)
{
    for (int i = 0; i < n; i++)
        out[i] = size * sin(1.3 + 0.9 * i + 2.1 * salt + 0.37 * (i * i % 101));
}

/* The numbers of one line of the file; returns how many. */
static int golden(const char *name, const char *what, double *out)
{
    char key[64];
    snprintf(key, sizeof key, "%s %s", name, what);
    FILE *f = fopen(KVT_SOURCE_DIR "/tests/golden/train_scorers.txt", "r");
    assert_non_null(f);
    static char line[1 << 16];
    int n = 0;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) != 0 || line[strlen(key)] != ' ')
            continue;
        char *at = line + strlen(key), *end;
        for (double a = strtod(at, &end); end != at && n < MOST; a = strtod(at, &end)) {
            out[n++] = a;
            at = end;
        }
    }
    fclose(f);
    assert_true(n > 0);
    return n;
}

static void compare(const char *name, const char *what, const double *got, int n, double limit)
{
    double want[MOST], most = 0;
    assert_int_equal(golden(name, what, want), n);
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= limit * most))
            fail_msg("%s %s %d: expected %.15g, got %.15g", name, what, i, want[i], got[i]);
}

static void two_layers(void **state)
{
    (void)state;
    static const char *const name[] = {"silu", "gelu"};
    for (int i = 0; i < 2; i++) {
        const mlp_shape s = {IN, 5, 2, i ? MLP_GELU : MLP_SILU};
        double param[MOST], x[TOKENS * IN], weight[MOST], score[MOST], grad[MOST] = {0},
                                                                       work[MOST];
        value(param, (int)mlp_count(&s), 1, 0.8);
        value(x, TOKENS * IN, 2, 1.2);
        value(weight, TOKENS * 2, 3, 1);
        mlp_score_f64(&s, param, x, TOKENS, score, work);
        mlp_back_f64(&s, param, x, TOKENS, weight, grad, work);
        compare(name[i], "score", score, TOKENS * 2, 1e-12);
        compare(name[i], "grad", grad, (int)mlp_count(&s), 1e-12);
    }
}

static void memory(void **state)
{
    (void)state;
    static const int32_t read[] = {0, 1, 4, 5, 9};
    static double work[1 << 14];
    for (int i = 0; i < 2; i++) {
        const mlstm_shape s = {IN, 4, i ? 0 : 3};
        double param[MOST], x[TOKENS * IN], weight[5], score[5], grad[MOST] = {0};
        assert_true(mlstm_work(&s, TOKENS, 5) <= 1 << 14);
        value(param, (int)mlstm_count(&s), 1, 0.9);
        value(x, TOKENS * IN, 2, 1.2);
        value(weight, 5, 3, 1);
        mlstm_score_f64(&s, param, x, TOKENS, read, 5, true, score, work);
        mlstm_back_f64(&s, param, x, TOKENS, read, 5, weight, grad, work);
        compare(i ? "static" : "delayed", "score", score, 5, 1e-12);
        compare(i ? "static" : "delayed", "grad", grad, (int)mlstm_count(&s), 1e-11);
    }
}

static void gates(void **state)
{
    (void)state;
    const gate_shape s = {IN, 4, 2, 3, 5};
    static double work[1 << 12];
    double param[MOST], x[TOKENS * IN], weight[MOST], score[MOST], grad[MOST] = {0};
    assert_true(gate_work(&s, TOKENS) <= 1 << 12);
    value(param, (int)gate_count(&s), 1, 0.9);
    value(x, TOKENS * IN, 2, 1.2);
    value(weight, TOKENS * 2, 3, 1);
    gate_score_f64(&s, param, x, TOKENS, score, work);
    gate_back_f64(&s, param, x, TOKENS, weight, grad, work);
    compare("gate", "score", score, TOKENS * 2, 1e-12);
    compare("gate", "grad", grad, (int)gate_count(&s), 1e-11);
}

/* Scores are f32 there: 1e-6. */
static void boundary(void **state)
{
    (void)state;
    static const cutoff_pair pair[] = {
        {.fresh = 0, .bound = 3, .keeps = true, .age = 3, .omega = 0.5},
        {.fresh = 2, .bound = 1, .keeps = false, .age = -7, .omega = 1.5},
        {.fresh = 4, .bound = 0, .keeps = false, .age = -40, .omega = 1.0},
        {.fresh = 1, .bound = 4, .keeps = true, .age = -2, .omega = 0.25}};
    static const int32_t at[] = {0, 1, 2, 3, 4};
    const cutoff_spec s = {.effective = true, .tau = 1.3};
    double wide[5], by_a, by_gamma = 0, grad[6];
    float score[5], slope[5] = {0};
    value(wide, 5, 4, 2);
    for (int i = 0; i < 5; i++)
        score[i] = (float)wide[i];
    double log_gamma = cutoff_gamma(0.4, &by_a);
    double loss = cutoff_loss(&s, pair, 4, at, score, log_gamma, 1, slope, &by_gamma);
    for (int i = 0; i < 5; i++)
        grad[i] = (double)slope[i];
    grad[5] = by_gamma * by_a;
    compare("boundary", "score", &loss, 1, 1e-6);
    compare("boundary", "grad", grad, 6, 1e-6);
    double want[6];
    golden("boundary", "grad", want);
    assert_true(fabs(grad[5] - want[5]) <= 1e-5 * fabs(want[5])); /* small beside the others */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_layers),
        cmocka_unit_test(memory),
        cmocka_unit_test(gates),
        cmocka_unit_test(boundary),
    };
    return cmocka_run_group_tests_name("scorers by torch", tests, NULL, NULL);
}
