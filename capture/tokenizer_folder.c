/* tokenizer_folder.c - the tokenizer of a folder of Hugging Face's files.
 *
 *   tokenizer.json          the pipeline, the vocabulary, the merges
 *   tokenizer_config.json   bos_token, eos_token, add_bos_token, chat_template
 *   generation_config.json  eos_token_id, a number or a list
 *   config.json             the same, and bos_token_id where the tokenizer's file is not there
 *   chat_template.jinja     wins over the template of tokenizer_config.json */
#include "capture/tokenizer_json.h"

#include "base/file.h"
#include "kvt/arena.h"

#include <string.h>

enum { PATH_MAX_BYTES = 4096, CHAT_LIMIT = 1 << 20 };

/* The id of "<bos>" or {"content": "<bos>"}; -1 where it is absent or null. */
static kvt_code named_token(int32_t *out, const json_t *config, const char *key,
                            const json_t *root, kvt_err *err)
{
    const json_t *value = json_object_get(config, key);
    *out = -1;
    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (!value || json_is_null(value))
        return KVT_OK;
    if (!json_is_string(value))
        return kvt_fail(err, KVT_FORMAT, "%s: expected a text", key);
    *out = tokenizer_json_id(root, json_string_value(value));
    return *out >= 0 ? KVT_OK
                     : kvt_fail(err, KVT_FORMAT, "%s: '%.40s' is no token of tokenizer.json",
                                key, json_string_value(value));
}

/* The text of chat_template: one, or the one named "default" of a list; NULL: none. */
static kvt_code chat_of(const char **out, const json_t *config, kvt_err *err)
{
    const json_t *value = json_object_get(config, "chat_template");
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i), *name = json_object_get(one, "name");
        if (json_is_string(name) && strcmp(json_string_value(name), "default") == 0)
            value = json_object_get(one, "template");
    }
    if (!value || json_is_null(value) || json_is_array(value))
        return KVT_OK;
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return kvt_fail(err, KVT_FORMAT,
                        "chat_template: expected a text, or a list of objects "
                        "with name and template");
    *out = json_string_value(value);
    return KVT_OK;
}

/* Ids of a number or a list of numbers, appended to stop [room]. */
static kvt_code add_stops(int32_t *stop, int64_t *n, const json_t *file, const char *name,
                          kvt_err *err)
{
    const json_t *value = json_object_get(file, "eos_token_id");
    size_t many = json_is_array(value) ? json_array_size(value) : 1;
    if (!value || json_is_null(value))
        return KVT_OK;
    for (size_t i = 0; i < many; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        json_int_t have = json_is_integer(id) ? json_integer_value(id) : -1;
        if (have < 0 || have >= INT32_MAX)
            return kvt_fail(err, KVT_FORMAT, "%s: eos_token_id: expected ids", name);
        stop[(*n)++] = (int32_t)have;
    }
    return KVT_OK;
}

static size_t count_stops(const json_t *file)
{
    const json_t *value = json_object_get(file, "eos_token_id");
    return json_is_array(value) ? json_array_size(value) : 1;
}

/* tokenizer_config.json wins over the post-processor, and both over config.json. */
static kvt_code bos_of(tokenizer_source *s, const json_t *root, const tokenizer_config *more,
                       const tokenizer_shape *shape, kvt_err *err)
{
    const json_t *add = json_object_get(more->config, "add_bos_token");
    s->add_bos = json_is_boolean(add) ? json_is_true(add) : shape->bos != NULL;
    if (named_token(&s->bos, more->config, "bos_token", root, err))
        return kvt_within(err, "tokenizer_config.json");
    if (shape->bos && s->bos < 0 && (s->bos = tokenizer_json_id(root, shape->bos)) < 0)
        return kvt_fail(err, KVT_FORMAT, "post_processor: '%.40s' is no token", shape->bos);
    const json_t *id = json_object_get(more->model, "bos_token_id");
    if (!more->config && s->bos < 0 && json_is_integer(id) && json_integer_value(id) >= 0 &&
        json_integer_value(id) < s->n_token)
        s->bos = (int32_t)json_integer_value(id);
    return KVT_OK;
}

static kvt_code ends_of(tokenizer_source *s, int32_t **stop, const json_t *root,
                        const tokenizer_config *more, kvt_err *err)
{
    const json_t *text = json_object_get(more->model, "text_config"); /* of Gemma 3 4B on */
    const struct {
        const json_t *file;
        const char *name;
    } from[] = {{more->generation, "generation_config.json"},
                {more->model, "config.json"},
                {text, "config.json: text_config"}};
    size_t room = 0;
    for (int i = 0; i < 3; i++)
        room += count_stops(from[i].file);
    if (!(*stop = kvt_alloc((int64_t)room, sizeof **stop)))
        return kvt_fail_memory(err, room * sizeof **stop);
    for (int i = 0; i < 3; i++)
        if (add_stops(*stop, &s->n_stop, from[i].file, from[i].name, err))
            return err->code;
    s->stop = *stop;
    if (named_token(&s->eos, more->config, "eos_token", root, err))
        return kvt_within(err, "tokenizer_config.json");
    return KVT_OK;
}

