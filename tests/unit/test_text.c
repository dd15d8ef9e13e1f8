/* test_text.c - UTF-8, widths and the sanitiser: C062, C063, C064, C069. */
#include "tests/check.h"

#include "base/rng.h"
#include "base/text.h"

#include <locale.h>
#include <stdio.h>

/* Unicode 15, table 3-7: well-formed byte sequences; bytes taken, 0: none. */
static const struct decode_row {
    const char *name;
    int len;
    uint32_t cp;
} decode_rows[] = {
    {"A", 1, 'A'},
    {"\x7f", 1, 0x7f},
    {"\xc2\x80", 2, 0x80},
    {"\xdf\xbf", 2, 0x7ff},
    {"\xe0\xa0\x80", 3, 0x800},
    {"\xed\x9f\xbf", 3, 0xd7ff},
    {"\xee\x80\x80", 3, 0xe000},
    {"\xef\xbf\xbf", 3, 0xffff},
    {"\xf0\x90\x80\x80", 4, 0x10000},
    {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
    {"\x80", 0, 0},
    {"\xbf", 0, 0},
    {"\xc0\x80", 0, 0},         /* overlong NUL */
    {"\xc1\xbf", 0, 0},         /* overlong */
    {"\xe0\x9f\xbf", 0, 0},     /* overlong */
    {"\xf0\x8f\xbf\xbf", 0, 0}, /* overlong */
    {"\xed\xa0\x80", 0, 0},     /* surrogate */
    {"\xed\xbf\xbf", 0, 0},     /* surrogate */
    {"\xf4\x90\x80\x80", 0, 0}, /* above 10FFFF */
    {"\xf5\x80\x80\x80", 0, 0},
    {"\xff", 0, 0},
    {"\xe2\x8a", 0, 0}, /* cut */
    {"\xf0\x9f\x98", 0, 0},
    {"\xe2(\xa1", 0, 0},
};

static void sequence_is_decoded(void **state)
{
    const struct decode_row *r = *state;
    uint32_t cp = 0;
    assert_int_equal(text_decode(&cp, (const uint8_t *)r->name, strlen(r->name)), r->len);
    assert_int_equal(cp, r->cp);
    assert_int_equal(text_valid((const uint8_t *)r->name, strlen(r->name), NULL), r->len > 0);
    for (size_t n = 1; n < strlen(r->name); n++)
        assert_int_equal(text_decode(&cp, (const uint8_t *)r->name, n), 0);
}

static void every_code_point_comes_back(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < 0x110010; cp++) {
        char bytes[4];
        uint32_t back = 0;
        int n = text_encode(bytes, cp);
        if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(text_decode(&back, (const uint8_t *)bytes, (size_t)n), n);
        assert_int_equal(back, cp);
    }
}

static void first_bad_byte_is_told(void **state)
{
    (void)state;
    size_t at = 99;
    assert_true(text_valid((const uint8_t *)"a\0b", 3, &at));
    assert_int_equal(at, 99);
    assert_false(text_valid((const uint8_t *)"ab\xe2\x8a", 4, &at));
    assert_int_equal(at, 2);
    assert_true(text_valid((const uint8_t *)"", 0, &at));
}

/* UAX 15, table 4 and figures 3 to 6. */
static void normal_form_is_nfc(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;
    } rows[] = {
        {"", ""},
        {"A\u030a", "\u00c5"},
        {"\u212b", "\u00c5"},             /* angstrom sign */
        {"s\u0323\u0307", "\u1e69"},      /* two marks, in order */
        {"s\u0307\u0323", "\u1e69"},      /* and out of order */
        {"\u1e0b\u0323", "\u1e0d\u0307"}, /* composes with the first one */
        {"\ufb01", "\ufb01"},             /* a compatibility ligature stays */
        {"\u1100\u1161", "\uac00"},       /* Hangul */
        {"plain", "plain"},
    };
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        kvt_err err;
        buf b;
        buf_init(&b, 100);
        CHECK_OK(text_nfc(&b, (const uint8_t *)rows[i].in, strlen(rows[i].in), &err), &err);
        assert_string_equal(buf_get(&b), rows[i].want);
        buf_fini(&b);
    }
    kvt_err err;
    buf b;
    buf_init(&b, 100);
    CHECK_OK(text_nfc(&b, (const uint8_t *)"a\0b", 3, &err), &err);
    assert_int_equal(b.n, 3);
    buf_fini(&b);
    CHECK_FAILS(text_nfc(&b, (const uint8_t *)"\xff", 1, &err), KVT_FORMAT, "normal form",
                &err);
}

