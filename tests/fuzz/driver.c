/* driver.c - runs a fuzz target over a folder of inputs, and over seeded changes of each: bytes
 * flipped, numbers overwritten by extreme ones, parts cut, repeated or taken from elsewhere.
 *
 *   fuzz_gguf CORPUS ROUNDS LAST      LAST: where the input that is being run is written, so
 * that it is still there after a crash */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"

enum { LIMIT = 1 << 24, EDITS = 6 };

typedef struct run {
    const char *dir, *last;
    int64_t rounds, n_input;
} run;

static const uint64_t extreme[] = {0,       1,          2,          0x7f,       0xff,
                                   0x7fff,  0xffff,     0x7fffffff, 0xffffffff, 1ULL << 32,
                                   1 << 30, 1ULL << 31, 1ULL << 62, 1ULL << 63, UINT64_MAX};

static void run_one(run *r, const uint8_t *data, size_t n)
{
    FILE *f = fopen(r->last, "wb");
    if (f) {
        fwrite(data, 1, n, f);
        fclose(f);
    }
    /* Memory of exactly its size, so that the sanitizer sees a read past the end. */
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    memcpy(copy, data, n);
    if (LLVMFuzzerTestOneInput(copy, n) != 0)
        abort();
    free(copy);
    r->n_input++;
}

/* Bytes of an overwritten number: 1, 2, 4 or 8. */
static void overwrite(uint8_t *data, size_t n, uint64_t rng[RNG_WORDS])
{
    uint64_t v = extreme[rng_below(rng, sizeof extreme / sizeof extreme[0])];
    size_t size = (size_t)1 << rng_below(rng, 4), at = (size_t)rng_below(rng, (int64_t)n);
    for (size_t i = 0; i < size && at + i < n; i++)
        data[at + i] = (uint8_t)(v >> 8 * i);
}

/* Edits data in place; returns the new length, at most n. */
static size_t change(uint8_t *data, size_t n, uint64_t rng[RNG_WORDS])
{
    for (int64_t e = 1 + rng_below(rng, EDITS); e > 0 && n > 0; e--) {
        size_t at = (size_t)rng_below(rng, (int64_t)n),
               from = (size_t)rng_below(rng, (int64_t)n);
        size_t most = n - (at > from ? at : from);
        switch (rng_below(rng, 8)) {
        case 0: n = at; break;
        case 1: data[at] = (uint8_t)rng_bits(rng); break;
        case 2: data[at] ^= (uint8_t)(1 << rng_below(rng, 8)); break;
        case 3: memmove(data + at, data + from, most < 64 ? most : 64); break;
        case 4: memmove(data + at, data + from, most), n -= at > from ? 0 : from - at; break;
        default: overwrite(data, n, rng);
        }
    }
    return n;
}

static kvt_code run_file(void *user, const char *name, kvt_err *err)
{
    run *r = user;
    char path[1024], key[1200];
    buf file;
    uint8_t *work = malloc(LIMIT);
    if (!work)
        abort();
    buf_init(&file, LIMIT);
    kvt_code code = file_join(path, sizeof path, r->dir, name, err);
    if (!code)
        code = file_read(&file, path, LIMIT, err);
    if (!code)
        run_one(r, (const uint8_t *)buf_get(&file), file.n);
    for (int64_t i = 0; !code && i < r->rounds && file.n > 0; i++) {
        uint64_t rng[RNG_WORDS];
        int n_key = snprintf(key, sizeof key, "%s|%lld", name, (long long)i);
        rng_init(rng, key, (size_t)n_key);
        memcpy(work, file.data, file.n);
        run_one(r, work, change(work, file.n, rng));
    }
    buf_fini(&file);
    free(work);
    return code;
}

int main(int argc, char **argv)
{
    kvt_err err;
    run r = {0};
    if (argc != 4 || int_parse(&r.rounds, argv[2], &err)) {
        fprintf(stderr, "usage: %s CORPUS ROUNDS LAST\n", argv[0]);
        return 2;
    }
    r.dir = argv[1];
    r.last = argv[3];
    if (file_list(r.dir, run_file, &r, &err)) {
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
        return 1;
    }
    remove(r.last);
    printf("%lld inputs\n", (long long)r.n_input);
    return r.n_input > 0 ? 0 : 1;
}
