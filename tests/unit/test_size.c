/* test_size.c - sizes and numbers, in the C locale and with a decimal comma (C070). */
#include "tests/check.h"

#include "base/rng.h"
#include "base/size.h"
#include "tests/german.h"

#include <math.h>
#include <stdio.h>

static const struct size_row {
    const char *name;
    kvt_code code;
    int64_t want;
} size_rows[] = {
    {"512MiB", KVT_OK, INT64_C(512) << 20},
    {"1.5KiB", KVT_OK, 1536},
    {"64M", KVT_OK, 64000000},
    {"64MB", KVT_OK, 64000000},
    {"4096", KVT_OK, 4096},
    {"4096B", KVT_OK, 4096},
    {"0", KVT_OK, 0},
    {"2 GiB", KVT_OK, INT64_C(2) << 30},
    {"0.1K", KVT_OK, 100},
    {"9223372036854775807", KVT_OK, INT64_MAX},
    {"8388607TiB", KVT_OK, INT64_C(8388607) << 40},
    {"8388608TiB", KVT_USAGE, 0}, /* 2^63 */
    {"9223372036854775808", KVT_USAGE, 0},
    {"1e3", KVT_USAGE, 0},
    {"1.5", KVT_USAGE, 0},
    {"1.5B", KVT_USAGE, 0},
    {"1,5KiB", KVT_USAGE, 0},
    {"12Q", KVT_USAGE, 0},
    {"12kib", KVT_USAGE, 0},
    {"nan", KVT_USAGE, 0},
    {"inf", KVT_USAGE, 0},
    {"-1", KVT_USAGE, 0},
    {"-1MiB", KVT_USAGE, 0},
    {"+1", KVT_USAGE, 0},
    {"", KVT_USAGE, 0},
    {".", KVT_USAGE, 0},
    {".KiB", KVT_USAGE, 0},
    {"MiB", KVT_USAGE, 0},
    {" 1", KVT_USAGE, 0},
    {"1 ", KVT_OK, 1},
    {"0x10", KVT_USAGE, 0},
};

static void size_is_read(void **state)
{
    const struct size_row *r = *state;
    kvt_err err;
    int64_t got = 0;
    kvt_code code = size_parse(&got, r->name, &err);
    if (code != r->code || got != r->want)
        fail_msg("'%s': expected %s %lld, got %s %lld", r->name, kvt_code_name(r->code),
                 (long long)r->want, kvt_code_name(code), (long long)got);
}

static const struct real_row {
    const char *name;
    kvt_code code;
    double want;
} real_rows[] = {
    {"0.5", KVT_OK, 0.5},          {"-1.2079", KVT_OK, -1.2079},
    {"0.000001", KVT_OK, 1e-6},    {"1e-6", KVT_OK, 1e-6},
    {"1E+3", KVT_OK, 1000},        {"+7", KVT_OK, 7},
    {".5", KVT_OK, 0.5},           {"5.", KVT_OK, 5},
    {"5e-324", KVT_OK, 0x1p-1074}, {"1.7976931348623157e308", KVT_OK, 0x1.fffffffffffffp1023},
    {"inf", KVT_OK, INFINITY},     {"-inf", KVT_OK, -INFINITY},
    {"1e309", KVT_USAGE, 0},       {"nan", KVT_USAGE, 0},
    {"0,5", KVT_USAGE, 0},         {"1e", KVT_USAGE, 0},
    {"e5", KVT_USAGE, 0},          {"0x1p3", KVT_USAGE, 0},
    {"1 ", KVT_USAGE, 0},          {" 1", KVT_USAGE, 0},
    {"--1", KVT_USAGE, 0},         {"1.2.3", KVT_USAGE, 0},
    {".", KVT_USAGE, 0},           {"", KVT_USAGE, 0},
};

static void real_is_read(void **state)
{
    const struct real_row *r = *state;
    kvt_err err;
    double got = 0;
    kvt_code code = real_parse(&got, r->name, &err);
    if (code != r->code || got != r->want)
        fail_msg("'%s': expected %s %.17g, got %s %.17g", r->name, kvt_code_name(r->code),
                 r->want, kvt_code_name(code), got);
}

static const struct int_row {
    const char *name;
    kvt_code code;
    int64_t want;
} int_rows[] = {
    {"0", KVT_OK, 0},
    {"-12", KVT_OK, -12},
    {"+12", KVT_OK, 12},
    {"9223372036854775807", KVT_OK, INT64_MAX},
    {"-9223372036854775808", KVT_OK, INT64_MIN},
    {"9223372036854775808", KVT_USAGE, 0},
    {"1.0", KVT_USAGE, 0},
    {"1e3", KVT_USAGE, 0},
    {"010", KVT_OK, 10},
    {"0x10", KVT_USAGE, 0},
    {"", KVT_USAGE, 0},
    {"-", KVT_USAGE, 0},
    {" 1", KVT_USAGE, 0},
};

static void int_is_read(void **state)
{
    const struct int_row *r = *state;
    kvt_err err;
    int64_t got = 0;
    kvt_code code = int_parse(&got, r->name, &err);
    if (code != r->code || got != r->want)
        fail_msg("'%s': got %s %lld", r->name, kvt_code_name(code), (long long)got);
}

/* Bytes over 2^(10 i), to a tenth, by hand. */
static const struct print_row {
    const char *name;
    int64_t bytes;
} print_rows[] = {
    {"0 B", 0},
    {"1023 B", 1023},
    {"1.0 KiB", 1024},
    {"1.5 KiB", 1536},
    {"1023.9 KiB", 1048473}, /* 1023.899 */
    {"1.0 MiB", 1048575},    /* 1023.999 would round to 1024.0 KiB */
    {"3.1 GiB", INT64_C(3328599655)},
    {"8.0 EiB", INT64_MAX},
    {"-2.0 KiB", -2048},
};

