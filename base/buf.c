/* buf.c - a growing buffer of bytes with a greatest size. */
#include "base/buf.h"

#include "kvt/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buf_init(buf *b, size_t limit)
{
    *b = (buf){.limit = limit < PTRDIFF_MAX / 2 ? limit : PTRDIFF_MAX / 2};
}

void buf_fini(buf *b)
{
    kvt_free(b->data);
    *b = (buf){.limit = b->limit};
}

void buf_clear(buf *b)
{
    b->n = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

/* Room for n more bytes and the NUL. */
static bool grow(buf *b, size_t n)
{
    if (b->failed || n > b->limit - b->n) {
        b->failed = true;
        return false;
    }
    size_t need = b->n + n + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? 2 * b->cap : 256;
    cap = cap < need ? need : cap;
    cap = cap > b->limit + 1 ? b->limit + 1 : cap;
    char *data = kvt_resize(b->data, (int64_t)b->cap, (int64_t)cap, 1);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void buf_add(buf *b, const void *bytes, size_t n)
{
    if (!n || !grow(b, n))
        return;
    memcpy(b->data + b->n, bytes, n);
    b->n += n;
    b->data[b->n] = 0;
}

void buf_text(buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_char(buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_printf(buf *b, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        b->failed = true;
    } else if (n > 0 && grow(b, (size_t)n)) {
        vsnprintf(b->data + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

const char *buf_get(const buf *b)
{
    return b->data ? b->data : "";
}

kvt_code buf_check(const buf *b, kvt_err *err)
{
    if (!b->failed)
        return KVT_OK;
    if (b->n >= b->limit / 2)
        return kvt_fail(err, KVT_NOMEM, "a text would be longer than its limit of %zu bytes",
                        b->limit);
    return kvt_fail_memory(err, b->cap);
}
