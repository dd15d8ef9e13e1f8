/* digest.c - the only door to xxHash. Hex is in the canonical order, as `xxhsum -H2` prints it.
 */
#include "base/digest.h"

#include "base/file.h"
#include "kvt/arena.h"

#include <stdio.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

struct digest {
    XXH3_state_t state; /* 64-byte aligned, as kvt_alloc() is */
};

static void print(char out[DIGEST_TEXT], XXH128_hash_t hash)
{
    static const char hex[] = "0123456789abcdef";
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, hash);
    for (size_t i = 0; i < sizeof c.digest; i++) {
        out[2 * i] = hex[c.digest[i] >> 4];
        out[2 * i + 1] = hex[c.digest[i] & 15];
    }
    out[DIGEST_TEXT - 1] = 0;
}

digest *digest_new(void)
{
    digest *d = kvt_alloc(1, sizeof *d);
    if (d)
        XXH3_128bits_reset(&d->state);
    return d;
}

void digest_free(digest *d)
{
    kvt_free(d);
}

void digest_add(digest *d, const void *bytes, size_t n)
{
    if (n)
        XXH3_128bits_update(&d->state, bytes, n);
}

void digest_add_text(digest *d, const char *text)
{
    digest_add(d, text, strlen(text) + 1);
}

void digest_get(const digest *d, char out[DIGEST_TEXT])
{
    print(out, XXH3_128bits_digest(&d->state));
}

void digest_of(const void *bytes, size_t n, char out[DIGEST_TEXT])
{
    print(out, XXH3_128bits(n ? bytes : "", n));
}

uint64_t digest_64(const void *bytes, size_t n)
{
    return XXH64(n ? bytes : "", n, 0);
}

kvt_code digest_file(const char *path, char out[DIGEST_TEXT], kvt_err *err)
{
    file_map map;
    if (file_map_open(&map, path, err))
        return err->code;
    digest_of(map.data, map.n, out);
    file_map_close(&map);
    return KVT_OK;
}
