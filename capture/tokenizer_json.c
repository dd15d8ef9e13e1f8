/* tokenizer_json.c - "model" and "added_tokens" of a tokenizer.json: tokens, types, merges.
 *
 * Linear in the size of the file. Ids must be 0, 1, 2, ... without a hole: nothing is taken for
 * a token that the file does not list. */
#include "capture/tokenizer_json.h"

#include "base/text.h"
#include "kvt/arena.h"

#include <string.h>

static const char *shown(char out[64], const char *text, size_t n)
{
    return text_safe_cut(out, 64, (const uint8_t *)text, n, 40, true);
}

/* Puts a token at its id. `known`: the model's vocabulary may have it there already. */
static kvt_code put(tokenizer_parts *p, int64_t id, const char *text, size_t n, int32_t type,
                    bool known, kvt_err *err)
{
    char a[64], b[64];
    if (id < 0 || id >= p->n_token)
        return kvt_fail(err, KVT_FORMAT,
                        "token '%s': id %lld, with %lld tokens in all: ids have a hole",
                        shown(a, text, n), (long long)id, (long long)p->n_token);
    token_text *have = &p->token[id];
    bool same = have->data && have->n == n && memcmp(have->data, text, n) == 0;
    if (have->data && !(known && same))
        return kvt_fail(err, KVT_FORMAT, "tokens '%s' and '%s' have one id, %lld",
                        shown(a, have->data, have->n), shown(b, text, n), (long long)id);
    *have = (token_text){text, n};
    p->type[id] = type;
    return KVT_OK;
}

static bool is_byte(const char *text)
{
    return strlen(text) == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' &&
           strspn(text + 3, "0123456789ABCDEF") == 2;
}

static kvt_code add_vocabulary(tokenizer_parts *p, json_t *list, bool bytes, kvt_err *err)
{
    const char *text;
    json_t *id;
    json_object_foreach(list, text, id)
    {
        char a[64];
        if (!json_is_integer(id))
            return kvt_fail(err, KVT_FORMAT, "model.vocab: '%s': expected a whole number",
                            shown(a, text, strlen(text)));
        if (put(p, json_integer_value(id), text, strlen(text),
                bytes && is_byte(text) ? TOKEN_BYTE : TOKEN_NORMAL, false, err))
            return kvt_within(err, "model.vocab");
    }
    return KVT_OK;
}

/* false where it is absent or null. */
static kvt_code flag(bool *out, const json_t *object, const char *key, kvt_err *err)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value) && !json_is_null(value))
        return kvt_fail(err, KVT_FORMAT, "%s: expected true or false", key);
    *out = json_is_true(value);
    return KVT_OK;
}

/* A token that is cut out of the text. */
static kvt_code add_added(tokenizer_parts *p, const json_t *one, kvt_err *err)
{
    static const char *const never[] = {"single_word", "lstrip", "rstrip", NULL};
    const json_t *content = json_object_get(one, "content");
    const json_t *id = json_object_get(one, "id");
    bool special = false, on = false;
    char a[64];
    if (!json_is_integer(id) || !json_is_string(content))
        return kvt_fail(err, KVT_FORMAT, "expected an object with id and content");
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    for (int k = 0; never[k]; k++)
        if (flag(&on, one, never[k], err))
            return err->code;
        else if (on)
            return kvt_fail(err, KVT_FORMAT, "'%s': %s: expected false", shown(a, text, n),
                            never[k]);
    if (flag(&special, one, "special", err))
        return err->code;
    int32_t type = special ? TOKEN_CONTROL : TOKEN_USER;
    return put(p, json_integer_value(id), text, n, type, true, err);
}

static kvt_code add_tokens(tokenizer_parts *p, const json_t *root, bool bytes, kvt_err *err)
{
    json_t *list = json_object_get(json_object_get(root, "model"), "vocab");
    const json_t *added = json_object_get(root, "added_tokens");
    if (!json_is_object(list) || json_object_size(list) == 0)
        return kvt_fail(err, KVT_FORMAT, "model.vocab: expected an object of tokens");
    if (added && !json_is_array(added))
        return kvt_fail(err, KVT_FORMAT, "added_tokens: expected a list");
    size_t most = json_object_size(list) + json_array_size(added);
    p->n_token = (int64_t)most;
    p->token = kvt_alloc((int64_t)most, sizeof *p->token);
    p->type = kvt_alloc((int64_t)most, sizeof *p->type);
    if (!p->token || !p->type)
        return kvt_fail_memory(err, most * sizeof *p->token);
    if (add_vocabulary(p, list, bytes, err))
        return err->code;
    for (size_t i = 0; i < json_array_size(added); i++)
        if (add_added(p, json_array_get(added, i), err))
            return kvt_within(err, "added_tokens[%zu]", i);
    while (p->n_token > 0 && !p->token[p->n_token - 1].data)
        p->n_token--; /* added tokens that the vocabulary has, too */
    return KVT_OK;
}

