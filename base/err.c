/* err.c - failures as values: names of the codes, texts, context.
 *
 * Every text passes through text_safe_cut(), so that a path or a token with escape sequences
 * cannot reach a terminal through a message (whose only printer is cli/). */
#include "kvt/err.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct {
    const char *name, *text;
    int status;
} codes[] = {
#define X(name_, status_, text_) {.name = #name_, .text = (text_), .status = (status_)},
    KVT_CODES(X)
#undef X
};
/* clang-format on */
enum { N_CODE = sizeof codes / sizeof codes[0], TEXT_MAX = sizeof((kvt_err *)0)->text };

/* Columns are never the limit of a message, bytes are. */
static void make_safe(char *out, size_t cap, const char *text)
{
    text_safe_cut(out, cap, (const uint8_t *)text, strlen(text), TEXT_MAX, false);
}

kvt_code kvt_fail_at(kvt_err *err, kvt_code code, const char *file, int line, const char *fmt,
                     ...)
{
    char raw[2 * TEXT_MAX]; /* an argument may point into err->text */
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    err->code = code;
    err->file = file;
    err->line = line;
    make_safe(err->text, sizeof err->text, raw);
    return code;
}

/* The new context is what gives way where both do not fit: the inner text says what happened.
 */
kvt_code kvt_within(kvt_err *err, const char *fmt, ...)
{
    enum { LEAST = 8 }; /* a shorter rest of a context says nothing */
    char raw[2 * TEXT_MAX], context[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    size_t n_inner = strlen(err->text);
    size_t room = sizeof err->text - n_inner - 1;
    if (room < LEAST + 2)
        return err->code;
    make_safe(context, room - 1, raw); /* room for ": " and the NUL of the inner text */
    size_t n = strlen(context);
    memmove(err->text + n + 2, err->text, n_inner + 1);
    memcpy(err->text, context, n);
    memcpy(err->text + n, ": ", 2);
    return err->code;
}

const char *kvt_code_name(kvt_code code)
{
    return (unsigned)code < N_CODE ? codes[code].name : "UNKNOWN";
}

const char *kvt_code_text(kvt_code code)
{
    return (unsigned)code < N_CODE ? codes[code].text : "an unknown failure";
}

int kvt_exit_status(kvt_code code)
{
    return (unsigned)code < N_CODE ? codes[code].status : 1;
}