static void size_is_printed(void **state)
{
    const struct print_row *r = *state;
    char text[32];
    assert_string_equal(size_print(r->bytes, text, sizeof text), r->name);
}

/* The shortest digits: Python 3's repr() of the same numbers, its exponent form apart. */
static const struct short_row {
    const char *name;
    double x;
} short_rows[] = {
    {"0.1", 0.1},
    {"0", 0.0},
    {"-0", -0.0},
    {"0.30000000000000004", 0.1 + 0.2},
    {"1e+22", 1e22},
    {"9007199254740994", 9007199254740994.0}, /* 2^53 + 2 */
    {"5e-324", 0x1p-1074},
    {"2.2250738585072014e-308", 0x1p-1022},
    {"1.7976931348623157e+308", 0x1.fffffffffffffp1023},
    {"0.3333333333333333", 1.0 / 3},
    {"123456", 123456},
    {"12.5", 12.5},
    {"", NAN},
    {"inf", INFINITY},
    {"-inf", -INFINITY},
};

static void shortest_digits(void **state)
{
    const struct short_row *r = *state;
    char text[40];
    assert_string_equal(real_print(r->x, text, sizeof text), r->name);
}

static int significant(const char *text)
{
    int n = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9')
            continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        n += n || *text != '0';
    }
    return n - (n ? zeros : 0);
}

/* Any double reads back equal, and with one digit less it would not. */
static void reals_survive_the_way_to_text(void **state)
{
    (void)state;
    kvt_err err;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "reals", 5);
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = rng_bits(rng);
        if (i % 3 == 1)
            bits &= UINT64_C(0x800fffffffffffff); /* denormal */
        double x, back;
        char text[40], shorter[40];
        memcpy(&x, &bits, sizeof x);
        if (i % 3 == 2)
            x = (double)(float)((double)(bits & 0xfffff) / 1000);
        if (isnan(x) || isinf(x))
            continue;
        CHECK_OK(real_parse(&back, real_print(x, text, sizeof text), &err), &err);
        if (memcmp(&back, &x, sizeof x))
            fail_msg("%a became '%s'", x, text);
        int n = significant(text);
        snprintf(shorter, sizeof shorter, "%.*e", n > 1 ? n - 2 : 0, x);
        if (n > 1 && strtod(shorter, NULL) == x)
            fail_msg("'%s' is longer than '%s'", text, shorter);
    }
}

/* C070: the same bytes with a decimal comma. */
static void comma_locale_changes_nothing(void **state)
{
    (void)state;
    kvt_err err;
    double x;
    int64_t n;
    char text[40];
    if (!enter_german()) {
        print_message("no locale with a decimal comma, and localedef cannot make one\n");
        skip();
    }
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5"); /* the locale is what it should be */
    assert_string_equal(real_print(1.2079, text, sizeof text), "1.2079");
    CHECK_OK(real_parse(&x, "0.000001", &err), &err);
    assert_true(x == 1e-6);
    CHECK_FAILS(real_parse(&x, "0,5", &err), KVT_USAGE, "'0,5' is not a number", &err);
    CHECK_OK(size_parse(&n, "1.5KiB", &err), &err);
    assert_int_equal(n, 1536);
    assert_string_equal(size_print(1536, text, sizeof text), "1.5 KiB");
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5"); /* and is left as it was */
    setlocale(LC_ALL, "C");
}

static void lists_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want; /* want: flags of 0..9, NULL: USAGE */
    } rows[] = {
        {"0-3,9", "1111000001"},
        {"5", "0000010000"},
        {"9-9", "0000000001"},
        {"0-9", "1111111111"},
        {"3,3,1", "0101000000"},
        {"2-4,3-5", "0011110000"},
        {"10", NULL},
        {"3-1", NULL},
        {"", NULL},
        {"1,", NULL},
        {",1", NULL},
        {"1-", NULL},
        {"-1", NULL},
        {"a", NULL},
        {"1;2", NULL},
        {"99999999999999999999", NULL},
        {"1 ", NULL},
    };
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_err err;
        bool flag[10];
        kvt_code code = list_parse(flag, 10, rows[i].text, &err);
        if ((code == KVT_OK) != (rows[i].want != NULL) || (code && code != KVT_USAGE))
            fail_msg("'%s': got %s", rows[i].text, kvt_code_name(code));
        for (int j = 0; rows[i].want && j < 10; j++)
            if (flag[j] != (rows[i].want[j] == '1'))
                fail_msg("'%s': flag %d", rows[i].text, j);
    }
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(size_rows) + CHECK_COUNT(real_rows) +
                            CHECK_COUNT(int_rows) + CHECK_COUNT(print_rows) +
                            CHECK_COUNT(short_rows) + 3];
    int n = 0;
    CHECK_ROWS(tests, &n, size_rows, size_is_read);
    CHECK_ROWS(tests, &n, real_rows, real_is_read);
    CHECK_ROWS(tests, &n, int_rows, int_is_read);
    CHECK_ROWS(tests, &n, print_rows, size_is_printed);
    CHECK_ROWS(tests, &n, short_rows, shortest_digits);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(reals_survive_the_way_to_text);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(lists_are_read);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(comma_locale_changes_nothing);
    return CHECK_RUN("size", tests, n);
}
