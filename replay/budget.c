/* budget.c - budgets as people type them, and what they are in slots.
 *
 * A fraction is kept as two whole numbers, so that 12.5% of 1000 is 125 and never 124. Rules
 * that copy other tools' floating arithmetic say so by name.
 */
#include "kvt/replay.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Digits of a fraction: num and den stay below 1e11, so that their product with any length
 * below 9e7 tokens fits in 63 bits. */
enum { DIGITS_MAX = 9, PIECE_MAX = 96 };

static const struct {
    const char *name, *help;
} rules[] = {
#define X(id, name, help) {name, help},
    KVT_RULES(X)
#undef X
};

const char *kvt_rule_name(kvt_rule rule)
{
    return rules[rule].name;
}

kvt_code kvt_rule_parse(kvt_rule *out, const char *text, kvt_err *err)
{
    char known[256] = "";
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(text, rules[i].name) == 0) {
            *out = (kvt_rule)i;
            return KVT_OK;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", rules[i].name);
    }
    return kvt_fail(err, KVT_USAGE, "budget rule: '%.40s' is not one of %s", text, known);
}

const char *kvt_replay_default_budgets(void)
{
    return "5%..50%x2";
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* A decimal number of at most DIGITS_MAX digits as num / den, the whole of [text, text + n). */
static bool decimal(int64_t *num, int64_t *den, const char *text, size_t n)
{
    int digits = 0;
    bool point = false;
    *num = 0, *den = 1;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '.' && !point) {
            point = true;
        } else if (isdigit((unsigned char)text[i]) && digits < DIGITS_MAX) {
            *num = *num * 10 + (text[i] - '0');
            *den *= point ? 10 : 1;
            digits++;
        } else {
            return false;
        }
    }
    return digits > 0;
}

static void reduce(kvt_budget *b)
{
    int64_t d = common_divisor(b->num, b->den);
    if (d > 1)
        b->num /= d, b->den /= d;
}

static kvt_code not_a_budget(const char *piece, kvt_err *err)
{
    return kvt_fail(err, KVT_USAGE,
                    "budget '%.40s': expected tokens (256), a share of the prompt that is kept "
                    "(10%%, 1/8) or bytes (64MiB)",
                    piece);
}

static kvt_code fraction(kvt_budget *b, const char *piece, kvt_err *err)
{
    b->kind = KVT_BUDGET_FRACTION;
    if (b->num > b->den)
        return kvt_fail(err, KVT_USAGE,
                        "budget '%.40s': more than 100 %% of the prompt cannot be kept", piece);
    reduce(b);
    return KVT_OK;
}

/* One budget without a range. */
static kvt_code single(kvt_budget *b, const char *piece, kvt_err *err)
{
    size_t n = strlen(piece);
    const char *slash = strchr(piece, '/');
    int64_t one;
    kvt_code code = KVT_OK;
    *b = (kvt_budget){.den = 1};
    if (n == 0 || n >= sizeof b->text)
        return not_a_budget(piece, err);
    memcpy(b->text, piece, n + 1);
    if (piece[n - 1] == '%') {
        if (!decimal(&b->num, &b->den, piece, n - 1))
            return not_a_budget(piece, err);
        b->den *= 100;
        code = fraction(b, piece, err);
    } else if (slash) {
        if (!decimal(&b->num, &one, piece, (size_t)(slash - piece)) || one != 1 ||
            !decimal(&b->den, &one, slash + 1, strlen(slash + 1)) || one != 1 || b->den == 0)
            return not_a_budget(piece, err);
        code = fraction(b, piece, err);
    } else if (strspn(piece, "0123456789") == n) {
        kvt_err ignored;
        b->kind = KVT_BUDGET_TOKENS;
        if (int_parse(&b->num, piece, &ignored) || b->num > INT32_MAX)
            return not_a_budget(piece, err);
    } else if (strspn(piece, "0123456789.") == n) {
        if (!decimal(&b->num, &b->den, piece, n))
            return not_a_budget(piece, err);
        code = fraction(b, piece, err);
    } else {
        kvt_err ignored;
        b->kind = KVT_BUDGET_BYTES;
        if (size_parse(&b->num, piece, &ignored))
            return not_a_budget(piece, err);
    }
    if (!code && b->num == 0)
        return kvt_fail(
            err, KVT_USAGE,
            "budget '%.40s': a budget of 0 keeps nothing, and attention over nothing "
            "is undefined",
            piece);
    return code;
}

/* The shortest exact form: "12.5%" where the decimals end, else "1/3". */
static void print_fraction(kvt_budget *b)
{
    int64_t num = b->num * 100, den = b->den;
    char digits[24] = "";
    int n = 0;
    int64_t rest = num % den;
    while (rest && n < DIGITS_MAX) {
        rest *= 10;
        digits[n++] = (char)('0' + rest / den);
        rest %= den;
    }
    digits[n] = 0;
    if (rest)
        snprintf(b->text, sizeof b->text, "%lld/%lld", (long long)b->num, (long long)b->den);
    else
        snprintf(b->text, sizeof b->text, "%lld%s%s%%", (long long)(num / den), n ? "." : "",
                 digits);
}

