/* test_param.c - parameter tables: reading, errors, canonical text. */
#include "tests/check.h"

#include "base/rng.h"
#include "kvt/param.h"
#include "tests/german.h"

#include <math.h>
#include <stdio.h>

typedef struct sample {
    int64_t window, pool, any;
    double decay, scale;
    bool sorted;
    int kind, compat;
    char file[KVT_PARAM_TEXT_MAX];
} sample;

static const kvt_choice kinds[] = {{"max", "", "largest"}, {"mean", "", "mean"}};
static const kvt_choice compats[] = {
    {"paper", "", "the paper"},
    {"kvpress", "window=64,pool=5,kind=mean", "NVIDIA/kvpress"},
    {"official", "window=8", "the authors"},
};
static const kvt_param table[] = {
    KVT_PARAM_CHOICE(sample, compat, 0, compats, "implementation to follow"),
    KVT_PARAM(sample, window, 32, 1, 4096, "tokens", "queries that vote"),
    KVT_PARAM(sample, pool, 7, 1, 255, "tokens", "width of the pool"),
    KVT_PARAM(sample, any, -1, -INFINITY, INFINITY, "", "no bounds"),
    KVT_PARAM(sample, decay, 0.9, 0, 1, "frac", "forgetting"),
    KVT_PARAM(sample, scale, 1, 0, INFINITY, "", "no upper bound"),
    KVT_PARAM(sample, sorted, true, 0, 1, "", "a switch"),
    KVT_PARAM_CHOICE(sample, kind, 0, kinds, "what the pool takes"),
    {.name = "file",
     .type = KVT_TEXT,
     .offset = offsetof(sample, file),
     .unit = "",
     .help = "a file"},
    {0},
};
#define DEFAULTS \
    "compat=paper,window=32,pool=7,any=-1,decay=0.9,scale=1,sorted=true,kind=max,file="

static const struct good_row {
    const char *name, *want; /* typed over the defaults; the canonical text */
} good_rows[] = {
    {"", DEFAULTS},
    {"window=16",
     "compat=paper,window=16,pool=7,any=-1,decay=0.9,scale=1,sorted=true,kind=max,file="},
    {"window=16,compat=kvpress",
     "compat=kvpress,window=16,pool=5,any=-1,decay=0.9,scale=1,sorted=true,kind=mean,file="},
    {"compat=kvpress,window=16,kind=max",
     "compat=kvpress,window=16,pool=5,any=-1,decay=0.9,scale=1,sorted=true,kind=max,file="},
    {"compat=paper", DEFAULTS},
    {"decay=1e-1,scale=inf,sorted=0,any=9223372036854775807",
     "compat=paper,window=32,pool=7,any=9223372036854775807,decay=0.1,scale=inf,sorted=false,"
     "kind=max,file="},
    {"any=-9223372036854775808,sorted=true,window=4096,pool=1",
     "compat=paper,window=4096,pool=1,any=-9223372036854775808,decay=0.9,scale=1,sorted=true,"
     "kind=max,file="},
    {"file=a/b=c.h5,decay=0",
     "compat=paper,window=32,pool=7,any=-1,decay=0,scale=1,sorted=true,kind=max,file=a/b=c.h5"},
};

static void text_is_read(void **state)
{
    const struct good_row *r = *state;
    kvt_err err;
    sample s, again;
    char text[400], twice[400];
    kvt_param_defaults(table, &s);
    CHECK_OK(kvt_param_parse(table, &s, r->name, &err), &err);
    size_t n = kvt_param_print(table, text, sizeof text, &s);
    assert_string_equal(text, r->want);
    assert_int_equal(n, strlen(r->want));
    memset(&again, 0x5a, sizeof again);
    CHECK_OK(kvt_param_parse(table, &again, text, &err), &err);
    kvt_param_print(table, twice, sizeof twice, &again);
    assert_string_equal(twice, text);
}

