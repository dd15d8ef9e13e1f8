/* buf.h - a growing buffer of bytes with a greatest size. Always ended by a NUL. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "kvt/err.h"

typedef struct buf {
    char *data; /* NULL while empty */
    size_t n, cap, limit;
    bool failed; /* out of memory or above the limit: what came since is lost */
} buf;

void buf_init(buf *b, size_t limit);
void buf_fini(buf *b);
void buf_clear(buf *b);
void buf_add(buf *b, const void *bytes, size_t n);
void buf_text(buf *b, const char *text);
void buf_char(buf *b, char c);
void buf_printf(buf *b, const char *fmt, ...) KVT_PRINTF(2, 3);
const char *buf_get(const buf *b); /* "" while empty */
/* NOMEM where the buffer failed. */
KVT_CHECKED kvt_code buf_check(const buf *b, kvt_err *err);

#endif
