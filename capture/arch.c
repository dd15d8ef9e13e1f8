/* arch.c - the architectures, and a model's geometry from the keys of its file.
 *
 * What is read and what holds without a key stands beside each line; keys.h has the names. What
 * this build would compute wrongly (experts, soft caps, partial rotation, sizes that differ
 * from layer to layer) is refused by its key, never left out. */
#include "capture/arch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "capture/keys.h"
#include "compute/quant.h"

/* Name and vectors, as kvt/geometry.h lists them. */
#define ARCH(id)                                                     \
    .name = #id, .qkv_bias = (KVT_VECTORS_##id & KVT_QKV_BIAS) != 0, \
    .qk_norm = (KVT_VECTORS_##id & KVT_QK_NORM) != 0,                \
    .post_norm = (KVT_VECTORS_##id & KVT_POST_NORM) != 0

static const arch archs[] = {
    {ARCH(llama), .is_permuted = true, .window_all = true},
    {ARCH(qwen2)},
    {ARCH(qwen3)},
    {ARCH(gemma3), .gelu = true, .embed_scaled = true, .global_every = 6, .theta_local = 10000},
};

enum { N_ARCH = sizeof archs / sizeof archs[0], LAYERS_27B = 62 };

const arch *arch_find(const char *name, size_t n_byte)
{
    for (int i = 0; i < N_ARCH; i++)
        if (gguf_text_is((gguf_text){name, n_byte}, archs[i].name))
            return &archs[i];
    return NULL;
}

kvt_code arch_of(const arch **out, const gguf *g, kvt_err *err)
{
    char supported[128] = "", shown[80];
    gguf_text name = {NULL, 0};
    if (gguf_get_text(g, "general.architecture", &name, err))
        return err->code == KVT_NOTFOUND
                   ? kvt_fail(err, KVT_FORMAT, "key 'general.architecture' is missing")
                   : err->code;
    *out = arch_find(name.s, name.n);
    if (*out)
        return KVT_OK;
    for (int i = 0; i < N_ARCH; i++) {
        size_t used = strlen(supported);
        snprintf(supported + used, sizeof supported - used, "%s%s", used ? ", " : "",
                 archs[i].name);
    }
    text_safe_cut(shown, sizeof shown, (const uint8_t *)name.s, name.n, 40, true);
    return kvt_fail(err, KVT_FORMAT, "architecture %s is not supported; supported: %s", shown,
                    supported);
}

static kvt_code check(const gguf *g, kvt_err *err)
{
    const arch *a;
    return arch_of(&a, g, err);
}

kvt_code arch_open(gguf **out, const char *path, kvt_err *err)
{
    return gguf_open_checked(out, path, check, err);
}

/* An integer of [least, most]; with def >= 0 the key may be missing. An array must hold one
 * value for all layers. */
static kvt_code whole(int64_t *out, const gguf *g, const arch *a, key_id id, int64_t def,
                      int64_t least, int64_t most, kvt_err *err)
{
    char key[KEY_TEXT];
    gguf_array each;
    key_name(key, a, id);
    if (!gguf_has(g, key) && def >= 0) {
        *out = def;
        return KVT_OK;
    }
    if (gguf_get_ints(g, key, &each, err) == KVT_OK) {
        if (each.n == 0)
            return kvt_fail(err, KVT_FORMAT, "key '%s': an empty array", key);
        *out = gguf_int_at(&each, 0);
        for (int64_t i = 1; i < each.n; i++)
            if (gguf_int_at(&each, i) != *out)
                return kvt_fail(
                    err, KVT_FORMAT,
                    "key '%s': layers of different sizes are not supported (%" PRId64
                    " in layer 0, %" PRId64 " in layer %" PRId64 ")",
                    key, *out, gguf_int_at(&each, i), i);
    } else if (gguf_get_int(g, key, out, err)) {
        return err->code == KVT_NOTFOUND ? kvt_fail(err, KVT_FORMAT, "key '%s' is missing", key)
                                         : err->code;
    }
    if (*out < least || *out > most)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': expected %" PRId64 " to %" PRId64 ", got %" PRId64, key,
                        least, most, *out);
    return KVT_OK;
}

/* A finite number above 0; NAN as `def`: the key must be there. */
static kvt_code positive(double *out, const gguf *g, const arch *a, key_id id, double def,
                         kvt_err *err)
{
    char key[KEY_TEXT];
    key_name(key, a, id);
    if (!gguf_has(g, key) && !isnan(def)) {
        *out = def;
        return KVT_OK;
    }
    if (gguf_get_real(g, key, out, err))
        return err->code == KVT_NOTFOUND ? kvt_fail(err, KVT_FORMAT, "key '%s' is missing", key)
                                         : err->code;
    if (!isfinite(*out) || *out <= 0)
        return kvt_fail(err, KVT_FORMAT, "key '%s': expected a number above 0, got %g", key,
                        *out);
    return KVT_OK;
}

/* Keys that ask for something that is not computed here. */
static kvt_code refuse(const gguf *g, const arch *a, kvt_err *err)
{
    static const struct {
        key_id id;
        const char *what;
    } not_yet[] = {{KEY_N_EXPERT, "mixture of experts"},
                   {KEY_SOFTCAP_ATTN, "a soft cap of attention"},
                   {KEY_SOFTCAP_FINAL, "a soft cap of logits"}};
    char key[KEY_TEXT];
    for (size_t i = 0; i < sizeof not_yet / sizeof not_yet[0]; i++) {
        double value = 0;
        key_name(key, a, not_yet[i].id);
        if (gguf_has(g, key) && gguf_get_real(g, key, &value, err))
            return err->code;
        if (value != 0)
            return kvt_fail(err, KVT_FORMAT, "%s is not supported (key '%s' is %g)",
                            not_yet[i].what, key, value);
    }
    return KVT_OK;
}

kvt_code arch_check_heads(const kvt_geometry *o, const char *kv_key, const char *dim_key,
                          kvt_err *err)
{
    if (o->n_head % o->n_kv_head != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': %" PRId64 " query heads are no multiple of %" PRId64
                        " kv heads",
                        kv_key, o->n_head, o->n_kv_head);
    if (o->head_dim < 2 || o->head_dim > KVT_HEAD_DIM_MAX || o->head_dim % 2 != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': expected an even head size of 2 to %d, got %" PRId64,
                        dim_key, (int)KVT_HEAD_DIM_MAX, o->head_dim);
    if (o->n_head > ARCH_WIDTH_MAX / o->head_dim)
        return kvt_fail(err, KVT_FORMAT,
                        "%" PRId64 " heads of %" PRId64 " channels are too wide", o->n_head,
                        o->head_dim);
    return KVT_OK;
}

/* Sizes that may be an array: then it has one value a layer. */
static kvt_code each_layer(const kvt_geometry *o, const arch *a, const gguf *g, kvt_err *err)
{
    static const key_id ids[] = {KEY_N_HEAD, KEY_N_KV_HEAD, KEY_N_FF};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        char key[KEY_TEXT];
        gguf_array each;
        kvt_err none;
        if (gguf_get_ints(g, key_name(key, a, ids[i]), &each, &none) == KVT_OK &&
            each.n != o->n_layer)
            return kvt_fail(err, KVT_FORMAT,
                            "key '%s': expected %" PRId64 " values, one a layer, got %" PRId64,
                            key, o->n_layer, each.n);
    }
    return KVT_OK;
}

