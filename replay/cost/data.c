/* data.c - data files of the cost model: by name or by path, and their members. */
#include "replay/cost/cost_priv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { NAMES_MAX = 256, WORD = 64 };

static bool has_alias(const cost_file *f, const char *name)
{
    for (const char *const *a = f->aliases; *a; a++)
        if (!strcasecmp(*a, name))
            return true;
    return false;
}

const cost_file *cost_file_find(const cost_file *list, const char *name)
{
    for (; list->name; list++)
        if (!strcasecmp(list->name, name) || has_alias(list, name))
            return list;
    return NULL;
}

static bool is_path(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n >= 5 && !strcmp(name + n - 5, ".json"));
}

static kvt_code fail_unknown(const cost_file *list, const char *kind, const char *name,
                             kvt_err *err)
{
    const char *known[NAMES_MAX + 1];
    char shown[WORD], names[400] = "";
    int n = 0;
    size_t used = 0;
    text_safe_cut(shown, sizeof shown, (const uint8_t *)name, strlen(name), 40, true);
    for (const cost_file *f = list; f->name; f++) {
        for (const char *const *a = f->aliases; *a && n < NAMES_MAX; a++)
            known[n++] = *a;
        if (n < NAMES_MAX)
            known[n++] = f->name;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used ? ", " : "", f->name);
    }
    known[n] = NULL;
    const char *near = text_nearest(name, known);
    if (near)
        return kvt_fail(err, KVT_USAGE, "no %s '%s' (did you mean '%s'?)", kind, shown, near);
    return kvt_fail(err, KVT_USAGE, "no %s '%s'; there are %s", kind, shown, names);
}

kvt_code cost_file_within(const char *kind, const char *name, kvt_err *err)
{
    char shown[200];
    text_safe_cut(shown, sizeof shown, (const uint8_t *)name, strlen(name), 120, true);
    if (err->code != KVT_NOMEM)
        err->code = KVT_FORMAT;
    return kvt_within(err, "%s '%s'", kind, shown);
}

kvt_code cost_file_read(json_t **out, const cost_file *list, const char *kind, const char *name,
                        kvt_err *err)
{
    *out = NULL;
    if (is_path(name)) {
        if (json_read_file(out, name, err)) /* its text names the file */
            return kvt_within(err, "%s", kind);
    } else {
        const cost_file *f = cost_file_find(list, name);
        if (!f)
            return fail_unknown(list, kind, name, err);
        if (json_read(out, f->bytes, f->size, err))
            return cost_file_within(kind, name, err);
    }
    if (json_is_object(*out))
        return KVT_OK;
    json_decref(*out);
    *out = NULL;
    kvt_fail(err, KVT_FORMAT, "expected an object, { ... }");
    return cost_file_within(kind, name, err);
}

/* Whether a text may stand in a line of output as it is. */
static bool is_plain(const char *text)
{
    char name[16];
    size_t n = strlen(text);
    uint32_t cp;
    for (size_t i = 0; i < n;) {
        int len = text_decode(&cp, (const uint8_t *)text + i, n - i);
        if (!len || text_classify(cp, name) != TEXT_PLAIN)
            return false;
        i += (size_t)len;
    }
    return true;
}

/* A member that may be missing: then KVT_OK stands for "nothing to do". */
static kvt_code absent(kvt_code code, bool needed)
{
    return code == KVT_NOTFOUND && !needed ? KVT_OK : code;
}

kvt_code cost_text(const json_t *object, const char *key, bool needed, char *out, size_t cap,
                   kvt_err *err)
{
    const char *text;
    kvt_code code = json_text(object, key, &text, err);
    if (code)
        return absent(code, needed);
    if (strlen(text) >= cap)
        return kvt_fail(err, KVT_FORMAT, "'%s': expected at most %zu bytes, got %zu", key,
                        cap - 1, strlen(text));
    if (!is_plain(text) || (needed && !*text))
        return kvt_fail(err, KVT_FORMAT,
                        "'%s': expected a line of text without control characters", key);
    memcpy(out, text, strlen(text) + 1);
    return KVT_OK;
}

kvt_code cost_int(const json_t *object, const char *key, bool needed, int64_t *out,
                  kvt_err *err)
{
    return absent(json_int(object, key, out, err), needed);
}

kvt_code cost_flag(const json_t *object, const char *key, bool needed, bool *out, kvt_err *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return needed ? kvt_fail(err, KVT_NOTFOUND, "'%s' is missing", key) : KVT_OK;
    bool is_bit = json_is_integer(value) &&
                  (json_integer_value(value) | 1) == 1; /* 0 or 1, as in traces */
    if (!json_is_boolean(value) && !is_bit)
        return kvt_fail(err, KVT_FORMAT, "'%s': expected true or false", key);
    *out = json_is_true(value) || json_integer_value(value) == 1;
    return KVT_OK;
}
