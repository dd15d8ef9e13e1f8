/* utf8proc.h - in place of the library, where scripts/gpu-check builds without it: messages
 * show text, and here every character is a letter that has its normal form. */
#ifndef BENCH_GPU_PLAIN_UTF8PROC_H
#define BENCH_GPU_PLAIN_UTF8PROC_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t utf8proc_uint8_t;
typedef int32_t utf8proc_int32_t;
typedef intptr_t utf8proc_ssize_t;
typedef struct utf8proc_property_t {
    unsigned boundclass;
} utf8proc_property_t;

enum { UTF8PROC_STABLE = 0, UTF8PROC_COMPOSE = 0, UTF8PROC_ERROR_NOMEM = -1 };
enum { UTF8PROC_BOUNDCLASS_OTHER, UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC };
enum {
    UTF8PROC_CATEGORY_CN,
    UTF8PROC_CATEGORY_LU,
    UTF8PROC_CATEGORY_MN,
    UTF8PROC_CATEGORY_MC,
    UTF8PROC_CATEGORY_ME,
    UTF8PROC_CATEGORY_ZS,
    UTF8PROC_CATEGORY_ZL,
    UTF8PROC_CATEGORY_ZP,
    UTF8PROC_CATEGORY_CC,
    UTF8PROC_CATEGORY_CF,
    UTF8PROC_CATEGORY_CS,
    UTF8PROC_CATEGORY_CO
};

static inline utf8proc_ssize_t utf8proc_map(const utf8proc_uint8_t *s, utf8proc_ssize_t n,
                                            utf8proc_uint8_t **out, int options)
{
    (void)options;
    *out = (utf8proc_uint8_t *)malloc((size_t)n + 1);
    if (!*out)
        return -1;
    memcpy(*out, s, (size_t)n);
    (*out)[n] = 0;
    return n;
}

static inline const char *utf8proc_errmsg(utf8proc_ssize_t code)
{
    (void)code;
    return "out of memory";
}

static inline const utf8proc_property_t *utf8proc_get_property(utf8proc_int32_t cp)
{
    static const utf8proc_property_t other = {UTF8PROC_BOUNDCLASS_OTHER};
    (void)cp;
    return &other;
}

static inline int utf8proc_category(utf8proc_int32_t cp)
{
    (void)cp;
    return UTF8PROC_CATEGORY_LU;
}

#endif
