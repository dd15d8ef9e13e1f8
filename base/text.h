/* text.h - UTF-8 as hostile input: decoding, normal form, widths, and one sanitiser.
 *
 * Text from prompts, models and traces never reaches a terminal, a page or a message raw. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/buf.h"

/* Decodes one code point of [s, s + n): returns its bytes, or 0 where they are no UTF-8
 * (overlong, surrogate, above 10FFFF, cut). n > 0. */
int text_decode(uint32_t *cp, const uint8_t *s, size_t n);
int text_encode(char out[4], uint32_t cp);                   /* bytes, 0: no code point */
bool text_valid(const uint8_t *s, size_t n, size_t *bad_at); /* bad_at may be NULL */

/* NFC of valid UTF-8, into `out`. */
KVT_CHECKED kvt_code text_nfc(buf *out, const uint8_t *s, size_t n, kvt_err *err);

/* Columns of a code point as ncurses sees it (wcwidth); what libc does not know is 1. */
int text_width(uint32_t cp);
int text_columns(const char *s); /* of safe text */

/* The next cell of safe text [s, s + n), n > 0: its base character and up to two marks (0:
 * none) into cp, its columns (1 or 2) into width. Returns the bytes taken; joined emoji and
 * skin tones are taken with their first character and not drawn. */
size_t text_cell(const char *s, size_t n, uint32_t cp[3], int *width);

/* How a code point must be shown: as itself, as a name ("ESC", "RLO", "200B"), as a mark of
 * white space, or on a space (a lone combining mark). */
typedef enum text_kind {
    TEXT_PLAIN,
    TEXT_NAMED,
    TEXT_NEWLINE,
    TEXT_TAB,
    TEXT_COMBINING
} text_kind;
text_kind text_classify(uint32_t cp, char name[16]);

/* Appends bytes as safe text on one line: names in ⟨⟩ (ascii: <>), newline as ¶ (\n), tab as
 * → (\t), bytes that are no character as ⟨e2 8a⟩. ascii: everything outside 7 bits as \u6f22.
 * Not for JSON or CSV. */
void text_safe(buf *out, const uint8_t *s, size_t n, bool ascii);

/* The same into a fixed buffer, cut with … (ascii: "...") to at most `columns` columns; returns
 * out. */
const char *text_safe_cut(char *out, size_t cap, const uint8_t *s, size_t n, int columns,
                          bool ascii);

/* Edit distance with transpositions, for "did you mean"; and the nearest of a NULL-ended list,
 * or NULL where none is near. */
int text_distance(const char *a, const char *b);
const char *text_nearest(const char *word, const char *const *list);

#endif
