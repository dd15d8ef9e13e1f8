/* config_rope.c - rotary embedding from config.json, in both dialects.
 *
 *   rope_theta, rope_scaling {rope_type or type, ...}         up to transformers 4
 *   rope_parameters {rope_type, rope_theta, ...}              transformers 5
 *   rope_parameters {full_attention: {...}, sliding_attention: {...}}      Gemma 3 there
 *
 * yarn takes `factor` as it stands (transformers 4.4x put max_position_embeddings / original in
 * its place); /model has what was used. */
#include "capture/config_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "capture/keys.h"

/* Where the fields of global layers stand, and those of layers with a window (or NULL). */
typedef struct dialect {
    const json_t *global, *local; /* with rope_type, factor, ... */
    const json_t *theta;          /* object with rope_theta */
} dialect;

static kvt_code find(dialect *d, const arch *a, const json_t *o, kvt_err *err)
{
    const json_t *old = config_member(o, "rope_scaling");
    const json_t *p = config_member(o, "rope_parameters");
    *d = (dialect){.global = old, .theta = o};
    if (old && !json_is_object(old))
        return kvt_fail(err, KVT_FORMAT, "key 'rope_scaling': expected an object");
    if (!p)
        return KVT_OK;
    if (!json_is_object(p))
        return kvt_fail(err, KVT_FORMAT, "key 'rope_parameters': expected an object");
    const json_t *full = config_member(p, "full_attention");
    const json_t *sliding = config_member(p, "sliding_attention");
    if ((full && !json_is_object(full)) || (sliding && !json_is_object(sliding)))
        return kvt_fail(err, KVT_FORMAT,
                        "key 'rope_parameters': expected an object for each kind of layer");
    if ((full || sliding) && a->global_every == 0)
        return kvt_fail(err, KVT_FORMAT,
                        "key 'rope_parameters': different rotations of full_attention and "
                        "sliding_attention are not supported in architecture %s",
                        a->name);
    if (full || sliding)
        *d = (dialect){.global = full, .local = sliding, .theta = full};
    else
        *d = (dialect){.global = p, .theta = p};
    return KVT_OK;
}

/* "default" where there is none. */
static kvt_code type_of(const char **out, const json_t *o, kvt_err *err)
{
    if (config_word(out, o, "rope_type", err))
        return err->code;
    if (!*out && config_word(out, o, "type", err))
        return err->code;
    if (!*out)
        *out = "default";
    return KVT_OK;
}

/* linear, llama3, yarn; none. */
static kvt_code known_type(const char **out, const json_t *o, kvt_err *err)
{
    static const char *const known[] = {"linear", "llama3", "yarn", NULL};
    char shown[48];
    const char *type;
    if (type_of(&type, o, err))
        return err->code;
    *out = "none";
    if (config_member(o, "mrope_section"))
        type = "mrope";
    if (strcmp(type, "default") == 0 || strcmp(type, "none") == 0)
        return KVT_OK;
    for (int i = 0; known[i]; i++)
        if (strcmp(type, known[i]) == 0) {
            *out = known[i];
            return KVT_OK;
        }
    text_safe_cut(shown, sizeof shown, (const uint8_t *)type, strlen(type), 32, true);
    return kvt_fail(
        err, KVT_FORMAT,
        "key 'rope_type': rotary scaling '%s' is not supported; supported: default, "
        "linear, llama3, yarn",
        shown);
}

/* The factor of cos and sin: attention_factor, or the ratio of mscale and mscale_all_dim, or
 * the default. */
static kvt_code yarn(kvt_geometry *g, arch_rope *r, const json_t *o, kvt_err *err)
{
    double given = 0, scale = 0, all = 0;
    bool truncate = true;
    const json_t *mscale = config_member(o, "mscale"), *m = config_member(o, "mscale_all_dim");
    if (config_positive(&r->beta_fast, o, "beta_fast", 32, err) ||
        config_positive(&r->beta_slow, o, "beta_slow", 1, err) ||
        config_flag(&truncate, o, "truncate", true, err) ||
        config_positive(&given, o, "attention_factor", 1, err))
        return err->code;
    r->unrounded = !truncate;
    scale = json_number_value(mscale);
    all = json_number_value(m);
    if (config_member(o, "attention_factor"))
        g->rope_attn_factor = given;
    else if (scale != 0 && all != 0)
        g->rope_attn_factor =
            arch_yarn_scale(r->factor, scale) / arch_yarn_scale(r->factor, all);
    else
        g->rope_attn_factor = arch_yarn_scale(r->factor, 1);
    if (!isfinite(g->rope_attn_factor) || g->rope_attn_factor <= 0)
        return kvt_fail(err, KVT_FORMAT, "keys 'mscale', 'mscale_all_dim': out of range");
    return KVT_OK;
}

