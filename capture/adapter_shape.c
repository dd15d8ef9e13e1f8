/* adapter_shape.c - names and shapes of the maps that a LoRA acts on. */
#include "capture/adapter.h"

static const char *const map_names[ADAPTER_MAPS] = {
    [ADAPTER_Q] = "self_attn.q_proj", [ADAPTER_K] = "self_attn.k_proj",
    [ADAPTER_V] = "self_attn.v_proj", [ADAPTER_O] = "self_attn.o_proj",
    [ADAPTER_GATE] = "mlp.gate_proj", [ADAPTER_UP] = "mlp.up_proj",
    [ADAPTER_DOWN] = "mlp.down_proj",
};

const char *adapter_map_name(adapter_map_id map)
{
    return map_names[map];
}

void adapter_map_shape(const kvt_geometry *g, adapter_map_id map, int64_t *in, int64_t *out)
{
    int64_t e = g->n_hidden, hd = g->n_head * g->head_dim, gd = g->n_kv_head * g->head_dim;
    bool is_kv = map == ADAPTER_K || map == ADAPTER_V;
    *in = map == ADAPTER_O ? hd : map == ADAPTER_DOWN ? g->n_ff : e;
    *out = map == ADAPTER_Q                           ? hd
           : is_kv                                    ? gd
           : map == ADAPTER_GATE || map == ADAPTER_UP ? g->n_ff
                                                      : e;
}
