/* tokenizer_shape.c - which pipelines of a tokenizer.json are known.
 *
 *   normalizer      none; NFC; Replace " " by U+2581; Prepend U+2581; a Sequence of these
 *   pre_tokenizer   byte level: [Digits one by one,] [Split by a known pattern, Isolated,]
 *                   ByteLevel; else none, Split on " " merged with the one before (which
 *                   never matches behind Replace), or Metaspace without splitting
 *   post_processor  none, ByteLevel, TemplateProcessing with at most one token in front */
#include "capture/tokenizer_json.h"

#include "base/text.h"

#include <string.h>

static const char SPACE[] = "\xe2\x96\x81"; /* U+2581 */

/* What has been seen on the way. */
typedef struct seen {
    tokenizer_shape *out;
    bool spaces; /* " " becomes U+2581 */
    bool digits;
    const char *pattern;
} seen;

static kvt_code refuse(const char *field, const json_t *got, kvt_err *err)
{
    char shown[100];
    const char *text = json_is_string(got) ? json_string_value(got) : "something else";
    text_safe_cut(shown, sizeof shown, (const uint8_t *)text, strlen(text), 60, true);
    return kvt_fail(err, KVT_FORMAT, "%s: '%s' is not supported here", field, shown);
}

static bool is_text(const json_t *value, const char *want)
{
    return json_is_string(value) && strcmp(json_string_value(value), want) == 0;
}

/* Whether the member is the text; an absent one is not. */
static bool says(const json_t *object, const char *key, const char *want)
{
    return is_text(json_object_get(object, key), want);
}

/* A flag that must have this value; absent means `otherwise`. */
static kvt_code must_be(const json_t *object, const char *key, bool want, bool otherwise,
                        kvt_err *err)
{
    const json_t *value = json_object_get(object, key);
    bool have = value ? json_is_true(value) : otherwise;
    if (value && !json_is_boolean(value))
        return kvt_fail(err, KVT_FORMAT, "%s: expected true or false", key);
    if (have != want)
        return kvt_fail(err, KVT_FORMAT, "%s: expected %s", key, want ? "true" : "false");
    return KVT_OK;
}

/* Calls `one` for a part, or for all parts of a Sequence in `list`. */
typedef kvt_code one_part(seen *s, const json_t *part, kvt_err *err);

static kvt_code each(seen *s, const json_t *root, const char *field, const char *list,
                     one_part *one, kvt_err *err)
{
    const json_t *part = json_object_get(root, field);
    if (!part || json_is_null(part))
        return KVT_OK;
    if (!says(part, "type", "Sequence"))
        return one(s, part, err) ? kvt_within(err, "%s", field) : KVT_OK;
    const json_t *parts = json_object_get(part, list);
    if (!json_is_array(parts))
        return kvt_fail(err, KVT_FORMAT, "%s.%s: expected a list", field, list);
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (one(s, json_array_get(parts, i), err))
            return kvt_within(err, "%s.%s[%zu]", field, list, i);
    return KVT_OK;
}

static kvt_code normalizer(seen *s, const json_t *part, kvt_err *err)
{
    if (says(part, "type", "NFC")) {
        s->out->nfc = true;
        return KVT_OK;
    }
    if (says(part, "type", "Prepend")) {
        if (!says(part, "prepend", SPACE))
            return refuse("prepend", json_object_get(part, "prepend"), err);
        s->out->space = TOKENIZER_SPACE_EACH;
        return KVT_OK;
    }
    if (says(part, "type", "Replace")) {
        const json_t *pattern = json_object_get(part, "pattern");
        if (!says(pattern, "String", " "))
            return refuse("pattern", json_object_get(pattern, "String"), err);
        if (!says(part, "content", SPACE))
            return refuse("content", json_object_get(part, "content"), err);
        s->spaces = true;
        return KVT_OK;
    }
    return refuse("type", json_object_get(part, "type"), err);
}

static kvt_code split(seen *s, const json_t *part, kvt_err *err)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    if (must_be(part, "invert", false, false, err))
        return err->code;
    if (says(pattern, "String", " ") && says(part, "behavior", "MergedWithPrevious"))
        return s->spaces ? KVT_OK
                         : refuse("pattern.String", json_object_get(pattern, "String"), err);
    if (!json_is_string(regex) || s->pattern)
        return refuse("pattern", json_object_get(pattern, "String"), err);
    if (!says(part, "behavior", "Isolated"))
        return refuse("behavior", json_object_get(part, "behavior"), err);
    s->pattern = json_string_value(regex);
    return KVT_OK;
}