static const struct safe_row {
    const char *name, *utf8, *ascii;
} safe_rows[] = {
    {"plain text", "plain text", "plain text"},
    {"%s%n%1000000d%", "%s%n%1000000d%", "%s%n%1000000d%"},
    {"\033[31m", "\u27e8ESC\u27e9[31m", "<ESC>[31m"},
    {"a\nb\tc\r", "a\u00b6b\u2192c\u27e8CR\u27e9", "a\\nb\\tc<CR>"},
    {"\x01\x1f\x7f", "\u27e8SOH\u27e9\u27e8US\u27e9\u27e8DEL\u27e9", "<SOH><US><DEL>"},
    {"\xc2\x9b"
     "1m",
     "\u27e8CSI\u27e91m", "<CSI>1m"},
    {"\xc2\x80", "\u27e80080\u27e9", "<0080>"},
    {"\u202egpj", "\u27e8RLO\u27e9gpj", "<RLO>gpj"},
    {"\u2066\u2069\u200e\u061c", "\u27e8LRI\u27e9\u27e8PDI\u27e9\u27e8LRM\u27e9\u27e8ALM\u27e9",
     "<LRI><PDI><LRM><ALM>"},
    {"a\u200bb", "a\u27e8200B\u27e9b", "a<200B>b"},
    {"\ufeff", "\u27e8FEFF\u27e9", "<FEFF>"},
    {"\u2028\u2029", "\u27e8LS\u27e9\u27e8PS\u27e9", "<LS><PS>"},
    {"\u00ad", "\u27e800AD\u27e9", "<00AD>"},
    {"\ue000", "\u27e8E000\u27e9", "<E000>"},                                   /* private */
    {"\U000e0041", "\u27e8E0041\u27e9", "<E0041>"},                             /* a tag */
    {"\U0003fffe\u0378", "\u27e83FFFE\u27e9\u27e80378\u27e9", "<3FFFE><0378>"}, /* unassigned */
    {"\u6f22\u5b57", "\u6f22\u5b57", "\\u6f22\\u5b57"},
    {"caf\u00e9", "caf\u00e9", "caf\\u00e9"},
    {"\U0001f600", "\U0001f600", "\\U0001f600"},
    {"e\u0301", "e\u0301", "e\\u0301"},
    {"\u0301x", " \u0301x", "\\u0301x"},         /* a lone mark stands on a space */
    {"\n\u0301", "\u00b6 \u0301", "\\n\\u0301"}, /* and does not join what we drew */
    {"e\u0301\u0302", "e\u0301\u0302", "e\\u0301\\u0302"},
    {"\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb",
     "\\U0001f469<200D>\\U0001f4bb"},
    {"a\u200db", "a\u27e8200D\u27e9b", "a<200D>b"},
    {"\u200d\U0001f4bb", "\u27e8200D\u27e9\U0001f4bb", "<200D>\\U0001f4bb"},
    {"\u2764\ufe0f", "\u2764\ufe0f", "\\u2764\\ufe0f"},
    {"\xe2\x8a", "\u27e8e2 8a\u27e9", "<e2 8a>"},
    {"a\xff\x62", "a\u27e8ff\u27e9b", "a<ff>b"},
    {"\xff\xfe\xfd\xfc", "\u27e8ff fe fd\u27e9\u27e8fc\u27e9", "<ff fe fd><fc>"},
    {"\xed\xa0\x80", "\u27e8ed a0 80\u27e9", "<ed a0 80>"},
    {"", "", ""},
};

static void text_is_made_safe(void **state)
{
    const struct safe_row *r = *state;
    for (int ascii = 0; ascii < 2; ascii++) {
        buf b;
        buf_init(&b, 1000);
        text_safe(&b, (const uint8_t *)r->name, strlen(r->name), ascii);
        assert_string_equal(buf_get(&b), ascii ? r->ascii : r->utf8);
        char cut[200];
        text_safe_cut(cut, sizeof cut, (const uint8_t *)r->name, strlen(r->name), 1000, ascii);
        assert_string_equal(cut, ascii ? r->ascii : r->utf8);
        buf_fini(&b);
    }
}

static void nul_is_named(void **state)
{
    (void)state;
    char cut[32];
    assert_string_equal(text_safe_cut(cut, sizeof cut, (const uint8_t *)"a\0b", 3, 30, true),
                        "a<NUL>b");
}

