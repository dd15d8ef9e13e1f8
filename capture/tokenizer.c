/* tokenizer.c - byte-level BPE: control tokens, normal form, words by pattern, merges.
 *
 * In this order:
 *
 *   1. tokens that stand for themselves are cut out: user-defined ones anywhere, control
 *      tokens in the ranges where the caller allows them; leftmost, then longest
 *   2. what lies between is brought to normal form where the model has one
 *   3. it is cut into words by the pre-tokenizer's patterns (`forms` below)
 *   4. each word is merged by rank (bpe.c)
 */
#include "capture/tokenizer_priv.h"

#include "base/regex.h"
#include "base/text.h"
#include "kvt/arena.h"

#include <string.h>

/* \p{White_Space} stands where the models' files say \s: PCRE2's \s has U+180E, which is not
 * white space any more. */
#define WS     "\\p{White_Space}"
#define NOT_WS "\\P{White_Space}"
#define LLAMA_LIKE(digits)                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" WS \
    "\\p{L}\\p{N}]+[\\r\\n]*|" WS "*[\\r\\n]+|" WS "+(?!" NOT_WS ")|" WS "+"

static const char GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS
                           "\\p{L}\\p{N}]+|" WS "+(?!" NOT_WS ")|" WS "+";
static const char LLAMA3[] = LLAMA_LIKE("\\p{N}{1,3}");
static const char QWEN2[] = LLAMA_LIKE("\\p{N}");

/* What a name in tokenizer.ggml.pre means. */
typedef struct pre_form {
    const char *name;
    const char *digits; /* cut out first; the words are looked for in each piece by itself */
    const char *words;
    bool whole;   /* a word that is a token is taken as it is (ignore_merges) */
    bool add_bos; /* unless the file says otherwise */
    bool nfc;
} pre_form;

/* clang-format off */
static const pre_form forms[] = {
    {"gpt-2",            NULL,     GPT2,   false, false, false},
    {"smollm",           "\\p{N}", GPT2,   false, false, false},
    {"starcoder",        "\\p{N}", GPT2,   false, false, false},
    {"refact",           "\\p{N}", GPT2,   false, false, false},
    {"command-r",        "\\p{N}", GPT2,   false, false, false},
    {"codeshell",        "\\p{N}", GPT2,   false, false, false},
    {"llama-bpe",        NULL,     LLAMA3, true,  true,  false},
    {"llama3",           NULL,     LLAMA3, true,  true,  false},
    {"llama-v3",         NULL,     LLAMA3, true,  true,  false},
    {"falcon3",          NULL,     LLAMA3, true,  true,  false},
    {"qwen2",            NULL,     QWEN2,  false, false, true},
    {"deepseek-r1-qwen", NULL,     QWEN2,  false, false, true},
    {"megrez",           NULL,     QWEN2,  false, false, true},
};
/* clang-format on */
enum { N_FORM = sizeof forms / sizeof forms[0] };

/* Ends of a turn or text that files often leave out of their lists of end tokens. */
static const char *const known_stops[] = {
    "<|im_end|>", "<|eot_id|>",    "<|eom_id|>",    "<|end_of_text|>",
    "<|end|>",    "<end_of_turn>", "<|endoftext|>", "</s>",
};
enum { N_STOP = sizeof known_stops / sizeof known_stops[0] };

/* A token that is cut out of the text before anything else. */
typedef struct fixed {
    int32_t id;
    int32_t next; /* another one with the same first byte, not longer; -1: none */
} fixed;

struct tokenizer {
    const pre_form *form;
    regex *digits, *words;
    bpe *bpe;
    uint8_t *type; /* [n_token] */
    uint8_t *stop; /* [n_token] 1: ends the text */
    int64_t n_token;
    int32_t bos;
    bool add_bos, nfc;
    char *chat;
    fixed *fixed;       /* [n_fixed] */
    int32_t first[256]; /* by first byte, -1: none */
    int64_t n_fixed;
};

static bool stands_for_itself(int type)
{
    return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER;
}

bool tokenizer_is_special(const tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n_token &&
           (t->type[id] == TOKEN_CONTROL || t->type[id] == TOKEN_UNKNOWN);
}

bool tokenizer_is_stop(const tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n_token && t->stop[id];
}

