/* parse.c - the text form of a probe: NAME=kind:SOURCE,option=value@budgets. */
#include "live/live_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"

/* What each kind takes. One that is not here takes a source only. */
static const struct {
    kvt_probe_kind kind;
    const char *option; /* its one number */
    int64_t def, min, max;
    bool source, budget;
} takes[] = {
    {KVT_PROBE_LOOKAHEADKV, NULL, 0, 0, 0, true, false},
    {KVT_PROBE_JUDGEQ, NULL, 0, 0, 0, true, false},
    {KVT_PROBE_DRAFT, "tokens", 8, 1, 65536, false, true},
    {KVT_PROBE_SPECDRAFT, "tokens", 32, 1, 65536, true, false},
    {KVT_PROBE_REPEAT, "chunk", 2000, 16, 1 << 20, false, false},
    {KVT_PROBE_SUFFIX, "tokens", 32, 1, 65536, true, false},
};
enum { N_TAKES = sizeof takes / sizeof takes[0] };

static int row_of(kvt_probe_kind kind)
{
    for (int i = 0; i < N_TAKES; i++)
        if (takes[i].kind == kind)
            return i;
    return 0;
}

static bool good_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789._-", s[i]) || !s[i])
            return false;
    return n > 0 && s[0] != '.';
}

/* The next piece of a list, its length; moves *at behind the comma. */
static size_t piece(const char **at, const char **out)
{
    size_t n = strcspn(*at, ",");
    *out = *at;
    *at += n + ((*at)[n] == ',');
    return n;
}

static kvt_code read_option(wish *w, const char *s, size_t n, kvt_err *err)
{
    int k = row_of(w->kind);
    const char *kind = kvt_probe_kind_name(w->kind), *option = takes[k].option;
    size_t n_key = option ? strlen(option) : 0;
    char value[32];
    if (!option || n <= n_key || strncmp(s, option, n_key) != 0 || s[n_key] != '=' ||
        n - n_key > sizeof value)
        return kvt_fail(err, KVT_USAGE, "'%.*s': %s takes %s", (int)n, s, kind,
                        kvt_probe_kind_args(w->kind));
    snprintf(value, sizeof value, "%.*s", (int)(n - n_key - 1), s + n_key + 1);
    if (int_parse(&w->number, value, err) || w->number < takes[k].min ||
        w->number > takes[k].max)
        return kvt_fail(err, KVT_USAGE, "%s=%s: expected a whole number from %lld to %lld",
                        option, value, (long long)takes[k].min, (long long)takes[k].max);
    return KVT_OK;
}

static kvt_code read_args(wish *w, const char *at, kvt_err *err)
{
    int k = row_of(w->kind);
    const char *kind = kvt_probe_kind_name(w->kind), *s;
    w->number = takes[k].def;
    if (takes[k].source) {
        size_t n = piece(&at, &s);
        if (n == 0 || n >= sizeof w->source)
            return kvt_fail(err, KVT_USAGE, "%s: expected %s:%s", kind, kind,
                            kvt_probe_kind_args(w->kind));
        memcpy(w->source, s, n);
        w->source[n] = 0;
    }
    while (*at) {
        size_t n = piece(&at, &s);
        if (read_option(w, s, n, err))
            return err->code;
    }
    const char *file = file_base(w->source),
               *comma = w->source[0] && takes[k].option ? "," : "";
    if (strlen(file) > 128)
        file += strlen(file) - 128;
    if (takes[k].option)
        snprintf(w->args, sizeof w->args, "%s%s%s=%lld", file, comma, takes[k].option,
                 (long long)w->number);
    else
        snprintf(w->args, sizeof w->args, "%s", file);
    return KVT_OK;
}

static kvt_code read_budgets(wish *w, const char *text, kvt_err *err)
{
    bool wanted = takes[row_of(w->kind)].budget;
    if (wanted && !text)
        return kvt_fail(err, KVT_USAGE,
                        "%s runs on a cache that was evicted: expected a budget, "
                        "as in draft:tokens=8@10%%",
                        kvt_probe_kind_name(w->kind));
    return wanted ? kvt_budgets_parse(w->budget, &w->n_budget, text, err) : KVT_OK;
}

static kvt_code read_kind(wish *w, const char *s, size_t n, kvt_err *err)
{
    char kind[32], known[256] = "";
    snprintf(kind, sizeof kind, "%.*s", (int)(n < 31 ? n : 31), s);
    int found = kvt_probe_kind_find(kind);
    for (int i = 0; i < KVT_PROBE_KINDS; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 kvt_probe_kind_name((kvt_probe_kind)i));
    if (found < 0)
        return kvt_fail(err, KVT_USAGE, "'%s' is no kind of probe; expected one of %s", kind,
                        known);
    w->kind = (kvt_probe_kind)found;
    return KVT_OK;
}

static kvt_code parse(wish *w, const char *text, kvt_err *err)
{
    const char *equal = strchr(text, '='), *at = equal ? equal + 1 : NULL;
    if (!equal)
        return kvt_fail(err, KVT_USAGE, "expected NAME=kind:args@budget");
    if (!good_name(text, (size_t)(equal - text)) || equal - text > 47)
        return kvt_fail(err, KVT_USAGE,
                        "'%.*s': a probe's name is at most 47 of a-z, 0-9, '.', '_' and '-'",
                        (int)(equal - text < 100 ? equal - text : 100), text);
    snprintf(w->name, sizeof w->name, "%.*s", (int)(equal - text), text);
    size_t n = strcspn(at, ":@");
    if (read_kind(w, at, n, err))
        return err->code;
    at += n + (at[n] == ':');
    /* Only a kind with budgets gives '@' a meaning: a file's name may hold one. */
    const char *budget = takes[row_of(w->kind)].budget ? strchr(at, '@') : NULL;
    char args[1200];
    n = budget ? (size_t)(budget - at) : strlen(at);
    if (n >= sizeof args)
        return kvt_fail(err, KVT_USAGE, "arguments of more than %zu bytes", sizeof args - 1);
    memcpy(args, at, n);
    args[n] = 0;
    if (read_args(w, args, err))
        return err->code;
    return read_budgets(w, budget ? budget + 1 : NULL, err);
}

kvt_code wish_parse(wish *out, const char *text, kvt_err *err)
{
    *out = (wish){0};
    return parse(out, text, err) ? kvt_within(err, "probe '%.200s'", text) : KVT_OK;
}

const char *wish_options(const char *args, kvt_probe_kind kind)
{
    if (!takes[row_of(kind)].option)
        return "";
    const char *comma = strrchr(args, ',');
    return comma ? comma + 1 : args;
}