/* Entries are "left right", or [left, right]: all of one form. */
static kvt_code add_merges(tokenizer_parts *p, const json_t *model, kvt_err *err)
{
    const json_t *list = json_object_get(model, "merges");
    if (!json_is_array(list))
        return kvt_fail(err, KVT_FORMAT, "model.merges: expected a list");
    size_t n = json_array_size(list);
    bool pairs = json_is_array(json_array_get(list, 0));
    p->n_merge = (int64_t)n;
    p->merge = kvt_alloc((int64_t)n, sizeof *p->merge);
    p->right = pairs ? kvt_alloc((int64_t)n, sizeof *p->right) : NULL;
    if (!p->merge || (pairs && !p->right))
        return kvt_fail_memory(err, n * sizeof *p->merge);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);
        const json_t *left = pairs ? json_array_get(one, 0) : one;
        const json_t *right = pairs ? json_array_get(one, 1) : one;
        if (!json_is_string(left) || !json_is_string(right) ||
            (pairs && json_array_size(one) != 2))
            return kvt_fail(err, KVT_FORMAT, "model.merges[%zu]: expected %s, as before", i,
                            pairs ? "a list of two texts" : "a text 'left right'");
        p->merge[i] = (token_text){json_string_value(left), json_string_length(left)};
        if (pairs)
            p->right[i] = (token_text){json_string_value(right), json_string_length(right)};
    }
    return KVT_OK;
}

/* Absent, null and "" mean the same. */
static kvt_code must_be_empty(const json_t *model, const char *key, kvt_err *err)
{
    const json_t *value = json_object_get(model, key);
    bool empty = !value || json_is_null(value) ||
                 (json_is_string(value) && json_string_length(value) == 0) ||
                 (json_is_number(value) && json_number_value(value) == 0);
    return empty ? KVT_OK : kvt_fail(err, KVT_FORMAT, "model.%s: expected null", key);
}

static kvt_code read_model(tokenizer_parts *p, const json_t *root, const tokenizer_shape *shape,
                           kvt_err *err)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *type = json_object_get(model, "type");
    const json_t *unk = json_object_get(model, "unk_token");
    bool bytes = false;
    char a[64];
    if (!json_is_object(model))
        return kvt_fail(err, KVT_FORMAT, "model: expected an object");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
        return kvt_fail(err, KVT_FORMAT, "model.type: expected 'BPE', got '%s'",
                        json_is_string(type)
                            ? shown(a, json_string_value(type), json_string_length(type))
                            : "no text");
    if (must_be_empty(model, "dropout", err) ||
        must_be_empty(model, "continuing_subword_prefix", err) ||
        must_be_empty(model, "end_of_word_suffix", err))
        return err->code;
    if (flag(&bytes, model, "byte_fallback", err) ||
        flag(&p->fuse_unk, model, "fuse_unk", err) ||
        flag(&p->ignore_merges, model, "ignore_merges", err))
        return kvt_within(err, "model");
    if (add_tokens(p, root, bytes && !shape->byte_level, err) || add_merges(p, model, err))
        return err->code;
    p->unk = -1;
    if (json_is_string(unk) && (p->unk = tokenizer_json_id(root, json_string_value(unk))) < 0)
        return kvt_fail(err, KVT_FORMAT, "model.unk_token: '%s' is no token",
                        shown(a, json_string_value(unk), json_string_length(unk)));
    return KVT_OK;
}

kvt_code tokenizer_parts_read(tokenizer_parts *out, const json_t *root,
                              const tokenizer_shape *shape, kvt_err *err)
{
    *out = (tokenizer_parts){0};
    if (read_model(out, root, shape, err)) {
        tokenizer_parts_free(out);
        return err->code;
    }
    return KVT_OK;
}

void tokenizer_parts_free(tokenizer_parts *p)
{
    kvt_free(p->token);
    kvt_free(p->type);
    kvt_free(p->merge);
    kvt_free(p->right);
    *p = (tokenizer_parts){0};
}

int32_t tokenizer_json_id(const json_t *root, const char *text)
{
    const json_t *list = json_object_get(json_object_get(root, "model"), "vocab");
    const json_t *id = json_object_get(list, text);
    const json_t *added = json_object_get(root, "added_tokens");
    for (size_t i = 0; !id && i < json_array_size(added); i++) {
        const json_t *one = json_array_get(added, i);
        const json_t *content = json_object_get(one, "content");
        if (json_is_string(content) && strcmp(json_string_value(content), text) == 0)
            id = json_object_get(one, "id");
    }
    json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    return value >= 0 && value < INT32_MAX ? (int32_t)value : -1;
}