int64_t tokenizer_count(const tokenizer *t)
{
    return t->n_token;
}
const char *tokenizer_pre(const tokenizer *t)
{
    return t->form->name;
}
const char *tokenizer_chat(const tokenizer *t)
{
    return t->chat;
}
int32_t tokenizer_bos(const tokenizer *t)
{
    return t->bos;
}
bool tokenizer_adds_bos(const tokenizer *t)
{
    return t->add_bos;
}
bpe_text tokenizer_bytes(const tokenizer *t, int32_t id)
{
    return bpe_bytes(t->bpe, id);
}

int32_t tokenizer_find_special(const tokenizer *t, const char *text)
{
    size_t n = strlen(text);
    int32_t found = -1;
    for (int32_t i = n ? t->first[(uint8_t)text[0]] : -1; i >= 0; i = t->fixed[i].next) {
        int32_t id = t->fixed[i].id;
        bpe_text have = bpe_bytes(t->bpe, id);
        if (have.n == n && memcmp(have.data, text, n) == 0 && (found < 0 || id < found))
            found = id;
    }
    return found;
}

/* Puts a token into the chain of its first byte, by falling length and then rising id. */
static void add_fixed(tokenizer *t, int32_t id)
{
    bpe_text text = bpe_bytes(t->bpe, id);
    if (text.n == 0)
        return;
    int32_t *at = &t->first[(uint8_t)text.data[0]];
    while (*at >= 0 && bpe_bytes(t->bpe, t->fixed[*at].id).n >= text.n)
        at = &t->fixed[*at].next;
    t->fixed[t->n_fixed] = (fixed){id, *at};
    *at = (int32_t)t->n_fixed++;
}

static kvt_code add_types(tokenizer *t, const tokenizer_source *s, kvt_err *err)
{
    int64_t n = 0;
    t->n_token = s->n_token;
    t->type = kvt_alloc(s->n_token, 1);
    t->stop = kvt_alloc(s->n_token, 1);
    if (!t->type || !t->stop)
        return kvt_fail_memory(err, s->n_token);
    for (int64_t i = 0; i < s->n_token; i++) {
        int32_t type = s->type ? s->type[i] : TOKEN_NORMAL;
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return kvt_fail(err, KVT_FORMAT, "token_type: token %lld: expected 1 to 6, got %d",
                            (long long)i, (int)type);
        t->type[i] = (uint8_t)type;
        n += stands_for_itself(type);
    }
    t->fixed = kvt_alloc(n, sizeof *t->fixed);
    return t->fixed ? KVT_OK : kvt_fail_memory(err, (size_t)n * sizeof *t->fixed);
}

static kvt_code add_stop(tokenizer *t, const char *name, int32_t id, kvt_err *err)
{
    if (id < -1 || id >= t->n_token)
        return kvt_fail(err, KVT_FORMAT, "%s: expected an id below %lld, got %d", name,
                        (long long)t->n_token, (int)id);
    if (id >= 0)
        t->stop[id] = 1;
    return KVT_OK;
}

static kvt_code add_ends(tokenizer *t, const tokenizer_source *s, kvt_err *err)
{
    if (add_stop(t, "eos_token_id", s->eos, err) || add_stop(t, "eot_token_id", s->eot, err))
        return err->code;
    for (int i = 0; i < s->n_stop; i++)
        if (add_stop(t, "eos_token_ids", s->stop[i], err))
            return err->code;
    for (int i = 0; i < N_STOP; i++) {
        int32_t id = tokenizer_find_special(t, known_stops[i]);
        if (id >= 0)
            t->stop[id] = 1;
    }
    t->bos = s->bos;
    t->add_bos = s->add_bos >= 0 ? s->add_bos != 0 : t->form->add_bos;
    if (s->bos < -1 || s->bos >= t->n_token || (t->add_bos && s->bos < 0))
        return kvt_fail(err, KVT_FORMAT, "bos_token_id: expected an id below %lld, got %d",
                        (long long)t->n_token, (int)s->bos);
    return KVT_OK;
}

static kvt_code find_form(const pre_form **out, const tokenizer_source *s, kvt_err *err)
{
    if (!s->model || strcmp(s->model, "gpt2") != 0)
        return kvt_fail(err, KVT_FORMAT, "model: expected 'gpt2' (byte-level BPE), got '%.40s'",
                        s->model ? s->model : "nothing");
    if (!s->pre)
        return kvt_fail(err, KVT_FORMAT,
                        "pre: missing; without it the digits and spaces of the "
                        "text cannot be cut as the model learned them");
    for (int i = 0; i < N_FORM; i++)
        if (strcmp(forms[i].name, s->pre) == 0) {
            *out = &forms[i];
            return KVT_OK;
        }
    return kvt_fail(err, KVT_FORMAT,
                    "pre: expected gpt-2, smollm, llama-bpe, qwen2 or a name for one of them, "
                    "got '%.60s'",
                    s->pre);
}

