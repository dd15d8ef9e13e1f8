/* keys.c - the tables of keys.h and how a full name is put together. */
#include "capture/keys.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *gguf, *hf;
} keys[] = {
#define X(id, gguf, hf) [KEY_##id] = {gguf, hf},
    KEYS(X)
#undef X
};

static const struct {
    bool layered;
    const char *gguf, *hf;
} tensors[] = {
#define X(id, layered, gguf, hf) [TENSOR_##id] = {layered, gguf, hf},
    TENSORS(X)
#undef X
};

const char *key_name(char out[KEY_TEXT], const arch *a, key_id id)
{
    snprintf(out, KEY_TEXT, "%s.%s", a->name, keys[id].gguf);
    return out;
}

const char *key_tensor(char out[KEY_TEXT], tensor_id id, int64_t layer)
{
    if (tensors[id].layered)
        snprintf(out, KEY_TEXT, "blk.%" PRId64 ".%s", layer, tensors[id].gguf);
    else
        snprintf(out, KEY_TEXT, "%s", tensors[id].gguf);
    return out;
}

const char *key_name_hf(key_id id)
{
    return keys[id].hf;
}

const char *key_tensor_hf(char out[KEY_TEXT], const arch *a, tensor_id id, int64_t layer)
{
    /* The norm in front of the feed-forward layer stands behind attention where that has none
     * of its own, and was named so; gemma3 has both. */
    const char *hf = id == TENSOR_FFN_NORM && a->post_norm ? "pre_feedforward_layernorm.weight"
                                                           : tensors[id].hf;
    if (tensors[id].layered)
        snprintf(out, KEY_TEXT, "model.layers.%" PRId64 ".%s", layer, hf);
    else
        snprintf(out, KEY_TEXT, "%s", tensors[id].hf);
    return out;
}
