/* bytes.c - bytes of weights and slots on one device, and the machine's rates for them. */
#include "replay/cost/cost_priv.h"

#include "kvt/arena.h"

enum { GROUP = 32, GROUP_BYTES = 4 }; /* 4-bit keys and values: a scale of K and one of V */

int64_t cost_batch(const kvt_cost_setting *s)
{
    return s->batch > 0 ? s->batch : 1;
}

int64_t cost_prefill_batch(const kvt_cost_setting *s)
{
    int64_t all = cost_batch(s);
    return s->prefill_batch > 0 && s->prefill_batch < all ? s->prefill_batch : all;
}

kvt_cost_setting cost_prompt_setting(const kvt_cost_setting *s)
{
    kvt_cost_setting out = *s;
    out.batch = cost_prefill_batch(s);
    return out;
}

int64_t cost_tensor(const kvt_cost_setting *s)
{
    return s->tensor > 0 ? s->tensor : 1;
}

double cost_kv_bits(const kvt_cost_setting *s)
{
    return s->kv_bits > 0 ? s->kv_bits : 16;
}

double cost_weight_bits(const kvt_cost_setting *s)
{
    return s->weight_bits > 0 ? s->weight_bits : 16;
}

double cost_lanes(const kvt_cost_geometry *g, const kvt_cost_work *w)
{
    return (double)(w && w->by_query_head ? g->g.n_head : g->g.n_kv_head);
}

double cost_kv_split(const kvt_cost_geometry *g, const kvt_cost_setting *s)
{
    int64_t d = cost_tensor(s);
    return (double)(d < g->g.n_kv_head ? d : g->g.n_kv_head);
}

/* Whether the bytes of the model's own file are what it takes. */
static bool own_bytes(const kvt_cost_geometry *g, const kvt_cost_setting *s)
{
    return s->weight_bits <= 0 && g->all_bytes > 0;
}

double cost_lin_bytes(const kvt_cost_geometry *g, const kvt_cost_setting *s)
{
    double all =
        own_bytes(g, s) ? (double)g->lin_bytes : (double)g->theta_lin * cost_weight_bits(s) / 8;
    return all / (double)cost_tensor(s);
}

double cost_head_bytes(const kvt_cost_geometry *g, const kvt_cost_setting *s)
{
    double all = own_bytes(g, s) ? (double)g->head_bytes : (double)g->theta_head * 2;
    return all / (double)cost_tensor(s);
}

double cost_all_bytes(const kvt_cost_geometry *g, const kvt_cost_setting *s)
{
    double all = own_bytes(g, s) ? (double)g->all_bytes
                                 : (double)g->theta_lin * cost_weight_bits(s) / 8 +
                                       (double)(g->theta_all - g->theta_lin) * 2;
    return all / (double)cost_tensor(s);
}

double kvt_cost_token_bytes(const kvt_cost_geometry *g, double kv_bits, double scale_bytes)
{
    double lane = 2 * (double)g->g.head_dim * kv_bits / 8;
    if (kv_bits == 8)
        lane += scale_bytes;
    else if (kv_bits == 4)
        lane += GROUP_BYTES * (double)((g->g.head_dim + GROUP - 1) / GROUP);
    return lane * (double)g->g.n_kv_head;
}

double cost_slot_bytes(const kvt_cost_geometry *g, const kvt_machine *m,
                       const kvt_cost_setting *s)
{
    return kvt_cost_token_bytes(g, cost_kv_bits(s), m->kv8_scale_bytes) /
           (double)g->g.n_kv_head;
}

double cost_layer_tokens(const kvt_cost_geometry *g, const kvt_cost_setting *s, int layer,
                         double n)
{
    double w = s && s->full_windows ? 0 : g->g.window[layer];
    return w > 0 && w < n ? w : n;
}

double cost_tokens(const kvt_cost_geometry *g, const kvt_cost_setting *s, double n)
{
    double sum = 0;
    for (int l = 0; l < g->g.n_layer; l++)
        sum += cost_layer_tokens(g, s, l, n);
    return sum;
}

double kvt_cost_cache_bytes(const kvt_cost_geometry *g, int64_t n)
{
    return cost_tokens(g, NULL, (double)n) * kvt_cost_token_bytes(g, 16, 0);
}

double kvt_cost_linear_flops(const kvt_cost_geometry *g, int64_t n)
{
    return 2.0 * (double)n * (double)g->theta_lin;
}

double cost_pairs(double n, double window)
{
    return window > 0 && window < n ? window * (window + 1) / 2 + (n - window) * window
                                    : n * (n + 1) / 2;
}

double kvt_cost_attention_flops(const kvt_cost_geometry *g, int64_t n, bool square)
{
    double sum = 0;
    for (int l = 0; l < g->g.n_layer; l++)
        sum += square ? (double)n * (double)n : cost_pairs((double)n, g->g.window[l]);
    return 4.0 * (double)g->g.n_head * (double)g->g.head_dim * sum;
}

double cost_act_bytes(const kvt_machine *m)
{
    return m->peak_flops_16 > 0 ? 2 : 4;
}

static double peak(const kvt_machine *m)
{
    return m->peak_flops_16 > 0 ? m->peak_flops_16 : m->peak_flops_32;
}

double cost_dense_rate(const kvt_machine *m, const kvt_cost_setting *s)
{
    return peak(m) * m->e_lin * (double)cost_tensor(s);
}

double cost_linear_rate(const kvt_machine *m, const kvt_cost_geometry *g,
                        const kvt_cost_setting *s)
{
    double bits =
        own_bytes(g, s) ? 8 * (double)g->lin_bytes / (double)g->theta_lin : cost_weight_bits(s);
    if (bits < 8 && m->peak_flops_w4 > 0)
        return m->peak_flops_w4 * (double)cost_tensor(s);
    return cost_dense_rate(m, s);
}

double cost_attention_rate(const kvt_machine *m, const kvt_cost_geometry *g)
{
    return peak(m) * m->e_att * (g->g.head_dim <= 64 ? m->hd64_factor : 1);
}
