/* fuzz_gguf.c - any bytes as a GGUF file: refused, or everything that it says can be read, and
 * its weights loaded where it is a whole model. */
#include <string.h>

#include "capture/gguf.h"
#include "capture/weights.h"
#include "compute/quant.h"
#include "kvt/arena.h"
#include "tests/fuzz/fuzz.h"
#include "tests/model_load.h"

enum { MOST = 1 << 22 }; /* weights that are decoded, and bytes of a model that is loaded */

/* Keeps a value from being optimised away. */
static volatile double seen;

static void read_keys(const gguf *g)
{
    char name[256];
    kvt_err err;
    for (int64_t i = 0; i < gguf_n_key(g); i++) {
        gguf_type type;
        gguf_text key = gguf_key_at(g, i, &type), text;
        gguf_array a;
        int64_t n;
        double x;
        bool b;
        if (key.n >= sizeof name || memchr(key.s, 0, key.n))
            continue;
        memcpy(name, key.s, key.n);
        name[key.n] = 0;
        if (gguf_get_int(g, name, &n, &err) == KVT_OK)
            seen += (double)n;
        if (gguf_get_real(g, name, &x, &err) == KVT_OK)
            seen += x;
        if (gguf_get_bool(g, name, &b, &err) == KVT_OK)
            seen += b;
        if (gguf_get_text(g, name, &text, &err) == KVT_OK)
            seen += text.n > 0 ? text.s[text.n - 1] : 0;
        if (gguf_get_texts(g, name, &a, &err) == KVT_OK)
            for (int64_t j = 0; j < a.n; j++)
                seen += a.text[j].n > 0 ? a.text[j].s[a.text[j].n - 1] : 0;
        if (gguf_get_reals(g, name, &a, &err) == KVT_OK)
            for (int64_t j = 0; j < a.n; j++)
                seen += gguf_real_at(&a, j);
    }
}

static void read_tensors(const gguf *g)
{
    for (int64_t i = 0; i < gguf_n_tensor(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        if (gguf_find(g, t->name) != t)
            __builtin_trap();
        if (t->n_weight > MOST)
            continue;
        float *x = kvt_alloc(t->n_weight, sizeof *x);
        if (x)
            quant_decode(x, t->type, t->data, t->n_weight);
        kvt_free(x);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kvt_err err;
    gguf *g;
    kvt_weights *w;
    const kvt_ctx ctx = {.n_thread = 1};
    if (gguf_read(&g, data, n, &err))
        return strlen(err.text) > 0 ? 0 : 1;
    read_keys(g);
    read_tensors(g);
    for (int f32 = 0; f32 < 2; f32++) {
        kvt_weights_options how = {.header_only = true, .f32 = f32};
        if (load_gguf(&w, g, &how, &ctx, &err))
            break;
        int64_t bytes = w->bytes;
        kvt_weights_free(w);
        how.header_only = false;
        if (bytes <= MOST && load_gguf(&w, g, &how, &ctx, &err) == KVT_OK) {
            char digest_text[DIGEST_TEXT];
            if (kvt_weights_digest(w, digest_text, &ctx, &err))
                __builtin_trap();
            kvt_weights_free(w);
        }
    }
    gguf_close(g);
    return 0;
}
