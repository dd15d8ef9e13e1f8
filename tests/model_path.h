/* model_path.h - where a test finds a real model, or that it must be skipped. */
#ifndef TESTS_MODEL_PATH_H
#define TESTS_MODEL_PATH_H

#include <stdio.h>
#include <stdlib.h>

enum { TEST_SKIPPED = 77 };

/* What the variable says, or NAME.gguf of scripts/fetch-model in the cache folder. NULL where
 * there is none; says so, and the program should return TEST_SKIPPED. */
static inline const char *model_path_of(char *out, size_t cap, const char *variable,
                                        const char *name)
{
    const char *given = getenv(variable), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given && *given)
        snprintf(out, cap, "%s", given);
    else if (cache && *cache)
        snprintf(out, cap, "%s/kvt/models/%s.gguf", cache, name);
    else
        snprintf(out, cap, "%s/.cache/kvt/models/%s.gguf", home ? home : "", name);
    FILE *f = fopen(out, "rb");
    if (f) {
        fclose(f);
        return out;
    }
    fprintf(stderr, "SKIPPED: no model at '%s': scripts/fetch-model %s, or set %s\n", out, name,
            variable);
    return NULL;
}

/* The first real model. */
static inline const char *model_path(char *out, size_t cap)
{
    return model_path_of(out, cap, "KVT_MODEL", "smollm2");
}

#endif
