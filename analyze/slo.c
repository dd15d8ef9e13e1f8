/* slo.c - limits of a service: as text, and what meets them. */
#include "analyze/choose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

enum { WORD = 64, BYTES_PLAIN = 1 << 20 };

const slo_limit slo_limits[SLO_N] = {
#define X(name, field, row_field, kind) \
    {#name, offsetof(kvt_slo, field), offsetof(kvt_selection_row, row_field), kind},
    SLO_LIMITS(X)
#undef X
};

static const char *const limit_names[] = {
#define X(name, field, row_field, kind) #name,
    SLO_LIMITS(X)
#undef X
        NULL};

static const char *const expected[] = {
    [SLO_TIME] = "a time with its unit (s, ms, us)",
    [SLO_BYTES] = "a size with its unit such as 24GiB",
    [SLO_SHARE] = "a share such as 5% or 0.05",
};

/* ---- reading -------------------------------------------------------------------------------
 */

/* The number in front of `unit`, times scale; false: the text does not end so. */
static bool with_unit(double *out, const char *text, const char *unit, double scale)
{
    char number[WORD];
    size_t n = strlen(text), m = strlen(unit);
    kvt_err ignored;
    if (n <= m || n >= sizeof number || strcmp(text + n - m, unit) != 0)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)(n - m), text);
    if (real_parse(out, number, &ignored))
        return false;
    *out *= scale;
    return true;
}

static bool read_time(double *out, const char *text)
{
    return (with_unit(out, text, "ms", 1e-3) || with_unit(out, text, "us", 1e-6) ||
            with_unit(out, text, "s", 1)) &&
           isfinite(*out) && *out > 0;
}

/* A few bytes without a unit are one that was forgotten. */
static bool read_bytes(double *out, const char *text)
{
    int64_t bytes;
    kvt_err ignored;
    if (size_parse(&bytes, text, &ignored) || bytes <= 0 ||
        (bytes < BYTES_PLAIN && strspn(text, "0123456789.") == strlen(text)))
        return false;
    *out = (double)bytes;
    return true;
}

static bool read_share(double *out, const char *text)
{
    kvt_err ignored;
    if (!with_unit(out, text, "%", 0.01) && real_parse(out, text, &ignored))
        return false;
    return *out >= 0 && *out <= 1;
}

static bool read_value(double *out, slo_kind kind, const char *text)
{
    return kind == SLO_TIME    ? read_time(out, text)
           : kind == SLO_BYTES ? read_bytes(out, text)
                               : read_share(out, text);
}

static int find_limit(const char *name)
{
    for (int i = 0; i < SLO_N; i++)
        if (strcmp(slo_limits[i].name, name) == 0)
            return i;
    return -1;
}

/* One piece "tpot=15ms". */
static kvt_code read_piece(kvt_slo *out, char *piece, kvt_err *err)
{
    char *equal = strchr(piece, '=');
    if (!equal)
        return kvt_fail(err, KVT_USAGE, "limit '%s': expected NAME=VALUE, as ttft=2s", piece);
    *equal = 0;
    int i = find_limit(piece);
    if (i < 0) {
        const char *near = text_nearest(piece, limit_names);
        return kvt_fail(
            err, KVT_USAGE,
            "limit '%s': expected ttft, evict, tpot, request, peak, steady or lost%s"
            "%s%s",
            piece, near ? " (nearest: " : "", near ? near : "", near ? ")" : "");
    }
    double *at = (double *)((char *)out + slo_limits[i].offset);
    if (!isnan(*at))
        return kvt_fail(err, KVT_USAGE, "limit %s: given twice", piece);
    if (!read_value(at, slo_limits[i].kind, equal + 1))
        return kvt_fail(err, KVT_USAGE, "limit %s: expected %s, got '%s'", piece,
                        expected[slo_limits[i].kind], equal + 1);
    return KVT_OK;
}

void slo_none(kvt_slo *out)
{
    for (int i = 0; i < SLO_N; i++)
        *(double *)((char *)out + slo_limits[i].offset) = (double)NAN;
}

