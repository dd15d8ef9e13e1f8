/* regex.h - the only door to PCRE2: UTF and UCP, compiled once, with a match limit. */
#ifndef BASE_REGEX_H
#define BASE_REGEX_H

#include "kvt/err.h"

typedef struct regex regex;

/* `ignore_case` for searches. FORMAT with the place in the pattern. */
KVT_CHECKED kvt_code regex_new(regex **out, const char *pattern, bool ignore_case,
                               kvt_err *err);
void regex_free(regex *r);

/* First match at or after `from` in valid UTF-8 of n bytes: NO where there is none. Never
 * recursive in the length of the text. A regex is used by one thread, and each nesting level
 * needs one of its own. */
KVT_CHECKED kvt_code regex_find(regex *r, const char *text, size_t n, size_t from,
                                size_t *begin, size_t *end, kvt_err *err);

#endif
