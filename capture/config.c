/* config.c - sizes, heads and windows from config.json, and which architecture it is.
 *
 * What holds where a field is missing is what transformers does. For Gemma 3 that is a whole
 * model's sizes: its folders leave out what equals them. The other architectures name their
 * sizes always, and a folder that does not is refused. */
#include "capture/config_priv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "capture/keys.h"

/* ---- fields --------------------------------------------------------------------------------
 */

const json_t *config_member(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_null(v) ? NULL : v;
}

kvt_code config_whole(int64_t *out, const json_t *o, const char *key, int64_t def,
                      int64_t least, int64_t most, kvt_err *err)
{
    const json_t *v = config_member(o, key);
    if (!v && def < 0)
        return kvt_fail(err, KVT_FORMAT, "key '%s' is missing", key);
    *out = def;
    if (!v)
        return KVT_OK;
    double x = json_number_value(v); /* 0 where it is no number */
    if (!json_is_number(v) || x != floor(x))
        return kvt_fail(err, KVT_FORMAT, "key '%s': expected a whole number", key);
    if (x < (double)least || x > (double)most)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': expected %" PRId64 " to %" PRId64 ", got %.0f", key, least,
                        most, x);
    *out = (int64_t)x;
    return KVT_OK;
}

kvt_code config_positive(double *out, const json_t *o, const char *key, double def,
                         kvt_err *err)
{
    const json_t *v = config_member(o, key);
    if (!v && isnan(def))
        return kvt_fail(err, KVT_FORMAT, "key '%s' is missing", key);
    *out = def;
    if (!v)
        return KVT_OK;
    *out = json_number_value(v);
    if (!json_is_number(v) || !isfinite(*out) || *out <= 0)
        return kvt_fail(err, KVT_FORMAT, "key '%s': expected a number above 0", key);
    return KVT_OK;
}

kvt_code config_flag(bool *out, const json_t *o, const char *key, bool def, kvt_err *err)
{
    const json_t *v = config_member(o, key);
    *out = def;
    if (!v)
        return KVT_OK;
    if (!json_is_boolean(v))
        return kvt_fail(err, KVT_FORMAT, "key '%s': expected true or false", key);
    *out = json_is_true(v);
    return KVT_OK;
}

kvt_code config_word(const char **out, const json_t *o, const char *key, kvt_err *err)
{
    const json_t *v = config_member(o, key);
    *out = NULL;
    if (v && !json_is_string(v))
        return kvt_fail(err, KVT_FORMAT, "key '%s': expected a text", key);
    *out = json_string_value(v);
    return KVT_OK;
}

/* ---- which model ---------------------------------------------------------------------------
 */

/* model_type and the row of arch.c; models of other makers that are one of these. */
static const struct {
    const char *type, *arch;
} types[] = {{"llama", "llama"}, {"mistral", "llama"},      {"qwen2", "qwen2"},
             {"qwen3", "qwen3"}, {"gemma3_text", "gemma3"}, {"gemma3", "gemma3"}};

