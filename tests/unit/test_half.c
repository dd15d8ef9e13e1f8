/* test_half.c - half and brain floats against their definition (IEEE 754-2008, 3.4 and 4.3.1).
 */
#include "tests/check.h"

#include "base/half.h"

#include <math.h>
#include <stdlib.h>

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* The value of a half: (-1)^s 2^(e-15) 1.m, or 2^-14 0.m where e is 0. */
static double value_of(unsigned h)
{
    unsigned e = h >> 10 & 31, m = h & 1023;
    double x = e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
    if (e == 31)
        x = m ? NAN : INFINITY;
    return h & 0x8000 ? -x : x;
}

static void every_half_has_its_value(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float got = half_to_float((uint16_t)h);
        double want = value_of(h);
        if (isnan(want) ? !isnan(got) : (double)got != want || !signbit(got) != !signbit(want))
            fail_msg("half %#06x: expected %a, got %a", h, want, (double)got);
        if (isnan(want))
            assert_true((bool)signbit(got) == (h >> 15 == 1));
    }
}

static void finite_halves_come_back(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++)
        if (!isnan(value_of(h)))
            assert_int_equal(half_from_float(half_to_float((uint16_t)h)), h);
}

/* Around each border between neighbours: the middle goes to the even one, a float on either
 * side goes to its side. The last border is 65520, above which is infinity. */
static void borders_round_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        double next = h == 0x7bff ? 65536 : value_of(h + 1);
        float middle = (float)((value_of(h) + next) / 2);
        assert_true((double)middle == (value_of(h) + next) / 2);
        unsigned even = h & 1 ? h + 1 : h;
        for (unsigned sign = 0; sign < 2; sign++) {
            float s = sign ? -1 : 1;
            assert_int_equal(half_from_float(s * middle), even | sign << 15);
            assert_int_equal(half_from_float(s * nextafterf(middle, 1e9f)),
                             (h + 1) | sign << 15);
            assert_int_equal(half_from_float(s * nextafterf(middle, 0)), h | sign << 15);
        }
    }
    assert_int_equal(half_from_float(65519.99f), 0x7bff);
    assert_int_equal(half_from_float(65520.0f), 0x7c00);
    assert_int_equal(half_from_float(3e38f), 0x7c00);
    assert_int_equal(half_from_float(-INFINITY), 0xfc00);
    assert_int_equal(half_from_float(float_of(1)), 0); /* the smallest float */
    assert_int_equal(half_from_float(-0.0f), 0x8000);
}

/* Every 509th float: no half is nearer, and of two equally near ones it is the even one. */
static void floats_go_to_the_nearest(void **state)
{
    (void)state;
    for (uint64_t u = 0; u <= UINT32_MAX; u += 509) {
        float f = float_of((uint32_t)u);
        unsigned h = half_from_float(f), magnitude = h & 0x7fff;
        if (isnan(f)) {
            assert_true(magnitude > 0x7c00);
            continue;
        }
        assert_int_equal(h >> 15, signbit(f) != 0);
        double x = fabs((double)f);
        double here = magnitude == 0x7c00 ? 65536 : value_of(magnitude);
        double above = magnitude >= 0x7bff ? 65536 : value_of(magnitude + 1);
        double below = magnitude ? value_of(magnitude - 1) : 0;
        if (x >= 65536)
            assert_int_equal(magnitude, 0x7c00);
        else if (fabs(x - here) > fabs(x - above) || fabs(x - here) > fabs(x - below) ||
                 (magnitude & 1 &&
                  (fabs(x - here) == fabs(x - above) || fabs(x - here) == fabs(x - below))))
            fail_msg("%a became %#06x", (double)f, h);
    }
}

/* The arrays may use the processor's instructions: the bits are those of the plain code, for
 * every half and for floats of every exponent, NaN payloads included; at each length and
 * remainder. */
static void arrays_have_the_same_bits(void **state)
{
    (void)state;
    enum { N = 65536 };
    static uint16_t half[N];
    static float real[N];
    for (int i = 0; i < N; i++)
        half[i] = (uint16_t)i;
    half_to_floats(real, half, N);
    for (int i = 0; i < N; i++)
        if (bits_of(real[i]) != bits_of(half_to_float((uint16_t)i)))
            fail_msg("half %#06x: %#x", (unsigned)i, bits_of(real[i]));
    for (uint32_t low = 0; low < 0x10000; low += 0x10000 / 64 - 1) {
        for (int i = 0; i < N; i++)
            real[i] = float_of((uint32_t)i << 16 | low);
        half_from_floats(half, real, N);
        for (int i = 0; i < N; i++)
            if (half[i] != half_from_float(real[i]))
                fail_msg("float %#x: %#06x", bits_of(real[i]), half[i]);
    }
    for (int64_t n = 0; n < 40; n++) {
        memset(half, 0xee, sizeof half);
        for (int i = 0; i < 40; i++)
            real[i] = (float)i;
        half_from_floats(half, real, n);
        for (int i = 0; i < 40; i++)
            assert_int_equal(half[i], i < n ? half_from_float((float)i) : 0xeeee);
    }
}

/* Quiet bit set, sign and upper payload kept: what VCVTPS2PH and VCVTPH2PS do (Intel SDM vol.
 * 1, 4.8.3.4), so that the bytes of a trace do not depend on the processor. */
static void nan_keeps_its_payload(void **state)
{
    (void)state;
    assert_int_equal(half_from_float(float_of(0x7f800001)), 0x7e00);
    assert_int_equal(half_from_float(float_of(0xffabe000)), 0xff5f);
    assert_int_equal(bits_of(half_to_float(0x7c01)), 0x7fc02000);
    assert_int_equal(bits_of(half_to_float(0xfe00)), 0xffc00000);
    assert_int_equal(bf16_from_float(float_of(0x7f800001)), 0x7fc0);
}

static void brain_floats_are_upper_halves(void **state)
{
    (void)state;
    for (uint32_t b = 0; b < 65536; b++)
        assert_int_equal(bits_of(bf16_to_float((uint16_t)b)), b << 16);
    for (uint32_t b = 0; b < 0x7f80;
         b++) { /* as for halves: middle, and one float on each side */
        uint32_t even = b & 1 ? b + 1 : b;
        assert_int_equal(bf16_from_float(float_of(b << 16)), b);
        assert_int_equal(bf16_from_float(float_of(b << 16 | 0x8000)), even);
        assert_int_equal(bf16_from_float(float_of(b << 16 | 0x8001)), b + 1);
        assert_int_equal(bf16_from_float(float_of(b << 16 | 0x7fff)), b);
        assert_int_equal(bf16_from_float(float_of(0x80000000 | b << 16 | 0x8000)),
                         even | 0x8000);
    }
    assert_int_equal(bf16_from_float(-INFINITY), 0xff80);
    assert_int_equal(bf16_from_float(3.4e38f), 0x7f80); /* above 3.3953e38 + half an ulp */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_has_its_value),
        cmocka_unit_test(finite_halves_come_back),
        cmocka_unit_test(borders_round_to_nearest_even),
        cmocka_unit_test(floats_go_to_the_nearest),
        cmocka_unit_test(arrays_have_the_same_bits),
        cmocka_unit_test(nan_keeps_its_payload),
        cmocka_unit_test(brain_floats_are_upper_halves),
    };
    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
