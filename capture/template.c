/* template.c - rendered texts: their pieces as tokens, and the ranges of messages.
 *
 * The forms themselves are in template_forms.c. */
#include "capture/template.h"

#include "kvt/arena.h"

#include <string.h>

enum { RENDER_LIMIT = 1 << 30 };

void template_text_init(template_text *t)
{
    *t = (template_text){0};
    buf_init(&t->text, RENDER_LIMIT);
}

void template_text_fini(template_text *t)
{
    buf_fini(&t->text);
    kvt_free(t->piece);
    *t = (template_text){0};
}

bool template_message_range(tokenizer_range *out, const template_text *text, int message)
{
    for (int64_t i = 0; i < text->n_piece; i++)
        if (!text->piece[i].is_template && text->piece[i].message == message) {
            *out = (tokenizer_range){text->piece[i].begin, text->piece[i].end};
            return true;
        }
    return false;
}

/* The first token that ends behind (or begins at or behind) a byte. */
static int64_t first_token(const token_list *list, int64_t byte, int behind)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (list->offset[mid + behind] >= byte + behind)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

void template_token_range(int64_t *begin, int64_t *end, const token_list *list,
                          tokenizer_range bytes)
{
    *begin = first_token(list, (int64_t)bytes.begin, 1);
    *end = bytes.end > bytes.begin ? first_token(list, (int64_t)bytes.end, 0) : *begin;
}

static void set_flags(token_list *list, const template_text *text)
{
    int64_t p = 0;
    for (int64_t i = 0; i < list->n; i++) {
        size_t begin = (size_t)list->offset[i];
        while (p + 1 < text->n_piece && text->piece[p].end <= begin)
            p++;
        if (text->n_piece && text->piece[p].is_template)
            list->flag[i] |= KVT_TOKEN_TEMPLATE;
        if (begin >= text->system.begin && begin < text->system.end)
            list->flag[i] |= KVT_TOKEN_SYSTEM;
    }
}

/* Moves a range behind the spaces in front of it; `space` are places of the new text. */
static void move_range(tokenizer_range *r, const token_list *list)
{
    size_t begin = r->begin, end = r->end;
    for (int64_t k = 0; k < list->n_space; k++) {
        size_t before = list->space[k] - (size_t)k; /* the byte that it was put in front of */
        r->begin += before <= begin;
        r->end += before < end;
    }
    r->end = r->end < r->begin ? r->begin : r->end;
}

static void move_pieces(template_text *text, const token_list *list)
{
    int64_t k = 0;
    for (int64_t i = 0; i < text->n_piece; i++) {
        template_piece *p = &text->piece[i];
        size_t end = p->end;
        while (k < list->n_space && list->space[k] - (size_t)k <= p->begin)
            k++;
        p->begin += (size_t)k;
        for (p->end += (size_t)k; k < list->n_space && list->space[k] - (size_t)k < end; k++)
            p->end++;
    }
}

/* The text with the spaces that the tokenizer put in; FORMAT where it changed anything else. */
static kvt_code follow(template_text *text, const token_list *list, kvt_err *err)
{
    const char *old = buf_get(&text->text), *new = buf_get(&list->text);
    size_t at = 0;
    bool same = list->text.n == text->text.n + (size_t)list->n_space;
    for (int64_t k = 0; k <= list->n_space && same; k++) {
        size_t end = k < list->n_space ? list->space[k] - (size_t)k : text->text.n;
        same = memcmp(old + at, new + at + k, end - at) == 0;
        at = end;
    }
    if (!same)
        return kvt_fail(err, KVT_FORMAT,
                        "text: bring the messages to the tokenizer's normal form "
                        "before rendering them");
    if (list->n_space == 0)
        return KVT_OK;
    buf_clear(&text->text);
    buf_add(&text->text, new, list->text.n);
    move_pieces(text, list);
    move_range(&text->system, list);
    move_range(&text->question, list);
    move_range(&text->prefix, list);
    text->prefix.begin = 0;
    return buf_check(&text->text, err);
}

kvt_code template_encode(token_list *out, tokenizer *t, template_text *text, bool parse_special,
                         kvt_err *err)
{
    int64_t n_range = 0;
    tokenizer_range *range = kvt_alloc(text->n_piece + 1, sizeof *range);
    if (!range)
        return kvt_fail_memory(err, (size_t)(text->n_piece + 1) * sizeof *range);
    for (int64_t i = 0; i < text->n_piece; i++) {
        const template_piece *p = &text->piece[i];
        if (!p->is_template && !(parse_special && text->form == TEMPLATE_RAW))
            continue;
        if (n_range && range[n_range - 1].end == p->begin)
            range[n_range - 1].end = p->end;
        else
            range[n_range++] = (tokenizer_range){p->begin, p->end};
    }
    kvt_code code =
        tokenizer_encode(t, out, buf_get(&text->text), text->text.n, range, n_range, true, err);
    kvt_free(range);
    if (code || follow(text, out, err))
        return err->code;
    set_flags(out, text);
    return KVT_OK;
}
