/* test_rows.c - attention rows from halves: the formula in double, the same bits however they
 * are asked for, windows (C015), single tokens, extreme logits (C017). */
#include "compute/rows.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "tests/check.h"

static float uniform(uint64_t *s) /* (-1, 1), a linear congruential generator */
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*s >> 11) / 4503599627370496.0 - 1.0);
}

typedef struct data {
    int64_t Q, T, D, window;
    float scale, *q, *k;
    int32_t *pos;
    uint16_t *out;
    void *scratch;
} data;

static float halved(float x)
{
    return half_to_float(half_from_float(x));
}

static data data_new(int64_t Q, int64_t T, int64_t D, int64_t window, float size)
{
    data x = {.Q = Q, .T = T, .D = D, .window = window, .scale = 1.0f / sqrtf((float)D)};
    uint64_t seed = (uint64_t)(Q * 1000003 + T * 1009 + D);
    x.q = malloc((size_t)(Q * D) * sizeof *x.q);
    x.k = malloc((size_t)(T * D) * sizeof *x.k);
    x.pos = malloc((size_t)Q * sizeof *x.pos);
    x.out = malloc((size_t)(Q * T) * sizeof *x.out);
    x.scratch = aligned_alloc(64, (rows_scratch_bytes(T, D) + 63) / 64 * 64);
    for (int64_t i = 0; i < Q * D; i++)
        x.q[i] = halved(size * uniform(&seed));
    for (int64_t i = 0; i < T * D; i++)
        x.k[i] = halved(size * uniform(&seed));
    for (int64_t i = 0; i < Q; i++)
        x.pos[i] = (int32_t)(T - Q + i);
    return x;
}

static void data_free(data *x)
{
    free(x->q);
    free(x->k);
    free(x->pos);
    free(x->out);
    free(x->scratch);
}

static void run(data *x)
{
    memset(x->out, 0xff, (size_t)(x->Q * x->T) * sizeof *x->out);
    rows_head(x->out, x->q, x->k, x->pos, x->Q, x->T, x->D, x->scale, x->window, x->scratch);
}

/* Row r in double: p [T]. */
static void want(double *p, const data *x, int64_t r)
{
    double top = -INFINITY, sum = 0;
    int64_t pos = x->pos[r];
    for (int64_t t = 0; t < x->T; t++) {
        bool seen = t <= pos && (x->window == 0 || pos - t < x->window);
        p[t] = -INFINITY;
        if (!seen)
            continue;
        p[t] = 0;
        for (int64_t d = 0; d < x->D; d++)
            p[t] += (double)x->q[r * x->D + d] * (double)x->k[t * x->D + d];
        p[t] *= (double)x->scale;
        top = p[t] > top ? p[t] : top;
    }
    for (int64_t t = 0; t < x->T; t++)
        sum += p[t] = exp(p[t] - top);
    for (int64_t t = 0; t < x->T; t++)
        p[t] /= sum;
}

static void check(data *x)
{
    double *p = malloc((size_t)x->T * sizeof *p);
    run(x);
    for (int64_t r = 0; r < x->Q; r++) {
        want(p, x, r);
        for (int64_t t = 0; t < x->T; t++) {
            double got = (double)half_to_float(x->out[r * x->T + t]);
            /* Half an ulp of the half (2^-11 relative, 2^-25 for denormals) and the f32 sum. */
            double limit = p[t] * (0x1p-11 + 4e-6) + 0x1p-25;
            if (fabs(got - p[t]) > limit)
                fail_msg("Q=%d T=%d D=%d window=%d: row %d key %d: expected %.9g, got %.9g",
                         (int)x->Q, (int)x->T, (int)x->D, (int)x->window, (int)r, (int)t, p[t],
                         got);
            bool seen = t <= x->pos[r] && (x->window == 0 || x->pos[r] - t < x->window);
            if (!seen)
                assert_int_equal(x->out[r * x->T + t], 0);
        }
    }
    free(p);
}

static void rows_follow_the_formula(void **state)
{
    static const int64_t sizes[] = {1, 2, 7, 16, 31, 33, 257};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t d = 2; d <= 80; d += 26) {
            int64_t t = sizes[i];
            data x = data_new(t < 9 ? t : 9, t, d, 0, 4.0f);
            check(&x);
            data_free(&x);
        }
}

static void windows_count_the_query(void **state)
{
    (void)state;
    for (int64_t w = 1; w <= 40; w++) {
        data x = data_new(40, 40, 16, w, 3.0f);
        check(&x);
        data_free(&x);
    }
    /* C015: window 8: query 7 sees 0..7, query 8 sees 1..8, query 9 sees 2..9. */
    data x = data_new(10, 10, 4, 8, 0.5f);
    run(&x);
    for (int q = 6; q < 10; q++)
        for (int t = 0; t < 10; t++)
            assert_int_equal(x.out[q * 10 + t] != 0, t <= q && t > q - 8);
    data_free(&x);
}