static bool is_harmless(const char *s, size_t n, bool ascii)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        char name[16];
        int len = text_decode(&cp, (const uint8_t *)s + i, n - i);
        if (!len || (ascii && (cp < 0x20 || cp > 0x7e)))
            return false;
        text_kind kind = text_classify(cp, name);
        if (kind != TEXT_PLAIN && kind != TEXT_COMBINING && cp != 0x200d)
            return false;
        i += (size_t)len;
    }
    return true;
}

static size_t random_text(uint64_t *rng, uint8_t *out, int n)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        uint32_t cp = (uint32_t)rng_below(rng, rng_below(rng, 2) ? 0x3000 : 0x20000);
        int len = rng_below(rng, 4) ? text_encode((char *)out + at, cp) : 0;
        if (!len)
            out[at] = (uint8_t)rng_bits(rng);
        at += (size_t)(len ? len : 1);
    }
    return at;
}

/* Whatever comes in, nothing but plain characters comes out; making it safe again changes
 * nothing; a cut keeps to its columns and bytes, and is a start of the whole. */
static void nothing_dangerous_comes_out(void **state)
{
    (void)state;
    uint8_t in[200];
    for (uint64_t seed = 0; seed < 20000; seed++) {
        uint64_t rng[RNG_WORDS];
        rng_init(rng, &seed, sizeof seed);
        size_t n = random_text(rng, in, (int)rng_below(rng, 50));
        for (int ascii = 0; ascii < 2; ascii++) {
            buf whole, again;
            buf_init(&whole, 10000);
            buf_init(&again, 10000);
            text_safe(&whole, in, n, ascii);
            if (!is_harmless(buf_get(&whole), whole.n, ascii))
                fail_msg("seed %d: '%s'", (int)seed, buf_get(&whole));
            text_safe(&again, (const uint8_t *)buf_get(&whole), whole.n, ascii);
            assert_string_equal(buf_get(&again), buf_get(&whole));
            char cut[120];
            int columns = (int)rng_below(rng, 40);
            size_t cap = 1 + (size_t)rng_below(rng, 119);
            text_safe_cut(cut, cap, in, n, columns, ascii);
            size_t len = strlen(cut);
            const char *mark = ascii ? "..." : "\u2026";
            if (len >= cap || text_columns(cut) > columns || !is_harmless(cut, len, ascii))
                fail_msg("seed %d: %d columns, %d bytes: '%s'", (int)seed, columns, (int)cap,
                         cut);
            if (strcmp(cut, buf_get(&whole))) { /* it was cut */
                size_t kept = len;
                if (len >= strlen(mark) && !strcmp(cut + len - strlen(mark), mark))
                    kept -= strlen(mark);
                assert_memory_equal(cut, buf_get(&whole), kept);
            }
            buf_fini(&whole);
            buf_fini(&again);
        }
    }
}

/* C069: a long value is cut with a mark, at whole characters; names are not cut in the middle.
 */
static void long_text_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        int columns;
        const char *utf8, *ascii;
    } rows[] = {
        {"abcdefgh", 8, "abcdefgh", "abcdefgh"},
        {"abcdefgh", 7, "abcdef\u2026", "abcd..."},
        {"abcdefgh", 3, "ab\u2026", "..."},
        {"abcdefgh", 2, "a\u2026", ""},
        {"abcdefgh", 0, "", ""},
        {"\u6f22\u5b57\u6f22", 6, "\u6f22\u5b57\u6f22", "..."},
        {"\u6f22\u5b57\u6f22", 5, "\u6f22\u5b57\u2026", "..."},
        {"\u6f22\u5b57\u6f22", 4, "\u6f22\u2026", "..."},
        {"ab\033c", 6, "ab\u2026", "ab..."}, /* ab<ESC>c has 8 columns */
        {"e\u0301e\u0301e\u0301", 2, "e\u0301\u2026", ""},
    };
    char cut[64];
    for (int i = 0; i < CHECK_COUNT(rows); i++) {
        const uint8_t *s = (const uint8_t *)rows[i].in;
        text_safe_cut(cut, sizeof cut, s, strlen(rows[i].in), rows[i].columns, false);
        assert_string_equal(cut, rows[i].utf8);
        text_safe_cut(cut, sizeof cut, s, strlen(rows[i].in), rows[i].columns, true);
        assert_string_equal(cut, rows[i].ascii);
    }
    static uint8_t million[1000000];
    memset(million, ' ', sizeof million);
    assert_int_equal(strlen(text_safe_cut(cut, sizeof cut, million, sizeof million, 20, true)),
                     20);
    assert_int_equal(strlen(text_safe_cut(cut, 10, million, sizeof million, 20, true)), 9);
}

