/* template_pieces.c - the pieces of a rendered text, as they are appended. */
#include "capture/template_priv.h"

#include "base/text.h"
#include "kvt/arena.h"

#include <string.h>

/* Appends one piece; an empty one only where it is a message's text. */
static tokenizer_range add(render *r, const char *text, size_t n, size_t skip, bool is_template)
{
    template_text *t = r->out;
    tokenizer_range range = {t->text.n, t->text.n};
    if (r->code || (n == 0 && is_template))
        return range;
    if (t->n_piece == t->cap) {
        int64_t cap = t->cap ? 2 * t->cap : 16;
        template_piece *piece = kvt_resize(t->piece, t->cap, cap, sizeof *piece);
        if (!piece) {
            r->code = kvt_fail_memory(r->err, (size_t)cap * sizeof *piece);
            return range;
        }
        t->piece = piece;
        t->cap = cap;
    }
    buf_add(&t->text, text, n);
    if ((r->code = buf_check(&t->text, r->err)))
        return range;
    range.end = t->text.n;
    t->piece[t->n_piece++] = (template_piece){.begin = range.begin,
                                              .end = range.end,
                                              .is_template = is_template,
                                              .role = r->role,
                                              .skip = skip,
                                              .message = r->message};
    return range;
}

tokenizer_range template_say(render *r, const char *text)
{
    return add(r, text, strlen(text), 0, true);
}

/* What Python's str.strip() takes away, because the templates were written for it. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static size_t leading_space(const char *s, size_t n)
{
    size_t at = 0;
    while (at < n) {
        uint32_t c;
        int width = text_decode(&c, (const uint8_t *)s + at, n - at);
        if (!width || !is_space(c))
            break;
        at += (size_t)width;
    }
    return at;
}

static size_t without_trailing_space(const char *s, size_t n)
{
    while (n > 0) {
        size_t at = n - 1;
        while (at > 0 && n - at < 4 && ((uint8_t)s[at] & 0xc0) == 0x80)
            at--;
        uint32_t c;
        int width = text_decode(&c, (const uint8_t *)s + at, n - at);
        if (!width || at + (size_t)width != n || !is_space(c))
            break;
        n = at;
    }
    return n;
}

/* Bytes [begin, end) of the text of message i, which is what a person wrote. */
void template_quote_part(render *r, const template_message *m, int i, size_t begin, size_t end)
{
    r->message = i;
    r->role = m->role;
    end = end < begin ? begin : end;
    tokenizer_range range = add(r, m->text + begin, end - begin, begin, false);
    if (m->role == TEMPLATE_SYSTEM && r->out->system.end == 0)
        r->out->system = range;
    if (m->role == TEMPLATE_USER) {
        if (r->out->question.end == 0)
            r->out->prefix = (tokenizer_range){0, range.begin};
        r->out->question = range;
    }
}

void template_quote(render *r, const template_message *m, int i, bool trim_front,
                    bool trim_back)
{
    template_quote_part(r, m, i, trim_front ? leading_space(m->text, m->n) : 0,
                        trim_back ? without_trailing_space(m->text, m->n) : m->n);
}

/* What the template says at the begin of message i. */
void template_enter(render *r, const template_message *m, int i)
{
    r->role = m->role;
    r->message = i;
}

/* What belongs to no message. */
void template_leave(render *r, template_role role)
{
    r->role = role;
    r->message = -1;
}
