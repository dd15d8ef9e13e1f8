/* template_priv.h - a rendering on its way, for template_forms.c and template_pieces.c. */
#ifndef CAPTURE_TEMPLATE_PRIV_H
#define CAPTURE_TEMPLATE_PRIV_H

#include "capture/template.h"

struct form;

/* The first failure is kept in `code`; later calls do nothing. */
typedef struct render {
    template_text *out;
    const struct form *form;
    const char *bos;    /* "" where there is none */
    template_role role; /* of the message at hand */
    int message;
    kvt_code code;
    kvt_err *err;
} render;

/* What the template says; returns its place. */
tokenizer_range template_say(render *r, const char *text);
/* Bytes [begin, end) of the text of message i, which is what a person wrote; or all of it, but
 * for white space that is trimmed. */
void template_quote_part(render *r, const template_message *m, int i, size_t begin, size_t end);
void template_quote(render *r, const template_message *m, int i, bool trim_front,
                    bool trim_back);
/* What the template says at the begin of message i, and what belongs to no message. */
void template_enter(render *r, const template_message *m, int i);
void template_leave(render *r, template_role role);

#endif
