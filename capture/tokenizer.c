/* tokenizer.c - from text to ids: cut-out tokens, normal form, words, merges.
 *
 * In this order:
 *
 *   1. tokens that stand for themselves are cut out: user-defined ones anywhere, control
 *      tokens in the ranges where the caller allows them; leftmost, then longest (fixed.c)
 *   2. what lies between is brought to normal form, and gets a space in front where the kind
 *      puts one there
 *   3. it is cut into words by a pre-tokenizer (pre.c) where the kind has one, else it is one
 *   4. each word is merged by a list of merges (bpe.c) or by scores (spm.c)
 */
#include "capture/tokenizer_priv.h"

#include "base/text.h"
#include "capture/bpe.h"
#include "capture/fixed.h"
#include "capture/pre.h"
#include "capture/spm.h"
#include "kvt/arena.h"

#include <stdio.h>
#include <string.h>

/* What the models of a kind have in common. */
typedef struct kind {
    const char *name;
    vocab_script script;
    bool words;   /* a pre-tokenizer cuts the text */
    bool scores;  /* merges by score, not by a list */
    bool add_bos; /* unless the file says otherwise, and the same for */
    tokenizer_space space;
} kind;

static const kind kinds[] = {
    {"gpt2", VOCAB_ALPHABET, .words = true},
    {"llama", VOCAB_SPACES, .scores = true, .add_bos = true, .space = TOKENIZER_SPACE_EACH},
    {"bpe", VOCAB_SPACES, .words = false},
};
enum { N_KIND = sizeof kinds / sizeof kinds[0] };

/* Ends of a turn or text that files often leave out of their lists of end tokens. */
static const char *const known_stops[] = {
    "<|im_end|>", "<|eot_id|>",    "<|eom_id|>",    "<|end_of_text|>",
    "<|end|>",    "<end_of_turn>", "<|endoftext|>", "</s>",
};
enum { N_STOP = sizeof known_stops / sizeof known_stops[0] };

struct tokenizer {
    const kind *kind;
    const pre_form *form; /* NULL: the kind has no words */
    vocab *vocab;
    fixed *fixed;
    pre_words *pre; /* NULL: without words */
    bpe *bpe;       /* one of the two */
    spm *spm;
    uint8_t *type; /* [n_token] */
    uint8_t *stop; /* [n_token] 1: ends the text */
    int64_t n_token;
    int32_t bos;
    bool add_bos, nfc, space_once;
    tokenizer_space space;
    char name[64];
    char *chat;
};