static bool below(const kvt_budget *a, const kvt_budget *b)
{
    return (double)a->num / (double)a->den <= (double)b->num / (double)b->den;
}

/* The next budget of a geometric range. */
static bool grow(kvt_budget *b, int64_t num, int64_t den)
{
    const int64_t limit = INT64_C(100000000000);
    int64_t from = b->num;
    if (num > limit / (b->num ? b->num : 1))
        return false;
    b->num *= num;
    if (b->kind == KVT_BUDGET_FRACTION) {
        if (den > limit / b->den)
            return false;
        b->den *= den;
        reduce(b);
        print_fraction(b);
        return true;
    }
    b->num /= den;
    if (b->num == from) /* a factor near 1 on a small number */
        b->num++;
    snprintf(b->text, sizeof b->text, "%lld%s", (long long)b->num,
             b->kind == KVT_BUDGET_BYTES ? "B" : "");
    return true;
}

static kvt_code add(kvt_budget *out, int *n, const kvt_budget *b, kvt_err *err)
{
    if (*n == KVT_BUDGETS_MAX)
        return kvt_fail(err, KVT_USAGE, "budgets: more than %d of them", KVT_BUDGETS_MAX);
    out[(*n)++] = *b;
    return KVT_OK;
}

/* "5%..40%x2" */
static kvt_code range(kvt_budget *out, int *n, char *piece, char *dots, kvt_err *err)
{
    kvt_budget from, to;
    int64_t num = 2, den = 1;
    char *times = strchr(dots, 'x');
    if (times) {
        if (!decimal(&num, &den, times + 1, strlen(times + 1)) || num <= den)
            return kvt_fail(
                err, KVT_USAGE,
                "budget range '%.60s': expected FROM..TOxFACTOR with a factor above 1", piece);
        *times = 0;
    }
    *dots = 0;
    if (single(&from, piece, err) || single(&to, dots + 2, err))
        return err->code;
    if (from.kind != to.kind || !below(&from, &to))
        return kvt_fail(err, KVT_USAGE,
                        "budget range '%.40s..%.40s': expected two budgets of one kind, the "
                        "smaller one first",
                        piece, dots + 2);
    do {
        if (add(out, n, &from, err))
            return err->code;
    } while (grow(&from, num, den) && below(&from, &to));
    return KVT_OK;
}

kvt_code kvt_budgets_parse(kvt_budget out[KVT_BUDGETS_MAX], int *n, const char *text,
                           kvt_err *err)
{
    *n = 0;
    while (*text) {
        char piece[PIECE_MAX];
        size_t len = strcspn(text, ",");
        if (len >= sizeof piece)
            return not_a_budget(text, err);
        memcpy(piece, text, len);
        piece[len] = 0;
        char *dots = strstr(piece, "..");
        kvt_budget b;
        if (dots ? range(out, n, piece, dots, err)
                 : single(&b, piece, err) || add(out, n, &b, err))
            return err->code;
        text += len + (text[len] == ',');
    }
    if (*n == 0)
        return kvt_fail(err, KVT_USAGE, "budgets: expected at least one, got none");
    return KVT_OK;
}

static int64_t at_least_1(int64_t n)
{
    return n < 1 ? 1 : n;
}

/* int(T * (1 - removed)) with every step in doubles, as kvpress computes it. */
static int64_t floor_ieee(const kvt_budget *b, int64_t n_prompt)
{
    double removed = (double)(b->den - b->num) / (double)b->den;
    return (int64_t)((double)n_prompt * (1 - removed));
}

static int64_t half_even(int64_t num, int64_t den)
{
    int64_t whole = num / den, twice = 2 * (num % den);
    return whole + (twice > den || (twice == den && whole % 2 == 1));
}

static int64_t fraction_tokens(const kvt_budget *b, kvt_rule rule, int64_t n_prompt)
{
    int64_t product = b->num * n_prompt;
    switch (rule) {
    case KVT_RULE_FLOOR_IEEE: return floor_ieee(b, n_prompt);
    case KVT_RULE_FLOOR_MIN1: return at_least_1(floor_ieee(b, n_prompt));
    case KVT_RULE_ROUND_HALF_EVEN: return at_least_1(half_even(product, b->den));
    case KVT_RULE_CEIL: return at_least_1((product + b->den - 1) / b->den);
    case KVT_RULE_ABS: return -1;
    case KVT_RULE_FLOOR_EXACT: break;
    }
    return at_least_1(product / b->den);
}

int64_t kvt_budget_tokens(const kvt_budget *b, kvt_rule rule, int64_t n_prompt, int64_t n_lane,
                          int64_t slot_bytes)
{
    switch (b->kind) {
    case KVT_BUDGET_TOKENS: return b->num;
    case KVT_BUDGET_FRACTION: return fraction_tokens(b, rule, n_prompt);
    case KVT_BUDGET_BYTES: break;
    }
    return at_least_1(b->num / at_least_1(n_lane * slot_bytes));
}
