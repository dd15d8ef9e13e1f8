/* size.c - sizes and numbers as people type them, the same in every locale.
 *
 * setlocale() changes what strtod() and printf() take for the decimal point; here they run
 * under the C locale of this thread only. The grammar is checked first, so that strtod() sees
 * nothing but decimal digits, a point and an exponent. */
#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *s)
{
    while (is_digit(*s))
        s++;
    return s;
}

/* Behind the decimal number that text begins with, or NULL where it begins with none. */
static const char *skip_number(const char *text)
{
    const char *s = text + (*text == '-' || *text == '+');
    const char *whole = skip_digits(s), *end = whole;
    if (*whole == '.')
        end = skip_digits(whole + 1);
    if (end - s - (*whole == '.') <= 0)
        return NULL;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1 + (end[1] == '-' || end[1] == '+');
        if (is_digit(*exponent))
            end = skip_digits(exponent);
    }
    return end;
}

typedef struct c_locale {
    locale_t c, old;
} c_locale;

static c_locale enter_c(void)
{
    c_locale l = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    l.old = uselocale(l.c);
    return l;
}

static void leave_c(c_locale l)
{
    uselocale(l.old);
    if (l.c)
        freelocale(l.c);
}

static double read_number(const char *text)
{
    c_locale l = enter_c();
    double x = strtod(text, NULL);
    leave_c(l);
    return x;
}

kvt_code int_parse(int64_t *out, const char *text, kvt_err *err)
{
    const char *digits = text + (*text == '-' || *text == '+'), *end = skip_digits(digits);
    if (end == digits || *end)
        return kvt_fail(err, KVT_USAGE, "'%s' is not a whole number", text);
    errno = 0;
    long long x = strtoll(text, NULL, 10);
    if (errno)
        return kvt_fail(err, KVT_USAGE, "%s is too large", text);
    *out = x;
    return KVT_OK;
}

kvt_code real_parse(double *out, const char *text, kvt_err *err)
{
    if (!strcmp(text, "inf") || !strcmp(text, "-inf")) {
        *out = text[0] == '-' ? -INFINITY : INFINITY;
        return KVT_OK;
    }
    const char *end = skip_number(text);
    if (!end || *end)
        return kvt_fail(err, KVT_USAGE, "'%s' is not a number", text);
    double x = read_number(text);
    if (isinf(x))
        return kvt_fail(err, KVT_USAGE, "%s is too large", text);
    *out = x;
    return KVT_OK;
}

const char *real_print(double x, char *out, size_t cap)
{
    if (isnan(x) || isinf(x)) {
        snprintf(out, cap, "%s", isnan(x) ? "" : x < 0 ? "-inf" : "inf");
        return out;
    }
    /* 15 digits survive the way to text and back to a normal double and 17 always do; a
     * denormal holds fewer, so the search begins at one. */
    char text[40];
    c_locale l = enter_c();
    for (int digits = fabs(x) < 0x1p-1022 ? 1 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (digits == 17 || strtod(text, NULL) == x)
            break;
    }
    leave_c(l);
    snprintf(out, cap, "%s", text);
    return out;
}

static const struct {
    const char *name;
    int64_t bytes;
} units[] = {
    {"", 1},
    {"B", 1},
    {"KiB", INT64_C(1) << 10},
    {"MiB", INT64_C(1) << 20},
    {"GiB", INT64_C(1) << 30},
    {"TiB", INT64_C(1) << 40},
    {"K", 1000},
    {"M", 1000000},
    {"G", 1000000000},
    {"T", 1000000000000},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
};
enum { N_UNIT = sizeof units / sizeof units[0] };

kvt_code size_parse(int64_t *out, const char *text, kvt_err *err)
{
    const char *end = skip_digits(text);
    bool has_point = *end == '.';
    if (has_point)
        end = skip_digits(end + 1);
    const char *unit = end;
    if (end - text > has_point)
        while (*unit == ' ')
            unit++;
    int u = 0;
    while (u < N_UNIT && strcmp(units[u].name, unit))
        u++;
    if (u == N_UNIT || end - text <= has_point || (has_point && units[u].bytes == 1))
        return kvt_fail(err, KVT_USAGE, "'%s' is not a size such as 4096, 1.5KiB or 64M", text);
    if (has_point) { /* a part of a byte is dropped */
        double x = read_number(text) * (double)units[u].bytes;
        if (!(x < 0x1p63))
            return kvt_fail(err, KVT_USAGE, "%s is too large", text);
        *out = (int64_t)x;
        return KVT_OK;
    }
    errno = 0;
    long long x = strtoll(text, NULL, 10);
    if (errno || x > INT64_MAX / units[u].bytes)
        return kvt_fail(err, KVT_USAGE, "%s is too large", text);
    *out = x * units[u].bytes;
    return KVT_OK;
}

const char *size_print(int64_t bytes, char *out, size_t cap)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    enum { N_NAME = sizeof names / sizeof names[0] };
    uint64_t x = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    const char *sign = bytes < 0 ? "-" : "";
    if (x < 1024) {
        snprintf(out, cap, "%s%" PRIu64 " B", sign, x);
        return out;
    }
    uint64_t tenths = 0;
    int i = 0;
    do { /* the next unit, too, where rounding gives 1024.0 */
        i++;
        uint64_t unit = UINT64_C(1) << (10 * i), rest = x & (unit - 1);
        tenths = (x / unit) * 10 + (rest * 10 + unit / 2) / unit; /* 2^60 * 10 fits */
    } while (tenths >= 10240 && i + 1 < N_NAME);
    snprintf(out, cap, "%s%" PRIu64 ".%" PRIu64 " %s", sign, tenths / 10, tenths % 10,
             names[i]);
    return out;
}

/* A whole number of at most 9 digits at *s, which moves behind it; -1: none. */
static int read_index(const char **s)
{
    const char *end = skip_digits(*s);
    if (end == *s || end - *s > 9)
        return -1;
    int x = 0;
    for (; *s < end; (*s)++)
        x = 10 * x + (**s - '0');
    return x;
}

kvt_code list_parse(bool *out, int n, const char *text, kvt_err *err)
{
    memset(out, 0, (size_t)n);
    const char *s = text;
    for (;;) {
        int first = read_index(&s), last = first;
        if (first >= 0 && *s == '-') {
            s++;
            last = read_index(&s);
        }
        if (first < 0 || last < first || (*s && *s != ','))
            return kvt_fail(err, KVT_USAGE, "'%s' is not a list such as 0-3,29", text);
        if (last >= n)
            return kvt_fail(err, KVT_USAGE, "'%s': %d is not one of 0 to %d", text, last,
                            n - 1);
        for (int i = first; i <= last; i++)
            out[i] = true;
        if (!*s)
            return KVT_OK;
        s++;
    }
}
