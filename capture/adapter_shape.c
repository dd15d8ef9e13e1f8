/* adapter_shape.c - names and shapes of the maps that a LoRA acts on, and what is trained. */
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

int64_t adapter_parameters(const kvt_geometry *g, int64_t n_token, int64_t rank, unsigned maps)
{
    int64_t n = n_token * g->n_hidden;
    for (int i = 0; i < ADAPTER_MAPS; i++) {
        int64_t in, out;
        bool lives_last = i == ADAPTER_Q || i == ADAPTER_K;
        adapter_map_shape(g, (adapter_map_id)i, &in, &out);
        if (maps >> i & 1)
            n += rank * (in + out) * (g->n_layer - (lives_last ? 0 : 1));
    }
    return n;
}
