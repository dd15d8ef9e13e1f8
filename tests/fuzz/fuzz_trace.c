/* fuzz_trace.c - whatever bytes a trace file has: open, read all, check, close; no crash, no
 * leak, no answer other than the documented codes. */
#include "kvt/trace.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

static void set_path(void)
{
    if (!path[0])
        snprintf(path, sizeof path, "%s/kvt-fuzz-%ld.h5",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".", (long)getpid());
}

static void ignore(void *user, const kvt_finding *f)
{
    (void)user;
    (void)f;
}

static void look(kvt_trace *t)
{
    kvt_err err;
    kvt_view v;
    const kvt_trace_info *i = kvt_trace_info_of(t);
    for (int ds = 0; ds < KVT_DS_COUNT; ds++)
        for (int l = 0; l < i->n_layer; l++)
            if (kvt_trace_read(t, (kvt_ds)ds, l, &v, &err) == KVT_OK)
                kvt_trace_done(t, &v);
    for (int64_t k = 0; k < i->n_token; k++) {
        const uint8_t *b;
        int64_t n, sum = 0;
        if (kvt_trace_token_text(t, k, &b, &n, &err) == KVT_OK)
            for (int64_t j = 0; j < n; j++)
                sum += b[j];
        if (sum < 0)
            abort();
    }
    if (kvt_trace_check(t, ignore, NULL, &err) == KVT_USAGE)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    kvt_err err;
    kvt_trace *t;
    char digest[KVT_DIGEST_TEXT];
    set_path();
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
    kvt_code code = kvt_trace_open(&t, path, 0, &err);
    if (code == KVT_OK) {
        look(t);
        kvt_trace_close(t);
    } else if (code != KVT_FORMAT && code != KVT_NOMEM) {
        fprintf(stderr, "%s: %s\n", kvt_code_name(code), err.text);
        abort();
    }
    if (kvt_trace_peek(path, digest, &err) == KVT_USAGE)
        abort();
    unlink(path);
    return 0;
}
