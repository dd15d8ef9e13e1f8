/* adapter.h - learned lookahead tokens with their LoRA (LookaheadKV), or without (Judge Q).
 *
 * The file is safetensors. Tensors, f32, f16 or bf16, names as PEFT gives them:
 *
 *   lookahead.embeddings                               [n E]
 *   model.layers.I.self_attn.{q,k,v,o}_proj.lora_A.weight   [r in]
 *   model.layers.I.self_attn.{q,k,v,o}_proj.lora_B.weight   [out r]
 *   model.layers.I.mlp.{gate,up,down}_proj.lora_{A,B}.weight
 *
 * with an optional prefix "base_model.model.". A map without tensors has no LoRA. In the last
 * layer only q and k can influence a score: others are read and kept, and change nothing.
 * Metadata: format "kvt-adapter", version, kind ("lookaheadkv", "judgeq"), alpha, model_digest
 * (XXH128 of the model file, as in traces), model, recipe (JSON). Rows of q and k are in the
 * Hugging Face order. */
#ifndef CAPTURE_ADAPTER_H
#define CAPTURE_ADAPTER_H

#include "kvt/geometry.h"
#include "kvt/trace.h"

typedef enum adapter_map_id {
    ADAPTER_Q,
    ADAPTER_K,
    ADAPTER_V,
    ADAPTER_O,
    ADAPTER_GATE,
    ADAPTER_UP,
    ADAPTER_DOWN,
    ADAPTER_MAPS
} adapter_map_id;

/* out += (alpha / r) x A^T B^T */
typedef struct adapter_map {
    const float *a, *b; /* f32 [r in], [out r]; NULL: no LoRA */
} adapter_map;

typedef struct adapter {
    char kind[32], digest[KVT_DIGEST_TEXT]; /* of the file */
    char model_digest[KVT_DIGEST_TEXT], model[64], recipe[4096];
    int64_t n_token, rank; /* n, r; rank 0: embeddings only */
    double alpha;
    const float *token;                 /* f32 [n E] */
    adapter_map (*layer)[ADAPTER_MAPS]; /* [n_layer] */
    int n_layer;
    void *memory; /* owned */
} adapter;

/* "self_attn.q_proj"; in and out of each map. */
const char *adapter_map_name(adapter_map_id map);
void adapter_map_shape(const kvt_geometry *g, adapter_map_id map, int64_t *in, int64_t *out);
/* FORMAT: shapes, NaN, another model (model NULL: any), unknown kind. */
KVT_CHECKED kvt_code adapter_open(adapter **out, const char *path, const kvt_geometry *g,
                                  const kvt_model_id *model, kvt_err *err);
void adapter_close(adapter *a); /* NULL is fine */
/* half: tensors are stored as f16. Under a temporary name, read back, renamed. */
KVT_CHECKED kvt_code adapter_write(const char *path, const adapter *a, const kvt_geometry *g,
                                   bool half, bool force, kvt_err *err);

#endif
