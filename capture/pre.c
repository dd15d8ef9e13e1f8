/* pre.c - the known pre-tokenizers and how they cut (capture/pre.h). */
#include "capture/pre.h"

#include "base/buf.h"
#include "base/regex.h"
#include "kvt/arena.h"

#include <stdio.h>
#include <string.h>

#define LLAMA_LIKE(digits)                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
    "| ?[^\\s\\p{L}\\p{N}]+"                                             \
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char GPT2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char LLAMA3[] = LLAMA_LIKE("\\p{N}{1,3}");
static const char QWEN2[] = LLAMA_LIKE("\\p{N}");

/* clang-format off */
static const pre_form forms[] = {
    {"gpt-2",            false, GPT2,   false, false, false},
    {"smollm",           true,  GPT2,   false, false, false},
    {"starcoder",        true,  GPT2,   false, false, false},
    {"refact",           true,  GPT2,   false, false, false},
    {"command-r",        true,  GPT2,   false, false, false},
    {"codeshell",        true,  GPT2,   false, false, false},
    {"llama-bpe",        false, LLAMA3, true,  true,  false},
    {"llama3",           false, LLAMA3, true,  true,  false},
    {"llama-v3",         false, LLAMA3, true,  true,  false},
    {"falcon3",          false, LLAMA3, true,  true,  false},
    {"qwen2",            false, QWEN2,  false, false, true},
    {"deepseek-r1-qwen", false, QWEN2,  false, false, true},
    {"megrez",           false, QWEN2,  false, false, true},
};
/* clang-format on */
enum { N_FORM = sizeof forms / sizeof forms[0] };

const pre_form *pre_find(const char *name)
{
    for (int i = 0; i < N_FORM; i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
}

const pre_form *pre_find_pattern(bool digits, const char *pattern)
{
    for (int i = 0; i < N_FORM; i++)
        if (forms[i].digits == digits &&
            strcmp(forms[i].pattern, pattern ? pattern : GPT2) == 0)
            return &forms[i];
    return NULL;
}

const char *pre_names(char *out, size_t cap)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < N_FORM && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? ", " : "", forms[i].name);
    return out;
}

struct pre_words {
    regex *digits; /* NULL: they are not cut out */
    regex *words;
};

/* \p{White_Space} for the files' \s: PCRE2's \s has U+180E, which is not white space any more.
 */
static kvt_code compile(regex **out, const char *pattern, kvt_err *err)
{
    buf b;
    buf_init(&b, 1 << 12);
    for (const char *p = pattern; *p; p++) {
        if (p[0] != '\\') {
            buf_char(&b, *p);
            continue;
        }
        p++;
        if (*p == 's' || *p == 'S')
            buf_printf(&b, "\\%c{White_Space}", *p == 's' ? 'p' : 'P');
        else
            buf_printf(&b, "\\%c", *p);
    }
    kvt_code code = buf_check(&b, err);
    if (!code)
        code = regex_new(out, buf_get(&b), false, err);
    buf_fini(&b);
    return code;
}

kvt_code pre_new(pre_words **out, const pre_form *form, kvt_err *err)
{
    pre_words *p = kvt_alloc(1, sizeof *p);
    if (!p)
        return kvt_fail_memory(err, sizeof *p);
    if ((form->digits && compile(&p->digits, "\\p{N}", err)) ||
        compile(&p->words, form->pattern, err)) {
        pre_free(p);
        return err->code;
    }
    *out = p;
    return KVT_OK;
}

void pre_free(pre_words *p)
{
    if (!p)
        return;
    regex_free(p->digits);
    regex_free(p->words);
    kvt_free(p);
}

/* The matches of r and what lies between them, in order. */
static kvt_code cut(regex *r, const char *text, size_t n, pre_each *each, void *user,
                    kvt_err *err)
{
    for (size_t at = 0; at < n;) {
        size_t begin = n, end = n;
        kvt_code code = regex_find(r, text, n, at, &begin, &end, err);
        if (code && code != KVT_NO)
            return code;
        if (code == KVT_NO || end <= begin)
            begin = end = n;
        if (begin > at && each(user, text + at, begin - at, err))
            return err->code;
        if (end > begin && each(user, text + begin, end - begin, err))
            return err->code;
        at = end;
    }
    return KVT_OK;
}

typedef struct piece {
    regex *words;
    pre_each *each;
    void *user;
} piece;

/* A piece by itself: the look-ahead of the pattern must see its end, not the next piece. */
static kvt_code cut_piece(void *user, const char *text, size_t n, kvt_err *err)
{
    const piece *p = user;
    return cut(p->words, text, n, p->each, p->user, err);
}

kvt_code pre_cut(pre_words *p, const char *text, size_t n, pre_each *each, void *user,
                 kvt_err *err)
{
    if (!p->digits)
        return cut(p->words, text, n, each, user, err);
    piece by_itself = {p->words, each, user};
    return cut(p->digits, text, n, cut_piece, &by_itself, err);
}