static const struct bad_row {
    const char *name, *want;
} bad_rows[] = {
    {"windw=3", "no parameter 'windw' (did you mean 'window'?)"},
    {"wnidow=3", "no parameter 'wnidow' (did you mean 'window'?)"},
    {"zzz=3",
     "no parameter 'zzz' (there are compat, window, pool, any, decay, scale, sorted, kind, "
     "file)"},
    {"window=0", "window: 0 is not a whole number from 1 to 4096 tokens"},
    {"window=4097", "window: 4097 is not a whole number from 1 to 4096 tokens"},
    {"window=1.5", "window: 1.5 is not a whole number from 1 to 4096 tokens"},
    {"window=many", "window: 'many' is not a whole number from 1 to 4096 tokens"},
    {"window=", "window: '' is not a whole number from 1 to 4096 tokens"},
    {"window=99999999999999999999", "window: 99999999999999999999 is not a whole number"},
    {"any=x", "any: 'x' is not a whole number"},
    {"decay=1.0000001", "decay: 1.0000001 is not a number from 0 to 1"},
    {"decay=nan", "decay: 'nan' is not a number from 0 to 1"},
    {"decay=0,5", "expected name=value, got '5'"},
    {"scale=-1", "scale: -1 is not a number from 0 up"},
    {"sorted=maybe", "sorted: 'maybe' is not true or false"},
    {"compat=hf", "compat: 'hf' is not one of paper, kvpress, official"},
    {"compat=1", "compat: '1' is not one of paper, kvpress, official"},
    {"kind=", "kind: '' is not one of max, mean"},
    {"window", "expected name=value, got 'window'"},
    {"=3", "expected name=value, got '=3'"},
    {",window=3", "expected name=value, got ''"},
    {"window=3,", "expected name=value behind the last comma"},
    {"window=3,window=4", "window is given twice"},
    {"window=\033[2J", "window: '\u27e8ESC\u27e9[2J' is not"},
    {"pool=3,windw=4", "no parameter 'windw'"},
};

/* A wrong text leaves the values as they were, also those before the error. */
static void text_is_refused(void **state)
{
    const struct bad_row *r = *state;
    kvt_err err;
    sample s;
    char text[400];
    kvt_param_defaults(table, &s);
    CHECK_FAILS(kvt_param_parse(table, &s, r->name, &err), KVT_USAGE, r->want, &err);
    kvt_param_print(table, text, sizeof text, &s);
    assert_string_equal(text, DEFAULTS);
}

static void long_items_are_refused(void **state)
{
    (void)state;
    kvt_err err;
    sample s;
    char text[2000];
    kvt_param_defaults(table, &s);
    for (int n = 250; n < 261; n++) {
        int head = snprintf(text, sizeof text, "file=");
        memset(text + head, 'f', (size_t)n);
        text[head + n] = 0;
        kvt_code code = kvt_param_parse(table, &s, text, &err);
        assert_int_equal(code, n < KVT_PARAM_TEXT_MAX ? KVT_OK : KVT_USAGE);
        if (!code)
            assert_int_equal(strlen(s.file), n);
    }
    memset(text, 'n', sizeof text);
    text[1999] = 0;
    CHECK_FAILS(kvt_param_parse(table, &s, text, &err), KVT_USAGE, "too long", &err);
}

static void print_needs_its_length(void **state)
{
    (void)state;
    sample s;
    char text[200];
    kvt_param_defaults(table, &s);
    for (size_t cap = 0; cap < sizeof text; cap++) {
        memset(text, '#', sizeof text);
        assert_int_equal(kvt_param_print(table, text, cap, &s), strlen(DEFAULTS));
        size_t n = cap && cap - 1 < strlen(DEFAULTS) ? cap - 1 : strlen(DEFAULTS);
        if (cap) {
            assert_memory_equal(text, DEFAULTS, n);
            assert_int_equal(text[n], 0);
        }
        assert_int_equal(text[cap], '#');
    }
    assert_int_equal(kvt_param_print(NULL, text, sizeof text, &s), 0);
    assert_string_equal(text, "");
}

