/* param.c - reading, printing and describing parameter tables.
 *
 * A text is "name=value,name=value". It is walked three times: every item is checked before any
 * is stored, so that a wrong text leaves the values as they were; what choices set is stored,
 * in table order; what was typed is stored over it. */
#include "kvt/param.h"

#include "base/size.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_ = 64, N_PARAM_MAX = 64 };

typedef struct value {
    int64_t i; /* KVT_INT, KVT_BOOL, KVT_CHOICE */
    double d;  /* KVT_REAL */
    char text[KVT_PARAM_TEXT_MAX];
} value;

typedef struct item {
    char name[NAME_MAX_];
    char text[KVT_PARAM_TEXT_MAX];
} item;

static int n_choice(const kvt_param *p)
{
    return (int)p->max + 1;
}

static void store(const kvt_param *p, void *out, const value *v)
{
    char *field = (char *)out + p->offset;
    switch (p->type) {
    case KVT_INT: memcpy(field, &v->i, sizeof v->i); break;
    case KVT_REAL: memcpy(field, &v->d, sizeof v->d); break;
    case KVT_BOOL: *(bool *)(void *)field = v->i != 0; break;
    case KVT_CHOICE: *(int *)(void *)field = (int)v->i; break;
    case KVT_TEXT: memcpy(field, v->text, sizeof v->text); break;
    }
}

static int64_t to_int(double x)
{
    return x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

void kvt_param_defaults(const kvt_param *table, void *out)
{
    for (const kvt_param *p = table; p && p->name; p++) {
        value v = {.i = to_int(p->def), .d = p->def};
        store(p, out, &v);
    }
}

const kvt_param *kvt_param_find(const kvt_param *table, const char *name)
{
    for (const kvt_param *p = table; p && p->name; p++)
        if (!strcmp(p->name, name))
            return p;
    return NULL;
}

/* Puts text behind what is in out, cut at cap; `used` counts all of it, as snprintf does. */
static void append(char *out, size_t cap, size_t *used, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n && *used + i + 1 < cap; i++) {
        out[*used + i] = text[i];
        out[*used + i + 1] = 0;
    }
    *used += n;
}

/* A bound as people write it: whole numbers in full, not as 1e+06. */
static void append_bound(char *out, size_t cap, size_t *used, double x)
{
    char text[40];
    if (x == floor(x) && fabs(x) < 0x1p53)
        snprintf(text, sizeof text, "%lld", (long long)x);
    else
        real_print(x, text, sizeof text);
    append(out, cap, used, text);
}

static void append_number_range(char *out, size_t cap, size_t *used, const kvt_param *p)
{
    double endless = p->type == KVT_INT ? 0x1p53 : INFINITY;
    bool below = p->min > -endless, above = p->max < endless;
    append(out, cap, used, p->type == KVT_INT ? "whole number" : "number");
    if (below) {
        append(out, cap, used, " from ");
        append_bound(out, cap, used, p->min);
    }
    if (above) {
        append(out, cap, used, below ? " to " : " up to ");
        append_bound(out, cap, used, p->max);
    }
    if (p->unit && p->unit[0] && strcmp(p->unit, "frac") && strcmp(p->unit, "1")) {
        append(out, cap, used, " ");
        append(out, cap, used, p->unit);
    }
    if (below && !above)
        append(out, cap, used, " up");
}

const char *kvt_param_range(const kvt_param *p, char *out, size_t cap)
{
    size_t used = 0;
    if (cap)
        out[0] = 0;
    switch (p->type) {
    case KVT_INT:
    case KVT_REAL: append_number_range(out, cap, &used, p); break;
    case KVT_BOOL: append(out, cap, &used, "true or false"); break;
    case KVT_TEXT: append(out, cap, &used, "text without commas"); break;
    case KVT_CHOICE:
        append(out, cap, &used, "one of ");
        for (int i = 0; i < n_choice(p); i++) {
            append(out, cap, &used, i ? ", " : "");
            append(out, cap, &used, p->choices[i].name);
        }
        break;
    }
    return out;
}

/* "window: 0 is not a whole number from 1 to 4096 tokens"; words are quoted, numbers are not.
 */
static kvt_code fail_value(const kvt_param *p, const char *text, bool is_number, kvt_err *err)
{
    char range[320];
    kvt_param_range(p, range, sizeof range);
    const char *quote = is_number ? "" : "'";
    const char *a = p->type == KVT_INT || p->type == KVT_REAL ? "a " : "";
    return kvt_fail(err, KVT_USAGE, "%s: %s%s%s is not %s%s", p->name, quote, text, quote, a,
                    range);
}

static kvt_code read_value(const kvt_param *p, value *v, const char *text, kvt_err *err)
{
    kvt_err ignored;
    double number;
    bool is_number = !real_parse(&number, text, &ignored);
    bool good = false;
    switch (p->type) {
    case KVT_INT:
        good = !int_parse(&v->i, text, &ignored) && (double)v->i >= p->min &&
               (double)v->i <= p->max;
        break;
    case KVT_REAL:
        v->d = number;
        good = is_number && number >= p->min && number <= p->max;
        break;
    case KVT_BOOL:
        v->i = !strcmp(text, "true") || !strcmp(text, "1");
        good = v->i || !strcmp(text, "false") || !strcmp(text, "0");
        break;
    case KVT_CHOICE:
        for (v->i = 0; v->i < n_choice(p) && !good; v->i += !good)
            good = !strcmp(text, p->choices[v->i].name);
        is_number = false;
        break;
    case KVT_TEXT:
        memset(v->text, 0, sizeof v->text);
        memcpy(v->text, text, strlen(text)); /* an item is no longer than a value */
        good = true;
        break;
    }
    return good ? KVT_OK : fail_value(p, text, is_number, err);
}

