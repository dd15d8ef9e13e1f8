/* fixed.h - tokens that stand for themselves, found in a text: leftmost, then longest.
 *
 * Sorted by their bytes, so that all tokens with a common beginning lie side by side: a search
 * narrows that range byte by byte. Gemma has 6,400 of them, most with the same first byte. */
#ifndef CAPTURE_FIXED_H
#define CAPTURE_FIXED_H

#include "capture/vocab.h"

typedef struct fixed fixed;

/* The tokens with sort[id] > 0: 1 matches in ranges that allow it, 2 anywhere. Empty tokens
 * match nothing. The vocabulary is borrowed until fixed_free. NOMEM. */
enum { FIXED_NONE, FIXED_WHERE_ALLOWED, FIXED_ANYWHERE };
KVT_CHECKED kvt_code fixed_new(fixed **out, const vocab *v, const uint8_t *sort, kvt_err *err);
void fixed_free(fixed *f); /* NULL is fine */

/* The longest one at text + at, at < n, or -1. Where it is not allowed anywhere it must end at
 * or before allowed_end. Of equal tokens the lowest id. */
int32_t fixed_at(const fixed *f, const char *text, size_t n, size_t at, size_t allowed_end);
/* The one of exactly these bytes, or -1. */
int32_t fixed_find(const fixed *f, const char *text, size_t n);

#endif
