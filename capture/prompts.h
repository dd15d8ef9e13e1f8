/* prompts.h - prompt sets: a JSONL file with one prompt a line.
 *
 *   {"id": "a", "prompt": "Why?", "system": "Be brief.", "max_new": 64,
 *    "spans": {"question": "Why?", "context": [0, 3]}}
 *   {"id": "b", "messages": [{"role": "user", "content": "Hi"}], "response": "Hello."}
 *
 *   prompts *set;
 *   prompts_read(&set, "set.jsonl", &err);
 *   for (int64_t i = 0; i < set->n; i++) ... set->item[i] ...
 *   prompts_free(set);
 *
 * Lines may be empty, end with CRLF or not at all, and be as long as the file's limit. Errors
 * read "FILE:LINE: what". */
#ifndef CAPTURE_PROMPTS_H
#define CAPTURE_PROMPTS_H

#include "capture/template.h"
#include "kvt/arena.h"

enum { PROMPTS_FILE_LIMIT = 1 << 30, PROMPT_ID_MAX = 200, PROMPT_SPANS_MAX = 16 };

/* A named part of the prompt, or of the response that is given: by its text, or by bytes
 * [begin, end) of the prompt (of the last user message where there are messages). */
typedef struct prompt_span {
    char name[32];
    const char *text; /* NULL: the byte range */
    int64_t begin, end;
} prompt_span;

typedef struct prompt {
    const char *id;
    const template_message
        *message; /* "prompt" is one user message; "system" is put in front */
    int n_message;
    const char *response; /* NULL: generated */
    size_t n_response;
    int64_t max_new; /* -1: not given */
    const prompt_span *span;
    int n_span;
    int64_t line;
} prompt;

typedef struct prompts {
    prompt *item; /* [n] */
    int64_t n;
    kvt_arena *memory; /* holds all texts */
} prompts;

/* NOTFOUND, IO, NOMEM; FORMAT or USAGE with file and line: no JSON object, not UTF-8, an
 * unknown key (with the nearest), neither or both of prompt and messages, an empty prompt, an
 * id that is empty, twice there, or no file name ('/', '..', control characters), a span that
 * is not in the text. */
KVT_CHECKED kvt_code prompts_read(prompts **out, const char *path, kvt_err *err);
/* The same of bytes; `name` stands for the file in messages. */
KVT_CHECKED kvt_code prompts_parse(prompts **out, const char *bytes, size_t n, const char *name,
                                   kvt_err *err);
void prompts_free(prompts *set);

/* Whether the span's text is in a response of n bytes, and where. One that the prompt has, too,
 * is meant there. */
bool prompt_span_in_response(tokenizer_range *out, const prompt_span *span,
                             const template_text *rendered, const char *response, size_t n);

/* Where a span lies in the rendered text: its text is looked for in the last user message and
 * then in the others, its byte range counts within the last user message. USAGE: not there. */
KVT_CHECKED kvt_code prompt_span_find(tokenizer_range *out, const prompt_span *span,
                                      const template_text *rendered, kvt_err *err);

#endif
