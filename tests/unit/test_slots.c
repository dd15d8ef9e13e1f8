/* test_slots - sums over chosen tokens against plain loops in double, over odd sizes, with and
 * without vector code. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/rng.h"
#include "compute/slots.h"

static const struct size_row {
    const char *name;
    int64_t n_row, n_token, width, n_dim;
    int n_head;
} sizes[] = {
    {"1 row, 1 token", 1, 1, 16, 1, 1},          {"7 rows, 31 tokens", 7, 31, 16, 8, 2},
    {"16 rows, 33 tokens", 16, 33, 16, 40, 3},   {"64 rows, 257 tokens", 64, 257, 64, 64, 4},
    {"50 rows, 300 tokens", 50, 300, 64, 80, 7},
};

static float *random_floats(uint64_t *rng, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_real(rng);
    return x;
}

static void rows_are_turned(void **state)
{
    const struct size_row *r = *state;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "turn", 4);
    int64_t stride = r->n_token + 3;
    uint16_t *in = malloc((size_t)(r->n_row * stride) * sizeof *in);
    float *out = malloc((size_t)(r->n_token * r->width) * sizeof *out);
    for (int64_t i = 0; i < r->n_row * stride; i++)
        in[i] = half_from_float((float)rng_real(rng) * (i % stride / 8 % 2 ? 1 : 0x1p-7F));
    memset(out, 0xff, (size_t)(r->n_token * r->width) * sizeof *out);
    double *sum = calloc((size_t)r->n_token, sizeof *sum);
    slots_turn(out, sum, in, stride, r->n_row, r->n_token, r->width);
    for (int64_t t = 0; t < r->n_token; t++)
        for (int64_t i = 0; i < r->width; i++) {
            float want = i < r->n_row ? half_to_float(in[i * stride + t]) : 0;
            assert_true(out[t * r->width + i] == want);
            sum[t] -= (double)want;
        }
    for (int64_t t = 0; t < r->n_token; t++)
        assert_true(sum[t] == 0);
    free(sum);
    free(in);
    free(out);
}

/* Halves add up exactly in any order as long as they stay below 1. */
static void masses_are_added(void **state)
{
    const struct size_row *r = *state;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "add", 3);
    int64_t n = 0;
    float *p = random_floats(rng, r->n_token * SLOTS_WIDTH);
    int32_t *token = malloc((size_t)r->n_token * sizeof *token);
    for (int64_t i = 0; i < r->n_token * SLOTS_WIDTH; i++)
        p[i] = half_to_float(half_from_float(p[i] / (float)(2 * r->n_token)));
    for (int64_t t = r->n_token - 1; t >= 0; t--)
        if (rng_real(rng) < 0.7)
            token[n++] = (int32_t)t;
    for (int chosen = 0; chosen < 2; chosen++) {
        float sum[SLOTS_WIDTH];
        for (int k = 0; k < SLOTS_WIDTH; k++)
            sum[k] = (float)k / 64;
        slots_add(sum, p, chosen ? token : NULL, chosen ? n : r->n_token);
        for (int k = 0; k < SLOTS_WIDTH; k++) {
            double want = (double)k / 64;
            for (int64_t i = 0; i < (chosen ? n : r->n_token); i++)
                want += (double)p[(chosen ? token[i] : i) * SLOTS_WIDTH + k];
            assert_true((double)sum[k] == want);
        }
    }
    free(p);
    free(token);
}

static void rows_are_piled(void **state)
{
    const struct size_row *r = *state;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "pile", 4);
    int64_t stride = r->n_token + 3;
    float *row = random_floats(rng, r->n_row * stride);
    double *sum = malloc((size_t)r->n_token * sizeof *sum);
    for (int64_t t = 0; t < r->n_token; t++)
        sum[t] = (double)t / 3;
    slots_pile(sum, row, stride, r->n_row, r->n_token);
    for (int64_t t = 0; t < r->n_token; t++) {
        double want = (double)t / 3; /* the order of the rows: the same bits */
        for (int64_t i = 0; i < r->n_row; i++)
            want += (double)row[i * stride + t];
        assert_true(sum[t] == want);
    }
    free(row);
    free(sum);
}

static void values_are_mixed(void **state)
{
    const struct size_row *r = *state;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "mix", 3);
    int64_t n = 0, *pos = malloc((size_t)r->n_token * sizeof *pos);
    for (int64_t t = 0; t < r->n_token; t++)
        if (rng_real(rng) < 0.7)
            pos[n++] = t;
    float *p = random_floats(rng, r->n_head * r->n_token);
    float *v = random_floats(rng, r->n_token * r->n_dim);
    float *out = malloc((size_t)(r->n_head * r->n_dim) * sizeof *out);
    slots_mix(out, p, pos, n, v, r->n_dim, r->n_head, r->n_dim);
    for (int h = 0; h < r->n_head; h++)
        for (int64_t d = 0; d < r->n_dim; d++) {
            double want = 0;
            for (int64_t s = 0; s < n; s++)
                want += (double)p[h * n + s] * (double)v[pos[s] * r->n_dim + d];
            /* n roundings of half an ulp each, all terms positive */
            assert_true(fabs((double)out[h * r->n_dim + d] - want) <= want * (double)n * 6e-8);
        }
    free(pos);
    free(p);
    free(v);
    free(out);
}

static void outer_sums_can_be_cut_anywhere(void **state)
{
    const struct size_row *r = *state;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "outer", 5);
    int64_t n = r->n_token, size = r->width * r->n_dim;
    int32_t *token = malloc((size_t)n * sizeof *token);
    for (int64_t t = 0; t < n; t++)
        token[t] = (int32_t)(n - 1 - t);
    float *p = random_floats(rng, n * r->width), *v = random_floats(rng, n * r->n_dim);
    float *whole = calloc((size_t)size, sizeof *whole),
          *parts = calloc((size_t)size, sizeof *parts);
    slots_outer(whole, p, v, token, n, r->width, r->n_dim);
    for (int64_t from = 0, step = 1; from < n; from += step, step = step % 5 + 1)
        slots_outer(parts, p, v, token + from, from + step < n ? step : n - from, r->width,
                    r->n_dim);
    assert_memory_equal(whole, parts, (size_t)size * sizeof *whole);
    for (int64_t i = 0; i < r->width; i++)
        for (int64_t d = 0; d < r->n_dim; d++) {
            double want = 0;
            for (int64_t t = 0; t < n; t++)
                want += (double)p[t * r->width + i] * (double)v[t * r->n_dim + d];
            assert_true(fabs((double)whole[i * r->n_dim + d] - want) <=
                        want * (double)n * 6e-8);
        }
    free(token);
    free(p);
    free(v);
    free(whole);
    free(parts);
}

int main(void)
{
    struct CMUnitTest tests[5 * CHECK_COUNT(sizes)];
    int n = 0, failed = 0;
    CHECK_ROWS(tests, &n, sizes, rows_are_turned);
    CHECK_ROWS(tests, &n, sizes, masses_are_added);
    CHECK_ROWS(tests, &n, sizes, rows_are_piled);
    CHECK_ROWS(tests, &n, sizes, values_are_mixed);
    CHECK_ROWS(tests, &n, sizes, outer_sums_can_be_cut_anywhere);
    failed += CHECK_RUN("slots", tests, n);
    setenv("KVT_SIMD", "baseline", 1);
    failed += CHECK_RUN("slots, baseline", tests, n);
    return failed;
}