static kvt_code heads(kvt_geometry *o, const arch *a, const gguf *g, kvt_err *err)
{
    char key[KEY_TEXT];
    int64_t value_length = 0, rotated = 0;
    if (each_layer(o, a, g, err))
        return err->code;
    if (whole(&o->n_head, g, a, KEY_N_HEAD, -1, 1, ARCH_WIDTH_MAX, err) ||
        whole(&o->n_kv_head, g, a, KEY_N_KV_HEAD, o->n_head, 1, ARCH_WIDTH_MAX, err) ||
        whole(&o->head_dim, g, a, KEY_KEY_LENGTH, o->n_hidden / o->n_head, 0, ARCH_WIDTH_MAX,
              err) ||
        whole(&value_length, g, a, KEY_VALUE_LENGTH, o->head_dim, 0, ARCH_WIDTH_MAX, err) ||
        whole(&rotated, g, a, KEY_ROPE_DIM, o->head_dim, 0, ARCH_WIDTH_MAX, err))
        return err->code;
    if (!gguf_has(g, key_name(key, a, KEY_KEY_LENGTH)) && o->n_hidden % o->n_head != 0)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': is missing, and width %" PRId64 " is no multiple of %" PRId64
                        " heads",
                        key, o->n_hidden, o->n_head);
    char kv_key[KEY_TEXT];
    if (arch_check_heads(o, key_name(kv_key, a, KEY_N_KV_HEAD),
                         key_name(key, a, KEY_KEY_LENGTH), err))
        return err->code;
    if (value_length != o->head_dim)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': expected the head size %" PRId64
                        " of the keys, got %" PRId64,
                        key_name(key, a, KEY_VALUE_LENGTH), o->head_dim, value_length);
    if (rotated != o->head_dim)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': a rotation of %" PRId64 " of %" PRId64
                        " channels is not supported",
                        key_name(key, a, KEY_ROPE_DIM), rotated, o->head_dim);
    o->attn_scale = 1 / sqrt((double)o->head_dim);
    if (a->post_norm &&
        o->n_layer == LAYERS_27B) /* gemma3 27B: query_pre_attn_scalar is no key */
        o->attn_scale = 1 / sqrt((double)o->n_hidden / (double)o->n_head);
    return KVT_OK;
}