static kvt_code llama3(float *divisor, arch_rope *r, int64_t head_dim, const json_t *o,
                       kvt_err *err)
{
    double low = 0, high = 0;
    if (config_positive(&low, o, "low_freq_factor", (double)NAN, err) ||
        config_positive(&high, o, "high_freq_factor", (double)NAN, err))
        return err->code;
    if (high <= low)
        return kvt_fail(err, KVT_FORMAT,
                        "key 'high_freq_factor': expected more than low_freq_factor %g, got %g",
                        low, high);
    arch_rope_llama3(divisor, r, low, high, head_dim);
    r->divisor = divisor;
    return KVT_OK;
}

/* Scaling and frequencies of layers that see everything. `top` has original where it is not
 * among the fields of the scaling, and wins there. */
static kvt_code global(kvt_geometry *g, const json_t *o, const json_t *top, kvt_err *err)
{
    static const char *const original = "original_max_position_embeddings";
    float divisor[KVT_HEAD_DIM_MAX / 2];
    arch_rope r = {.theta = g->rope_theta, .factor = 1};
    if (known_type(&r.type, o, err))
        return err->code;
    bool is_yarn = strcmp(r.type, "yarn") == 0, is_llama3 = strcmp(r.type, "llama3") == 0;
    if (strcmp(r.type, "none") != 0 &&
        config_positive(&r.factor, o, "factor", (double)NAN, err))
        return err->code;
    const json_t *at = config_member(top, original) ? top : o;
    if ((is_yarn || is_llama3) && config_whole(&g->rope_original, at, original,
                                               is_yarn ? g->n_context : -1, 1, INT32_MAX, err))
        return err->code;
    r.original = (double)g->rope_original;
    if ((is_yarn && yarn(g, &r, o, err)) ||
        (is_llama3 && llama3(divisor, &r, g->head_dim, o, err)))
        return err->code;
    if (strcmp(r.type, "linear") == 0 && r.factor == 1)
        r.type = "none";
    arch_rope_freq(g->rope_freq, &r, g->head_dim);
    snprintf(g->rope_type, sizeof g->rope_type, "%s", r.type);
    g->rope_factor = r.factor;
    return KVT_OK;
}

/* The base of layers with a window, where the architecture has one of its own. */
static kvt_code local(kvt_geometry *g, const arch *a, const dialect *d, const json_t *o,
                      kvt_err *err)
{
    const char *type = "none";
    bool windowed = false;
    if (a->theta_local == 0)
        return KVT_OK;
    if (config_positive(&g->rope_theta_local, o, key_name_hf(KEY_THETA_LOCAL), a->theta_local,
                        err) ||
        config_positive(&g->rope_theta_local, d->local, key_name_hf(KEY_ROPE_THETA),
                        g->rope_theta_local, err) ||
        known_type(&type, d->local, err))
        return err->code;
    if (strcmp(type, "none") != 0)
        return kvt_fail(
            err, KVT_FORMAT,
            "key 'rope_parameters': rotary scaling '%s' of sliding_attention is not "
            "supported",
            type);
    for (int64_t l = 0; l < g->n_layer; l++)
        windowed |= g->window[l] > 0;
    if (!windowed)
        g->rope_theta_local = 0;
    return KVT_OK;
}

kvt_code config_rope(kvt_geometry *g, const arch *a, const json_t *o, kvt_err *err)
{
    enum { GEMMA_THETA = 1000000, THETA = 10000 };
    dialect d;
    double theta = a->theta_local > 0 ? GEMMA_THETA : THETA;
    g->rope_attn_factor = 1;
    snprintf(g->rope_layout, sizeof g->rope_layout, "half");
    if (find(&d, a, o, err) ||
        config_positive(&theta, o, key_name_hf(KEY_ROPE_THETA), theta, err) ||
        config_positive(&g->rope_theta, d.theta, key_name_hf(KEY_ROPE_THETA), theta, err) ||
        global(g, d.global, o, err))
        return err->code;
    return local(g, a, &d, o, err);
}
