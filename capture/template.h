/* template.h - the chat templates that are built in, rendered into pieces.
 *
 *   template_form form;
 *   if (template_find(&form, NULL, model's template text, &err)) ...
 *   template_text out;
 *   template_text_init(&out);
 *   template_render(&out, form, message, n, "<bos>", &err);
 *   template_encode(&tokens, tokenizer, &out, &err);
 *   template_text_fini(&out);
 *
 * A piece knows whether the template or a person wrote it: what a person wrote is never parsed
 * for control tokens, and the ranges of prefix, system prompt and question follow from the
 * pieces. Nothing here runs Jinja: a form is recognised by marks in the model's template. */
#ifndef CAPTURE_TEMPLATE_H
#define CAPTURE_TEMPLATE_H

#include "capture/tokenizer.h"

typedef enum template_form {
    TEMPLATE_RAW, /* no template */
    TEMPLATE_CHATML,
    TEMPLATE_SMOLLM2,
    TEMPLATE_QWEN2,
    TEMPLATE_QWEN2_5,
    TEMPLATE_QWEN3,
    TEMPLATE_QWEN3_SHORT, /* the answer begins with an empty thought: thinking is off */
    TEMPLATE_LLAMA2,
    TEMPLATE_LLAMA3,
    TEMPLATE_LLAMA3_1,
    TEMPLATE_GEMMA,
    TEMPLATE_MISTRAL_V1,
    TEMPLATE_MISTRAL,
    TEMPLATE_MISTRAL_V3,
    TEMPLATE_MISTRAL_NEMO,
    TEMPLATE_ZEPHYR,
    TEMPLATE_COUNT
} template_form;

const char *template_name(template_form form); /* "smollm2", "raw" */

/* By name (NULL: by the marks in `text`, which may be NULL: RAW). USAGE: no such name, with the
 * nearest; FORMAT: a template of no known form. */
KVT_CHECKED kvt_code template_find(template_form *out, const char *name, const char *text,
                                   kvt_err *err);

typedef enum template_role { TEMPLATE_SYSTEM, TEMPLATE_USER, TEMPLATE_ASSISTANT } template_role;

/* "system", "user", "assistant"; USAGE naming another one. */
KVT_CHECKED kvt_code template_role_parse(template_role *out, const char *name, kvt_err *err);

typedef struct template_message {
    template_role role;
    const char *text; /* borrowed */
    size_t n;
} template_message;

typedef struct template_piece {
    size_t begin, end;  /* bytes of the rendered text */
    bool is_template;   /* put there by the template: control tokens are parsed */
    template_role role; /* of the message that it belongs to */
    size_t skip;        /* bytes that were trimmed off the front of the message's text */
    int message;        /* its index; -1: of none (BOS, default system text, answer's header) */
} template_piece;

typedef struct template_text {
    buf text;
    template_piece *piece; /* [n_piece] they tile the text, but for spaces that a tokenizer put
                            * in (template_encode) */
    int64_t n_piece, cap;
    template_form form;
    /* Byte ranges; begin == end: there is none. */
    tokenizer_range prefix;   /* everything before the first user message's text */
    tokenizer_range system;   /* the system prompt's text, the template's default too */
    tokenizer_range question; /* the last user message's text */
} template_text;

void template_text_init(template_text *t);
void template_text_fini(template_text *t);

/* Renders the messages and the header of the answer. bos: the text of the model's BOS token,
 * which the forms that begin with one put in front; NULL: none. USAGE: messages that the form
 * cannot take (a system message that is not the first, roles that do not alternate), with the
 * form's name; RAW takes one user message and gives its text. */
KVT_CHECKED kvt_code template_render(template_text *out, template_form form,
                                     const template_message *message, int64_t n_message,
                                     const char *bos, kvt_err *err);

/* Tokenizes what was rendered into an empty list, control tokens in the template's pieces only
 * (parse_special: in RAW text, too), BOS once. Sets KVT_TOKEN_TEMPLATE and KVT_TOKEN_SYSTEM: a
 * token belongs to the piece in which it begins. Where the tokenizer puts spaces in, they are
 * in the text afterwards, and all ranges have moved with it. */
KVT_CHECKED kvt_code template_encode(token_list *out, tokenizer *t, template_text *text,
                                     bool parse_special, kvt_err *err);

/* The tokens [begin, end) that lie in or across bytes of list->text. */
void template_token_range(int64_t *begin, int64_t *end, const token_list *list,
                          tokenizer_range bytes);

/* The byte range of the i-th message's text in the rendered text: false where it is not there.
 */
bool template_message_range(tokenizer_range *out, const template_text *text, int message);

#endif