/* Layers that see everything, by a number or a flag a layer; else as the architecture has it.
 */
static kvt_code pattern(kvt_geometry *o, const arch *a, const gguf *g, int32_t window,
                        kvt_err *err)
{
    char key[KEY_TEXT];
    gguf_array each;
    int64_t every = a->global_every;
    key_name(key, a, KEY_WINDOW_EVERY);
    bool flags = gguf_get_array(g, key, &each, err) == KVT_OK && each.type == GGUF_BOOL;
    if (flags && each.n != o->n_layer)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': expected %" PRId64 " flags, one a layer, got %" PRId64, key,
                        o->n_layer, each.n);
    if (!flags && whole(&every, g, a, KEY_WINDOW_EVERY, every, 1, KVT_LAYERS_MAX, err))
        return err->code;
    for (int64_t l = 0; l < o->n_layer; l++)
        if (flags ? gguf_int_at(&each, l) != 0 : l % every != every - 1)
            o->window[l] = window;
    return KVT_OK;
}

static kvt_code windows(kvt_geometry *o, const arch *a, const gguf *g, kvt_err *err)
{
    char key[KEY_TEXT];
    int64_t window = 0;
    if (whole(&window, g, a, KEY_WINDOW, 0, 0, INT32_MAX, err))
        return err->code;
    if (window > 0 && a->global_every == 0 && !a->window_all)
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': a sliding window (%" PRId64 ") of architecture %s is not "
                        "supported",
                        key_name(key, a, KEY_WINDOW), window, a->name);
    for (int64_t l = 0; l < o->n_layer && a->global_every == 0; l++)
        o->window[l] = (int32_t)window;
    if (window == 0 || a->global_every == 0)
        return KVT_OK;
    if (pattern(o, a, g, (int32_t)window, err) ||
        positive(&o->rope_theta_local, g, a, KEY_THETA_LOCAL, a->theta_local, err))
        return err->code;
    return KVT_OK;
}

void arch_rope_freq(double *freq, const arch_rope *r, int64_t head_dim)
{
    double d = (double)head_dim, lo = 0, hi = 0;
    bool yarn = strcmp(r->type, "yarn") == 0;
    if (yarn) {
        double pi = acos(-1), base = 2 * log(r->theta);
        lo = d * log(r->original / (2 * pi * r->beta_fast)) / base;
        hi = d * log(r->original / (2 * pi * r->beta_slow)) / base;
        lo = fmax(0, r->unrounded ? lo : floor(lo));
        hi = fmin(d - 1, r->unrounded ? hi : ceil(hi));
    }
    for (int64_t i = 0; i < head_dim / 2; i++) {
        double f = pow(r->theta, -2 * (double)i / d);
        if (r->divisor) {
            f /= (double)r->divisor[i];
        } else if (yarn) {
            double ramp = ((double)i - lo) / fmax(0.001, hi - lo);
            double keep = 1 - fmin(1, fmax(0, ramp));
            f = f / r->factor * (1 - keep) + f * keep;
        } else {
            f /= r->factor;
        }
        freq[i] = f;
    }
}

