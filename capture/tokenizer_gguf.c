/* tokenizer_gguf.c - the tokenizer.ggml.* metadata of a GGUF file as a tokenizer.
 *
 * Nothing in the file is trusted: counts that differ, ids outside the vocabulary and values of
 * another type are refused with the key's name. */
#include "capture/gguf.h"
#include "capture/tokenizer.h"
#include "kvt/arena.h"

#include <string.h>

/* Both structs are a pointer and a length; they belong to different readers. */
static token_text *texts_of(const gguf_array *a)
{
    token_text *out = kvt_alloc(a->n, sizeof *out);
    for (int64_t i = 0; out && i < a->n; i++)
        out[i] = (token_text){a->text[i].s ? a->text[i].s : "", a->text[i].n};
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

/* A list beside that of the tokens. */
static kvt_code check_count(const char *key, int64_t n, int64_t n_token, kvt_err *err)
{
    if (n == n_token)
        return KVT_OK;
    return kvt_fail(err, KVT_FORMAT, "'%s': expected %lld entries as in tokens, got %lld", key,
                    (long long)n_token, (long long)n);
}

static kvt_code get_types(int32_t **out, const gguf *g, int64_t n_token, kvt_err *err)
{
    static const char key[] = "tokenizer.ggml.token_type";
    gguf_array a;
    if (!gguf_has(g, key))
        return KVT_OK;
    if (gguf_get_ints(g, key, &a, err))
        return err->code;
    if (check_count(key, a.n, n_token, err))
        return err->code;
    if (!(*out = kvt_alloc(n_token, sizeof **out)))
        return kvt_fail_memory(err, (size_t)n_token * sizeof **out);
    for (int64_t i = 0; i < n_token; i++) {
        int64_t type = gguf_int_at(&a, i);
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return kvt_fail(err, KVT_FORMAT, "'%s': token %lld: expected %d to %d, got %lld",
                            key, (long long)i, TOKEN_NORMAL, TOKEN_BYTE, (long long)type);
        (*out)[i] = (int32_t)type;
    }
    return KVT_OK;
}

/* Scores of a vocabulary that merges by them. */
static kvt_code get_scores(float **out, const gguf *g, int64_t n_token, kvt_err *err)
{
    static const char key[] = "tokenizer.ggml.scores";
    gguf_array a;
    if (gguf_get_reals(g, key, &a, err))
        return err->code;
    if (check_count(key, a.n, n_token, err))
        return err->code;
    if (!(*out = kvt_alloc(n_token, sizeof **out)))
        return kvt_fail_memory(err, (size_t)n_token * sizeof **out);
    for (int64_t i = 0; i < n_token; i++)
        (*out)[i] = (float)gguf_real_at(&a, i);
    return KVT_OK;
}

/* Everything borrowed from it stays until parts_free. */
typedef struct parts {
    char *model, *pre, *chat;
    token_text *token, *merge;
    int32_t *type;
    float *score;
} parts;

static void parts_free(parts *p)
{
    kvt_free(p->model);
    kvt_free(p->pre);
    kvt_free(p->chat);
    kvt_free(p->token);
    kvt_free(p->merge);
    kvt_free(p->type);
    kvt_free(p->score);
}

/* Byte-level BPE: a list of merges. */
static kvt_code get_merges(tokenizer_source *s, parts *p, const gguf *g, kvt_err *err)
{
    gguf_array merges;
    if (gguf_get_texts(g, "tokenizer.ggml.merges", &merges, err))
        return err->code;
    if (!(p->merge = texts_of(&merges)))
        return kvt_fail_memory(err, (size_t)merges.n * sizeof *p->merge);
    s->merge = p->merge;
    s->n_merge = merges.n;
    s->unk = -1; /* bytes without a token are left out, as llama.cpp does */
    return KVT_OK;
}

/* SentencePiece: scores and types; ids and the space in front where the file says nothing. */
static kvt_code get_pieces(tokenizer_source *s, parts *p, const gguf *g, kvt_err *err)
{
    if (!s->type)
        return kvt_fail(err, KVT_FORMAT,
                        "'tokenizer.ggml.token_type' is missing: it says which "
                        "tokens are bytes and which are control tokens");
    if (get_scores(&p->score, g, s->n_token, err) ||
        get_flag(&s->space, g, "tokenizer.ggml.add_space_prefix", err))
        return err->code;
    s->score = p->score;
    s->space = s->space == 0 ? TOKENIZER_SPACE_NONE : TOKENIZER_SPACE_EACH;
    s->unk = s->unk < 0 && s->n_token > 0 ? 0 : s->unk;
    s->bos = s->bos < 0 && s->n_token > 1 ? 1 : s->bos;
    s->eos = s->eos < 0 && s->n_token > 2 ? 2 : s->eos;
    return KVT_OK;
}

static kvt_code read_parts(tokenizer_source *s, parts *p, const gguf *g, kvt_err *err)
{
    gguf_array tokens;
    if (gguf_get_texts(g, "tokenizer.ggml.tokens", &tokens, err))
        return err->code;
    if (!(p->token = texts_of(&tokens)))
        return kvt_fail_memory(err, (size_t)tokens.n * sizeof *p->token);
    s->token = p->token;
    s->n_token = tokens.n;
    if (get_types(&p->type, g, tokens.n, err) ||
        get_id(&s->bos, g, "tokenizer.ggml.bos_token_id", tokens.n, err) ||
        get_id(&s->eos, g, "tokenizer.ggml.eos_token_id", tokens.n, err) ||
        get_id(&s->eot, g, "tokenizer.ggml.eot_token_id", tokens.n, err) ||
        get_id(&s->unk, g, "tokenizer.ggml.unknown_token_id", tokens.n, err) ||
        get_flag(&s->add_bos, g, "tokenizer.ggml.add_bos_token", err))
        return err->code;
    s->type = p->type;
    return strcmp(s->model, "llama") == 0 ? get_pieces(s, p, g, err) : get_merges(s, p, g, err);
}

kvt_code tokenizer_open(tokenizer **out, const struct gguf *g, const char *pre, kvt_err *err)
{
    kvt_code code = KVT_OK;
    tokenizer_source s = tokenizer_source_empty();
    parts p = {0};
    if ((code = get_text(&p.model, g, "tokenizer.ggml.model", err)) ||
        (code = get_text(&p.pre, g, "tokenizer.ggml.pre", err)) ||
        (code = get_text(&p.chat, g, "tokenizer.chat_template", err)))
        goto out;
    bool words = p.model && strcmp(p.model, "gpt2") == 0;
    if (!words && (!p.model || strcmp(p.model, "llama") != 0)) {
        code = kvt_fail(err, KVT_FORMAT,
                        "'tokenizer.ggml.model': expected 'gpt2' or 'llama', got '%.40s'",
                        p.model ? p.model : "nothing");
        goto out;
    }
    if (pre && !words) {
        code =
            kvt_fail(err, KVT_USAGE,
                     "--pre '%.60s': a vocabulary of kind 'llama' has no pre-tokenizer", pre);
        goto out;
    }
    s.model = p.model;
    s.pre = pre ? pre : p.pre;
    s.chat = p.chat;
    code = read_parts(&s, &p, g, err);
    if (!code)
        code = tokenizer_new(out, &s, err);
out:
    parts_free(&p);
    return code;
}
