/* evict_score.c - scoring the slots of a prompt, fused: no pass over memory twice.
 *
 *   rows      max(2 q N H D, passes x bytes of keys)
 *   columns   half of the attention once more: products with the keys, not with the values
 *   keys      bytes of keys (and values)
 *   moments   max(2 N D^2 of each query head, bytes of keys)
 *   repeat    the prompt behind itself: projections again, and attention over N x N
 *
 * On top of each a small network, where there is one: max(FLOP of each token and lane, its
 * features (keys, or keys and values) and weights). */
#include "replay/cost/time_priv.h"

typedef struct place {
    const kvt_cost_geometry *g;
    const kvt_machine *m;
    const kvt_cost_setting *s;
    const kvt_cost_work *w;
    double n, batch;
} place;

/* Seconds of reading `passes` times the keys of so many slots. */
static double read(const kvt_cost_case *c, double mem_bw, double slots, double passes)
{
    const kvt_machine *m = &c->constants->machine;
    return passes * slots * cost_slot_bytes(c->geometry, m, c->setting) / 2 *
           (double)cost_batch(c->setting) / cost_kv_split(c->geometry, c->setting) /
           (mem_bw * m->e_m);
}

static double attention_time(const kvt_cost_case *c, double flops)
{
    return flops * (double)cost_batch(c->setting) /
           (cost_attention_rate(&c->constants->machine, c->geometry) *
            (double)cost_tensor(c->setting));
}

double cost_rows_time(cost_bound *by, const kvt_cost_case *c, double mem_bw, double slots,
                      double heads, double rows, double passes)
{
    double math = attention_time(c, 2 * rows * slots * heads * (double)c->geometry->g.head_dim);
    return cost_bound_max(by, math, read(c, mem_bw, slots, passes));
}

/* Products of the prompt's queries with keys, causal, in the layers that are cut. */
static double columns(const kvt_cost_case *c, const place *p)
{
    double heads = 2 * (double)p->g->g.n_head * (double)p->g->g.head_dim, sum = 0, time = 0;
    for (int l = 0, last = -1; l < p->g->g.n_layer; l++) {
        int window = p->g->g.window[l];
        if (window != last) /* neighbours are mostly alike */
            time = cost_attention_math(p->g, p->m, p->s, p->n, window,
                                       heads * cost_pairs(p->n, window));
        last = window;
        sum += cost_is_cut(c, l, p->n) ? time : 0;
    }
    return sum;
}

/* Attention of n tokens over the n in front of them. */
static double behind(const place *p)
{
    double heads = 4 * (double)p->g->g.n_head * (double)p->g->g.head_dim, sum = 0, time = 0;
    for (int l = 0, last = -1; l < p->g->g.n_layer; l++) {
        int window = p->g->g.window[l];
        double reach = window > 0 && window < p->n ? window : p->n;
        if (window != last)
            time = cost_attention_math(p->g, p->m, p->s, p->n, window, heads * p->n * reach);
        last = window;
        sum += time;
    }
    return sum;
}

static double repeat(cost_bound *by, const place *p)
{
    double math =
        2 * p->n * (double)p->g->theta_lin * p->batch / cost_linear_rate(p->m, p->g, p->s) +
        behind(p);
    double exchange = cost_exchange(p->g, p->m, p->s, p->n, 1);
    double host = (double)p->g->g.n_layer * p->m->launches_layer * p->m->t_launch;
    if (host > math + exchange) {
        by->host += host;
        return host;
    }
    by->math += math;
    by->memory += exchange;
    return math + exchange;
}

/* `slots`: of kv heads, which lanes of query heads share. */
static double network(cost_bound *by, const kvt_cost_case *c, double slots)
{
    const kvt_cost_work *w = c->work;
    const kvt_cost_geometry *g = c->geometry;
    const kvt_machine *m = &c->constants->machine;
    double lanes = cost_lanes(g, w), group = lanes / (double)g->g.n_kv_head;
    double math = w->network_flops * slots * group * (double)cost_batch(c->setting) /
                  cost_dense_rate(m, c->setting);
    double weights = w->network_params * lanes * (double)g->g.n_layer * cost_act_bytes(m) /
                     (double)cost_tensor(c->setting) / (m->mem_bw * m->e_m);
    return cost_bound_max(by, math, read(c, m->mem_bw, slots, 1 + w->reads_values) + weights);
}

/* All but the network. */
static double rank(cost_bound *by, const kvt_cost_case *c, const place *p, double slots,
                   double rows, double passes)
{
    const kvt_geometry *g = &p->g->g;
    double group = (double)g->n_head / (double)g->n_kv_head, bw = p->m->mem_bw;
    switch (p->w->score) {
    case KVT_SCORE_NONE:
    case KVT_SCORE_NETWORK: return 0;
    case KVT_SCORE_ROWS: return cost_rows_time(by, c, bw, slots, group, rows, passes);
    case KVT_SCORE_COLUMNS: {
        double share = p->w->rows_frac > 0 ? p->w->rows_frac / 0.5 : 1;
        return cost_bound_max(by, share * columns(c, p), read(c, bw, slots, passes));
    }
    case KVT_SCORE_KEYS: return cost_rows_time(by, c, bw, slots, group, 0, passes);
    case KVT_SCORE_MOMENTS:
        return cost_rows_time(by, c, bw, slots, group, (double)g->head_dim, passes);
    case KVT_SCORE_REPEAT: return repeat(by, p);
    }
    return NAN;
}

double cost_score_time(cost_bound *by, const kvt_cost_case *c, double n, double tokens,
                       double rows, int passes)
{
    if (c->work->is_bound)
        return 0;
    place p = {.g = c->geometry,
               .m = &c->constants->machine,
               .s = c->setting,
               .w = c->work,
               .n = n,
               .batch = (double)cost_batch(c->setting)};
    double slots = tokens * (double)p.g->g.n_kv_head;
    double reads = (passes > 1 ? passes : 1) + p.w->reads_values;
    double time = rank(by, c, &p, slots, rows, reads);
    return p.w->network_flops > 0 ? time + network(by, c, slots) : time;
}
