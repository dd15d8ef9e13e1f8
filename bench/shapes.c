/* shapes.c - sizes of known models, from their own configurations. */
#include "bench/shapes.h"

#include <stddef.h>
#include <string.h>

#include "tests/model_make.h"

static const struct shape {
    const char *name, *arch;
    int heads, kv_heads, dim, hidden, ff, window;
} shapes[] = {
    {"smollm2-135m", "llama", 9, 3, 64, 576, 1536, 0},
    {"smollm2-360m", "llama", 15, 5, 64, 960, 2560, 0},
    {"llama-3.2-1b", "llama", 32, 8, 64, 2048, 8192, 0},
    {"qwen2.5-0.5b", "qwen2", 14, 2, 64, 896, 4864, 0},
    {"qwen3-0.6b", "qwen3", 16, 8, 128, 1024, 3072, 0},
    {"gemma3-270m", "gemma3", 4, 1, 256, 640, 2048, 512},
    {"gemma3-1b", "gemma3", 4, 1, 256, 1152, 6912, 512},
};

enum { N_SHAPE = sizeof shapes / sizeof shapes[0] };

const char *shape_name(int i)
{
    return i < N_SHAPE ? shapes[i].name : NULL;
}

bool shape_write(const char *path, const char *name, int n_layer, int type)
{
    for (int i = 0; i < N_SHAPE; i++) {
        const struct shape *s = &shapes[i];
        if (strcmp(s->name, name) != 0)
            continue;
        model_make_options o = model_make_of(s->arch);
        o.n_layer = n_layer ? n_layer : s->window ? 6 : 2;
        o.n_head = s->heads;
        o.n_kv_head = s->kv_heads;
        o.head_dim = s->dim;
        o.n_hidden = s->hidden;
        o.n_ff = s->ff;
        o.window = s->window;
        o.tied = true;
        o.type = type;
        o.spread = 0.02f;
        o.rope_scaling = NULL;
        return model_make_gguf(path, &o);
    }
    return false;
}