void arch_rope_llama3(float *divisor, const arch_rope *r, double low, double high,
                      int64_t head_dim)
{
    double pi = acos(-1);
    for (int64_t i = 0; i < head_dim / 2; i++) {
        double wave = 2 * pi * pow(r->theta, 2 * (double)i / (double)head_dim);
        double s = (r->original / wave - low) / (high - low);
        if (wave < r->original / high)
            divisor[i] = 1;
        else if (wave > r->original / low)
            divisor[i] = (float)r->factor;
        else
            divisor[i] = (float)(1 / ((1 - s) / r->factor + s));
    }
}

double arch_yarn_scale(double factor, double scale)
{
    return factor > 1 ? 1 + 0.1 * scale * log(factor) : 1;
}

/* The divisors of rope_freqs.weight, if the file has them; the largest is the factor. */
static kvt_code divisors(arch_rope *r, float *divisor, int64_t head_dim, const gguf *g,
                         kvt_err *err)
{
    char name[KEY_TEXT];
    const gguf_tensor *t = gguf_find(g, key_tensor(name, TENSOR_ROPE_FREQS, 0));
    if (!t)
        return KVT_OK;
    if (strcmp(r->type, "none") != 0)
        return kvt_fail(
            err, KVT_FORMAT,
            "tensor '%s': divisors together with rotary scaling %s are not supported", name,
            r->type);
    if (t->type != QUANT_F32 || t->n_weight != head_dim / 2 || t->n_dim > 1)
        return kvt_fail(err, KVT_FORMAT,
                        "tensor '%s': expected f32 [%" PRId64 "], got %" PRId64
                        " weights of type %d",
                        name, head_dim / 2, t->n_weight, t->type);
    memcpy(divisor, t->data, (size_t)t->n_byte);
    for (int64_t i = 0; i < head_dim / 2; i++) {
        if (!isfinite(divisor[i]) || divisor[i] <= 0)
            return kvt_fail(err, KVT_FORMAT,
                            "tensor '%s': expected divisors above 0, got %g at %" PRId64, name,
                            (double)divisor[i], i);
        r->factor = fmax(r->factor, (double)divisor[i]);
    }
    r->type = "llama3";
    r->divisor = divisor;
    return KVT_OK;
}

static kvt_code scaling(arch_rope *r, const gguf *g, const arch *a, kvt_err *err)
{
    char key[KEY_TEXT], shown[48];
    gguf_text type = {"linear", 6}; /* what holds without the key */
    key_name(key, a, KEY_ROPE_TYPE);
    if (gguf_has(g, key) && gguf_get_text(g, key, &type, err))
        return err->code;
    bool yarn = gguf_text_is(type, "yarn");
    if (!yarn && !gguf_text_is(type, "linear") && !gguf_text_is(type, "none")) {
        text_safe_cut(shown, sizeof shown, (const uint8_t *)type.s, type.n, 32, true);
        return kvt_fail(
            err, KVT_FORMAT,
            "key '%s': rotary scaling '%s' is not supported; supported: none, linear, "
            "yarn",
            key, shown);
    }
    if (positive(&r->factor, g, a, KEY_ROPE_LINEAR, 1, err) ||
        positive(&r->factor, g, a, KEY_ROPE_FACTOR, r->factor, err) ||
        positive(&r->beta_fast, g, a, KEY_ROPE_FAST, 32, err) ||
        positive(&r->beta_slow, g, a, KEY_ROPE_SLOW, 1, err))
        return err->code;
    if (gguf_text_is(type, "none"))
        r->factor = 1;
    r->type = yarn ? "yarn" : r->factor != 1 ? "linear" : "none";
    return KVT_OK;
}