static kvt_code build(tokenizer *t, const tokenizer_source *s, kvt_err *err)
{
    kvt_code code = KVT_OK;
    memset(t->first, 0xff, sizeof t->first);
    t->nfc = s->nfc >= 0 ? s->nfc != 0 : t->form->nfc;
    if (add_types(t, s, err))
        return err->code;
    bool *literal = kvt_alloc(s->n_token, sizeof *literal);
    if (!literal)
        return kvt_fail_memory(err, s->n_token);
    for (int64_t i = 0; i < s->n_token; i++)
        literal[i] = stands_for_itself(t->type[i]) || t->type[i] == TOKEN_UNUSED;
    code = bpe_new(&t->bpe, s->token, literal, s->n_token, s->merge, s->n_merge, err);
    kvt_free(literal);
    if (code)
        return code;
    for (int32_t i = 0; i < (int32_t)s->n_token; i++)
        if (stands_for_itself(t->type[i]))
            add_fixed(t, i);
    if (add_ends(t, s, err))
        return err->code;
    if (s->chat && !(t->chat = kvt_copy_text(s->chat)))
        return kvt_fail_memory(err, strlen(s->chat));
    if (t->form->digits && regex_new(&t->digits, t->form->digits, false, err))
        return err->code;
    return regex_new(&t->words, t->form->words, false, err);
}

kvt_code tokenizer_new(tokenizer **out, const tokenizer_source *source, kvt_err *err)
{
    const pre_form *form = NULL;
    if (find_form(&form, source, err))
        return kvt_within(err, "tokenizer");
    if (source->n_token < 1 || source->n_token >= INT32_MAX)
        return kvt_fail(err, KVT_FORMAT, "tokenizer: tokens: expected 1 to %d, got %lld",
                        INT32_MAX - 1, (long long)source->n_token);
    tokenizer *t = kvt_alloc(1, sizeof *t);
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
    t->form = form;
    if (build(t, source, err)) {
        tokenizer_free(t);
        return kvt_within(err, "tokenizer");
    }
    *out = t;
    return KVT_OK;
}

void tokenizer_free(tokenizer *t)
{
    if (!t)
        return;
    regex_free(t->digits);
    regex_free(t->words);
    bpe_free(t->bpe);
    kvt_free(t->type);
    kvt_free(t->stop);
    kvt_free(t->chat);
    kvt_free(t->fixed);
    kvt_free(t);
}

static kvt_code add_word(tokenizer *t, token_list *list, const char *word, size_t n,
                         kvt_err *err)
{
    int64_t n_id = 0;
    if (n == 0)
        return KVT_OK;
    if (token_list_reserve(list, (int64_t)n, err))
        return err->code;
    /* Sizes land where the offsets will be and become sums in place. */
    int64_t *offset = list->offset + list->n;
    if (bpe_word(t->bpe, list->id + list->n, offset + 1, &n_id, &list->n_lost, word, n,
                 t->form->whole, err))
        return err->code;
    if (n_id == 0) { /* all of it lost */
        *(list->n ? offset : &list->carry) += (int64_t)n;
        return KVT_OK;
    }
    offset[1] += list->carry;
    list->carry = 0;
    for (int64_t i = 0; i < n_id; i++)
        offset[i + 1] += offset[i];
    memset(list->flag + list->n, 0, (size_t)n_id);
    list->n += n_id;
    return KVT_OK;
}

/* Cuts into the matches of r and what lies between them, in order; `each` gets every part. */
static kvt_code
cut(tokenizer *t, token_list *list, regex *r, const char *text, size_t n,
    kvt_code (*each)(tokenizer *, token_list *, const char *, size_t, kvt_err *), kvt_err *err)
{
    for (size_t at = 0; at < n;) {
        size_t begin = n, end = n;
        kvt_code code = regex_find(r, text, n, at, &begin, &end, err);
        if (code && code != KVT_NO)
            return code;
        if (code == KVT_NO || end <= begin)
            begin = end = n;
        if (begin > at && each(t, list, text + at, begin - at, err))
            return err->code;
        if (end > begin && each(t, list, text + begin, end - begin, err))
            return err->code;
        at = end;
    }
    return KVT_OK;
}