static void values_in_range_survive(void **state)
{
    (void)state;
    kvt_err err;
    uint64_t rng[RNG_WORDS];
    rng_init(rng, "param", 5);
    for (int i = 0; i < 20000; i++) {
        sample s, back;
        char text[400];
        kvt_param_defaults(table, &s);
        s.window = 1 + rng_below(rng, 4096);
        s.any = (int64_t)rng_bits(rng);
        s.decay = rng_real(rng);
        uint64_t bits = rng_bits(rng) >> 1;
        memcpy(&s.scale, &bits, sizeof bits);
        if (isnan(s.scale))
            s.scale = INFINITY;
        s.sorted = bits & 1;
        s.kind = (int)rng_below(rng, 2);
        s.compat = (int)rng_below(rng, 3);
        kvt_param_print(table, text, sizeof text, &s);
        kvt_param_defaults(table, &back);
        CHECK_OK(kvt_param_parse(table, &back, text, &err), &err);
        assert_true(back.window == s.window && back.any == s.any && back.sorted == s.sorted);
        assert_true(back.kind == s.kind && back.compat == s.compat && back.pool == s.pool);
        assert_memory_equal(&back.decay, &s.decay, sizeof s.decay);
        assert_memory_equal(&back.scale, &s.scale, sizeof s.scale);
    }
}

static void ranges_are_told(void **state)
{
    (void)state;
    char text[200];
    static const char *const want[] = {
        "one of paper, kvpress, official",
        "whole number from 1 to 4096 tokens",
        "whole number from 1 to 255 tokens",
        "whole number",
        "number from 0 to 1",
        "number from 0 up",
        "true or false",
        "one of max, mean",
        "text without commas",
    };
    for (int i = 0; i < CHECK_COUNT(want); i++)
        assert_string_equal(kvt_param_range(&table[i], text, sizeof text), want[i]);
    assert_string_equal(kvt_param_range(&table[1], text, 6), "whole");
    assert_ptr_equal(kvt_param_find(table, "pool"), &table[2]);
    assert_null(kvt_param_find(table, "poo"));
    assert_null(kvt_param_find(NULL, "pool"));
}

static void policy_without_parameters(void **state)
{
    (void)state;
    kvt_err err;
    CHECK_OK(kvt_param_parse(NULL, NULL, "", &err), &err);
    CHECK_FAILS(kvt_param_parse(NULL, NULL, "x=1", &err), KVT_USAGE, "no parameter 'x'", &err);
}

/* A table whose choice sets what is not there is a mistake of ours that must not pass unseen.
 */
static void wrong_sets_are_an_error(void **state)
{
    (void)state;
    static const kvt_choice wrong[] = {{"a", "windw=3", ""}};
    const kvt_param bad[] = {KVT_PARAM_CHOICE(sample, compat, 0, wrong, ""),
                             KVT_PARAM(sample, window, 32, 1, 4096, "tokens", ""),
                             {0}};
    kvt_err err;
    sample s;
    kvt_param_defaults(bad, &s);
    CHECK_FAILS(kvt_param_parse(bad, &s, "compat=a", &err), KVT_USAGE, "compat: no parameter",
                &err);
}

static void comma_locale_changes_nothing(void **state)
{
    (void)state;
    kvt_err err;
    sample s;
    char text[400];
    if (!enter_german()) {
        print_message("no locale with a decimal comma, and localedef cannot make one\n");
        skip();
    }
    kvt_param_defaults(table, &s);
    CHECK_OK(kvt_param_parse(table, &s, "decay=0.9,scale=1", &err), &err);
    kvt_param_print(table, text, sizeof text, &s);
    assert_string_equal(text, DEFAULTS);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    struct CMUnitTest tests[CHECK_COUNT(good_rows) + CHECK_COUNT(bad_rows) + 8];
    int n = 0;
    CHECK_ROWS(tests, &n, good_rows, text_is_read);
    CHECK_ROWS(tests, &n, bad_rows, text_is_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_items_are_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(print_needs_its_length);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(values_in_range_survive);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(ranges_are_told);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(policy_without_parameters);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(wrong_sets_are_an_error);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(comma_locale_changes_nothing);
    return CHECK_RUN("param", tests, n);
}
