/* digest.h - XXH128 and XXH64 as lower-case hex. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include "kvt/err.h"

enum { DIGEST_TEXT = 33 };

typedef struct digest digest; /* a running XXH128 */

digest *digest_new(void); /* NULL: out of memory */
void digest_free(digest *d);
void digest_add(digest *d, const void *bytes, size_t n);
void digest_add_text(digest *d, const char *text); /* with its NUL, so that borders count */
void digest_get(const digest *d, char out[DIGEST_TEXT]);

void digest_of(const void *bytes, size_t n, char out[DIGEST_TEXT]);
uint64_t digest_64(const void *bytes, size_t n);
KVT_CHECKED kvt_code digest_file(const char *path, char out[DIGEST_TEXT], kvt_err *err);

#endif