static kvt_code which(const arch **out, const char *type, kvt_err *err)
{
    enum { N = sizeof types / sizeof types[0] };
    char shown[64], known[128] = "";
    for (int i = 0; i < N; i++) {
        if (strcmp(types[i].type, type) == 0) {
            *out = arch_find(types[i].arch, strlen(types[i].arch));
            return KVT_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", types[i].type);
    }
    text_safe_cut(shown, sizeof shown, (const uint8_t *)type, strlen(type), 40, true);
    if (strstr(type, "moe") || strcmp(type, "mixtral") == 0)
        return kvt_fail(err, KVT_FORMAT,
                        "architecture %s is not supported (mixture of experts); supported: %s",
                        shown, known);
    return kvt_fail(err, KVT_FORMAT, "architecture %s is not supported; supported: %s", shown,
                    known);
}

/* ---- sizes ---------------------------------------------------------------------------------
 */

/* Of Gemma 3, where its config.json leaves a size out; -1: it is never left out. */
static const struct size {
    key_id key;
    size_t at; /* in the geometry */
    int64_t most, gemma3;
} sizes[] = {
    {KEY_N_LAYER, offsetof(kvt_geometry, n_layer), KVT_LAYERS_MAX, 26},
    {KEY_N_HIDDEN, offsetof(kvt_geometry, n_hidden), ARCH_WIDTH_MAX, 2304},
    {KEY_N_FF, offsetof(kvt_geometry, n_ff), ARCH_WIDTH_MAX, 9216},
    {KEY_N_HEAD, offsetof(kvt_geometry, n_head), ARCH_WIDTH_MAX, 8},
    {KEY_N_CONTEXT, offsetof(kvt_geometry, n_context), INT32_MAX, 131072},
};

enum { GEMMA_KV_HEADS = 4, GEMMA_HEAD_DIM = 256, GEMMA_VOCAB = 262208, QUERY_SCALAR = 256 };
enum { QWEN3_HEAD_DIM = 128 };

static kvt_code heads(kvt_geometry *g, const arch *a, const json_t *o, kvt_err *err)
{
    const char *kv_key = key_name_hf(KEY_N_KV_HEAD), *dim_key = key_name_hf(KEY_KEY_LENGTH);
    bool gemma = a->post_norm, from_width = !a->qk_norm;
    int64_t dim = gemma        ? GEMMA_HEAD_DIM
                  : from_width ? g->n_hidden / g->n_head
                               : QWEN3_HEAD_DIM;
    if (config_whole(&g->n_kv_head, o, kv_key, gemma ? GEMMA_KV_HEADS : g->n_head, 1,
                     ARCH_WIDTH_MAX, err) ||
        config_whole(&g->head_dim, o, dim_key, dim, 1, ARCH_WIDTH_MAX, err))
        return err->code;
    if (!config_member(o, dim_key) && from_width && g->n_hidden % g->n_head != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': is missing, and width %" PRId64 " is no multiple of %" PRId64
                        " heads",
                        dim_key, g->n_hidden, g->n_head);
    double scalar = (double)g->head_dim;
    if (gemma && config_positive(&scalar, o, "query_pre_attn_scalar", QUERY_SCALAR, err))
        return err->code;
    g->attn_scale = 1 / sqrt(scalar);
    return arch_check_heads(g, kv_key, dim_key, err);
}

/* ---- windows -------------------------------------------------------------------------------
 */

/* Layer l is windowed by layer_types where that is given. */
static kvt_code by_types(bool *windowed, const kvt_geometry *g, const json_t *list,
                         kvt_err *err)
{
    if (!json_is_array(list) || json_array_size(list) != (size_t)g->n_layer)
        return kvt_fail(err, KVT_FORMAT,
                        "key 'layer_types': expected an array of %" PRId64 " texts",
                        g->n_layer);
    for (int64_t l = 0; l < g->n_layer; l++) {
        const char *type = json_string_value(json_array_get(list, (size_t)l));
        char shown[48];
        windowed[l] = type && strcmp(type, "sliding_attention") == 0;
        if (windowed[l] || (type && strcmp(type, "full_attention") == 0))
            continue;
        if (!type)
            type = "no text";
        text_safe_cut(shown, sizeof shown, (const uint8_t *)type, strlen(type), 32, true);
        return kvt_fail(err, KVT_FORMAT,
                        "key 'layer_types': layer %" PRId64
                        ": %s is not supported; supported: full_attention, sliding_attention",
                        l, shown);
    }
    return KVT_OK;
}

/* Without layer_types: mistral all layers, Gemma all but each 6th, qwen from max_window_layers
 * on. */
static kvt_code by_rule(bool *windowed, const kvt_geometry *g, const arch *a, const json_t *o,
                        kvt_err *err)
{
    int64_t from = 0, every = a->global_every;
    if (a->global_every > 0) {
        if (config_whole(&every, o, key_name_hf(KEY_WINDOW_EVERY), every, 1, KVT_LAYERS_MAX,
                         err))
            return err->code;
    } else if (!a->window_all &&
               config_whole(&from, o, "max_window_layers", 28, 0, INT32_MAX, err)) {
        return err->code;
    }
    for (int64_t l = 0; l < g->n_layer; l++)
        windowed[l] = every > 0 ? l % every != every - 1 : l >= from;
    return KVT_OK;
}

static kvt_code windows(kvt_geometry *g, const arch *a, const char *type, const json_t *o,
                        kvt_err *err)
{
    enum { WINDOW = 4096 }; /* what transformers has where the field is missing */
    bool windowed[KVT_LAYERS_MAX] = {false}, used = a->global_every > 0;
    const char *key = key_name_hf(KEY_WINDOW);
    const json_t *list = config_member(o, "layer_types");
    int64_t window = 0;
    if (strcmp(type, "mistral") == 0)
        used = true;
    else if (!used && !a->window_all && config_flag(&used, o, "use_sliding_window", false, err))
        return err->code;
    if (used && !json_is_null(json_object_get(o, key)) &&
        config_whole(&window, o, key, WINDOW, 1, INT32_MAX, err))
        return err->code;
    if (list ? by_types(windowed, g, list, err) : by_rule(windowed, g, a, o, err))
        return err->code;
    for (int64_t l = 0; l < g->n_layer; l++) {
        if (windowed[l] && window == 0 && list)
            return kvt_fail(err, KVT_FORMAT,
                            "key 'layer_types': layer %" PRId64
                            " is sliding_attention, and no '%s' holds",
                            l, key);
        g->window[l] = windowed[l] ? (int32_t)window : 0;
    }
    return KVT_OK;
}

/* ---- all of it -----------------------------------------------------------------------------
 */

static kvt_code fill(kvt_geometry *g, const arch *a, const char *type, const json_t *top,
                     const json_t *o, kvt_err *err)
{
    bool gemma = a->post_norm, tied = gemma;
    snprintf(g->arch, sizeof g->arch, "%s", a->name);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t x = 0;
        if (config_whole(&x, o, key_name_hf(sizes[i].key), gemma ? sizes[i].gemma3 : -1, 1,
                         sizes[i].most, err))
            return err->code;
        memcpy((char *)g + sizes[i].at, &x, sizeof x);
    }
    if (config_whole(&g->n_vocab, o, "vocab_size", gemma ? GEMMA_VOCAB : -1, 1, INT32_MAX,
                     err) ||
        config_positive(&g->norm_eps, o, key_name_hf(KEY_NORM_EPS), 1e-6, err) ||
        config_flag(&tied, top, "tie_word_embeddings", tied, err) ||
        config_flag(&tied, o, "tie_word_embeddings", tied, err) || heads(g, a, o, err) ||
        windows(g, a, type, o, err) || config_rope(g, a, o, err))
        return err->code;
    g->norm_eps = (double)(float)g->norm_eps; /* as a GGUF holds it and as it is added */
    g->tied = tied;
    g->embed_scale = a->embed_scaled ? sqrt((double)g->n_hidden) : 1;
    return KVT_OK;
}