tokenizer_source tokenizer_source_empty(void)
{
    return (tokenizer_source){.bos = -1,
                              .eos = -1,
                              .eot = -1,
                              .unk = -1,
                              .add_bos = -1,
                              .nfc = -1,
                              .ignore_merges = -1,
                              .space = -1};
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
const char *tokenizer_kind(const tokenizer *t)
{
    return t->name;
}
const char *tokenizer_pre(const tokenizer *t)
{
    return t->form ? t->form->name : NULL;
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
token_text tokenizer_bytes(const tokenizer *t, int32_t id)
{
    return vocab_bytes(t->vocab, id);
}

int32_t tokenizer_find_special(const tokenizer *t, const char *text)
{
    return fixed_find(t->fixed, text, strlen(text));
}

/* Written with U+2581, which no text has once spaces are such: merges make it. */
static bool is_merged(token_text text)
{
    static const char mark[] = "\xe2\x96\x81";
    for (size_t at = 0; text.n >= 3 && at <= text.n - 3; at++)
        if (memcmp(text.data + at, mark, 3) == 0)
            return true;
    return false;
}

static kvt_code add_types(tokenizer *t, const tokenizer_source *s, kvt_err *err)
{
    t->n_token = s->n_token;
    t->type = kvt_alloc(s->n_token, 1);
    t->stop = kvt_alloc(s->n_token, 1);
    if (!t->type || !t->stop)
        return kvt_fail_memory(err, (size_t)s->n_token);
    for (int64_t i = 0; i < s->n_token; i++) {
        int32_t type = s->type ? s->type[i] : TOKEN_NORMAL;
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return kvt_fail(err, KVT_FORMAT, "token_type: token %lld: expected 1 to 6, got %d",
                            (long long)i, (int)type);
        if (type == TOKEN_USER && t->kind->script == VOCAB_SPACES && s->token[i].data &&
            is_merged(s->token[i]))
            type = TOKEN_NORMAL;
        t->type[i] = (uint8_t)type;
    }
    return KVT_OK;
}

/* A user's token can be the result of a merge, where it is no token of the text. */
static vocab_sort vocab_sort_of(vocab_script script, int type)
{
    bool spaces = script == VOCAB_SPACES;
    switch (type) {
    case TOKEN_UNKNOWN:
    case TOKEN_CONTROL: return VOCAB_HIDDEN;
    case TOKEN_USER: return VOCAB_PLAIN;
    case TOKEN_UNUSED: return spaces ? VOCAB_WRITTEN : VOCAB_HIDDEN;
    case TOKEN_BYTE: return spaces ? VOCAB_BYTE : VOCAB_WRITTEN;
    default: return VOCAB_WRITTEN;
    }
}

static int fixed_sort_of(int type)
{
    return type == TOKEN_USER                               ? FIXED_ANYWHERE
           : type == TOKEN_CONTROL || type == TOKEN_UNKNOWN ? FIXED_WHERE_ALLOWED
                                                            : FIXED_NONE;
}

static kvt_code add_tokens(tokenizer *t, const tokenizer_source *s, kvt_err *err)
{
    uint8_t *sort = kvt_alloc(s->n_token, sizeof *sort);
    if (!sort)
        return kvt_fail_memory(err, (size_t)s->n_token);
    for (int64_t i = 0; i < s->n_token; i++)
        sort[i] = (uint8_t)vocab_sort_of(t->kind->script, t->type[i]);
    kvt_code code = vocab_new(&t->vocab, t->kind->script, s->token, sort, s->n_token, err);
    for (int64_t i = 0; i < s->n_token; i++)
        sort[i] = (uint8_t)fixed_sort_of(t->type[i]);
    if (!code)
        code = fixed_new(&t->fixed, t->vocab, sort, err);
    kvt_free(sort);
    return code;
}

static kvt_code add_merges(tokenizer *t, const tokenizer_source *s, kvt_err *err)
{
    if (s->unk < -1 || s->unk >= s->n_token)
        return kvt_fail(err, KVT_FORMAT, "unknown_token_id: expected an id below %lld, got %d",
                        (long long)s->n_token, (int)s->unk);
    if (t->kind->scores && !s->score)
        return kvt_fail(err, KVT_FORMAT,
                        "scores: missing; a vocabulary of kind '%s' needs them", t->kind->name);
    if (t->kind->scores)
        return spm_new(&t->spm, t->vocab, s->score, s->unk, err);
    return bpe_new(&t->bpe, t->vocab,
                   &(bpe_rules){.merge = s->merge,
                                .right = s->right,
                                .n_merge = s->n_merge,
                                .whole = s->ignore_merges >= 0 ? s->ignore_merges != 0
                                                               : t->form && t->form->whole,
                                .unknown = s->unk >= 0,
                                .unk = s->unk,
                                .fuse_unk = s->fuse_unk},
                   err);
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
    for (int64_t i = 0; i < s->n_stop; i++)
        if (add_stop(t, "eos_token_ids", s->stop[i], err))
            return err->code;
    for (int i = 0; i < N_STOP; i++) {
        int32_t id = tokenizer_find_special(t, known_stops[i]);
        if (id >= 0)
            t->stop[id] = 1;
    }
    t->bos = s->bos;
    t->add_bos =
        s->add_bos >= 0 ? s->add_bos != 0 : t->kind->add_bos || (t->form && t->form->add_bos);
    if (s->bos < -1 || s->bos >= t->n_token || (t->add_bos && s->bos < 0))
        return kvt_fail(err, KVT_FORMAT, "bos_token_id: expected an id below %lld, got %d",
                        (long long)t->n_token, (int)s->bos);
    return KVT_OK;
}

static kvt_code find_kind(tokenizer *t, const tokenizer_source *s, kvt_err *err)
{
    char names[256];
    for (int i = 0; i < N_KIND && s->model; i++)
        if (strcmp(kinds[i].name, s->model) == 0)
            t->kind = &kinds[i];
    if (!t->kind)
        return kvt_fail(err, KVT_FORMAT,
                        "model: expected gpt2 (byte-level BPE), llama (SentencePiece) or bpe, "
                        "got '%.40s'",
                        s->model ? s->model : "nothing");
    if (t->kind->words && !s->pre)
        return kvt_fail(err, KVT_FORMAT,
                        "pre: missing; without it the digits and spaces of the text cannot be "
                        "cut as the model learned them: give --pre NAME, one of %s",
                        pre_names(names, sizeof names));
    if (t->kind->words && !(t->form = pre_find(s->pre)))
        return kvt_fail(err, KVT_FORMAT, "pre: expected one of %s, got '%.60s'",
                        pre_names(names, sizeof names), s->pre);
    snprintf(t->name, sizeof t->name, "%s%s%s", t->kind->name, t->form ? "/" : "",
             t->form ? t->form->name : "");
    return KVT_OK;
}

static kvt_code build(tokenizer *t, const tokenizer_source *s, kvt_err *err)
{
    if (find_kind(t, s, err))
        return err->code;
    if (s->n_token < 1 || s->n_token >= INT32_MAX)
        return kvt_fail(err, KVT_FORMAT, "tokens: expected 1 to %d, got %lld", INT32_MAX - 1,
                        (long long)s->n_token);
    t->nfc = s->nfc >= 0 ? s->nfc != 0 : t->form && t->form->nfc;
    t->space = s->space >= 0 ? (tokenizer_space)s->space : t->kind->space;
    t->space_once = s->space_once;
    if (add_types(t, s, err) || add_tokens(t, s, err) || add_merges(t, s, err) ||
        add_ends(t, s, err))
        return err->code;
    if (s->chat && !(t->chat = kvt_copy_text(s->chat)))
        return kvt_fail_memory(err, strlen(s->chat));
    return t->form ? pre_new(&t->pre, t->form, err) : KVT_OK;
}

kvt_code tokenizer_new(tokenizer **out, const tokenizer_source *source, kvt_err *err)
{
    tokenizer *t = kvt_alloc(1, sizeof *t);
    if (!t)
        return kvt_fail_memory(err, sizeof *t);
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
    pre_free(t->pre);
    bpe_free(t->bpe);
    spm_free(t->spm);
    fixed_free(t->fixed);
    vocab_free(t->vocab);
    kvt_free(t->type);
    kvt_free(t->stop);
    kvt_free(t->chat);
    kvt_free(t);
}

/* One call of tokenizer_encode. */
typedef struct encoding {
    tokenizer *t;
    token_list *list;
    bool spaces; /* the tokenizer may put spaces in */
    bool begun;  /* something lies in front */
} encoding;

/* A pre_each: the tokens of one word of n bytes, n > 0. */
static kvt_code add_word(void *user, const char *word, size_t n, kvt_err *err)
{
    const encoding *e = user;
    token_list *list = e->list;
    if (token_list_reserve(list, (int64_t)n, err))
        return err->code;
    /* Sizes land where the offsets will be and become sums in place. */
    int64_t *offset = list->offset + list->n;
    token_room room = {.id = list->id + list->n, .size = offset + 1, .n_lost = list->n_lost};
    kvt_code code = e->t->spm ? spm_word(e->t->spm, &room, word, n, err)
                              : bpe_word(e->t->bpe, &room, word, n, err);
    if (code)
        return code;
    list->n_lost = room.n_lost;
    if (room.n == 0) { /* all of it lost */
        *(list->n ? offset : &list->carry) += (int64_t)n;
        return KVT_OK;
    }
    offset[1] += list->carry;
    list->carry = 0;
    for (int64_t i = 0; i < room.n; i++) {
        offset[i + 1] += offset[i];
        list->flag[list->n + i] =
            tokenizer_is_special(e->t, room.id[i]) ? KVT_TOKEN_SPECIAL : 0;
    }
    list->n += room.n;
    return KVT_OK;
}

/* Valid UTF-8 in normal form, appended. */
static kvt_code add_normal(const tokenizer *t, buf *out, const char *text, size_t n,
                           kvt_err *err)
{
    static const char mark[] = "\xe2\x96\x81"; /* U+2581 */
    if (t->nfc && n)
        return text_nfc(out, (const uint8_t *)text, n, err);
    const char *end = text + n;
    while (t->kind->script == VOCAB_SPACES && text < end) {
        const char *at = memchr(text, mark[0], (size_t)(end - text));
        if (!at)
            break;
        bool is_mark = end - at >= 3 && memcmp(at, mark, 3) == 0;
        buf_add(out, text, (size_t)(at - text) + !is_mark);
        if (is_mark)
            buf_char(out, ' ');
        text = at + (is_mark ? 3 : 1);
    }
    buf_add(out, text, (size_t)(end - text));
    return buf_check(out, err);
}

/* The text between two cut-out tokens. */
static kvt_code add_plain(encoding *e, const char *text, size_t n, kvt_err *err)
{
    tokenizer *t = e->t;
    buf *out = &e->list->text;
    size_t begin = out->n;
    bool space = e->spaces && (t->space == TOKENIZER_SPACE_EACH ||
                               (t->space == TOKENIZER_SPACE_FIRST && !e->begun));
    if (n == 0)
        return KVT_OK;
    if (space && !(t->space_once && text[0] == ' ') && token_list_space(e->list, err))
        return err->code;
    if (add_normal(t, out, text, n, err))
        return err->code;
    const char *normal = buf_get(out) + begin;
    n = out->n - begin;
    return t->pre ? pre_cut(t->pre, normal, n, add_word, e, err) : add_word(e, normal, n, err);
}

static kvt_code check_text(const char *text, size_t n, kvt_err *err)
{
    size_t bad;
    if (n && !text_valid((const uint8_t *)text, n, &bad))
        return kvt_fail(err, KVT_FORMAT, "text: not UTF-8 at byte %zu (0x%02x)", bad,
                        (unsigned)(uint8_t)text[bad]);
    if (n >= TOKEN_TEXT_LIMIT)
        return kvt_fail(err, KVT_FORMAT, "text: %zu bytes are more than %d", n,
                        TOKEN_TEXT_LIMIT);
    return KVT_OK;
}

kvt_code tokenizer_encode(tokenizer *t, token_list *list, const char *text, size_t n,
                          const tokenizer_range *special, int64_t n_special, bool first,
                          kvt_err *err)
{
    size_t plain = 0;
    int64_t r = 0;
    bool wants_bos = first && t->add_bos && list->n == 0;
    encoding e = {.t = t, .list = list, .spaces = first};
    if (check_text(text, n, err) || token_list_reserve(list, 1, err))
        return err->code;
    for (size_t at = 0; at <= n; at++) {
        while (r < n_special && special[r].end <= at)
            r++;
        size_t special_end = r < n_special && special[r].begin <= at ? special[r].end : 0;
        int32_t id = at < n ? fixed_at(t->fixed, text, n, at, special_end) : -1;
        if (at == 0 && wants_bos && id != t->bos)
            token_list_put(list, t->bos, 0, KVT_TOKEN_SPECIAL);
        if (id < 0 && at < n)
            continue;
        if (add_plain(&e, text + plain, at - plain, err))
            return err->code;
        if (id < 0)
            break;
        if (token_list_push(list, t, id, 0, err))
            return err->code;
        e.begun = true;
        plain = at + vocab_bytes(t->vocab, id).n;
        at = plain - 1;
    }
    return KVT_OK;
}

kvt_code tokenizer_normal_form(const tokenizer *t, buf *out, const char *text, size_t n,
                               kvt_err *err)
{
    return check_text(text, n, err) ? err->code : add_normal(t, out, text, n, err);
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
