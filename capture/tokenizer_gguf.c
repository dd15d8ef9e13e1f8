/* tokenizer_gguf.c - the tokenizer.ggml.* metadata of a GGUF file as a tokenizer.
 *
 * Nothing in the file is trusted: counts that differ, ids outside the vocabulary and values of
 * another type are refused with the key's name. */
#include "capture/gguf.h"
#include "capture/tokenizer.h"
#include "kvt/arena.h"

#include <string.h>

/* Both structs are a pointer and a length; they belong to different readers. */
static bpe_text *texts_of(const gguf_array *a)
{
    bpe_text *out = kvt_alloc(a->n, sizeof *out);
    for (int64_t i = 0; out && i < a->n; i++)
        out[i] = (bpe_text){a->text[i].s ? a->text[i].s : "", a->text[i].n};
    return out;
}

/* A text with its NUL, or NULL in *out where the key is absent. */
static kvt_code get_text(char **out, const gguf *g, const char *key, kvt_err *err)
{
    gguf_text text;
    *out = NULL;
    if (!gguf_has(g, key))
        return KVT_OK;
    if (gguf_get_text(g, key, &text, err))
        return err->code;
    if (text.n && memchr(text.s, 0, text.n))
        return kvt_fail(err, KVT_FORMAT, "'%s': a text with a zero byte", key);
    if (!(*out = kvt_alloc((int64_t)text.n + 1, 1)))
        return kvt_fail_memory(err, text.n + 1);
    if (text.n)
        memcpy(*out, text.s, text.n);
    return KVT_OK;
}

/* -1 where the key is absent. */
static kvt_code get_id(int32_t *out, const gguf *g, const char *key, int64_t n_token,
                       kvt_err *err)
{
    int64_t id = -1;
    if (gguf_has(g, key)) {
        if (gguf_get_int(g, key, &id, err))
            return err->code;
        if (id < 0 || id >= n_token)
            return kvt_fail(err, KVT_FORMAT, "'%s': expected an id below %lld, got %lld", key,
                            (long long)n_token, (long long)id);
    }
    *out = (int32_t)id;
    return KVT_OK;
}

static kvt_code get_flag(int *out, const gguf *g, const char *key, kvt_err *err)
{
    bool flag = false;
    *out = -1;
    if (!gguf_has(g, key))
        return KVT_OK;
    if (gguf_get_bool(g, key, &flag, err))
        return err->code;
    *out = flag;
    return KVT_OK;
}

static kvt_code get_types(int32_t **out, const gguf *g, int64_t n_token, kvt_err *err)
{
    static const char key[] = "tokenizer.ggml.token_type";
    gguf_array a;
    if (!gguf_has(g, key))
        return KVT_OK;
    if (gguf_get_ints(g, key, &a, err))
        return err->code;
    if (a.n != n_token)
        return kvt_fail(err, KVT_FORMAT, "'%s': expected %lld entries as in tokens, got %lld",
                        key, (long long)n_token, (long long)a.n);
    if (!(*out = kvt_alloc(n_token, sizeof **out)))
        return kvt_fail_memory(err, (size_t)n_token * sizeof **out);
    for (int64_t i = 0; i < n_token; i++) {
        int64_t type = gguf_int_at(&a, i);
        (*out)[i] = type < TOKEN_NORMAL || type > TOKEN_BYTE ? -1 : (int32_t)type;
    }
    return KVT_OK;
}

kvt_code tokenizer_open(tokenizer **out, const struct gguf *g, const char *pre, kvt_err *err)
{
    kvt_code code = KVT_OK;
    tokenizer_source s = {.nfc = -1};
    char *model = NULL, *file_pre = NULL, *chat = NULL;
    bpe_text *token = NULL, *merge = NULL;
    int32_t *type = NULL;
    gguf_array tokens, merges = {0};

    if ((code = get_text(&model, g, "tokenizer.ggml.model", err)) ||
        (code = get_text(&file_pre, g, "tokenizer.ggml.pre", err)) ||
        (code = get_text(&chat, g, "tokenizer.chat_template", err)))
        goto out;
    if (!model || strcmp(model, "gpt2") != 0) {
        code = kvt_fail(err, KVT_FORMAT, "'tokenizer.ggml.model': expected 'gpt2', got '%.40s'",
                        model ? model : "nothing");
        goto out;
    }
    if ((code = gguf_get_texts(g, "tokenizer.ggml.tokens", &tokens, err)) ||
        (code = gguf_get_texts(g, "tokenizer.ggml.merges", &merges, err)) ||
        (code = get_types(&type, g, tokens.n, err)) ||
        (code = get_id(&s.bos, g, "tokenizer.ggml.bos_token_id", tokens.n, err)) ||
        (code = get_id(&s.eos, g, "tokenizer.ggml.eos_token_id", tokens.n, err)) ||
        (code = get_id(&s.eot, g, "tokenizer.ggml.eot_token_id", tokens.n, err)) ||
        (code = get_flag(&s.add_bos, g, "tokenizer.ggml.add_bos_token", err)))
        goto out;
    token = texts_of(&tokens);
    merge = texts_of(&merges);
    if (!token || !merge) {
        code = kvt_fail_memory(err, (size_t)(tokens.n + merges.n) * sizeof *token);
        goto out;
    }
    s.model = model;
    s.pre = pre ? pre : file_pre;
    s.chat = chat;
    s.token = token;
    s.n_token = tokens.n;
    s.type = type;
    s.merge = merge;
    s.n_merge = merges.n;
    code = tokenizer_new(out, &s, err);

out:
    kvt_free(model);
    kvt_free(file_pre);
    kvt_free(chat);
    kvt_free(token);
    kvt_free(merge);
    kvt_free(type);
    return code;
}