static kvt_code parse(config_model *out, const json_t *top, kvt_err *err)
{
    const char *type = NULL;
    if (!json_is_object(top))
        return kvt_fail(err, KVT_FORMAT, "expected an object");
    const json_t *text = config_member(top, "text_config");
    if (text && !json_is_object(text))
        return kvt_fail(err, KVT_FORMAT, "key 'text_config': expected an object");
    if (config_word(&type, top, "model_type", err))
        return err->code;
    if (!type)
        return kvt_fail(err, KVT_FORMAT, "key 'model_type' is missing");
    if (which(&out->arch, type, err) ||
        config_refuse(out->arch, type, top, text ? text : top, err))
        return err->code;
    if (text && !out->arch->post_norm)
        return kvt_fail(err, KVT_FORMAT,
                        "key 'text_config' is not supported in architecture %s", type);
    out->nested = text != NULL;
    return fill(&out->geometry, out->arch, type, top, text ? text : top, err);
}

kvt_code config_parse(config_model *out, const char *bytes, size_t n, kvt_err *err)
{
    json_t *top = NULL;
    memset(out, 0, sizeof *out);
    if (json_read(&top, bytes, n, err))
        return err->code;
    kvt_code code = parse(out, top, err);
    json_decref(top);
    return code;
}

kvt_code config_read(config_model *out, const char *path, kvt_err *err)
{
    json_t *top = NULL;
    memset(out, 0, sizeof *out);
    if (json_read_file(&top, path, err))
        return err->code;
    kvt_code code = parse(out, top, err);
    json_decref(top);
    return code ? kvt_within(err, "'%s'", path) : KVT_OK;
}