static kvt_code add_words(tokenizer *t, token_list *list, const char *text, size_t n,
                          kvt_err *err)
{
    return cut(t, list, t->words, text, n, add_word, err);
}

/* The text between two fixed tokens. */
static kvt_code add_plain(tokenizer *t, token_list *list, const char *text, size_t n,
                          kvt_err *err)
{
    kvt_code code = KVT_OK;
    buf normal;
    buf_init(&normal, TOKEN_TEXT_LIMIT);
    if (n == 0)
        goto out;
    if (t->nfc) {
        if ((code = text_nfc(&normal, (const uint8_t *)text, n, err)))
            goto out;
        text = buf_get(&normal);
        n = normal.n;
    }
    buf_add(&list->text, text, n);
    if ((code = buf_check(&list->text, err)))
        goto out;
    code = t->digits ? cut(t, list, t->digits, text, n, add_words, err)
                     : add_words(t, list, text, n, err);
out:
    buf_fini(&normal);
    return code;
}

/* The longest fixed token at `at`, or -1. Control tokens must end at or before `special_end`.
 */
static int32_t fixed_at(const tokenizer *t, const char *text, size_t n, size_t at,
                        size_t special_end)
{
    for (int32_t i = t->first[(uint8_t)text[at]]; i >= 0; i = t->fixed[i].next) {
        int32_t id = t->fixed[i].id;
        bpe_text have = bpe_bytes(t->bpe, id);
        size_t limit = t->type[id] == TOKEN_USER ? n : special_end;
        if (at <= limit && have.n <= limit - at && memcmp(have.data, text + at, have.n) == 0)
            return id;
    }
    return -1;
}

kvt_code tokenizer_encode(tokenizer *t, token_list *list, const char *text, size_t n,
                          const tokenizer_range *special, int64_t n_special, bool bos,
                          kvt_err *err)
{
    size_t bad, plain = 0;
    int64_t r = 0;
    bool wants_bos = bos && t->add_bos && list->n == 0;
    if (n && !text_valid((const uint8_t *)text, n, &bad))
        return kvt_fail(err, KVT_FORMAT, "text: not UTF-8 at byte %zu (0x%02x)", bad,
                        (unsigned)(uint8_t)text[bad]);
    if (n >= TOKEN_TEXT_LIMIT)
        return kvt_fail(err, KVT_FORMAT, "text: %zu bytes are more than %d", n,
                        TOKEN_TEXT_LIMIT);
    if (token_list_reserve(list, 1, err))
        return err->code;
    for (size_t at = 0; at <= n; at++) {
        while (r < n_special && special[r].end <= at)
            r++;
        size_t special_end = r < n_special && special[r].begin <= at ? special[r].end : 0;
        int32_t id = at < n && t->n_fixed ? fixed_at(t, text, n, at, special_end) : -1;
        if (at == 0 && wants_bos && id != t->bos)
            token_list_put(list, t->bos, 0, KVT_TOKEN_SPECIAL);
        if (id < 0 && at < n)
            continue;
        if (add_plain(t, list, text + plain, at - plain, err))
            return err->code;
        if (id < 0)
            break;
        if (token_list_push(list, t, id, 0, err))
            return err->code;
        plain = at + bpe_bytes(t->bpe, id).n;
        at = plain - 1;
    }
    return KVT_OK;
}

kvt_code tokenizer_normal_form(const tokenizer *t, buf *out, const char *text, size_t n,
                               kvt_err *err)
{
    size_t bad;
    if (n && !text_valid((const uint8_t *)text, n, &bad))
        return kvt_fail(err, KVT_FORMAT, "text: not UTF-8 at byte %zu (0x%02x)", bad,
                        (unsigned)(uint8_t)text[bad]);
    if (t->nfc && n)
        return text_nfc(out, (const uint8_t *)text, n, err);
    buf_add(out, text, n);
    return buf_check(out, err);
}

size_t tokenizer_whole(const char *bytes, size_t n)
{
    /* A character has at most four bytes: look for a lead byte in the last three. */
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint8_t c = (uint8_t)bytes[n - back];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t need = c >= 0xf0 && c <= 0xf4  ? 4
                      : c >= 0xe0 && c < 0xf0 ? 3
                      : c >= 0xc2 && c < 0xe0 ? 2
                                              : 1;
        return need > back ? n - back : n;
    }
    return n;
}
