/* json.c - the only door to jansson.
 *
 * jansson is strict about syntax, UTF-8, number ranges and what follows the value; duplicate
 * keys it refuses when asked, and it is always asked. Its own depth limit is 2,048 levels of
 * recursion; ours is checked before, on the bytes. A NUL (\u0000) may stand in a string and
 * never in a key. */
#include "base/json.h"

#include "base/file.h"
#include "base/text.h"

#include <string.h>

enum { DEPTH_MAX = 128 };
#define FILE_LIMIT ((size_t)512 << 20)

/* Deepest nesting of brackets outside strings; right for valid JSON, and for the rest the
 * parser finds its own error. */
static int depth_of(const char *s, size_t n)
{
    int depth = 0, deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == '[' || s[i] == '{') {
            deepest = ++depth > deepest ? depth : deepest;
        } else if (s[i] == ']' || s[i] == '}') {
            depth--;
        }
    }
    return deepest;
}

static kvt_code parse(json_t **out, const char *bytes, size_t n, size_t flags, kvt_err *err)
{
    if (depth_of(bytes, n) > DEPTH_MAX)
        return kvt_fail(err, KVT_FORMAT, "JSON: nested more than %d deep", DEPTH_MAX);
    json_error_t why;
    *out = json_loadb(n ? bytes : "", n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | flags, &why);
    if (*out)
        return KVT_OK;
    switch (json_error_code(&why)) {
    case json_error_out_of_memory: return kvt_fail_memory(err, n);
    case json_error_null_byte_in_key:
        return kvt_fail(err, KVT_FORMAT,
                        "JSON: line %d, column %d: a key with \\u0000 cannot be read", why.line,
                        why.column);
    default:
        return kvt_fail(err, KVT_FORMAT, "JSON: line %d, column %d: %s", why.line, why.column,
                        why.text);
    }
}

kvt_code json_read(json_t **out, const char *bytes, size_t n, kvt_err *err)
{
    return parse(out, bytes, n, 0, err);
}

static kvt_code parse_file(json_t **out, const char *path, size_t flags, kvt_err *err)
{
    buf text;
    buf_init(&text, FILE_LIMIT);
    kvt_code code = file_read(&text, path, FILE_LIMIT, err);
    if (!code && parse(out, buf_get(&text), text.n, flags, err))
        code = kvt_within(err, "'%s'", path);
    buf_fini(&text);
    return code;
}

kvt_code json_read_file(json_t **out, const char *path, kvt_err *err)
{
    return parse_file(out, path, 0, err);
}

kvt_code json_read_file_reals(json_t **out, const char *path, kvt_err *err)
{
    return parse_file(out, path, JSON_DECODE_INT_AS_REAL, err);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a text";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "nothing";
}

/* NULL: err tells. */
static const json_t *get(const json_t *object, const char *key, kvt_err *err)
{
    if (!json_is_object(object)) {
        kvt_fail(err, KVT_FORMAT, "expected an object with '%s', got %s", key,
                 object ? type_name(object) : "nothing");
        return NULL;
    }
    const json_t *value = json_object_get(object, key);
    if (!value)
        kvt_fail(err, KVT_NOTFOUND, "'%s' is missing", key);
    return value;
}

static kvt_code fail_type(const char *key, const char *want, const json_t *got, kvt_err *err)
{
    return kvt_fail(err, KVT_FORMAT, "'%s': expected %s, got %s", key, want, type_name(got));
}

kvt_code json_text(const json_t *object, const char *key, const char **out, kvt_err *err)
{
    const json_t *value = get(object, key, err);
    if (!value)
        return err->code;
    if (!json_is_string(value))
        return fail_type(key, "a text", value, err);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return kvt_fail(err, KVT_FORMAT, "'%s': a text with \\u0000 is not allowed here", key);
    *out = json_string_value(value);
    return KVT_OK;
}

kvt_code json_int(const json_t *object, const char *key, int64_t *out, kvt_err *err)
{
    const json_t *value = get(object, key, err);
    if (!value)
        return err->code;
    if (!json_is_integer(value))
        return fail_type(key, "a whole number", value, err);
    *out = json_integer_value(value);
    return KVT_OK;
}

kvt_code json_number(const json_t *object, const char *key, double *out, kvt_err *err)
{
    const json_t *value = get(object, key, err);
    if (!value)
        return err->code;
    if (!json_is_number(value))
        return fail_type(key, "a number", value, err);
    *out = json_number_value(value);
    return KVT_OK;
}

kvt_code json_only(const json_t *object, const char *const *known, kvt_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key,
                        value) /* its iterator takes no const */
    {
        const char *const *k = known;
        while (*k && strcmp(*k, key))
            k++;
        if (*k)
            continue;
        const char *near = text_nearest(key, known);
        if (near)
            return kvt_fail(err, KVT_USAGE, "unknown member '%s' (did you mean '%s'?)", key,
                            near);
        return kvt_fail(err, KVT_USAGE, "unknown member '%s'", key);
    }
    return KVT_OK;
}

void json_quote(buf *out, const char *s, size_t n)
{
    const uint8_t *u = (const uint8_t *)s;
    buf_char(out, '"');
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = text_decode(&cp, u + i, n - i);
        if (!len) {
            buf_text(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (cp == '"' || cp == '\\') {
            buf_char(out, '\\');
            buf_char(out, (char)cp);
        } else if (cp == '\n' || cp == '\t' || cp == '\r') {
            buf_text(out, cp == '\n' ? "\\n" : cp == '\t' ? "\\t" : "\\r");
        } else if (cp < 0x20 || cp == 0x7f || cp == 0x2028 || cp == 0x2029) {
            buf_printf(out, "\\u%04x", (unsigned)cp);
        } else {
            buf_add(out, s + i, (size_t)len);
        }
        i += (size_t)len;
    }
    buf_char(out, '"');
}