static kvt_code rope(kvt_geometry *o, const arch *a, const gguf *g, kvt_err *err)
{
    char key[KEY_TEXT];
    float divisor[KVT_HEAD_DIM_MAX / 2];
    arch_rope r = {.type = "none", .factor = 1};
    o->rope_attn_factor = 1;
    if (positive(&o->rope_theta, g, a, KEY_ROPE_THETA, 10000, err) || scaling(&r, g, a, err) ||
        whole(&o->rope_original, g, a, KEY_ROPE_ORIGINAL, 0, 0, INT32_MAX, err))
        return err->code;
    bool yarn = strcmp(r.type, "yarn") == 0;
    if (yarn && o->rope_original == 0)
        return kvt_fail(err, KVT_FORMAT, "key '%s' is missing: yarn needs it",
                        key_name(key, a, KEY_ROPE_ORIGINAL));
    if (positive(&o->rope_attn_factor, g, a, KEY_ROPE_ATTN, 1, err))
        return err->code;
    if (yarn) /* the file's factor comes on top of yarn's own, as GGUF's reference reader has it
               */
        o->rope_attn_factor *= arch_yarn_scale(r.factor, 1);
    if (divisors(&r, divisor, o->head_dim, g, err))
        return err->code;
    r.theta = o->rope_theta;
    r.original = (double)o->rope_original;
    arch_rope_freq(o->rope_freq, &r, o->head_dim);
    snprintf(o->rope_type, sizeof o->rope_type, "%s", r.type);
    snprintf(o->rope_layout, sizeof o->rope_layout, "half");
    o->rope_factor = r.factor;
    return KVT_OK;
}

static kvt_code vocabulary(kvt_geometry *o, const gguf *g, kvt_err *err)
{
    char name[KEY_TEXT];
    const gguf_tensor *t = gguf_find(g, key_tensor(name, TENSOR_EMBED, 0));
    if (!t)
        return kvt_fail(err, KVT_FORMAT, "tensor '%s' is missing", name);
    if (t->n_dim != 2 || t->dim[0] != o->n_hidden || t->dim[1] > INT32_MAX)
        return kvt_fail(err, KVT_FORMAT,
                        "tensor '%s': expected [V %" PRId64 "], got [%" PRId64 " %" PRId64
                        "] of %d dimensions",
                        name, o->n_hidden, t->dim[1], t->dim[0], t->n_dim);
    o->n_vocab = t->dim[1];
    o->tied = gguf_find(g, key_tensor(name, TENSOR_LM_HEAD, 0)) == NULL;
    return KVT_OK;
}

kvt_code arch_geometry(kvt_geometry *out, const arch *a, const gguf *g, kvt_err *err)
{
    gguf_text name = {"", 0};
    memset(out, 0, sizeof *out);
    if (gguf_has(g, "general.name") && gguf_get_text(g, "general.name", &name, err))
        return err->code;
    text_safe_cut(out->name, sizeof out->name, (const uint8_t *)name.s, name.n,
                  (int)sizeof out->name - 1, false);
    snprintf(out->arch, sizeof out->arch, "%s", a->name);
    if (refuse(g, a, err) ||
        whole(&out->n_layer, g, a, KEY_N_LAYER, -1, 1, KVT_LAYERS_MAX, err) ||
        whole(&out->n_context, g, a, KEY_N_CONTEXT, -1, 1, INT32_MAX, err) ||
        whole(&out->n_hidden, g, a, KEY_N_HIDDEN, -1, 1, ARCH_WIDTH_MAX, err) ||
        whole(&out->n_ff, g, a, KEY_N_FF, -1, 1, ARCH_WIDTH_MAX, err) ||
        positive(&out->norm_eps, g, a, KEY_NORM_EPS, (double)NAN, err) ||
        heads(out, a, g, err) || windows(out, a, g, err) || rope(out, a, g, err) ||
        vocabulary(out, g, err))
        return err->code;
    out->embed_scale = a->embed_scaled ? sqrt((double)out->n_hidden) : 1;
    return KVT_OK;
}
