/* fuzz_config.c - any bytes as config.json: a geometry whose every field is usable, or FORMAT.
 */
#include "tests/fuzz/fuzz.h"

#include "capture/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void look(const config_model *m)
{
    const kvt_geometry *g = &m->geometry;
    must(m->arch != NULL, "architecture");
    must(g->n_layer >= 1 && g->n_layer <= KVT_LAYERS_MAX, "layers");
    must(g->head_dim >= 2 && g->head_dim <= KVT_HEAD_DIM_MAX && g->head_dim % 2 == 0, "heads");
    must(g->n_kv_head >= 1 && g->n_head % g->n_kv_head == 0, "kv heads");
    must(g->n_hidden >= 1 && g->n_ff >= 1 && g->n_vocab >= 1 && g->n_context >= 1, "sizes");
    must(isfinite(g->attn_scale) && g->attn_scale > 0 && g->norm_eps >= 0, "scale");
    must(g->rope_attn_factor > 0 && isfinite(g->rope_attn_factor), "attention factor");
    for (int64_t l = 0; l < g->n_layer; l++)
        must(g->window[l] >= 0, "window");
    for (int64_t i = 0; i < g->head_dim / 2; i++)
        must(isfinite(g->rope_freq[i]) && g->rope_freq[i] >= 0, "frequency");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    kvt_err err;
    config_model m;
    kvt_code code = config_parse(&m, (const char *)bytes, n, &err);
    if (code == KVT_OK)
        look(&m);
    else
        must((code == KVT_FORMAT || code == KVT_NOMEM) && err.text[0] &&
                 !strchr(err.text, '\n'),
             err.text);
    return 0;
}
