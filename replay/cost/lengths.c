/* lengths.c - numbers of tokens as people type them: "4Ki,8192,1K" and "4Ki..128Kix2". K, M and
 * G are powers of 1000, Ki, Mi and Gi of 1024. A list comes out rising, each length once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "replay/cost/cost_priv.h"

enum { PIECE_MAX = 96, LENGTH_MAX = 1 << 30 };

static const struct {
    const char *name;
    double factor;
} units[] = {{"", 1},         {"K", 1e3},      {"M", 1e6},     {"G", 1e9},
             {"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}};

static kvt_code not_a_length(const char *piece, kvt_err *err)
{
    return kvt_fail(
        err, KVT_USAGE,
        "length '%.40s': expected a whole number of tokens from 1 to %d (4096, 4Ki, "
        "4K) or a range (4Ki..128Kix2)",
        piece, LENGTH_MAX);
}

/* One length; the whole of text. */
static kvt_code single(int64_t *out, const char *text, kvt_err *err)
{
    char digits[PIECE_MAX];
    size_t n = strspn(text, "0123456789.");
    double x = 0, factor = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text + n, units[i].name) == 0)
            factor = units[i].factor;
    snprintf(digits, sizeof digits, "%.*s", (int)n, text);
    if (n == 0 || n >= sizeof digits || factor == 0 || real_parse(&x, digits, err))
        return not_a_length(text, err);
    x *= factor;
    if (!(x >= 1 && x <= LENGTH_MAX) || x != floor(x))
        return not_a_length(text, err);
    *out = (int64_t)x;
    return KVT_OK;
}

static kvt_code add(int64_t *out, int cap, int *n, int64_t length, kvt_err *err)
{
    if (*n == cap)
        return kvt_fail(err, KVT_USAGE, "lengths: more than %d of them", cap);
    out[(*n)++] = length;
    return KVT_OK;
}

/* FROM..TO or FROM..TOxFACTOR; `dots` points at the two points in piece. */
static kvt_code range(int64_t *out, int cap, int *n, char *piece, char *dots, kvt_err *err)
{
    int64_t from, to;
    double factor = 2;
    char *times = strchr(dots, 'x');
    if (times && (real_parse(&factor, times + 1, err) || !(factor > 1 && factor <= LENGTH_MAX)))
        return kvt_fail(err, KVT_USAGE,
                        "length range '%.60s': expected FROM..TOxFACTOR with a factor above 1",
                        piece);
    if (times)
        *times = 0;
    *dots = 0;
    if (single(&from, piece, err) || single(&to, dots + 2, err))
        return err->code;
    if (from > to)
        return kvt_fail(err, KVT_USAGE,
                        "length range '%.40s..%.40s': expected the smaller one first", piece,
                        dots + 2);
    while (from <= to) {
        int64_t next = (int64_t)((double)from * factor);
        if (add(out, cap, n, from, err))
            return err->code;
        from = next > from ? next : from + 1; /* a factor near 1 still moves on */
    }
    return KVT_OK;
}

static int by_length(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int drop_equal(int64_t *x, int n)
{
    int kept = 0;
    qsort(x, (size_t)n, sizeof *x, by_length);
    for (int i = 0; i < n; i++)
        if (kept == 0 || x[i] != x[kept - 1])
            x[kept++] = x[i];
    return kept;
}

kvt_code kvt_lengths_parse(int64_t *out, int cap, int *n, const char *text, kvt_err *err)
{
    *n = 0;
    while (*text) {
        char piece[PIECE_MAX], *dots;
        int64_t length;
        size_t len = strcspn(text, ",");
        if (len >= sizeof piece)
            return not_a_length(text, err);
        memcpy(piece, text, len);
        piece[len] = 0;
        dots = strstr(piece, "..");
        if (dots ? range(out, cap, n, piece, dots, err)
                 : single(&length, piece, err) || add(out, cap, n, length, err))
            return err->code;
        text += len + (text[len] == ',');
    }
    if (*n == 0)
        return kvt_fail(err, KVT_USAGE, "lengths: expected at least one, got none");
    *n = drop_equal(out, *n);
    return KVT_OK;
}