/* C063, with glibc 2.36: what libc does not know is 1; joined emoji count as their first. */
static void columns_are_those_of_cells(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int columns;
    } rows[] = {
        {"", 0},
        {"abc", 3},
        {"\u6f22\u5b57", 4},
        {"e\u0301", 1},
        {"\U0001f600", 2},
        {"\U0001f469\u200d\U0001f4bb", 2},
        {"\U0001f469\u200d\U0001f4bbx", 3},
        {"\U0001f44d\U0001f3fd", 2},
        {"\u2764\ufe0f", 1},
        {"\U0001f1e9\U0001f1ea", 2}, /* a flag: two letters of one column */
        {" \u0301", 1},
        {"\u0915\u093e", 2}, /* ka with its vowel sign, which has a width of its own */
    };
    for (int i = 0; i < CHECK_COUNT(rows); i++)
        if (text_columns(rows[i].text) != rows[i].columns)
            fail_msg("'%s': expected %d, got %d", rows[i].text, rows[i].columns,
                     text_columns(rows[i].text));
    assert_int_equal(text_width(0x1fae8), 1);
    assert_int_equal(text_width(0x301), 0);
    assert_int_equal(text_width(0), 1);
    assert_int_equal(text_width(7), 1);
}

/* Distances by hand: optimal string alignment. */
static void near_words_are_found(void **state)
{
    (void)state;
    assert_int_equal(text_distance("", ""), 0);
    assert_int_equal(text_distance("", "abc"), 3);
    assert_int_equal(text_distance("kitten", "sitting"), 3);
    assert_int_equal(text_distance("windw", "window"), 1);
    assert_int_equal(text_distance("wnidow", "window"), 1);
    assert_int_equal(text_distance("ca", "abc"), 3);    /* OSA, not the unrestricted 2 */
    assert_int_equal(text_distance("abcd", "dcba"), 3); /* swap bc, replace both ends */
    char a[200], b[200];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    a[150] = b[199] = 0;
    assert_int_equal(text_distance(a, b), 199);
    static const char *const list[] = {"snapkv",    "pyramidkv", "h2o", "tova",
                                       "streaming", "full",      NULL};
    assert_string_equal(text_nearest("snapvk", list), "snapkv");
    assert_string_equal(text_nearest("pyramid-kv", list), "pyramidkv");
    assert_string_equal(text_nearest("h20", list), "h2o");
    assert_string_equal(text_nearest("tova", list), "tova");
    assert_null(text_nearest("quest", list));
    assert_null(text_nearest("x", list));
    assert_null(text_nearest("", list));
}

/* C064: where the locale knows nothing beyond ASCII, widths still are 1 and nothing is lost. */
static void plain_locale_still_works(void **state)
{
    (void)state;
    char cut[64];
    assert_non_null(setlocale(LC_ALL, "C"));
    assert_int_equal(text_width(0x6f22), 1);
    text_safe_cut(cut, sizeof cut, (const uint8_t *)"\u6f22x\xff", 5, 60, true);
    assert_string_equal(cut, "\\u6f22x<ff>");
    assert_int_equal(text_columns(cut), (int)strlen(cut));
    setlocale(LC_ALL, "C.UTF-8");
}

int main(void)
{
    if (!setlocale(LC_ALL, "C.UTF-8")) {
        fprintf(stderr, "test_text: no locale C.UTF-8, skipped\n");
        return CHECK_SKIP;
    }
    struct CMUnitTest tests[CHECK_COUNT(decode_rows) + CHECK_COUNT(safe_rows) + 10];
    int n = 0;
    CHECK_ROWS(tests, &n, decode_rows, sequence_is_decoded);
    CHECK_ROWS(tests, &n, safe_rows, text_is_made_safe);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(every_code_point_comes_back);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(first_bad_byte_is_told);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(normal_form_is_nfc);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(nul_is_named);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing_dangerous_comes_out);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_text_is_cut);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(columns_are_those_of_cells);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(near_words_are_found);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(plain_locale_still_works);
    return CHECK_RUN("text", tests, n);
}
