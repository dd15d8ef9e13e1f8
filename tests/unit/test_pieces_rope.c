/* test_pieces_rope.c - keys that are moved to other positions: against complex products in
 * double, and what case C011 asks (cases.md): norms stay, turning back restores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <complex.h>
#include <math.h>
#include <string.h>

#include "kvt/pieces.h"
#include "../toy.h"

enum { D = 16 };

/* YaRN's magnitude at factor 4, as C011 gives it. */
static const double yarn = 1.138629436;

static kvt_geometry model(double factor, double local)
{
    kvt_geometry g = {.head_dim = D, .rope_attn_factor = factor, .rope_theta_local = local};
    g.window[1] = 512;
    for (int i = 0; i < D / 2; i++)
        g.rope_freq[i] = pow(10000, -2.0 * i / D);
    return g;
}

static float number(uint64_t seed)
{
    return (float)(toy_mix(seed) % 4001) / 1000 - 2;
}

/* A key as a model stores it: before RoPE, turned by its position, times the factor. */
static void stored(float *out, const float *plain, const double *freq, int64_t position,
                   double factor)
{
    for (int i = 0; i < D / 2; i++) {
        double complex z = (double)plain[i] + (double)plain[i + D / 2] * I;
        z *= factor * cexp(I * (double)position * freq[i]);
        out[i] = (float)creal(z);
        out[i + D / 2] = (float)cimag(z);
    }
}

static double norm(const float *x)
{
    double sum = 0;
    for (int d = 0; d < D; d++)
        sum += (double)x[d] * (double)x[d];
    return sqrt(sum);
}

static void check_near(const float *got, const float *want, double bound)
{
    for (int d = 0; d < D; d++)
        if (fabs((double)got[d] - (double)want[d]) > bound)
            fail_msg("channel %d is %.9g, expected %.9g", d, (double)got[d], (double)want[d]);
}

/* C011: positions {0, 5, 9} become {0, 1, 2} under YaRN. Issue 43 of section 13: moved by the
 * difference is the same as computed at the new position. */
static void moved_is_computed_there(void **state)
{
    (void)state;
    static const int64_t from[] = {0, 5, 9, 40000}, to[] = {0, 1, 2, 3};
    kvt_geometry g = model(yarn, 0);
    double freq[D / 2], factor = kvt_rope_freq(freq, &g, 0);
    assert_true(factor == yarn);
    for (uint64_t i = 0; i < 4; i++) {
        float plain[D], key[D], moved[D], want[D];
        for (uint64_t d = 0; d < D; d++)
            plain[d] = number(i * D + d);
        stored(key, plain, freq, from[i], factor);
        stored(want, plain, freq, to[i], factor);
        kvt_rotate(moved, key, freq, D, to[i] - from[i]);
        check_near(moved, want, 1e-5);
        assert_true(fabs(norm(moved) - norm(key)) < 1e-6 * norm(key));
        kvt_rotate(moved, moved, freq, D, from[i] - to[i]); /* in place */
        check_near(moved, key, 2e-6);
        kvt_unrotate(moved, key, freq, D, from[i], factor);
        check_near(moved, plain, 1e-5);
    }
}

/* Dot products only know the difference of positions. */
static void equal_shifts_keep_products(void **state)
{
    (void)state;
    kvt_geometry g = model(1, 0);
    double freq[D / 2], before = 0, after = 0;
    float q[D], k[D];
    assert_true(kvt_rope_freq(freq, &g, 0) == 1);
    for (uint64_t d = 0; d < D; d++)
        q[d] = number(d), k[d] = number(100 + d);
    for (int d = 0; d < D; d++)
        before += (double)q[d] * (double)k[d];
    kvt_rotate(q, q, freq, D, -123);
    kvt_rotate(k, k, freq, D, -123);
    for (int d = 0; d < D; d++)
        after += (double)q[d] * (double)k[d];
    assert_true(fabs(before - after) < 1e-5);
}

/* Layers with a window may have a base of their own, which carries no factor. */
static void windows_have_their_base(void **state)
{
    (void)state;
    kvt_geometry g = model(yarn, 100);
    double freq[D / 2];
    assert_true(kvt_rope_freq(freq, &g, 1) == 1);
    for (int i = 0; i < D / 2; i++)
        assert_true(fabs(freq[i] - pow(100, -2.0 * i / D)) < 1e-15);
    g.rope_theta_local = 0;
    assert_true(kvt_rope_freq(freq, &g, 1) == yarn);
    assert_memory_equal(freq, g.rope_freq, sizeof freq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_is_computed_there),
        cmocka_unit_test(equal_shifts_keep_products),
        cmocka_unit_test(windows_have_their_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
