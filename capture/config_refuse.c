/* config_refuse.c - what a config.json may ask for that is not computed here. Each is refused
 * by its name before a tensor is looked for, so that nobody is told of missing tensors. */
#include "capture/config_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "capture/keys.h"

/* GPTQ, AWQ, bitsandbytes, FP8, compressed-tensors, ... */
static kvt_code quantised(const json_t *top, const json_t *text, kvt_err *err)
{
    static const char *const names[] = {"quantization_config", "compression_config"};
    for (int i = 0; i < 4; i++) {
        const json_t *q = config_member(i < 2 ? top : text, names[i % 2]);
        const char *method = json_string_value(json_object_get(q, "quant_method"));
        char shown[48];
        if (!q)
            continue;
        if (!method)
            method = "an unnamed method";
        text_safe_cut(shown, sizeof shown, (const uint8_t *)method, strlen(method), 32, true);
        return kvt_fail(err, KVT_FORMAT,
                        "key '%s': weights quantised by %s are not supported: take the model "
                        "they were made from, or a GGUF file",
                        names[i % 2], shown);
    }
    return KVT_OK;
}

/* Numbers that must be missing, null or 0. */
static kvt_code numbers(const json_t *o, kvt_err *err)
{
    const struct {
        const char *key, *what;
    } not_yet[] = {{key_name_hf(KEY_N_EXPERT), "mixture of experts"},
                   {"num_experts", "mixture of experts"},
                   {"n_routed_experts", "mixture of experts"},
                   {key_name_hf(KEY_SOFTCAP_ATTN), "a soft cap of attention"},
                   {key_name_hf(KEY_SOFTCAP_FINAL), "a soft cap of logits"}};
    for (size_t i = 0; i < sizeof not_yet / sizeof not_yet[0]; i++) {
        const json_t *v = config_member(o, not_yet[i].key);
        if (v && (!json_is_number(v) || json_number_value(v) != 0))
            return kvt_fail(err, KVT_FORMAT, "%s is not supported (key '%s')", not_yet[i].what,
                            not_yet[i].key);
    }
    return KVT_OK;
}

/* Flags that must be missing or false. */
static kvt_code flags(const json_t *o, const char *type, kvt_err *err)
{
    static const char *const not_yet[] = {"attention_bias", "mlp_bias",
                                          "use_bidirectional_attention"};
    for (size_t i = 0; i < sizeof not_yet / sizeof not_yet[0]; i++) {
        bool on = false;
        if (config_flag(&on, o, not_yet[i], false, err))
            return err->code;
        if (on)
            return kvt_fail(err, KVT_FORMAT,
                            "key '%s': true is not supported in architecture %s", not_yet[i],
                            type);
    }
    return KVT_OK;
}

/* partial_rotary_factor, beside the sizes or among the rotary fields of transformers 5. */
static kvt_code rotation(const json_t *o, kvt_err *err)
{
    const char *key = key_name_hf(KEY_ROPE_DIM);
    const json_t *p = config_member(o, "rope_parameters");
    const json_t *at[] = {o, p, config_member(p, "full_attention"),
                          config_member(p, "sliding_attention")};
    for (int i = 0; i < 4; i++) {
        double factor = 1;
        if (config_positive(&factor, at[i], key, 1, err))
            return err->code;
        if (factor != 1)
            return kvt_fail(err, KVT_FORMAT,
                            "key '%s': a rotation of %g of the channels is not supported", key,
                            factor);
    }
    return KVT_OK;
}

static kvt_code activation(const arch *a, const json_t *o, kvt_err *err)
{
    const char *key = a->gelu ? "hidden_activation" : "hidden_act", *name = NULL;
    const char *want = a->gelu ? "gelu_pytorch_tanh" : "silu";
    char shown[48];
    if (config_word(&name, o, key, err))
        return err->code;
    if (!name || strcmp(name, want) == 0)
        return KVT_OK;
    text_safe_cut(shown, sizeof shown, (const uint8_t *)name, strlen(name), 32, true);
    return kvt_fail(err, KVT_FORMAT, "key '%s': expected %s, got %s", key, want, shown);
}

kvt_code config_refuse(const arch *a, const char *type, const json_t *top, const json_t *text,
                       kvt_err *err)
{
    if (quantised(top, text, err) || numbers(text, err) || flags(text, type, err) ||
        rotation(text, err))
        return err->code;
    return activation(a, text, err);
}