static kvt_code kind_of(tokenizer_source *s, const tokenizer_shape *shape, const char *pre,
                        kvt_err *err)
{
    char names[256];
    s->model = shape->byte_level ? "gpt2" : "bpe";
    if (pre && !shape->byte_level)
        return kvt_fail(err, KVT_USAGE,
                        "--pre '%.60s': a vocabulary without ByteLevel has no pre-tokenizer",
                        pre);
    s->pre = pre ? pre : shape->form ? shape->form->name : NULL;
    if (shape->byte_level && !s->pre)
        return kvt_fail(
            err, KVT_FORMAT,
            "pre_tokenizer: the pattern '%s' is none of those known here; --pre NAME "
            "takes another for it, one of %s",
            shape->pattern, pre_names(names, sizeof names));
    return KVT_OK;
}

kvt_code tokenizer_from_json(tokenizer **out, const json_t *root, const tokenizer_config *more,
                             const char *pre, kvt_err *err)
{
    tokenizer_shape shape;
    tokenizer_parts p;
    tokenizer_source s = tokenizer_source_empty();
    int32_t *stop = NULL;
    if (!json_is_object(root))
        return kvt_fail(err, KVT_FORMAT, "expected an object");
    if (tokenizer_shape_read(&shape, root, err) || kind_of(&s, &shape, pre, err) ||
        tokenizer_parts_read(&p, root, &shape, err))
        return err->code;
    s.token = p.token;
    s.type = p.type;
    s.n_token = p.n_token;
    s.merge = p.merge;
    s.right = p.right;
    s.n_merge = p.n_merge;
    s.unk = p.unk;
    s.fuse_unk = p.fuse_unk;
    s.ignore_merges = p.ignore_merges;
    s.nfc = shape.nfc;
    s.space = (int)shape.space;
    s.space_once = shape.space_once;
    s.chat = more->chat;
    kvt_code code = bos_of(&s, root, more, &shape, err);
    if (!code)
        code = ends_of(&s, &stop, root, more, err);
    if (!code && !s.chat && chat_of(&s.chat, more->config, err))
        code = kvt_within(err, "tokenizer_config.json");
    if (!code)
        code = tokenizer_new(out, &s, err);
    kvt_free(stop);
    tokenizer_parts_free(&p);
    return code;
}

/* A JSON file of the folder that may be missing: NULL then. transformers writes a
 * model_max_length of 10^30 into tokenizer_config.json, of which no number is read. */
static kvt_code read_some(json_t **out, const char *folder, const char *name, kvt_err *err)
{
    char path[PATH_MAX_BYTES];
    *out = NULL;
    if (file_join(path, sizeof path, folder, name, err))
        return err->code;
    if (!file_exists(path))
        return KVT_OK;
    if (strcmp(name, "tokenizer_config.json") == 0 ? json_read_file_reals(out, path, err)
                                                   : json_read_file(out, path, err))
        return err->code;
    if (json_is_object(*out))
        return KVT_OK;
    json_decref(*out);
    *out = NULL;
    return kvt_fail(err, KVT_FORMAT, "'%s': expected an object", path);
}

static kvt_code read_chat(buf *out, const char *folder, kvt_err *err)
{
    char path[PATH_MAX_BYTES];
    if (file_join(path, sizeof path, folder, "chat_template.jinja", err))
        return err->code;
    if (!file_exists(path))
        return KVT_OK;
    if (file_read(out, path, CHAT_LIMIT, err))
        return err->code;
    if (out->n && memchr(out->data, 0, out->n))
        return kvt_fail(err, KVT_FORMAT, "'%s': a text with a zero byte", path);
    return KVT_OK;
}

kvt_code tokenizer_open_folder(tokenizer **out, const char *folder, const char *pre,
                               kvt_err *err)
{
    enum { ROOT, CONFIG, GENERATION, MODEL, N_FILE };
    static const char *const names[N_FILE] = {"tokenizer.json", "tokenizer_config.json",
                                              "generation_config.json", "config.json"};
    json_t *file[N_FILE] = {NULL};
    buf chat;
    kvt_code code = KVT_OK;
    buf_init(&chat, CHAT_LIMIT);
    for (int i = 0; i < N_FILE && !code; i++)
        code = read_some(&file[i], folder, names[i], err);
    if (!code && !file[ROOT])
        code = kvt_fail(err, KVT_NOTFOUND,
                        "'%s': no tokenizer.json in it (a tokenizer.model alone is not read)",
                        folder);
    if (!code)
        code = read_chat(&chat, folder, err);
    tokenizer_config more = {.config = file[CONFIG],
                             .model = file[MODEL],
                             .generation = file[GENERATION],
                             .chat = chat.n ? buf_get(&chat) : NULL};
    if (!code && tokenizer_from_json(out, file[ROOT], &more, pre, err))
        code = kvt_within(err, "'%s/tokenizer.json'", folder);
    for (int i = 0; i < N_FILE; i++)
        json_decref(file[i]);
    buf_fini(&chat);
    return code;
}