static kvt_code fail_name(const kvt_param *table, const char *name, kvt_err *err)
{
    const char *names[N_PARAM_MAX + 1];
    int n = 0;
    for (const kvt_param *p = table; p && p->name && n < N_PARAM_MAX; p++)
        names[n++] = p->name;
    names[n] = NULL;
    if (!n)
        return kvt_fail(err, KVT_USAGE, "no parameter '%s' (there are none)", name);
    const char *near = text_nearest(name, names);
    if (near)
        return kvt_fail(err, KVT_USAGE, "no parameter '%s' (did you mean '%s'?)", name, near);
    char all[256];
    size_t used = 0;
    all[0] = 0;
    for (int i = 0; i < n; i++) {
        append(all, sizeof all, &used, i ? ", " : "");
        append(all, sizeof all, &used, names[i]);
    }
    return kvt_fail(err, KVT_USAGE, "no parameter '%s' (there are %s)", name, all);
}

/* Takes the next item off *text; `it` is whole or the call fails. */
static kvt_code next_item(item *it, const char **text, kvt_err *err)
{
    size_t n = strcspn(*text, ",");
    const char *equals = memchr(*text, '=', n);
    size_t n_name = equals ? (size_t)(equals - *text) : n;
    size_t n_text = equals ? n - n_name - 1 : 0;
    if (n_name >= sizeof it->name || n_text >= sizeof it->text)
        return kvt_fail(err, KVT_USAGE, "'%.40s...' is too long for a parameter", *text);
    memcpy(it->name, *text, n_name);
    it->name[n_name] = 0;
    memcpy(it->text, equals ? equals + 1 : "", n_text);
    it->text[n_text] = 0;
    if (!equals || !n_name)
        return kvt_fail(err, KVT_USAGE, "expected name=value, got '%.*s'", (int)n, *text);
    bool more = (*text)[n] == ',';
    *text += n + more;
    if (more && !**text)
        return kvt_fail(err, KVT_USAGE, "expected name=value behind the last comma");
    return KVT_OK;
}

static kvt_code check(const kvt_param *table, const char *text, kvt_err *err)
{
    bool given[N_PARAM_MAX] = {0};
    item it;
    value v;
    while (*text) {
        if (next_item(&it, &text, err))
            return err->code;
        const kvt_param *p = kvt_param_find(table, it.name);
        if (!p)
            return fail_name(table, it.name, err);
        assert(p - table < N_PARAM_MAX);
        if (given[p - table])
            return kvt_fail(err, KVT_USAGE, "%s is given twice", p->name);
        given[p - table] = true;
        if (read_value(p, &v, it.text, err))
            return err->code;
    }
    return KVT_OK;
}

/* Stores the items of a text; `only`: those of one parameter. */
static kvt_code apply(const kvt_param *table, void *out, const char *text,
                      const kvt_param *only, value *stored, kvt_err *err)
{
    item it;
    while (*text) {
        if (next_item(&it, &text, err))
            return err->code;
        const kvt_param *p = kvt_param_find(table, it.name);
        if (only && p != only)
            continue;
        if (read_value(p, stored, it.text, err))
            return err->code;
        store(p, out, stored);
    }
    return KVT_OK;
}

kvt_code kvt_param_parse(const kvt_param *table, void *out, const char *text, kvt_err *err)
{
    if (check(table, text, err))
        return err->code;
    for (const kvt_param *p = table; p && p->name; p++) {
        if (p->type != KVT_CHOICE)
            continue;
        value v = {.i = -1};
        if (apply(table, out, text, p, &v, err))
            return err->code;
        if (v.i < 0 || !p->choices[v.i].sets)
            continue;
        const char *sets = p->choices[v.i].sets;
        if (check(table, sets, err) || apply(table, out, sets, NULL, &v, err))
            return kvt_within(err, "%s", p->name);
    }
    value v;
    return apply(table, out, text, NULL, &v, err);
}

static void print_value(const kvt_param *p, char *out, size_t cap, size_t *used, const void *in)
{
    const char *field = (const char *)in + p->offset;
    char text[40] = "";
    const char *show = text;
    int64_t i;
    double d;
    int choice;
    switch (p->type) {
    case KVT_INT:
        memcpy(&i, field, sizeof i);
        snprintf(text, sizeof text, "%lld", (long long)i);
        break;
    case KVT_REAL:
        memcpy(&d, field, sizeof d);
        real_print(d, text, sizeof text);
        break;
    case KVT_BOOL: show = *(const bool *)(const void *)field ? "true" : "false"; break;
    case KVT_CHOICE:
        memcpy(&choice, field, sizeof choice);
        assert(choice >= 0 && choice < n_choice(p));
        show = p->choices[choice].name;
        break;
    case KVT_TEXT: show = field; break;
    }
    append(out, cap, used, show);
}

size_t kvt_param_print(const kvt_param *table, char *out, size_t cap, const void *in)
{
    size_t used = 0;
    if (cap)
        out[0] = 0;
    for (const kvt_param *p = table; p && p->name; p++) {
        append(out, cap, &used, p == table ? "" : ",");
        append(out, cap, &used, p->name);
        append(out, cap, &used, "=");
        print_value(p, out, cap, &used, in);
    }
    return used;
}
