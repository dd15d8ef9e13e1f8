/* keys.h - the names that a field of a model and each of its tensors have in a GGUF file and in
 * a Hugging Face folder. One line each; loaders, messages and docs take them from here. */
#ifndef CAPTURE_KEYS_H
#define CAPTURE_KEYS_H

#include "capture/arch.h"

/* X(id, GGUF key behind "ARCH.", name in config.json) */
/* clang-format off */
#define KEYS(X)                                                                                \
    X(N_LAYER,       "block_count",                          "num_hidden_layers")              \
    X(N_CONTEXT,     "context_length",                       "max_position_embeddings")        \
    X(N_HIDDEN,      "embedding_length",                     "hidden_size")                    \
    X(N_FF,          "feed_forward_length",                  "intermediate_size")              \
    X(N_HEAD,        "attention.head_count",                 "num_attention_heads")            \
    X(N_KV_HEAD,     "attention.head_count_kv",              "num_key_value_heads")            \
    X(KEY_LENGTH,    "attention.key_length",                 "head_dim")                       \
    X(VALUE_LENGTH,  "attention.value_length",               "head_dim")                       \
    X(NORM_EPS,      "attention.layer_norm_rms_epsilon",     "rms_norm_eps")                   \
    X(WINDOW,        "attention.sliding_window",             "sliding_window")                 \
    X(WINDOW_EVERY,  "attention.sliding_window_pattern",     "sliding_window_pattern")         \
    X(ROPE_DIM,      "rope.dimension_count",                 "partial_rotary_factor")          \
    X(ROPE_THETA,    "rope.freq_base",                       "rope_theta")                     \
    X(THETA_LOCAL,   "rope.freq_base_swa",                   "rope_local_base_freq")           \
    X(ROPE_TYPE,     "rope.scaling.type",                    "rope_scaling.rope_type")         \
    X(ROPE_FACTOR,   "rope.scaling.factor",                  "rope_scaling.factor")            \
    X(ROPE_LINEAR,   "rope.scale_linear",                    "rope_scaling.factor")            \
    X(ROPE_ORIGINAL, "rope.scaling.original_context_length",                                   \
                                            "rope_scaling.original_max_position_embeddings")   \
    X(ROPE_ATTN,     "rope.scaling.attn_factor",             "rope_scaling.attention_factor")  \
    X(ROPE_FAST,     "rope.scaling.yarn_beta_fast",          "rope_scaling.beta_fast")         \
    X(ROPE_SLOW,     "rope.scaling.yarn_beta_slow",          "rope_scaling.beta_slow")         \
    X(N_EXPERT,      "expert_count",                         "num_local_experts")              \
    X(SOFTCAP_ATTN,  "attn_logit_softcapping",               "attn_logit_softcapping")         \
    X(SOFTCAP_FINAL, "final_logit_softcapping",              "final_logit_softcapping")

/* X(id, in a layer, GGUF name, Hugging Face name): in a layer behind "blk.N." and
 * "model.layers.N.". The order is that of the canonical weights. FFN_NORM is another tensor of
 * Hugging Face where there are norms behind attention as well (gemma3): key_tensor_hf(). */
#define TENSORS(X)                                                                             \
    X(EMBED,      false, "token_embd.weight",          "model.embed_tokens.weight")            \
    X(ATTN_NORM,  true,  "attn_norm.weight",           "input_layernorm.weight")               \
    X(WQ,         true,  "attn_q.weight",              "self_attn.q_proj.weight")              \
    X(BQ,         true,  "attn_q.bias",                "self_attn.q_proj.bias")                \
    X(WK,         true,  "attn_k.weight",              "self_attn.k_proj.weight")              \
    X(BK,         true,  "attn_k.bias",                "self_attn.k_proj.bias")                \
    X(WV,         true,  "attn_v.weight",              "self_attn.v_proj.weight")              \
    X(BV,         true,  "attn_v.bias",                "self_attn.v_proj.bias")                \
    X(Q_NORM,     true,  "attn_q_norm.weight",         "self_attn.q_norm.weight")              \
    X(K_NORM,     true,  "attn_k_norm.weight",         "self_attn.k_norm.weight")              \
    X(WO,         true,  "attn_output.weight",         "self_attn.o_proj.weight")              \
    X(ATTN_POST,  true,  "post_attention_norm.weight", "post_attention_layernorm.weight")      \
    X(FFN_NORM,   true,  "ffn_norm.weight",            "post_attention_layernorm.weight")      \
    X(GATE,       true,  "ffn_gate.weight",            "mlp.gate_proj.weight")                 \
    X(UP,         true,  "ffn_up.weight",              "mlp.up_proj.weight")                   \
    X(DOWN,       true,  "ffn_down.weight",            "mlp.down_proj.weight")                 \
    X(FFN_POST,   true,  "post_ffw_norm.weight",       "post_feedforward_layernorm.weight")    \
    X(OUT_NORM,   false, "output_norm.weight",         "model.norm.weight")                    \
    X(LM_HEAD,    false, "output.weight",              "lm_head.weight")                       \
    X(ROPE_FREQS, false, "rope_freqs.weight",          "")
/* clang-format on */

typedef enum key_id {
#define X(id, gguf, hf) KEY_##id,
    KEYS(X)
#undef X
} key_id;

typedef enum tensor_id {
#define X(id, layered, gguf, hf) TENSOR_##id,
    TENSORS(X)
#undef X
        TENSOR_COUNT
} tensor_id;

enum { KEY_TEXT = 96 };

/* "llama.block_count"; returns out. */
const char *key_name(char out[KEY_TEXT], const arch *a, key_id id);
/* "blk.3.attn_q.weight"; layer is not looked at for tensors outside the layers. Returns out. */
const char *key_tensor(char out[KEY_TEXT], tensor_id id, int64_t layer);
/* The same two in a Hugging Face folder: "num_hidden_layers",
 * "model.layers.3.self_attn.q_proj.weight". */
const char *key_name_hf(key_id id);
const char *key_tensor_hf(char out[KEY_TEXT], const arch *a, tensor_id id, int64_t layer);
#endif