static kvt_code metaspace(seen *s, const json_t *part, kvt_err *err)
{
    if (!says(part, "replacement", SPACE))
        return refuse("replacement", json_object_get(part, "replacement"), err);
    if (must_be(part, "split", false, true, err))
        return err->code;
    s->spaces = s->out->space_once = true;
    if (says(part, "prepend_scheme", "always"))
        s->out->space = TOKENIZER_SPACE_EACH;
    else if (says(part, "prepend_scheme", "first"))
        s->out->space = TOKENIZER_SPACE_FIRST;
    else if (!says(part, "prepend_scheme", "never"))
        return refuse("prepend_scheme", json_object_get(part, "prepend_scheme"), err);
    return KVT_OK;
}

static kvt_code pre_tokenizer(seen *s, const json_t *part, kvt_err *err)
{
    if (s->out->byte_level) /* its words are in the alphabet: nothing cuts those again */
        return refuse("type", json_object_get(part, "type"), err);
    if (says(part, "type", "Digits") && !s->pattern) {
        s->digits = true;
        return must_be(part, "individual_digits", true, false, err);
    }
    if (says(part, "type", "Split"))
        return split(s, part, err);
    if (says(part, "type", "Metaspace"))
        return metaspace(s, part, err);
    if (!says(part, "type", "ByteLevel"))
        return refuse("type", json_object_get(part, "type"), err);
    s->out->byte_level = true;
    if (must_be(part, "add_prefix_space", false, true, err) ||
        (s->pattern && must_be(part, "use_regex", false, true, err)) ||
        (!s->pattern && must_be(part, "use_regex", true, true, err)))
        return err->code;
    return KVT_OK;
}

/* What it puts in front of a text. */
static kvt_code post_processor(seen *s, const json_t *part, kvt_err *err)
{
    if (says(part, "type", "ByteLevel"))
        return KVT_OK;
    if (!says(part, "type", "TemplateProcessing"))
        return refuse("type", json_object_get(part, "type"), err);
    const json_t *single = json_object_get(part, "single");
    size_t n = json_array_size(single);
    const json_t *first = json_object_get(json_array_get(single, 0), "SpecialToken");
    const json_t *last = json_object_get(json_array_get(single, n - 1), "Sequence");
    if (n < 1 || n > 2 || !last || (n == 2 && !json_is_string(json_object_get(first, "id"))))
        return kvt_fail(err, KVT_FORMAT,
                        "single: expected at most one token, and that in front "
                        "of the text");
    if (n == 2)
        s->out->bos = json_string_value(json_object_get(first, "id"));
    return KVT_OK;
}

kvt_code tokenizer_shape_read(tokenizer_shape *out, const json_t *root, kvt_err *err)
{
    *out = (tokenizer_shape){0};
    seen s = {.out = out};
    if (each(&s, root, "normalizer", "normalizers", normalizer, err) ||
        each(&s, root, "pre_tokenizer", "pretokenizers", pre_tokenizer, err) ||
        each(&s, root, "post_processor", "processors", post_processor, err))
        return err->code;
    if (out->byte_level == s.spaces)
        return kvt_fail(err, KVT_FORMAT,
                        "pre_tokenizer: expected ByteLevel, or U+2581 for spaces by a Replace "
                        "or Metaspace, got %s",
                        s.spaces ? "both" : "neither");
    if (out->byte_level ? out->space != TOKENIZER_SPACE_NONE
                        : out->nfc || s.digits || s.pattern)
        return kvt_fail(err, KVT_FORMAT, "normalizer: %s",
                        out->byte_level
                            ? "a Prepend in front of ByteLevel is not supported here"
                            : "NFC, Digits or a pattern together with U+2581 for "
                              "spaces is not supported here");
    if (!out->byte_level)
        return KVT_OK;
    out->form = pre_find_pattern(s.digits, s.pattern);
    const char *pattern = s.pattern ? s.pattern : "";
    text_safe_cut(out->pattern, sizeof out->pattern, (const uint8_t *)pattern, strlen(pattern),
                  120, true);
    return KVT_OK;
}