kvt_code kvt_slo_parse(kvt_slo *out, const char *text, kvt_err *err)
{
    slo_none(out);
    if (!*text)
        return kvt_fail(err, KVT_USAGE, "limits: expected at least one, as ttft=2s");
    for (const char *at = text;; at++) {
        char piece[WORD];
        size_t n = strcspn(at, ",");
        if (n >= sizeof piece)
            return kvt_fail(err, KVT_USAGE, "limit '%.20s...': too long", at);
        snprintf(piece, sizeof piece, "%.*s", (int)n, at);
        if (read_piece(out, piece, err))
            return err->code;
        at += n;
        if (!*at)
            return KVT_OK;
    }
}

/* ---- judging -------------------------------------------------------------------------------
 */

double slo_of(const kvt_slo *slo, int limit)
{
    double x;
    memcpy(&x, (const char *)slo + slo_limits[limit].offset, sizeof x);
    return x;
}

double slo_value(const kvt_selection_row *row, int limit)
{
    double x;
    memcpy(&x, (const char *)row + slo_limits[limit].row_offset, sizeof x);
    return x;
}

bool slo_any(const kvt_slo *slo)
{
    for (int i = 0; i < SLO_N; i++)
        if (!isnan(slo_of(slo, i)))
            return true;
    return false;
}

/* Three digits. */
static const char *print_time(double x, const char *unit, char *out, size_t cap)
{
    snprintf(out, cap, "%.*f %s", x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2, x, unit);
    return out;
}

const char *slo_print(slo_kind kind, double x, char *out, size_t cap)
{
    if (isnan(x))
        snprintf(out, cap, "-");
    else if (kind == SLO_SHARE)
        snprintf(out, cap, "%.3g %%", 100 * x);
    else if (kind == SLO_BYTES)
        size_print((int64_t)x, out, cap);
    else if (x >= 1 || x == 0)
        print_time(x, "s", out, cap);
    else if (x >= 1e-3)
        print_time(x * 1e3, "ms", out, cap);
    else
        print_time(x * 1e6, "us", out, cap);
    return out;
}

/* Share by which a limit is passed: 0 where it is met, INFINITY where the value is not known.
 */
static double passed(const kvt_selection_row *row, const kvt_slo *slo, int limit)
{
    double most = slo_of(slo, limit), x = slo_value(row, limit);
    if (isnan(most) || x <= most)
        return 0;
    return isnan(x) || most == 0 ? (double)INFINITY : x / most - 1;
}

static void add_missed(kvt_selection_row *row, const char *text)
{
    size_t at = strlen(row->missed);
    snprintf(row->missed + at, sizeof row->missed - at, "%s%s", at ? "; " : "", text);
}

/* "tpot 18.2 ms, 21 % over" */
static void say_missed(kvt_selection_row *row, int limit, double over)
{
    char value[32], text[96];
    const char *name = slo_limits[limit].name;
    slo_print(slo_limits[limit].kind, slo_value(row, limit), value, sizeof value);
    if (isnan(slo_value(row, limit)))
        snprintf(text, sizeof text, "%s not known", name);
    else if (isinf(over))
        snprintf(text, sizeof text, "%s %s", name, value);
    else if (over >= 9)
        snprintf(text, sizeof text, "%s %s, %.0f times the limit", name, value, over + 1);
    else
        snprintf(text, sizeof text, over >= 0.1 ? "%s %s, %.0f %% over" : "%s %s, %.2g %% over",
                 name, value, 100 * over);
    add_missed(row, text);
}

void slo_judge(kvt_selection_row *row, const kvt_slo *slo)
{
    row->missed[0] = 0;
    row->meets = 1;
    if (row->fits == 0) {
        add_missed(row, "memory does not hold it");
        row->meets = 0;
    }
    for (int i = 0; i < SLO_N; i++) {
        double over = passed(row, slo, i);
        if (!(over > 0))
            continue;
        row->meets = 0;
        say_missed(row, i, over);
    }
}

double slo_excess(const kvt_selection_row *row, const kvt_slo *slo)
{
    double most = row->fits == 0 ? (double)INFINITY : 0;
    for (int i = 0; i < SLO_N; i++)
        most = fmax(most, passed(row, slo, i));
    return most;
}

double slo_headroom(const kvt_selection_row *row, const kvt_slo *slo)
{
    double least = (double)NAN;
    for (int i = 0; i < SLO_N; i++) {
        double most = slo_of(slo, i);
        if (most > 0) /* a limit of nothing leaves no share */
            least = fmin(least, (most - slo_value(row, i)) / most);
    }
    return least;
}
