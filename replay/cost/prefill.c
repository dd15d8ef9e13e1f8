/* prefill.c - the dense prefill: a roofline of projections and attention, the host beside it.
 *
 *   linear       max(2 N theta_lin + 2 theta_head of the last position (of all: all_logits),
 *                    bytes of the layers' matrices, once a chunk)
 *   attention    of each layer max(4 H D pairs / (R e_att g_d g_w N / (N + n_half)),
 *                                  keys and values)
 *   elementwise  where the machine counts it apart
 *   exchange     two all-reduces a layer between devices
 *   host         what L x launches x t_launch a chunk exceeds the sum above by
 *
 * A chunked prefill has the same math; it reads weights anew for each chunk, and all keys and
 * values so far (of a layer with a window: the window and the chunk). */
#include "replay/cost/time_priv.h"

/* One prefill, with what every formula wants of it. */
typedef struct place {
    const kvt_cost_geometry *g;
    const kvt_machine *m;
    const kvt_cost_setting *s;
    double n, batch, tensor;
    double chunk, chunks; /* tokens of a whole one, how many */
} place;

double cost_bound_max(cost_bound *by, double math, double memory)
{
    if (math >= memory)
        by->math += math;
    else
        by->memory += memory;
    return memory > math ? memory : math;
}

kvt_bottleneck cost_bound_name(const cost_bound *by)
{
    if (by->host > by->math && by->host > by->memory)
        return KVT_BOUND_HOST;
    return by->memory > by->math ? KVT_BOUND_MEMORY : KVT_BOUND_MATH;
}

/* ---- parts ---------------------------------------------------------------------------------
 */

static double linear(cost_bound *by, const place *p)
{
    double logits = p->s->all_logits ? p->n : 1; /* their matrix stays in 16 bits */
    double math = 2 * p->n * (double)p->g->theta_lin / cost_linear_rate(p->m, p->g, p->s) +
                  2 * logits * (double)p->g->theta_head / cost_dense_rate(p->m, p->s);
    double memory = p->chunks * cost_lin_bytes(p->g, p->s) / (p->m->mem_bw * p->m->e_w);
    return cost_bound_max(by, math * p->batch, memory);
}

double cost_attention_math(const kvt_cost_geometry *g, const kvt_machine *m,
                           const kvt_cost_setting *s, double n, double window, double flops)
{
    if (!(n > 0))
        return 0;
    double rate = cost_attention_rate(m, g) * (double)cost_tensor(s) * n / (n + m->n_half);
    if (window > 0 && window < n)
        rate *= window / (window + m->window_half);
    return flops * (double)cost_batch(s) / rate;
}

/* Tokens whose keys and values a layer reads, over all chunks. */
static double tokens_read(const place *p, double window)
{
    double whole = p->chunks - 1, rest = p->n - whole * p->chunk;
    if (!(window > 0) || window >= p->n)
        return p->chunk * whole * (whole + 1) / 2 + p->n;
    double growing = 1 + (double)(int64_t)(window / p->chunk); /* all so far is within reach */
    if (growing > whole)
        growing = whole;
    double last = window + rest < p->n ? window + rest : p->n;
    return p->chunk * growing * (growing + 1) / 2 + (whole - growing) * (window + p->chunk) +
           last;
}

static double attention(cost_bound *by, const place *p)
{
    double heads = 4 * (double)p->g->g.n_head * (double)p->g->g.head_dim;
    double token = cost_slot_bytes(p->g, p->m, p->s) * (double)p->g->g.n_kv_head * p->batch /
                   cost_kv_split(p->g, p->s) / (p->m->mem_bw * p->m->e_kv);
    double sum = 0, math = 0, memory = 0;
    for (int l = 0, last = -1; l < p->g->g.n_layer; l++) {
        int window = p->g->g.window[l];
        if (window != last) { /* neighbours are mostly alike */
            last = window;
            math = cost_attention_math(p->g, p->m, p->s, p->n, window,
                                       heads * cost_pairs(p->n, window));
            memory = tokens_read(p, window) * token;
        }
        sum += cost_bound_max(by, math, memory);
    }
    return sum;
}

static double elementwise(cost_bound *by, const place *p)
{
    if (!(p->m->elementwise > 0))
        return 0;
    const kvt_geometry *g = &p->g->g;
    double split = 2 * (double)(g->n_head + g->n_kv_head) * (double)g->head_dim +
                   3 * (double)g->n_ff; /* the residual stream is whole on every device */
    double bytes = p->n * p->batch * (double)g->n_layer * cost_act_bytes(p->m) *
                   (8 * (double)g->n_hidden + split / p->tensor);
    double time = bytes / (p->m->mem_bw * p->m->e_m);
    by->memory += time;
    return time;
}

double cost_exchange(const kvt_cost_geometry *g, const kvt_machine *m,
                     const kvt_cost_setting *s, double tokens, double rounds)
{
    double d = (double)cost_tensor(s);
    if (d < 2)
        return 0;
    if (!(m->link_bw > 0))
        return NAN;
    double bytes = 2 * (d - 1) / d * (double)cost_batch(s) * tokens * (double)g->g.n_hidden *
                   cost_act_bytes(m);
    return 2 * (double)g->g.n_layer * (bytes / m->link_bw + rounds * m->t_launch);
}

/* ---- the whole -----------------------------------------------------------------------------
 */

static double chunks_of(double n, int64_t chunk)
{
    return chunk > 0 && (double)chunk < n ? (double)(((int64_t)n + chunk - 1) / chunk) : 1;
}

void cost_prefill(kvt_prefill_cost *out, cost_bound *by, const kvt_cost_geometry *g,
                  const kvt_machine *m, const kvt_cost_setting *s, int64_t n_prompt)
{
    *out = (kvt_prefill_cost){0};
    if (n_prompt <= 0)
        return;
    if (m->engine == KVT_ENGINE_PAPER) {
        cost_paper_prefill(out, by, g, m, s, n_prompt);
        return;
    }
    place p = {g, m, s, (double)n_prompt, (double)cost_batch(s), (double)cost_tensor(s), 0, 0};
    p.chunks = chunks_of(p.n, s->chunk);
    p.chunk = p.chunks > 1 ? (double)s->chunk : p.n;
    out->linear = linear(by, &p);
    out->attention = attention(by, &p);
    out->elementwise = elementwise(by, &p);
    out->exchange = cost_exchange(g, m, s, p.n, p.chunks);
    by->memory += out->exchange;
    double device = out->linear + out->attention + out->elementwise + out->exchange;
    double host = (double)g->g.n_layer * m->launches_layer * m->t_launch * p.chunks;
    out->host = host > device ? host - device : 0;
    by->host += host > device ? host : 0;
    out->constant = m->t_ttft;
    out->total = (host > device ? host : device) + out->constant; /* not a rounded sum */
}

void kvt_cost_prefill(kvt_prefill_cost *out, const kvt_cost_geometry *g, const kvt_machine *m,
                      const kvt_cost_setting *s, int64_t n_prompt)
{
    cost_bound by = {0};
    const kvt_cost_setting together = cost_prompt_setting(s);
    cost_prefill(out, &by, g, m, &together, n_prompt);
}
