/* model_path.h - where a test finds the first real model, or that it must be skipped. */
#ifndef TESTS_MODEL_PATH_H
#define TESTS_MODEL_PATH_H

#include <stdio.h>
#include <stdlib.h>

enum { TEST_SKIPPED = 77 };

/* $KVT_MODEL, or smollm2.gguf of scripts/fetch-model in the cache folder. NULL where there is
 * none; says so, and the program should return TEST_SKIPPED. */
static inline const char *model_path(char *out, size_t cap)
{
    const char *given = getenv("KVT_MODEL"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given && *given)
        snprintf(out, cap, "%s", given);
    else if (cache && *cache)
        snprintf(out, cap, "%s/kvt/models/smollm2.gguf", cache);
    else
        snprintf(out, cap, "%s/.cache/kvt/models/smollm2.gguf", home ? home : "");
    FILE *f = fopen(out, "rb");
    if (f) {
        fclose(f);
        return out;
    }
    fprintf(stderr,
            "SKIPPED: no model at '%s': scripts/fetch-model smollm2, or set KVT_MODEL\n", out);
    return NULL;
}

#endif
