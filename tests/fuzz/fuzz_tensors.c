/* fuzz_tensors.c - any bytes as a safetensors file: open, read every value, close. */
#include "tests/fuzz/fuzz.h"

#include "base/file.h"
#include "traces/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void set_path(void)
{
    if (!path[0])
        snprintf(path, sizeof path, "%s/kvt-fuzz-%ld.safetensors",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".", (long)getpid());
}

static void look(const tensors *t)
{
    kvt_err err;
    static float x[1 << 16];
    for (int i = 0; i < tensors_count(t); i++) {
        const tensor *a = tensors_at(t, i);
        int64_t n = 1;
        for (int k = 0; k < a->rank; k++)
            n *= a->dim[k];
        if (!tensors_find(t, a->name))
            abort();
        if (n <= (int64_t)(sizeof x / sizeof *x) && tensors_floats(a, x, n, &err) != KVT_OK &&
            err.code != KVT_FORMAT)
            abort();
    }
    const char *meta = tensors_meta(t, "format");
    if (meta && strlen(meta) > 1 << 24)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    kvt_err err;
    tensors *t;
    set_path();
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
    kvt_code code = tensors_open(&t, path, &err);
    if (code == KVT_OK) {
        look(t);
        tensors_close(t);
    } else if (code != KVT_FORMAT && code != KVT_NOMEM) {
        fprintf(stderr, "%s: %s\n", kvt_code_name(code), err.text);
        abort();
    }
    unlink(path);
    return 0;
}