/* The contract of compute/rows.h: bits depend on the row and its keys only. */
static void bits_do_not_depend_on_the_call(void **state)
{
    (void)state;
    data x = data_new(29, 301, 64, 0, 3.0f);
    run(&x);
    uint16_t *one = malloc((size_t)x.T * sizeof *one);
    for (int64_t r = 0; r < x.Q; r++) { /* row by row */
        rows_head(one, x.q + r * x.D, x.k, x.pos + r, 1, x.T, x.D, x.scale, 0, x.scratch);
        assert_memory_equal(one, x.out + r * x.T, (size_t)x.T * sizeof *one);
    }
    for (int64_t r = 0; r < x.Q; r++) { /* with only the keys that it sees */
        int64_t t = x.pos[r] + 1;
        rows_head(one, x.q + r * x.D, x.k, x.pos + r, 1, t, x.D, x.scale, 0, x.scratch);
        assert_memory_equal(one, x.out + r * x.T, (size_t)t * sizeof *one);
    }
    /* In another order of rows. */
    float *q = malloc((size_t)(x.Q * x.D) * sizeof *q);
    uint16_t *out = malloc((size_t)(x.Q * x.T) * sizeof *out);
    int32_t *pos = malloc((size_t)x.Q * sizeof *pos);
    for (int64_t r = 0; r < x.Q; r++) {
        int64_t from = (r * 17 + 5) % x.Q;
        memcpy(q + r * x.D, x.q + from * x.D, (size_t)x.D * sizeof *q);
        pos[r] = x.pos[from];
    }
    rows_head(out, q, x.k, pos, x.Q, x.T, x.D, x.scale, 0, x.scratch);
    for (int64_t r = 0; r < x.Q; r++)
        assert_memory_equal(out + r * x.T, x.out + (r * 17 + 5) % x.Q * x.T,
                            (size_t)x.T * sizeof *out);
    free(one);
    free(q);
    free(out);
    free(pos);
    data_free(&x);
}

static void portable_code_agrees(void **state)
{
    (void)state;
    data x = data_new(13, 130, 64, 50, 4.0f);
    setenv("KVT_SIMD", "baseline", 1);
    check(&x);
    unsetenv("KVT_SIMD");
    data_free(&x);
}

/* Halves reach 65,504: one key may take all, and nothing may become NaN. */
static void extreme_logits_stay_finite(void **state)
{
    (void)state;
    data x = data_new(3, 40, 8, 0, 1.0f);
    for (int64_t i = 0; i < x.D; i++) {
        x.q[i] = 60000.0f;
        x.q[x.D + i] = -60000.0f;
        x.k[5 * x.D + i] = 60000.0f;
    }
    check(&x);
    assert_int_equal(x.out[5], 0x3c00); /* 1.0 */
    assert_int_equal(x.out[x.T + 5], 0);
    data_free(&x);
}

/* Logits are the products in double; the softmax of a row of them is the row, unseen keys are
 * -INFINITY, and a window counts the query. */
static void logits_are_rows_before_the_softmax(void **state)
{
    (void)state;
    for (int64_t window = 0; window < 12; window += 5) {
        data x = data_new(7, 33, 12, window, 2.0f);
        float *z = malloc((size_t)(x.Q * x.T) * sizeof *z);
        assert_non_null(z);
        run(&x);
        rows_logits(z, x.q, x.k, x.pos, x.Q, x.T, x.D, x.scale, x.window, x.scratch);
        for (int64_t r = 0; r < x.Q; r++) {
            double sum = 0;
            for (int64_t t = 0; t < x.T; t++) {
                double dot = 0;
                float got = z[r * x.T + t];
                bool seen = t <= x.pos[r] && (window == 0 || x.pos[r] - t < window);
                for (int64_t d = 0; d < x.D; d++)
                    dot += (double)x.q[r * x.D + d] * (double)x.k[t * x.D + d];
                assert_int_equal(isfinite(got) != 0, seen);
                if (seen)
                    CHECK_NEAR(got, dot * (double)x.scale, 1e-5);
                sum += exp((double)got);
            }
            for (int64_t t = 0; t < x.T; t++)
                CHECK_NEAR(half_to_float(x.out[r * x.T + t]), exp((double)z[r * x.T + t]) / sum,
                           3e-4);
        }
        free(z);
        data_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_follow_the_formula),
        cmocka_unit_test(windows_count_the_query),
        cmocka_unit_test(bits_do_not_depend_on_the_call),
        cmocka_unit_test(portable_code_agrees),
        cmocka_unit_test(extreme_logits_stay_finite),
        cmocka_unit_test(logits_are_rows_before_the_softmax),
    };
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
