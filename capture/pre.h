/* pre.h - pre-tokenizers: a text of a byte-level vocabulary is cut into words before merging.
 *
 *   const pre_form *form = pre_find("smollm");       NULL: no such name
 *   pre_words *p;
 *   pre_new(&p, form, &err);
 *   pre_cut(p, text, n, each, user, &err);           each(user, word, n_word, &err), in order
 *   pre_free(p);
 *
 * Only the patterns of the table in pre.c are run: a pattern out of a file would be a program
 * of somebody else's. */
#ifndef CAPTURE_PRE_H
#define CAPTURE_PRE_H

#include "kvt/err.h"

typedef struct pre_form {
    const char *name;    /* as in tokenizer.ggml.pre */
    bool digits;         /* every digit is cut out first; words are looked for in each piece */
    const char *pattern; /* of words, as the models' own files write it */
    bool whole;          /* a word that is a token is taken as it is (ignore_merges) */
    bool add_bos;        /* unless the file says otherwise */
    bool nfc;            /* the same */
} pre_form;

const pre_form *pre_find(const char *name); /* NULL: unknown */
/* The first form that cuts so, or NULL; pattern NULL: that of GPT-2. */
const pre_form *pre_find_pattern(bool digits, const char *pattern);
/* The names, "gpt-2, smollm, ..." (cap at least 256); returns out. */
const char *pre_names(char *out, size_t cap);

typedef struct pre_words pre_words; /* for one thread */

typedef kvt_code pre_each(void *user, const char *word, size_t n, kvt_err *err);

KVT_CHECKED kvt_code pre_new(pre_words **out, const pre_form *form, kvt_err *err);
void pre_free(pre_words *p); /* NULL is fine */
/* Calls `each` for every word of valid UTF-8; words tile the text. Stops at its first failure.
 */
KVT_CHECKED kvt_code pre_cut(pre_words *p, const char *text, size_t n, pre_each *each,
                             void *user, kvt_err *err);

#endif
